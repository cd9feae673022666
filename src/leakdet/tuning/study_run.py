"""Running a study with the workers of this machine, from its first trial to its result."""

from dataclasses import dataclass
from json import JSONDecodeError

import optuna
from optuna.exceptions import StorageInternalError

from leakdet._messages import tell
from leakdet.config import TuneConfig
from leakdet.errors import LeakdetError
from leakdet.tuning.final_models import TrainWhole
from leakdet.tuning.objective import Objective, ToYaml, TrainFold
from leakdet.tuning.stop_codes import stop_code, stop_name
from leakdet.tuning.study_result import finish
from leakdet.tuning.worker import Worker
from leakdet.tuning.worker_processes import Processes, end_workers, wait_for_workers


@dataclass(frozen=True)
class Training:
    """The functions that train trials and final models, and write a configuration as YAML."""

    fold: TrainFold
    whole: TrainWhole
    to_yaml: ToYaml


def run_study(
    config: TuneConfig, study: optuna.Study, training: Training, workers: Processes = ()
) -> int:
    """Run trials until the study is full, then finish it; returns the exit code.

    `workers` are the other workers of this machine: ended on a signal, waited for otherwise.

    Raises:
        LeakdetError: no trial completed, or the study's storage does not answer.
    """
    objective = Objective(config, study, training.fold, training.to_yaml)
    try:
        Worker(config, study, objective).work()
        code = finish(config, study, training.whole, training.to_yaml)
    except (KeyboardInterrupt, SystemExit) as stop:
        end_workers(workers)
        tell(f"{stop_name(stop)}: repeat the command to go on with the study")
        return stop_code(stop)
    except (StorageInternalError, JSONDecodeError) as error:  # a database; a journal
        end_workers(workers)
        raise LeakdetError(
            f"The study's storage does not answer, or was replaced: {error}. Repeat the command to "
            "go on."
        ) from error
    except BaseException:  # such as a full disk
        end_workers(workers)
        raise
    wait_for_workers(workers)
    return code
