"""What a study ends in: the winner's settings, the table of trials, and whether the gain is larger than the noise."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from leakdet.config import TrainConfig, TuneConfig
from leakdet.errors import LeakdetError
from leakdet.evaluation.intervals import paired_difference
from leakdet.evaluation.model_comparison import mcnemar
from leakdet.evaluation.split_scores import SplitScores, score_split, split_group_by
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_any_split, splits_there
from leakdet.tuning.space import settings_of, with_settings
from leakdet.tuning.trial_table import checks_saved
from leakdet.tuning.trials import AUROC, CHECKS, REASON, finished, ranked

RESULT = "result.json"


def winner(study: optuna.Study, maximises: bool) -> FrozenTrial:
    """The best complete trial. Raises `LeakdetError` with the reasons where there is none."""
    trials = finished(study.get_trials(deepcopy=False))
    best = ranked(trials, maximises)
    if best:
        return best[0]
    reasons = sorted(
        {
            str(t.user_attrs.get(REASON, "no reason was recorded"))
            for t in trials
            if t.state == TrialState.FAIL
        }
    )
    raise LeakdetError(
        f"0 of {len(trials)} trials completed. Reasons: {'; '.join(reasons[:5]) or 'none were recorded'}. "
        "The trials' log.txt say more; mend the settings and name a new study, tune.study=NAME."
    )


def config_of(trial: FrozenTrial, config: TuneConfig) -> TrainConfig:
    """The very training configuration that the trial ran with (its first repeat)."""
    return with_settings(config.training(), settings_of(config.search, trial.params))


def counts(study: optuna.Study) -> dict[str, int]:
    trials = study.get_trials(deepcopy=False)
    by_state = {
        state.name.lower(): sum(t.state == state for t in finished(trials))
        for state in TrialState
        if state.is_finished()
    }
    retried = sum(t.state == TrialState.FAIL for t in trials) - by_state["fail"]
    checks = sum(int(t.user_attrs.get(CHECKS, 0)) for t in trials)
    return {
        **by_state,
        "interrupted": retried,
        "checks": checks,
        "checks_saved": checks_saved(trials),
    }


def tied_with_best(study: optuna.Study, maximises: bool) -> int:
    """Complete trials that share the best value: many mean that the objective tells nothing more."""
    best = ranked(study.get_trials(deepcopy=False), maximises)
    return sum(trial.value == best[0].value for trial in best)


def write_trials(study: optuna.Study, path: Path) -> None:
    """Every trial as a row of `trials.csv`."""
    trials = study.get_trials(deepcopy=False)
    parameters = sorted({name for trial in trials for name in trial.params})
    head = ["number", "state", "value", AUROC, CHECKS, "seconds", "reason", *parameters]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(head)
        for trial in trials:
            attributes = trial.user_attrs
            kept = [attributes.get(name, "") for name in (AUROC, CHECKS, "seconds", REASON)]
            drawn = [trial.params.get(name, "") for name in parameters]
            rows.writerow(
                [
                    trial.number,
                    trial.state.name,
                    "" if trial.value is None else trial.value,
                    *kept,
                    *drawn,
                ]
            )


def compared(
    untuned: Path,
    tuned: Path,
    leak: str | None = None,
    replicates: int = 2000,
    trust_network: Sequence[str] = (),
) -> dict[str, Any]:
    """F1 and AUROC of the tuned model minus those of the untuned on the same recordings of val and, where there is one, test.

    Intervals resample the groups by which the store was split, where it names them.
    """
    detectors = [load_mel_detector(path, trust_network=trust_network) for path in (untuned, tuned)]
    store = Path(detectors[1].card["training"]["store"])
    found: dict[str, Any] = {}
    for name in [name for name in ("val", "test") if name in splits_there(store)]:
        split = open_any_split(store, name)
        scored = [score_split(detector, split, leak) for detector in detectors]
        found[name] = _difference(scored, detectors, _groups(store, scored[0]), replicates)
    return found


def _difference(
    scored: list[SplitScores], detectors: list[Any], groups: np.ndarray | None, replicates: int
) -> dict[str, Any]:
    offsets, is_leak = scored[0].split.recording_offsets, scored[0].is_leak
    scores = [d.rule.score(s.window_prob, offsets) for d, s in zip(detectors, scored, strict=True)]
    thresholds = {
        "threshold_a": detectors[0].rule.threshold,
        "threshold_b": detectors[1].rule.threshold,
    }
    metrics = {
        metric: paired_difference(
            np.asarray(scores[0], np.float64),
            np.asarray(scores[1], np.float64),
            is_leak,
            metric,
            groups=groups,
            replicates=replicates,
            **thresholds,
        )
        for metric in ("f1", "auroc")
    }
    right = [d.rule.decide(s) == is_leak for d, s in zip(detectors, scores, strict=True)]
    return {"recordings": len(is_leak), **metrics, "mcnemar": mcnemar(*right)}


def _groups(store: Path, scores: SplitScores) -> np.ndarray | None:
    there = [
        scores.split.groups[column]
        for column in split_group_by(store)
        if column in scores.split.groups
    ]
    if not there:
        return None
    return np.array(["/".join(map(str, key)) for key in zip(*there, strict=True)])


def same_f1(evaluated: float | None, logged: float | None) -> bool:
    """Whether two F1 are the same fraction: training logs it in single precision, evaluation counts in double."""
    return None not in (evaluated, logged) and bool(np.float32(evaluated) == np.float32(logged))


def verdict(comparison: Mapping[str, Any]) -> str:
    """Whether tuning helped, in a sentence that does not say more than the interval."""
    name = "test" if "test" in comparison else "val"
    found = comparison[name]["f1"]
    where = f"on the {comparison[name]['recordings']} recordings of {name}"
    if found["difference"] is None or found["interval"] is None:
        return f"Whether tuning helped cannot be told {where}: {found['note']}."
    low, high = found["interval"]
    numbers = f"F1 {found['a']:.4f} untuned, {found['b']:.4f} tuned: {found['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
    if "too narrow" in (found["note"] or ""):
        return f"Whether tuning helped cannot be told {where}: {numbers}, but {found['note']}."
    if low > 0:
        judged = f"Tuning helped beyond the noise {where}"
    elif high < 0:
        judged = f"Tuning made it WORSE beyond the noise {where}, keep the untuned configuration"
    else:
        judged = f"No gain beyond the noise {where}"
    chosen = (
        "" if name == "test" else "; trials were chosen on these very recordings, so this flatters"
    )
    return f"{judged}: {numbers}{chosen}."
