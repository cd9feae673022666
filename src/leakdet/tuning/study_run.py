"""Running a study with the workers of this machine, from its first trial to its result."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import optuna
from optuna.exceptions import StorageInternalError

from leakdet.config import TuneConfig
from leakdet.errors import LeakdetError
from leakdet.tuning.final_models import TrainWhole
from leakdet.tuning.html_page import INSTALL, has_plotly
from leakdet.tuning.objective import Objective, ToYaml, TrainFold
from leakdet.tuning.signals import sigterm_raises, stop_code, stop_name
from leakdet.tuning.study_result import finish
from leakdet.tuning.trials import finished
from leakdet.tuning.worker import Worker
from leakdet.tuning.worker_processes import end_workers, start_workers, wait_for_workers


@dataclass(frozen=True)
class Training:
    """How trials and final models are trained, and how a configuration is written as YAML."""

    fold: TrainFold
    whole: TrainWhole
    to_yaml: ToYaml


def introduction(config: TuneConfig, study: optuna.Study) -> str:
    """What is searched how, and what the page will lack."""
    tune, done = config.tune, len(finished(study.get_trials(deepcopy=False)))
    lines = [
        f"study    {tune.study}: {done} of {tune.n_trials} trials are finished",
        f"search   {', '.join(config.search)}",
        f"method   {tune.sampler} sampler, {tune.pruner} pruner, best {tune.objective} on val, "
        f"{tune.workers} worker{'s' if tune.workers > 1 else ''}",
        f"folder   {tune.folder}",
    ]
    if not has_plotly():
        lines.append(f"note     plotly is not installed: tune.html will have no plots ({INSTALL})")
    return "\n".join(lines)


def run_study(
    config: TuneConfig, study: optuna.Study, training: Training, arguments: Sequence[str] = ()
) -> int:
    """Run trials until the study is full, then finish it; returns the exit code.

    `arguments` of the command line start the other workers of this machine; none are started
    without them.

    Raises:
        LeakdetError: no trial completed, or the study's storage does not answer.
    """
    workers = start_workers(config, arguments) if arguments else []
    objective = Objective(config, study, training.fold, training.to_yaml)
    try:
        with sigterm_raises():
            Worker(config, study, objective).work()
            code = finish(config, study, training.whole, training.to_yaml)
    except (KeyboardInterrupt, SystemExit) as stop:
        end_workers(workers)
        print(f"{stop_name(stop)}: repeat the command to go on with the study", file=sys.stderr)
        return stop_code(stop)
    except StorageInternalError as error:
        end_workers(workers)
        raise LeakdetError(
            f"The study's storage does not answer: {error}. Repeat the command to go on."
        ) from error
    wait_for_workers(workers)
    return code
