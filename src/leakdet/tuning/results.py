"""The result of a study: its winner, trials.csv, best.yaml, result.json and the page."""

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from leakdet.config import LabelsConfig, TrainConfig, TuneConfig
from leakdet.core.errors import InputError, LeakdetError, counted
from leakdet.core.files import locked, read_json, write_json, write_whole
from leakdet.core.messages import LOG, log_detail, log_result
from leakdet.core.process import DONE, PARTLY
from leakdet.detection.losses import balance_levers
from leakdet.evaluation.comparison import compare
from leakdet.evaluation.intervals import FEW_GROUPS
from leakdet.evaluation.split_scores import apply_rule, score_split, split_group_by
from leakdet.reporting.pages import filled
from leakdet.reporting.study_figures import TrialFacts, study_figures
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled, split_names
from leakdet.tables.write import write_csv
from leakdet.tuning.objective import ToYaml
from leakdet.tuning.space import settings_of, with_settings
from leakdet.tuning.study import (
    AUROC,
    CHECKS,
    CONFUSION,
    LEAK_SHARE,
    LOCK,
    REASON,
    finished,
    ranked,
    reason_of_failure,
    running,
)
from leakdet.tuning.workers import checks_saved


def write_page(study: optuna.Study, path: Path, result: Mapping[str, Any]) -> None:
    """Write the page of a study and its `result` (result.json)."""
    objective, best = result["objective"], result["best"]["trial"]
    trials = _best_first(study)
    figures = study_figures(
        [_facts_of(trial) for trial in study.get_trials(deepcopy=False)],
        objective,
        study.direction == StudyDirection.MAXIMIZE,
        best,
        _importance(study),
    )
    parameters = sorted({name for trial in trials for name in trial.params})
    content = {
        "study": study.study_name,
        "facts": _facts(study, result),
        "columns": ["trial", "state", objective, "checks", *parameters],
        "trials": [(trial.number, _cells(trial, objective, parameters)) for trial in trials],
        "best": best,
        "figures": figures,
        "report": "best/report.html" if "model" in result else "",
    }
    write_whole(path, filled("tune.html.j2", content) + "\n")


def _facts_of(trial: FrozenTrial) -> TrialFacts:
    checks = [value for _, value in sorted(trial.intermediate_values.items())]
    return TrialFacts(trial.number, trial.state.name.lower(), trial.value, trial.params, checks)


def _importance(study: optuna.Study) -> dict[str, float]:
    """The importance of each setting, the largest first; empty where the trials cannot tell."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.value for trial in complete}) < 2:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError):  # too equal trials; never at the cost of the page
        return {}


def _facts(study: optuna.Study, result: Mapping[str, Any]) -> list[tuple[str, str]]:
    best, trials = result["best"], dict(result["trials"])
    trials.pop("best_trial", None)
    checks, saved = trials.pop("checks", None), trials.pop("checks_saved", None)
    drawn = ", ".join(f"{key} {_text(value)}" for key, value in best["params"].items())
    rows = [
        ("Objective", f"{result['objective']} on val, {study.direction.name.lower()}"),
        ("Trials", ", ".join(f"{count} {state}" for state, count in trials.items() if count)),
        ("Best", f"trial {best['trial']}: {result['objective']} {best['value']:.4f} on val"),
        ("Its settings", drawn or "the recipe's own"),
    ]
    if checks is not None:
        rows.insert(2, ("Validation checks", f"{checks} made, {saved} saved by pruning"))
    if "verdict" in result:
        rows.append(("Did tuning help?", result["verdict"]))
    return rows


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _best_first(study: optuna.Study) -> list[FrozenTrial]:
    trials = list(study.get_trials(deepcopy=False))
    complete = ranked(trials, study.direction == StudyDirection.MAXIMIZE)
    ranks = {trial.number: rank for rank, trial in enumerate(complete)}
    return sorted(trials, key=lambda trial: ranks.get(trial.number, len(ranks)))


def _cells(trial: FrozenTrial, objective: str, parameters: Sequence[str]) -> list[tuple[str, str]]:
    """Names and texts of a trial's cells behind its number; on a phone each row is a card."""
    reason = reason_of_failure(trial) if trial.state == TrialState.FAIL else ""
    state = f"{trial.state.name.lower()}{': ' if reason else ''}{reason}"
    cells = [
        ("state", state),
        (objective, "" if trial.value is None else trial.value),
        ("checks", trial.user_attrs.get(CHECKS, "")),
        *((name, trial.params.get(name, "")) for name in parameters),
    ]
    return [(name, _text(value)) for name, value in cells]


TrainWhole = Callable[[Path, TrainConfig], Mapping[str, Any]]  # returns the metrics of the run


def final_models(
    config: TuneConfig, tuned: TrainConfig, value: float | None, train: TrainWhole
) -> dict[str, Any]:
    """Train both in `tune.folder`; the part of result.json that compares them.

    `value` is the winner's objective; training it again should reproduce it.
    """
    folder = Path(config.tune.folder)
    untuned = replace(config.training(), threads=tuned.threads)
    metrics: dict[str, Mapping[str, Any]] = {}
    for name, training in (("untuned", untuned), ("best", tuned)):
        LOG.info(f"\n{name}: training")
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        metrics[name] = train(folder / name, training)
    networks = (untuned.network.name, tuned.network.name)
    models = {name: folder / name / "model.safetensors" for name in metrics}
    comparison = compare_models(
        models["untuned"], models["best"], config.labels, trust_network=networks
    )
    sentence = tuning_sentence(comparison)
    log_result(f"\n{sentence}")
    result: dict[str, Any] = {
        "comparison": comparison,
        "verdict": sentence,
        "model": str(models["best"]),
    }
    if config.tune.objective == "recording_f1" and config.tune.trainings == 1:
        again = metrics["best"]["val"]["recording"]["f1"]
        result["reproduced"] = same_f1(again, value)
        if not result["reproduced"]:
            LOG.info(
                f"note     trained again, the winner has F1 {again} on val, not {value} "
                "(another device?)"
            )
    return result


def compare_models(
    untuned: Path,
    tuned: Path,
    labels: LabelsConfig | None = None,
    trust_network: Sequence[str] = (),
) -> dict[str, Any]:
    """Compare two model files on the same recordings of val and, where there is one, of test.

    Returns for each split {"recordings", "unit", "units", "f1", "auroc", "mcnemar"}; differences
    are tuned minus untuned. Their intervals resample `units` groups or recordings.
    """
    detectors = [load_mel_detector(path, trust_network=trust_network) for path in (untuned, tuned)]
    store = Path(detectors[1].card["training"]["store"])
    group_by = split_group_by(store)
    tables: dict[str, Any] = {}
    for name in [name for name in ("val", "test") if name in split_names(store)]:
        split = open_labelled(store, name, labels)
        a, b = (apply_rule(score_split(one, split), one.rule) for one in detectors)
        compared = compare(a, b, ("untuned", "tuned"), group_by)
        groups = a.resampling_units(group_by)  # None: single recordings, or one group only
        grouped = 1 if groups is None else len(np.unique(groups))
        tables[name] = {
            "recordings": compared["n"],
            "unit": "/".join(group_by) or "recording",
            "units": grouped if group_by else compared["n"],
            **{row["metric"]: row for row in compared["differences"]},
            "mcnemar": compared["mcnemar"],
        }
    return tables


def same_f1(evaluated: float | None, logged: float | None) -> bool:
    """True if two F1 are the same fraction: training logs it in single precision."""
    return None not in (evaluated, logged) and bool(np.float32(evaluated) == np.float32(logged))


def tuning_sentence(comparison: Mapping[str, Any]) -> str:
    """A sentence on whether tuning helped, which claims no more than the interval shows."""
    name = "test" if "test" in comparison else "val"
    table = comparison[name]
    f1, recordings = table["f1"], counted(table["recordings"], f"{name} recording")
    if f1["difference"] is None:
        return f"Whether tuning helped is unknown: {f1['note']} on the {recordings}."
    before, after = f1["a"], f1["b"]
    numbers = f"F1 {before:.3f} before, {after:.3f} after"
    if before == after:
        numbers = f"F1 {before:.2f} before and after"
    if f1["interval"] is None or table["units"] < FEW_GROUPS:
        if table["unit"] != "recording":
            recordings += f" from {counted(table['units'], 'group')} ({table['unit']})"
        return (
            f"Tuning made no measurable difference ({numbers}); {recordings} are too few to tell."
        )
    low, high = f1["interval"]
    if low > 0:
        sentence = "Tuning helped"
    elif high < 0:
        sentence = "Tuning made the detector worse; keep the untuned settings"
    else:
        sentence = "Tuning made no measurable difference"
    interval = f"95 % interval of the gain {low:+.3f} to {high:+.3f}"
    sentence = f"{sentence}: {numbers} on {recordings} ({interval})."
    if name == "val":
        sentence += " The trials were chosen on these recordings, which flatters the winner."
    return sentence


RESULT = "result.json"


def finish(config: TuneConfig, study: optuna.Study, train: TrainWhole, to_yaml: ToYaml) -> int:
    """Write the result, once for all workers; returns the exit code.

    Raises `LeakdetError` where no trial completed.
    """
    folder = Path(config.tune.folder)
    path = folder / RESULT
    with locked(folder / LOCK):
        elsewhere = running(study.get_trials(deepcopy=False))
        if elsewhere:
            LOG.info(
                f"{counted(len(elsewhere), 'trial')} still running on other hosts; "
                "repeat the command when all have ended: it writes the result"
            )
            return PARTLY
        best = winner(study, config.tune.maximises)
        trials = {**counts(study), "best_trial": best.number}
        result = _earlier(path)
        if result.get("trials") == trials and (not config.tune.finish or "verdict" in result):
            if config.tune.workers > 1:
                return DONE  # another worker has written it
            log_result(
                f"The study is finished; its result is in {folder}. More trials: tune.n_trials=N"
            )
        else:
            write_trials(study, folder / "trials.csv")
            result = _result(config, study, best, trials, train, to_yaml)
            write_json(path, result)
        write_page(study, folder / "tune.html", result)  # last: it must not cost the result
        log_detail(f"result   {folder / 'best.yaml'}, {folder / 'trials.csv'}")
        log_result(f"report   {folder / 'tune.html'}")
        if "model" in result:
            LOG.info(f"next     leakdet predict {result['model']} RECORDINGS")
    return DONE


def _result(
    config: TuneConfig,
    study: optuna.Study,
    best: FrozenTrial,
    trials: dict[str, int],
    train: TrainWhole,
    to_yaml: ToYaml,
) -> dict[str, Any]:
    """The content of result.json; writes best.yaml and, with `tune.finish`, trains both models."""
    tune = config.tune
    tuned = config_of(best, config)
    note = (
        f"study {tune.study}, trial {best.number} of {len(study.trials)}: "
        f"{tune.objective} {best.value!r} on val"
    )
    write_whole(Path(tune.folder) / "best.yaml", to_yaml(tuned, note))
    log_result(f"best     trial {best.number}: {tune.objective} {best.value:.4f} on val")
    if sentence := balance_sentence(best, tuned):
        log_detail(sentence)
    tied = tied_with_best(study, tune.maximises)
    if tied > max(1, trials["complete"] // 2):
        LOG.info(
            f"note     {tied} of {trials['complete']} complete trials share the best value, so "
            "the objective cannot rank them; tune.objective=loss may"
        )
    result: dict[str, Any] = {
        "study": tune.study,
        "objective": tune.objective,
        "trials": trials,
        "best": {
            "trial": best.number,
            "value": best.value,
            "params": best.params,
            "user_attrs": best.user_attrs,
        },
        "tied_with_best": tied,
    }
    return result | (final_models(config, tuned, best.value, train) if tune.finish else {})


def balance_sentence(best: FrozenTrial, tuned: TrainConfig) -> str:
    """The share of leaks in the winner's loss, and the settings that together make it.

    The search may multiply several of them, which a single training refuses.
    """
    share = best.user_attrs.get(LEAK_SHARE)
    if share is None:
        return ""
    levers = balance_levers(tuned.loss, tuned.data.sampling)
    cause = f" ({' times '.join(levers)})" if levers else ""
    return f"balance  in the winner's loss leaks weigh {share:.0%}{cause}"


def winner(study: optuna.Study, maximises: bool) -> FrozenTrial:
    """The best complete trial. Raises `LeakdetError` with the reasons where there is none."""
    trials = finished(study.get_trials(deepcopy=False))
    best = ranked(trials, maximises)
    if best:
        return best[0]
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    reasons = sorted({reason_of_failure(trial) for trial in failed})
    raise LeakdetError(
        f"0 of {len(trials)} trials completed. Reasons: {'; '.join(reasons[:5]) or 'none'}. The "
        "trials' log.txt say more; correct the settings and name a new study, tune.study=NAME."
    )


def config_of(trial: FrozenTrial, config: TuneConfig) -> TrainConfig:
    """The training configuration of a trial, as in its first repeat."""
    return with_settings(config.training(), settings_of(config.search, trial.params))


def counts(study: optuna.Study) -> dict[str, int]:
    """Trials by state, those that were interrupted, and validation checks made and saved."""
    trials = study.get_trials(deepcopy=False)
    by_state = {
        state.name.lower(): sum(trial.state == state for trial in finished(trials))
        for state in TrialState
        if state.is_finished()
    }
    retried = sum(trial.state == TrialState.FAIL for trial in trials) - by_state["fail"]
    checks = sum(int(trial.user_attrs.get(CHECKS, 0)) for trial in trials)
    saved = checks_saved(trials)
    return by_state | {"interrupted": retried, "checks": checks, "checks_saved": saved}


def tied_with_best(study: optuna.Study, maximises: bool) -> int:
    """Number of complete trials that share the best value."""
    best = ranked(study.get_trials(deepcopy=False), maximises)
    return sum(trial.value == best[0].value for trial in best)


def write_trials(study: optuna.Study, path: Path) -> None:
    """Write `trials.csv`, a row for each trial.

    `tp`, `fp` and `fn` count validation recordings at the check that gave the value, over all
    trainings of the trial.
    """
    trials = study.get_trials(deepcopy=False)
    parameters = sorted({name for trial in trials for name in trial.params})
    attributes = (AUROC, LEAK_SHARE, CHECKS, "seconds", REASON)
    shown = ("tp", "fp", "fn")
    rows = []
    for trial in trials:
        confusion = trial.user_attrs.get(CONFUSION) or {}
        rows.append(
            {"number": trial.number, "state": trial.state.name, "value": trial.value}
            | {name: confusion.get(name, "") for name in shown}
            | {name: trial.user_attrs.get(name, "") for name in attributes}
            | ({REASON: reason_of_failure(trial)} if trial.state == TrialState.FAIL else {})
            | {name: trial.params.get(name, "") for name in parameters}
        )
    write_csv(path, rows, ["number", "state", "value", *shown, *attributes, *parameters])


def _earlier(path: Path) -> dict[str, Any]:
    """The result that was written before; empty where there is none, or a damaged one."""
    try:
        return read_json(path, "the result of a study") if path.exists() else {}
    except InputError as error:
        LOG.warning(f"{error} It is written anew.")
        return {}
