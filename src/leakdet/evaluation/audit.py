"""The shortcut audit: how well traits that no leak detector should need predict leaks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.evaluation.audit_findings import (
    GROUP_PREFIX,
    LOGISTIC,
    PRIOR,
    alarms,
    auroc_with_interval,
    display_name,
    remarks,
    same_spectrum,
)
from leakdet.evaluation.baselines import fit_logistic, group_scores, mean_by, trait_scores
from leakdet.evaluation.null_run import (
    baseline_aurocs,
    null_result,
    null_run_findings,
    permuted_labels,
)
from leakdet.evaluation.traits import Traits, traits_of
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled

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
    rows = np.arange(len(truth))
    if not within:
        return [(np.setdiff1d(rows, audited), audited)]
    stratified = np.lexsort((np.random.default_rng(0).permutation(len(truth)), truth))
    fold = np.empty(len(truth), np.int64)
    fold[stratified] = rows % CROSS_FIT_FOLDS
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]


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
