"""`leakdet tune -m`: searches for the training settings that do best on val, and trains with them.

Exit codes: 0 the study is full and has a winner; 1 trials still run on other hosts; 2 wrong
settings, or no trial completed; 130 Ctrl-C, 143 SIGTERM, 128 and its number for another signal: the
running trial is queued again, and the same command goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet.cli.compose import as_yaml
from leakdet.cli.run import Run, open_door
from leakdet.config import TrainConfig, TuneConfig
from leakdet.core.messages import LOG
from leakdet.core.process import DONE, check_count, follow_parent

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

# Hydra's own launcher runs jobs one after the other: the first job starts the other workers.
LOCAL = "basic"


def tune(config: TuneConfig, run: Run) -> int:
    from leakdet.building.cached_stores import store_or_demo
    from leakdet.runs.training import train_in
    from leakdet.runs.tuning import check_requirements, share_cores

    local = run.multirun and run.launcher == LOCAL
    if local and config.tune.worker > 0:
        return DONE  # the first job started this worker, and it has ended
    if config.tune.worker:
        follow_parent()
    if local:
        check_count("tune.workers", config.tune.workers, per_core=2, always=4)
    parts = check_requirements(config, run.multirun)
    config = share_cores(config)
    from leakdet.tuning.objective import trial_parts
    from leakdet.tuning.study import introduction, open_study
    from leakdet.tuning.workers import start_workers

    study = open_study(config)
    if config.tune.worker == 0:
        LOG.info(introduction(config, study))
    if config.tune.worker == 0 and config.data.is_demo:
        LOG.info("No data.store was given: tuning on the demo, synthetic recordings")
    if parts is None:
        parts = trial_parts(config, store_or_demo(config.data, config.demo, config.signal))
    workers = start_workers(config, run.arguments) if local else []
    # Slow, as it imports Lightning: the other workers load beside.
    from leakdet.runs.tuning import Training, run_study

    def train_fold(
        folder: Path, training: TrainConfig, callbacks: "Sequence[Callback]", fold: int
    ) -> None:
        train_in(folder, training, callbacks, finish=False, parts=parts[fold])

    def train_whole(folder: Path, training: TrainConfig) -> Mapping[str, Any]:
        return train_in(folder, training, brief=True) or {}

    training = Training(train_fold, train_whole, experiment_yaml)
    return run_study(config, study, training, workers)


def experiment_yaml(config: TrainConfig, note: str) -> str:
    """A file for `train +experiment=FILE`; loggers are left to the command line."""
    plain = {key: value for key, value in asdict(config).items() if key != "logger"}
    how = "leakdet train experiment=THIS_FILE"
    return f"# @package _global_\n# {note}; run it: {how}\n{as_yaml(plain)}"


def main() -> None:
    open_door("tune", tune)


if __name__ == "__main__":
    main()
