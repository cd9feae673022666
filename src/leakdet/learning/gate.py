"""The verdict on a new model: both models on recordings that neither has met in training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from leakdet.core.errors import SettingsError, first_few
from leakdet.detection.detector import MelDetector
from leakdet.detection.source_rates import SourceRates
from leakdet.evaluation.intervals import paired_difference
from leakdet.evaluation.met import met_roles
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.evaluation.split_scores import apply_rule, score_split, to_scored_recordings
from leakdet.learning.inputs import contents, recorded_times
from leakdet.learning.training import JOINT, PLACES, SENSORS, TARGET
from leakdet.storage.folds import hold_out_groups, source_files
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled

FEWEST_TO_DECIDE = 8  # labels; fewer are wrong about which model is better too often


@dataclass(frozen=True)
class HeldOut:
    """A group of new recordings that does not train: its column, value and rows."""

    column: str
    value: str
    rows: Int[np.ndarray, " N"]


def held_out_group(
    wanted: str,
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    fewest: int,
    split_by: Sequence[str],
) -> HeldOut | None:
    """The group that is asked for, the newest one that may decide, or None."""
    if wanted == "none":
        return None
    if wanted != "auto":
        column, _, value = wanted.partition(":")
        return _asked_for(column, value, groups, is_leak, fewest)
    times = recorded_times(groups, len(is_leak))
    dated = np.flatnonzero(~np.isnat(times))
    if not len(dated):
        return None
    last = dated[np.argsort(times[dated], kind="stable")[-1]]
    for column in dict.fromkeys([*split_by, *PLACES, *SENSORS]):
        values = groups.get(column)
        if values is None:
            continue
        newest = str(values[last])
        mask = values == newest
        enough = mask.sum() >= FEWEST_TO_DECIDE and _both(is_leak[mask], 1)
        if newest and enough and _both(is_leak[~mask], fewest):
            return HeldOut(column, newest, np.flatnonzero(mask))
    return None


def _asked_for(
    column: str,
    value: str,
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    fewest: int,
) -> HeldOut:
    setting = f"learn.hold_out={column}:{value}"
    if column not in groups:
        columns = first_few(sorted(groups)) if groups else "none"
        raise SettingsError(
            f"{setting}: the new recordings have no column {column}; they have {columns}."
        )
    mask = groups[column] == value
    if not mask.any():
        values = first_few(sorted(set(groups[column].tolist()) - {""}))
        raise SettingsError(f"{setting}: no new recording has it; there are {values}.")
    if not _both(is_leak[mask], 1):
        raise SettingsError(f"{setting}: it has one class only, which cannot compare two models.")
    if not _both(is_leak[~mask], fewest):
        raise SettingsError(
            f"{setting}: fewer than {fewest} recordings of a class would be left to learn from "
            "(learn.min_per_class)."
        )
    return HeldOut(column, value, np.flatnonzero(mask))


def _both(is_leak: Bool[np.ndarray, " N"], fewest: int) -> bool:
    return min(int(is_leak.sum()), int((~is_leak).sum())) >= fewest


def fold_keys(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    ids: Shaped[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
) -> tuple[Shaped[np.ndarray, " R"], str]:
    """What parts do not share: a place or sensor where several have each class, or a recording."""
    for column in (*PLACES, *SENSORS):
        values = groups.get(column)
        if values is None or (values == "").any():
            continue
        with_leak, without = set(values[is_leak].tolist()), set(values[~is_leak].tolist())
        if min(len(with_leak), len(without)) >= 2:
            return values, column
    return source_files(groups, ids), "recording"


def known_of_others(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    ids: Shaped[np.ndarray, " R"],
    unit: str,
    judging: Shaped[np.ndarray, " C"],
) -> Int[np.ndarray, " N"]:
    """Rows that surely share no `unit` (of `fold_keys`) with the keys that judge.

    Rows whose site or sensor is not told may be of any, so they are none of these.
    """
    values = source_files(groups, ids) if unit == "recording" else groups.get(unit)
    keys = np.full(len(ids), "") if values is None else values
    return np.flatnonzero(~np.isin(keys, judging) & (keys != ""))


def parts(
    keys: Shaped[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], folds: int, seed: int
) -> Iterator[tuple[Int[np.ndarray, " A"], Int[np.ndarray, " C"]]]:
    """Rows to train on and rows to score, so that every recording is scored once.

    Parts whose training rows lack a class are left out.
    """
    leaks, others = len(np.unique(keys[is_leak])), len(np.unique(keys[~is_leak]))
    count = max(2, min(folds, leaks, others))
    for _, rest, scored in hold_out_groups(keys, is_leak, count, seed):
        if _both(is_leak[rest], 1):
            yield rest, scored


BETTER, WORSE, TOO_FEW = "better", "worse", "too few to tell"
LOWER = "lower"  # of the old test recordings: not beyond chance
# Decisions have a threshold of each model's own, or of each fold's.
BY_SCORE, BY_DECISION = ("auroc",), ("balanced_accuracy", "recall", "fpr")


def differences(old: ScoredRecordings, new: ScoredRecordings) -> list[dict[str, Any]]:
    """Paired differences, new minus old, of ranking and of decisions; see `paired_difference`."""
    decided = old.decision.astype(np.float64), new.decision.astype(np.float64)
    compared = [(old.score, new.score, metric) for metric in BY_SCORE]
    compared += [(*decided, metric) for metric in BY_DECISION]
    return [
        paired_difference(a, b, old.is_leak, metric, threshold_a=0.5, threshold_b=0.5)
        for a, b, metric in compared
    ]


def judged(rows: Sequence[Mapping[str, Any]], recordings: int) -> str:
    """The verdict by the intervals of AUROC and balanced accuracy; none from fewer than eight."""
    if recordings < FEWEST_TO_DECIDE:
        return TOO_FEW
    intervals = [row["interval"] for row in rows[:2] if row["interval"] is not None]
    risen = any(low > 0 for low, _ in intervals)
    fallen = any(high < 0 for _, high in intervals)
    if risen == fallen:
        return TOO_FEW
    return BETTER if risen else WORSE


def comparison_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """The AUROC and balanced accuracy before and after, with the interval of the difference."""
    return "; ".join(_change(row) for row in rows[:2])


def _change(row: Mapping[str, Any]) -> str:
    name = {"auroc": "AUROC", "balanced_accuracy": "balanced accuracy"}[row["metric"]]
    if row["a"] is None or row["b"] is None:
        return f"{name} cannot be compared ({row['note']})"
    text = f"{name} {row['a']:.2f} before, {row['b']:.2f} after"
    if row["interval"] is None:
        return text
    low, high = row["interval"]
    if low == high:
        return f"{text} (the same in every resample of so few)"
    return f"{text} (difference {row['difference']:+.2f}, 95 % interval {low:+.2f} to {high:+.2f})"


def regression(rows: Sequence[Mapping[str, Any]], recordings: int) -> str:
    """`worse`, `lower` or "" on the old test recordings: beyond chance, or within it."""
    if judged(rows, recordings) == WORSE:
        return WORSE
    lower = any(row["difference"] is not None and row["difference"] < 0 for row in rows[:2])
    return LOWER if lower else ""


HELD_OUT, TEST = "held_out", "test"
Train = Callable[[Int[np.ndarray, " N"]], MelDetector]


@dataclass(frozen=True)
class PairedScores:
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


def judge_group(
    old: MelDetector, new: MelDetector, added: SplitView, held_out: HeldOut
) -> PairedScores:
    """Both models on a group of the new recordings, by which neither was trained."""
    rows = held_out.rows[~_met(old, added)[held_out.rows]]
    leaks = added.is_leak[rows]
    if not 0 < leaks.sum() < len(rows):
        scored = _scored(new, added.take(held_out.rows, HELD_OUT))
        how = f"{held_out.column} {held_out.value}, which the old model has met in training"
        return PairedScores(scored, how, TOO_FEW)
    view = added.take(rows, HELD_OUT)
    how = f"{len(rows)} recordings of {held_out.column} {held_out.value}, which trained neither"
    return _compared(_scored(old, view), _scored(new, view), how)


def fold_count(added: SplitView, folds: int, seed: int) -> int:
    """Trainings that `judge_out_of_fold` makes."""
    keys, _ = fold_keys(added.groups, added.recording_ids, added.is_leak)
    return len(list(parts(keys, added.is_leak, folds, seed)))


def judge_out_of_fold(
    old: MelDetector,
    train: Train,
    added: SplitView,
    folds: int,
    seed: int,
    rates: SourceRates | None = None,
) -> PairedScores:
    """The old model and models of the new kind, each on new recordings that did not train it.

    `rates` are those that the new model knows, for which these stand.
    """
    is_leak = added.is_leak
    keys, unit = fold_keys(added.groups, added.recording_ids, is_leak)
    scored = []
    order: list[int] = []
    for rest, out in parts(keys, is_leak, folds, seed):
        model = train(rest)
        if model.sources is not None:
            model = replace(model, sources=model.sources.standing_for(rates))
        scored.append(_scored(model, added.take(out, HELD_OUT)))
        order += out.tolist()
    new = joined(scored, added.take(np.array(order), HELD_OUT))
    unmet = np.flatnonzero(~_met(old, added)[order])
    what = f"new recordings, each scored by a model of other {unit}s"
    leaks = new.is_leak[unmet]
    if not 0 < leaks.sum() < len(unmet):
        how = (
            f"{len(new)} {what}, of which the old model has met {len(new) - len(unmet)} in training"
        )
        return PairedScores(new, how, TOO_FEW)
    rows = np.array(order)[unmet]
    before = _scored(old, added.take(rows, HELD_OUT))
    after = joined(scored, added.take(np.array(order), HELD_OUT), unmet)
    compared = _compared(before, after, f"{len(unmet)} {what}")
    return replace(compared, new=new)


def judge_old_test(
    old: MelDetector, new: MelDetector, test: StoreSplit, new_contents: list[str]
) -> PairedScores | None:
    """Both models on the old store's test recordings that neither has met; None without any."""
    view = unmet_test(old, test, new_contents)
    if view is None:
        return None
    before, after = _scored(old, view), _scored(new, view)
    how = f"the old store's {view.recordings} test recordings"
    paired = _compared(before, after, how)
    return replace(
        paired, verdict=regression(paired.differences, view.recordings) or paired.verdict
    )


def unmet_test(old: MelDetector, test: StoreSplit, new_contents: list[str]) -> SplitView | None:
    """The old store's test recordings that the old model has not met and that are not new as well.

    None without a leak or without another one among them.
    """
    met = _met(old, test) | np.isin(contents(test), new_contents)
    rows = np.flatnonzero(~met)
    leaks = test.is_leak[rows]
    return pooled([test]).take(rows, TEST) if 0 < leaks.sum() < len(rows) else None


def _met(old: MelDetector, split: StoreSplit) -> Bool[np.ndarray, " R"]:
    """Mask of the recordings that the old model has met; none where that is unknown."""
    roles = met_roles(old.met, split)
    return np.zeros(split.recordings, bool) if roles is None else np.asarray(roles != "")


def _scored(detector: MelDetector, view: SplitView) -> ScoredRecordings:
    return apply_rule(score_split(detector, view), detector.rule)


def _compared(old: ScoredRecordings, new: ScoredRecordings, how: str) -> PairedScores:
    rows = differences(old, new)
    return PairedScores(new, how, judged(rows, len(new)), rows)


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
    scored_rows = to_scored_recordings(picked, prob, picked.is_leak, score, threshold)
    if any(part.reason is None for part in scored):
        return scored_rows
    reason = np.concatenate([part.reason for part in scored if part.reason is not None])
    return replace(scored_rows, reason=reason[chosen])


@dataclass(frozen=True)
class Outcome:
    """What the new recordings say of both models, and what the old test recordings say."""

    approach: str
    judged: PairedScores
    on_test: PairedScores | None

    @property
    def verdict(self) -> str:
        """Of the new recordings; a joint model that forgot the old ones is worse too."""
        forgot = self.on_test is not None and self.on_test.verdict == WORSE
        return WORSE if forgot and self.approach != TARGET else self.judged.verdict

    @property
    def sentence(self) -> str:
        """The verdict, what it rests on, and what became worse."""
        return " ".join([self._first(), self.judged.sentence(), *self._of_test()])

    def _first(self) -> str:
        if self.verdict == BETTER:
            return "The new model is better."
        if self.verdict == WORSE:
            return "The new model is worse."
        if not self.judged.differences:
            return "Too few to tell."
        count = len(self.judged.new)
        if count < FEWEST_TO_DECIDE:
            return (
                f"Too few to tell: {count} confirmed recordings judge, and fewer than "
                f"{FEWEST_TO_DECIDE} pick the wrong model too often."
            )
        return "Too few to tell: no difference is larger than its uncertainty."

    def _of_test(self) -> list[str]:
        if self.on_test is None and self.approach == JOINT:
            return ["Old recordings were not compared: too few of them are new to the old model."]
        if self.on_test is None:
            return []
        if self.on_test.verdict == WORSE:
            advice = (
                " It knows the new place only: keep the old model for the old ones."
                if self.approach == TARGET
                else ""
            )
            return [f"A regression: {_lowered(self.on_test.sentence())}{advice}"]
        lower = " That is lower, by no more than its uncertainty."
        return [self.on_test.sentence() + lower * (self.on_test.verdict == LOWER)]

    def content(self) -> dict[str, Any]:
        """Plain values for metrics.json and the report."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "new_recordings": self.judged.content(),
            "old_test": self.on_test.content() if self.on_test else None,
        }


def _lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
