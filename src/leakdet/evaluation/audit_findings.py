"""What a score is worth beside trivial traits: the shortcut audit's table and its sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from leakdet.evaluation.groups import pairs_in_order, wilson
from leakdet.evaluation.intervals import FEW_GROUPS, bootstrap_intervals
from leakdet.evaluation.metrics import auroc

NEARLY = 0.05  # AUROC by which the network must beat a trivial trait, or the reader is told
STRONG = 0.8  # AUROC at which a trivial trait is worth a sentence whatever the network does
LOGISTIC, PRIOR, GROUP = "logistic_regression", "class_prior", "group "
# a leak moves it: suspicious only where it is all there is to be heard
OF_LEAKS = ("spectral_centroid",)
NAMES = {
    "loudness": "loudness",
    "duration": "the duration of the recording",
    "dc_offset": "the DC offset",
    "clipped_fraction": "the share of clipped samples",
    "source_rate_hz": "the sample rate of the file",
    "spectral_centroid": "the spectral centroid",
    "mains_hum": "mains hum",
    "recording_order": "the order of recording",
}
# spectra closer than this, root mean square over bands, come from one sound at two levels
SAME_DB = 0.05


def is_trivial(name: str) -> bool:
    """A trait that no leak detector should need; logistic regression on the spectrum is an honest model."""
    return name not in (LOGISTIC, PRIOR)


def spoken(name: str) -> str:
    """A baseline's name in a sentence."""
    if name.startswith(GROUP):
        return f"knowing the {name.removeprefix(GROUP)} alone"
    if name.startswith("recording_order_in_"):
        return f"the order of recording within the {name.removeprefix('recording_order_in_')}"
    return NAMES.get(name, name.replace("_", " "))


def resampling_groups(groups: Shaped[np.ndarray, " N"] | None, rows: np.ndarray) -> np.ndarray:
    """What a bootstrap draws: whole groups where there are enough of them, else recordings with all their repeats."""
    return rows if groups is None or len(np.unique(groups)) < FEW_GROUPS else groups


def ranked(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    units: Shaped[np.ndarray, " N"] | None,
) -> dict[str, Any]:
    """`{"auroc", "interval"}` of any finite scores, resampled by `units`; None where a class is missing."""
    area = auroc(scores, is_leak)
    if area is None:
        return {"auroc": None, "interval": None}
    drawn = bootstrap_intervals(
        scores, is_leak, 0.0, units, replicates=1000, probabilities=False, only=("auroc",)
    )
    interval = drawn["auroc"]
    # every replicate agrees, however few the recordings are
    if area in (0.0, 1.0) and interval is not None:
        leaks = int(is_leak.sum())
        interval = wilson(*pairs_in_order(area, leaks, len(is_leak) - leaks))
    return {"auroc": area, "interval": interval}


def alarms(
    network: Mapping[str, Any] | None, baselines: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Sentences that cast doubt on a score, the gravest first; `network` and each baseline as `ranked` gives them."""
    score = None if network is None else network["auroc"]
    trivial = {
        name: row for name, row in baselines.items() if is_trivial(name) and _beyond_chance(row)
    }
    best = sorted(trivial, key=lambda name: -trivial[name]["auroc"])
    rivals = [
        name for name in best if score is not None and trivial[name]["auroc"] >= score - NEARLY
    ]
    strong = [
        n for n in best if trivial[n]["auroc"] >= STRONG and n not in rivals and n not in OF_LEAKS
    ]
    said = []
    if rivals:
        said.append(
            f"A trivial trait tells leaks from the rest nearly as well as the network (AUROC {score:.2f}), or better: "
            f"{_listed(rivals, trivial)}. The labels may be told by how the recordings were made, not by leaks; this score "
            "proves nothing about leaks."
        )
    if strong:
        said.append(
            f"Leaks and other recordings differ in a trivial trait (AUROC): {_listed(strong, trivial)}. A network can learn it "
            "instead of leaks; recordings that do not differ in it would show."
        )
    return said


def _beyond_chance(row: Mapping[str, Any]) -> bool:
    return row["auroc"] is not None and row["interval"] is not None and row["interval"][0] > 0.5


def _listed(names: list[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    return " and ".join(f"{spoken(name)} ({rows[name]['auroc']:.2f})" for name in names[:3])


def remarks(
    network: Mapping[str, Any] | None, baselines: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Sentences about a network that does no better than chance or than a simple honest model."""
    if network is None or network["auroc"] is None:
        return []
    said = []
    if network["interval"] is not None and network["interval"][0] <= 0.5:
        said.append(
            f"The network cannot be told from chance on these recordings: {_shown(network)}."
        )
    simple = baselines.get(LOGISTIC)
    if simple is not None and _beyond_chance(simple) and simple["auroc"] >= network["auroc"]:
        said.append(
            f"Logistic regression on the mean spectrum does as well as the network (AUROC {simple['auroc']:.2f} "
            f"against {network['auroc']:.2f}): the network adds nothing here."
        )
    return said


def null_run(network: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """Alarms and remarks of a run with shuffled labels, which must end at chance."""
    if network is None or not network["interval"]:
        return [], []
    if network["interval"][0] > 0.5:
        alarm = f"With shuffled labels the network still scores {_shown(network)}: "
        return [alarm + "held-out labels leak into the training."], []
    verdict = "no better than chance, as it must be."
    if network["interval"][1] < 0.5:
        verdict = "below chance, as it happens with few recordings: what training has more of, the held-out part has less of."
    return [], [f"Null run: with shuffled labels the network scores {_shown(network)}: {verdict}"]


def _shown(network: Mapping[str, Any]) -> str:
    low, high = network["interval"]
    return f"AUROC {network['auroc']:.2f}, 95 % interval {low:.2f} to {high:.2f}"


def same_spectrum(
    reference: Float[np.ndarray, "A M"], others: Float[np.ndarray, "B M"]
) -> Bool[np.ndarray, " B"]:
    """Which of `others` has the mean level-free spectrum of one of `reference`: the same sound, at whatever level."""
    found = np.zeros(len(others), bool)
    order = np.argsort(reference[:, 0], kind="stable")
    first = reference[order, 0]
    # no single band of an equal spectrum is further off
    reach = SAME_DB * np.sqrt(reference.shape[1])
    for row, spectrum in enumerate(others):
        low, high = np.searchsorted(first, [spectrum[0] - reach, spectrum[0] + reach])
        near = reference[order[low:high]] - spectrum
        found[row] = bool((np.sqrt(np.square(near).mean(1)) < SAME_DB).any())
    return found
