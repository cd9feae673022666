"""The result of a study: its winner, trials.csv, best.yaml, result.json and the page."""

from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from leakdet._exit_codes import DONE, PARTLY
from leakdet._messages import LOG, log_result
from leakdet.config import TrainConfig, TuneConfig
from leakdet.detection.losses import balance_levers
from leakdet.errors import InputError, LeakdetError, counted
from leakdet.storage.atomic import write_whole
from leakdet.storage.csv_file import write_csv
from leakdet.storage.file_lock import locked
from leakdet.storage.json_file import read_json, write_json
from leakdet.tuning.final_models import TrainWhole, final_models
from leakdet.tuning.html_page import write_page
from leakdet.tuning.objective import ToYaml
from leakdet.tuning.space import settings_of, with_settings
from leakdet.tuning.trial_table import checks_saved
from leakdet.tuning.trials import (
    AUROC,
    CHECKS,
    CONFUSION,
    LEAK_SHARE,
    REASON,
    finished,
    ranked,
    running,
)

RESULT = "result.json"


def finish(config: TuneConfig, study: optuna.Study, train: TrainWhole, to_yaml: ToYaml) -> int:
    """Write the result, once for all workers; returns the exit code.

    Raises `LeakdetError` where no trial completed.
    """
    folder = Path(config.tune.folder)
    path = folder / RESULT
    with locked(folder / "finish.lock"):
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
        log_result(
            f"result   {folder / 'best.yaml'}, {folder / 'trials.csv'}, {folder / 'tune.html'}"
        )
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
        LOG.info(sentence)
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
    reasons = sorted({str(t.user_attrs.get(REASON, "no reason was recorded")) for t in failed})
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
