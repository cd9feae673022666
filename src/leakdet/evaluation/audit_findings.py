"""The sentences of the shortcut audit: a score beside those of trivial traits, and against luck."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy.spatial import KDTree

from leakdet.evaluation.intervals import bootstrap_intervals, perfect_auroc_interval
from leakdet.evaluation.metrics import auroc

MARGIN = 0.05  # AUROC by which the network must beat a trivial trait
STRONG = 0.8  # AUROC from which a trivial trait is reported however good the network is
LOGISTIC, PRIOR, GROUP_PREFIX = "logistic_regression", "class_prior", "group "
# A leak itself moves it: suspicious only where the network is no better.
MOVED_BY_LEAKS = ("spectral_centroid",)
NAMES = {
    "duration": "the duration of the recording",
    "dc_offset": "the DC offset",
    "clipped_fraction": "the share of clipped samples",
    "source_rate_hz": "the sample rate of the file",
    "spectral_centroid": "the spectral centroid",
    "recording_order": "the order of recording",
}
# Mean spectra closer than this (root mean square over bands) come from one sound at two levels.
SAME_DB = 0.05


def is_trivial(name: str) -> bool:
    """True for what no leak detector should need; logistic regression is an honest model."""
    return name not in (LOGISTIC, PRIOR)


def display_name(name: str) -> str:
    """A baseline's name in a sentence."""
    if name.startswith(GROUP_PREFIX):
        return f"knowing the {name.removeprefix(GROUP_PREFIX)} alone"
    if name.startswith("recording_order_in_"):
        return f"the order of recording within the {name.removeprefix('recording_order_in_')}"
    return NAMES.get(name, name.replace("_", " "))


def auroc_with_interval(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    units: Shaped[np.ndarray, " N"] | None,
    replicates: int = 1000,
) -> dict[str, Any]:
    """`{"auroc", "interval"}` of any finite scores; None where a class is missing."""
    area = auroc(scores, is_leak)
    if area is None:
        return {"auroc": None, "interval": None}
    interval = bootstrap_intervals(
        scores, is_leak, 0.0, units, replicates=replicates, probabilities=False, only=("auroc",)
    )["auroc"]
    if area in (0.0, 1.0) and interval is not None:  # all replicates agree, however few rows
        interval = perfect_auroc_interval(area, int(is_leak.sum()), int((~is_leak).sum()))
    return {"auroc": area, "interval": interval}


def alarms(
    network: Mapping[str, Any] | None, baselines: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Sentences that cast doubt on a score, the gravest first."""
    score = None if network is None else network["auroc"]
    trivial = {
        name: row for name, row in baselines.items() if is_trivial(name) and _beyond_luck(row)
    }
    best = sorted(trivial, key=lambda name: -trivial[name]["auroc"])
    rivals = [
        name for name in best if score is not None and trivial[name]["auroc"] >= score - MARGIN
    ]
    strong = [
        name
        for name in best
        if trivial[name]["auroc"] >= STRONG and name not in (*rivals, *MOVED_BY_LEAKS)
    ]
    sentences = []
    if rivals:
        sentences.append(
            f"A trivial trait predicts leaks about as well as the network (AUROC {score:.2f}) or "
            f"better: {_listed(rivals, trivial)}. The network may have learnt how the recordings "
            "were made, not leaks; this score proves nothing about leaks."
        )
    if strong:
        sentences.append(
            "Leaks and other recordings differ in a trivial trait (AUROC): "
            f"{_listed(strong, trivial)}. A network can learn it instead of leaks; test on "
            "recordings that do not differ in it."
        )
    return sentences


def _beyond_luck(row: Mapping[str, Any]) -> bool:
    return row["auroc"] is not None and row["interval"] is not None and row["interval"][0] > 0.5


def _listed(names: list[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    return " and ".join(f"{display_name(name)} ({rows[name]['auroc']:.2f})" for name in names[:3])


def remarks(
    network: Mapping[str, Any] | None, baselines: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Sentences about a network that may be no better than guessing or than a linear model."""
    if network is None or network["auroc"] is None:
        return []
    sentences = [] if network["interval"] is None else luck_findings(network)
    simple = baselines.get(LOGISTIC)
    if simple is not None and _beyond_luck(simple) and simple["auroc"] >= network["auroc"]:
        sentences.append(
            "Logistic regression on the mean spectrum does as well as the network "
            f"(AUROC {simple['auroc']:.2f} against {network['auroc']:.2f}): the network adds "
            "nothing here."
        )
    return sentences


def luck_findings(network: Mapping[str, Any]) -> list[str]:
    """A sentence where the interval of the AUROC does not lie above 0.5, the value of guessing."""
    area, (low, high) = network["auroc"], network["interval"]
    if low > 0.5:
        return []
    if area > 0.5:
        return [
            f"Too few recordings to rule out luck: AUROC {area:.2f}, "
            f"but anything from {low:.2f} to {high:.2f} is possible."
        ]
    conclusion = "Worse than guessing here" if high < 0.5 else "No better than guessing here"
    return [f"{conclusion}: {_shown(network)}."]


def _shown(network: Mapping[str, Any]) -> str:
    low, high = network["interval"]
    return f"AUROC {network['auroc']:.2f} (95 % interval {low:.2f} to {high:.2f})"


def same_spectrum(
    reference: Float[np.ndarray, "A M"], others: Float[np.ndarray, "B M"]
) -> Bool[np.ndarray, " B"]:
    """Mask of `others` with the mean level-free spectrum (the sound) of one of `reference`."""
    reach = SAME_DB * np.sqrt(reference.shape[1])  # as a distance, not a root mean square
    distance, _ = KDTree(reference).query(others, distance_upper_bound=reach)
    return np.asarray(np.isfinite(distance))  # infinite where none is within reach
