"""The shortcut audit of recordings in a store: how well traits that no leak detector should need tell leaks from the rest."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.evaluation.audit_findings import (
    GROUP,
    LOGISTIC,
    PRIOR,
    alarms,
    null_run,
    ranked,
    remarks,
    same_spectrum,
    spoken,
)
from leakdet.evaluation.baselines import fit_logistic, group_scores, mean_by, trait_scores
from leakdet.evaluation.traits import Traits, traits_of
from leakdet.storage.opening import leak_label_of
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled

# baselines of a store with one split are fitted on nine tenths of it and score the tenth
PARTS = 10


def baseline_scores(
    traits: Traits,
    is_leak: Bool[np.ndarray, " R"],
    train: Int[np.ndarray, " A"],
    test: Int[np.ndarray, " B"],
) -> dict[str, Float[np.ndarray, " B"]]:
    """Every baseline, fitted on the recordings `train` and scored on the recordings `test`; higher means leak."""
    truth = is_leak[train]
    scores = {
        name: trait_scores(found[train], truth, found[test])
        for name, found in traits.values.items()
    }
    for column, found in traits.groups.items():
        scores[GROUP + column] = group_scores(found[train], truth, found[test])
    scores[LOGISTIC] = _logistic_scores(traits, is_leak, train, test)
    scores[PRIOR] = np.zeros(len(test))
    return scores


def _logistic_scores(
    traits: Traits, is_leak: np.ndarray, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    heard = np.isin(traits.band_recording, train)
    model = fit_logistic(traits.bands[heard], is_leak[traits.band_recording[heard]])
    place = np.full(len(is_leak), -1)
    place[test] = np.arange(len(test))
    asked = place[traits.band_recording] >= 0
    return mean_by(model.prob(traits.bands[asked]), place[traits.band_recording[asked]], len(test))


def duplicates(traits: Traits, train: np.ndarray, test: np.ndarray) -> Bool[np.ndarray, " B"]:
    """Which of the recordings `test` have the sound of one of `train`, at any level."""
    found = same_spectrum(traits.spectrum[train], traits.spectrum[test])
    if traits.content is not None:
        found |= np.isin(traits.content[test], traits.content[train])
    return found


def duplicate_finding(copies: int, of: int) -> list[str]:
    """The sentence about held-out recordings that training has heard."""
    if not copies:
        return []
    return [
        f"{copies} of {of} held-out recordings have the same sound as a recording of the training part: the score is too good. "
        "Keep one copy, or keep copies in one group."
    ]


def audit(
    reference: StoreSplit | None,
    split: StoreSplit,
    network_scores: Float[np.ndarray, " R"] | None = None,
    *,
    is_leak: Bool[np.ndarray, " R"] | None = None,
    leak: str | None = None,
    shuffled: bool = False,
) -> dict[str, Any]:
    """The audit of `split`, its baselines fitted on `reference`, the training split; None: on nine tenths of `split` itself.

    `network_scores` are the recordings' scores, `is_leak` their truth where it is not the store's (a null run).

    Returns what `audit_table` does.
    """
    both = pooled([split] if reference is None else [reference, split])
    leak_label = leak_label_of(split, leak).casefold()
    truth = np.array([name.casefold() == leak_label for name in both.label_names])[both.label_id]
    asked = np.arange(both.recordings - split.recordings, both.recordings)
    if is_leak is not None:
        truth[asked] = is_leak
    traits = traits_of(both)
    scores: dict[str, np.ndarray] = {}
    copies = 0
    for train, test in _fittings(truth, asked, reference is None):
        if truth[train].any() and not truth[train].all():
            for name, found in baseline_scores(traits, truth, train, test).items():
                scores.setdefault(name, np.zeros(len(truth)))[test] = found
        copies += int(duplicates(traits, train, test).sum())
    network = None if network_scores is None else ranked(network_scores, truth[asked], None)
    table = {name: ranked(found[asked], truth[asked], None) for name, found in scores.items()}
    return audit_table(network, table, traits, copies, len(asked), shuffled)


def _fittings(
    truth: np.ndarray, asked: np.ndarray, within: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and rows to score, each recording scored once."""
    everyone = np.arange(len(truth))
    if not within:
        return [(np.setdiff1d(everyone, asked), asked)]
    dealt = np.lexsort((np.random.default_rng(0).permutation(len(truth)), truth))
    part = np.empty(len(truth), np.int64)
    part[dealt] = everyone % PARTS
    return [
        (np.flatnonzero(part != number), np.flatnonzero(part == number))
        for number in np.unique(part)
    ]


def audit_table(
    network: dict[str, Any] | None,
    table: dict[str, dict[str, Any]],
    traits: Traits,
    copies: int,
    recordings: int,
    shuffled: bool,
) -> dict[str, Any]:
    """Everything that an audit says, as plain values.

    `{"sentence": the alarms or None, "findings": [every sentence], "network": {"auroc", "interval"} or None, "rows": [{"key",
    "name", "explanation", "auroc", "interval"}], the best baseline first, "not_computed": {key: reason}, "duplicates": int}`.
    """
    grave, mild = (
        null_run(network) if shuffled else (alarms(network, table), remarks(network, table))
    )
    grave = duplicate_finding(copies, recordings) + grave
    sources = {
        LOGISTIC: "level-free band energies of the mel",
        PRIOR: "the share of leaks",
    } | traits.source
    by_group = "the share of leaks in the group, among the recordings trained on"
    rows = [
        {"key": key, "name": spoken(key), "explanation": sources.get(key, by_group), **table[key]}
        for key in sorted(table, key=lambda key: -(table[key]["auroc"] or 0.0))
    ]
    return {
        "sentence": " ".join(grave) or None,
        "findings": grave + mild,
        "network": network,
        "rows": rows,
        "not_computed": dict(traits.missing),
        "duplicates": copies,
    }
