"""The guard of `learn`: old and new model, paired, on recordings that neither has met."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from leakdet.detection.detector import MelDetector
from leakdet.evaluation.met_in_training import met_roles
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.evaluation.split_scores import apply_rule, score_split, to_scored_recordings
from leakdet.learning.added import contents
from leakdet.learning.before_after import (
    TOO_FEW,
    comparison_sentence,
    differences,
    judged,
    regression,
)
from leakdet.learning.held_out import HeldOut, fold_keys, parts
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled

HELD_OUT, TEST = "held_out", "test"
Train = Callable[[Int[np.ndarray, " N"]], MelDetector]


@dataclass(frozen=True)
class Judged:
    """Two models on the same recordings: scores of the new one, differences, and a verdict."""

    new: ScoredRecordings
    how: str  # what the recordings are, completing "on"
    verdict: str
    differences: list[dict[str, Any]] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        """Plain values for metrics.json and the report."""
        return {
            "on": self.how,
            "n": len(self.new),
            "leaks": int(self.new.is_leak.sum()),
            "verdict": self.verdict,
            "differences": self.differences,
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        if not self.differences:
            return f"There is nothing to compare the old model by, on {self.how}."
        return f"On {self.how}: {comparison_sentence(self.differences)}."


def judge_group(old: MelDetector, new: MelDetector, added: SplitView, held_out: HeldOut) -> Judged:
    """Both models on a group of the new recordings, by which neither was trained."""
    rows = held_out.rows[~_met(old, added)[held_out.rows]]
    leaks = added.is_leak[rows]
    if not 0 < leaks.sum() < len(rows):
        scored = _scored(new, added.take(held_out.rows, HELD_OUT))
        how = f"{held_out.column} {held_out.value}, which the old model has met in training"
        return Judged(scored, how, TOO_FEW)
    view = added.take(rows, HELD_OUT)
    how = f"{len(rows)} recordings of {held_out.column} {held_out.value}, which trained neither"
    return _compared(_scored(old, view), _scored(new, view), how)


def judge_out_of_fold(
    old: MelDetector, train: Train, added: SplitView, folds: int, seed: int
) -> Judged:
    """The old model and models of the new kind, each on new recordings that did not train it."""
    is_leak = added.is_leak
    keys, unit = fold_keys(added.groups, added.recording_ids, is_leak)
    scored = []
    order: list[int] = []
    for rest, out in parts(keys, is_leak, folds, seed):
        scored.append(_scored(train(rest), added.take(out, HELD_OUT)))
        order += out.tolist()
    new = joined(scored, added.take(np.array(order), HELD_OUT))
    unmet = np.flatnonzero(~_met(old, added)[order])
    what = f"new recordings, each scored by a model of other {unit}s"
    leaks = new.is_leak[unmet]
    if not 0 < leaks.sum() < len(unmet):
        how = (
            f"{len(new)} {what}, of which the old model has met {len(new) - len(unmet)} in training"
        )
        return Judged(new, how, TOO_FEW)
    rows = np.array(order)[unmet]
    before = _scored(old, added.take(rows, HELD_OUT))
    after = joined(scored, added.take(np.array(order), HELD_OUT), unmet)
    compared = _compared(before, after, f"{len(unmet)} {what}")
    return replace(compared, new=new)


def judge_old_test(
    old: MelDetector, new: MelDetector, test: StoreSplit, new_contents: list[str]
) -> Judged | None:
    """Both models on the old store's test recordings that neither has met; None without any."""
    met = _met(old, test) | np.isin(contents(test), new_contents)
    rows = np.flatnonzero(~met)
    leaks = test.is_leak[rows]
    if not 0 < leaks.sum() < len(rows):
        return None
    view = pooled([test]).take(rows, TEST)
    before, after = _scored(old, view), _scored(new, view)
    found = _compared(before, after, f"the old store's {len(rows)} test recordings")
    return replace(found, verdict=regression(found.differences, len(rows)) or found.verdict)


def _met(old: MelDetector, split: StoreSplit) -> Bool[np.ndarray, " R"]:
    """Mask of the recordings that the old model has met; none where that is unknown."""
    roles = met_roles(old.met, split)
    return np.zeros(split.recordings, bool) if roles is None else np.asarray(roles != "")


def _scored(detector: MelDetector, view: SplitView) -> ScoredRecordings:
    return apply_rule(score_split(detector, view), detector.rule)


def _compared(old: ScoredRecordings, new: ScoredRecordings, how: str) -> Judged:
    rows = differences(old, new)
    return Judged(new, how, judged(rows, len(new)), rows)


def joined(
    scored: list[ScoredRecordings], view: SplitView, rows: Int[np.ndarray, " N"] | None = None
) -> ScoredRecordings:
    """The recordings of several parts as those of one view, in its order, or `rows` of them."""
    windows = [
        part.window_prob[part.windows_of(row)] for part in scored for row in range(len(part))
    ]
    chosen = np.arange(len(windows)) if rows is None else rows
    score = np.concatenate([part.score for part in scored])[chosen]
    threshold = np.concatenate([part.threshold for part in scored])[chosen]
    picked = view.take(chosen, view.name)
    prob = np.concatenate([windows[row] for row in chosen.tolist()])
    return to_scored_recordings(picked, prob, picked.is_leak, score, threshold)
