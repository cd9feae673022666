"""The shortcut audit: whether scores follow traits of the recordings, or labels that are shuffled.

One permutation of labels proves little: a direction in which recordings differ anyway agrees with
the true labels or opposes them, by luck. A closed-form baseline is fitted to many permutations and
gives the spread of that luck, the network is trained on few.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.evaluation.intervals import REPLICATES, bootstrap_intervals, perfect_auroc_interval
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.traits import (
    Traits,
    fit_logistic,
    group_scores,
    mean_by,
    trait_scores,
    traits_of,
)
from leakdet.storage.folds import stratified_folds
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled

Rows = tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # to fit on, and to score

PERMUTATIONS = 1000  # of the closed-form baseline, fewer where recordings are many
MAX_LABELS = 50_000_000  # permuted in all
DRAWS = 20_000  # of means of a few permutations
# More than the 95 % promised: the network's luck may spread wider than the baseline's.
LEVEL = 0.98


def permuted_labels(
    is_leak: Bool[np.ndarray, " R"], parts: Sequence[Int[np.ndarray, " _"]], seed: int = 0
) -> Bool[np.ndarray, "P R"]:
    """Many permutations of the labels, each within the rows of every part; others keep theirs."""
    rng = np.random.default_rng(seed)
    count = min(PERMUTATIONS, max(100, MAX_LABELS // len(is_leak)))
    labels = np.tile(is_leak, (count, 1))
    for rows in parts:
        labels[:, rows] = rng.permuted(labels[:, rows], axis=1)
    return labels


def baseline_aurocs(
    features: Float[np.ndarray, "R M"], labels: Bool[np.ndarray, "P R"], folds: Sequence[Rows]
) -> Float[np.ndarray, " P"]:
    """AUROC under each permutation of labels, over the scored rows of all folds together.

    The baseline scores by the difference of the class means of standardised features, which needs
    no training. 0.5 where a permutation leaves a class without a scored recording.
    """
    scored = np.concatenate([test for _, test in folds])
    standardised = [_standardised(features, *rows) for rows in folds]
    scores = np.empty((len(labels), len(scored)))
    for row, is_leak in zip(scores, labels, strict=True):
        row[:] = np.concatenate(
            [
                test @ _direction(train, is_leak[rows[0]])
                for (train, test), rows in zip(standardised, folds, strict=True)
            ]
        )
    return _aurocs(scores, labels[:, scored])


def _aurocs(scores: Float[np.ndarray, "P N"], is_leak: Bool[np.ndarray, "P N"]) -> np.ndarray:
    """The rank-sum form: many times faster than whole ROC curves, for a thousand permutations."""
    from scipy.stats import rankdata  # slow to import, as is all of SciPy here

    leaks = is_leak.sum(1)
    pairs = leaks * (is_leak.shape[1] - leaks)
    above = (rankdata(scores, axis=1) * is_leak).sum(1) - leaks * (leaks + 1) / 2
    return np.where(pairs > 0, above / np.maximum(pairs, 1), 0.5)


def _standardised(
    features: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    fitted = features[train].astype(np.float64)
    deviation = fitted.std(0)
    deviation[deviation < 1e-9] = 1.0
    return fitted / deviation, (features[test] - fitted.mean(0)) / deviation


def _direction(train: Float[np.ndarray, "A M"], is_leak: Bool[np.ndarray, " A"]) -> np.ndarray:
    if is_leak.all() or not is_leak.any():
        return np.zeros(train.shape[1])
    return np.asarray(train[is_leak].mean(0) - train[~is_leak].mean(0))


def null_result(
    aurocs: Sequence[float],
    baseline: Float[np.ndarray, " P"],
    *,
    chosen_on: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Mean AUROC of the network's permutations, and the interval in which luck may put it.

    `aurocs` are those of the network, one a permutation. The interval reaches as far as the mean of
    so many permutations of the baseline strays from 0.5, and holds every one of `aurocs`.
    `chosen_on`: the recordings that are judged chose the checkpoint too.

    Returns `{"auroc", "interval", "permutations": aurocs, "baseline": [low, high] of 95 % of single
    permutations, "chosen_on"}`.
    """
    rng = np.random.default_rng(seed)
    strays = rng.choice(baseline - 0.5, (DRAWS, len(aurocs))).mean(1)
    reach, mean = float(np.quantile(np.abs(strays), LEVEL)), float(np.mean(aurocs))
    low, high = min(mean - reach, *aurocs), max(mean + reach, *aurocs)
    return {
        "auroc": mean,
        "interval": [max(0.0, low), min(1.0, high)],
        "permutations": [float(area) for area in aurocs],
        "baseline": np.quantile(baseline, (0.025, 0.975)).tolist(),
        "chosen_on": chosen_on,
    }


def null_run_findings(null: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Alarms and remarks of a null run, from what `null_result` returns."""
    low, high = null["interval"]
    count = len(null["permutations"])
    runs = "under one permutation" if count == 1 else f"on average over {count} permutations"
    reached = (
        f"Null run: {runs} of the labels the network reaches AUROC {null['auroc']:.2f} "
        f"(95 % interval {low:.2f} to {high:.2f}): "
    )
    if low > 0.5 and not null["chosen_on"]:
        return [f"{reached}held-out labels leak into the training."], []
    if low > 0.5:
        conclusion = (
            "above guessing, but these recordings chose the checkpoint too, which alone does that. "
            "Only a test split can show whether labels leak."
        )
    elif high < 0.5:
        conclusion = (
            "below guessing, as happens with few recordings: the class that training has more of, "
            "the held-out part has less of."
        )
    else:
        conclusion = "no better than guessing, as expected."
    low, high = null["baseline"]
    scale = f"By luck, a single permutation of a linear model reaches {low:.2f} to {high:.2f}."
    return [], [f"{reached}{conclusion} {scale}"]


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
    replicates: int = REPLICATES,
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
    from scipy.spatial import KDTree

    reach = SAME_DB * np.sqrt(reference.shape[1])  # as a distance, not a root mean square
    distance, _ = KDTree(reference).query(others, distance_upper_bound=reach)
    return np.asarray(np.isfinite(distance))  # infinite where none is within reach


CROSS_FIT_FOLDS = 10  # of a store with one split


def baseline_scores(
    traits: Traits,
    is_leak: Bool[np.ndarray, " R"],
    train: Int[np.ndarray, " A"],
    test: Int[np.ndarray, " B"],
) -> dict[str, Float[np.ndarray, " B"]]:
    """Scores of every baseline for the rows `test`, fitted on the rows `train`; high means leak."""
    truth = is_leak[train]
    scores = {
        name: trait_scores(values[train], truth, values[test])
        for name, values in traits.values.items()
    }
    for column, values in traits.groups.items():
        scores[GROUP_PREFIX + column] = group_scores(values[train], truth, values[test])
    scores[LOGISTIC] = _logistic_scores(traits, is_leak, train, test)
    scores[PRIOR] = np.zeros(len(test))
    return scores


def _logistic_scores(
    traits: Traits,
    is_leak: Bool[np.ndarray, " R"],
    train: Int[np.ndarray, " A"],
    test: Int[np.ndarray, " B"],
) -> Float[np.ndarray, " B"]:
    """Mean probability over the windows of each recording, by logistic regression on bands."""
    fitted = np.isin(traits.band_recording, train)
    model = fit_logistic(traits.bands[fitted], is_leak[traits.band_recording[fitted]])
    position = np.full(len(is_leak), -1)
    position[test] = np.arange(len(test))
    owner = position[traits.band_recording]
    return mean_by(model.prob(traits.bands[owner >= 0]), owner[owner >= 0], len(test))


def duplicates(
    traits: Traits, train: Int[np.ndarray, " A"], test: Int[np.ndarray, " B"]
) -> Bool[np.ndarray, " B"]:
    """Mask of the rows `test` with the sound of one of the rows `train`, at any level."""
    copies = same_spectrum(traits.spectrum[train], traits.spectrum[test])
    if traits.content is not None:
        known = set(traits.content[train].tolist())  # np.isin compares objects pair by pair
        copies |= np.array([content in known for content in traits.content[test].tolist()], bool)
    return copies


def audit(
    reference: StoreSplit | None,
    split: StoreSplit,
    network_scores: Float[np.ndarray, " R"] | None = None,
    *,
    is_leak: Bool[np.ndarray, " R"] | None = None,
    null_aurocs: Sequence[float] = (),
) -> dict[str, Any]:
    """Audit `split` with baselines fitted on the training split `reference`; None: cross-fitted.

    `network_scores` are scores of the recordings, `is_leak` their labels where not the store's (a
    null run), `null_aurocs` the AUROC of each permutation of a null run.

    Returns what `audit_table` does.
    """
    both = pooled([split] if reference is None else [reference, split])
    truth = both.is_leak
    audited = np.arange(both.recordings - split.recordings, both.recordings)
    if is_leak is not None:
        truth[audited] = is_leak
    traits = traits_of(both)
    scores: dict[str, np.ndarray] = {}
    copies = 0
    for train, test in _folds(truth, audited, within=reference is None):
        if truth[train].any() and not truth[train].all():
            for name, of_test in baseline_scores(traits, truth, train, test).items():
                scores.setdefault(name, np.zeros(len(truth)))[test] = of_test
        copies += int(duplicates(traits, train, test).sum())
    is_leak = truth[audited]
    network = None if network_scores is None else auroc_with_interval(network_scores, is_leak, None)
    baselines = {
        name: auroc_with_interval(of_all[audited], is_leak, None) for name, of_all in scores.items()
    }
    null = None
    if null_aurocs:
        chosen_on = split.name == "val"  # which a null run permutes too, unlike test
        folds = _folds(truth, audited, within=False)
        labels = permuted_labels(truth, folds[0] if chosen_on else folds[0][:1])
        null = null_result(
            null_aurocs, baseline_aurocs(traits.spectrum, labels, folds), chosen_on=chosen_on
        )
    return audit_table(network, baselines, traits, copies, len(audited), null)


def _folds(
    truth: Bool[np.ndarray, " R"], audited: Int[np.ndarray, " B"], within: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and rows to score, each audited recording scored once."""
    if within:
        return stratified_folds(truth, CROSS_FIT_FOLDS, seed=0)
    return [(np.setdiff1d(np.arange(len(truth)), audited), audited)]


def audit_table(
    network: dict[str, Any] | None,
    baselines: dict[str, dict[str, Any]],
    traits: Traits,
    copies: int,
    recordings: int,
    null: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The audit as plain values; `network` and `baselines` as `auroc_with_interval` gives them.

    `null` is the `null_result` of a null run, which is judged by nothing else.

    `{"sentence": the alarms or None, "findings": [every sentence], "network": {"auroc", "interval"}
    or None, "rows": [{"key", "name", "explanation", "auroc", "interval"}], the best baseline first,
    "not_computed": {key: reason}, "duplicates": int, "null_run": null}`.
    """
    if null is not None:
        grave, mild = null_run_findings(null)
    else:
        grave, mild = alarms(network, baselines), remarks(network, baselines)
    grave = _duplicate_finding(copies, recordings) + grave
    explanations = {
        LOGISTIC: "level-free band energies of the mel",
        PRIOR: "the share of leaks",
        **traits.source,
    }
    of_group = "the share of leaks in the group, among the training recordings"
    rows = [
        {
            "key": key,
            "name": display_name(key),
            "explanation": explanations.get(key, of_group),
            **baselines[key],
        }
        for key in sorted(baselines, key=lambda key: -(baselines[key]["auroc"] or 0.0))
    ]
    return {
        "sentence": " ".join(grave) or None,
        "findings": grave + mild,
        "network": network,
        "rows": rows,
        "not_computed": dict(traits.missing),
        "duplicates": copies,
        "null_run": null,
    }


def _duplicate_finding(copies: int, recordings: int) -> list[str]:
    if not copies:
        return []
    return [
        f"{copies} of {recordings} held-out recordings have the same sound as a training "
        "recording, so the score is too good. Keep one copy, or keep copies in one group."
    ]
