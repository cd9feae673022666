"""`python -m leakdet.tune -m`: search for the training settings that do best on val, and end in a trained model.

Exit codes: 0 the study is full and has a winner; 1 other hosts still run trials of it; 2 wrong settings, or no trial completed;
130 Ctrl-C, 143 SIGTERM: the trial that was running is queued again, and the same command goes on.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet._compose import as_yaml
from leakdet._door import Run, open_door
from leakdet._exit_codes import DONE, PARTLY
from leakdet.config import TrainConfig, TrainerFlags, TuneConfig
from leakdet.errors import LeakdetError, SettingsError

if TYPE_CHECKING:
    import optuna
    from lightning.pytorch.callbacks import Callback
    from optuna.trial import FrozenTrial

    from leakdet.storage.store import StoreSplit
    from leakdet.tuning.objective import Train

ARGUMENTS: list[str] = []  # as the user gave them, for the other workers
# Hydra's own launcher runs jobs one after the other: there the first job starts its siblings
LOCAL = "basic"


def tune(config: TuneConfig, run: Run) -> int:
    from optuna.exceptions import StorageInternalError

    from leakdet.tuning.space_check import check_space
    from leakdet.tuning.study import open_study
    from leakdet.tuning.worker_processes import end_siblings, start_siblings, wait_for_siblings

    config = _checked(config, run)
    check_space(config.search, config.training())
    study = open_study(config)
    if config.tune.worker == 0:
        print(_introduction(config, study), flush=True)
    elif run.multirun and run.launcher == LOCAL:
        return DONE  # the first job has started this worker beside itself, and it has ended
    train = _trainer(config)  # before there are siblings: folds that cannot be made are told once
    siblings = start_siblings(config, ARGUMENTS) if run.multirun and run.launcher == LOCAL else []
    from leakdet.tuning.objective import Objective  # slow: siblings load beside
    from leakdet.tuning.signals import Stopped, sigterm_raises, stop_code, stop_name
    from leakdet.tuning.worker import Worker

    try:
        with sigterm_raises():
            objective = Objective(config, study, train, experiment_yaml)
            Worker(config, study, objective).work()
            code = _finish(config, study)
    except (Stopped, KeyboardInterrupt, SystemExit) as stop:
        end_siblings(siblings)
        print(f"{stop_name(stop)}: the same command goes on with the study", file=sys.stderr)
        return stop_code(stop)
    except StorageInternalError as error:
        end_siblings(siblings)
        raise LeakdetError(
            f"The study's storage does not answer: {error}. The same command goes on."
        ) from error
    wait_for_siblings(siblings)
    return code


def _checked(config: TuneConfig, run: Run) -> TuneConfig:
    """One device a trial; as many threads as leave each worker its share. Raises `SettingsError`."""
    flags = TrainerFlags.of(config.trainer)
    several = isinstance(flags.devices, int) and flags.devices > 1
    if flags.strategy not in ("auto", "single_device") or flags.num_nodes > 1 or several:
        raise SettingsError(
            f"trainer.strategy={flags.strategy}, devices={flags.devices}, "
            f"num_nodes={flags.num_nodes}: tune trains a trial on one device. "
            "Use trainer.devices=1 and several workers (-m tune.workers=4)."
        )
    if config.tune.workers > 1 and not run.multirun and config.tune.worker == 0:
        raise SettingsError(
            f"tune.workers={config.tune.workers} needs -m: python -m leakdet.tune -m tune.workers=4"
        )
    if config.tune.workers > 1 and config.threads == 0:
        cores = len(os.sched_getaffinity(0))
        config = replace(config, threads=max(1, cores // config.tune.workers))
    return config


def _introduction(config: TuneConfig, study: "optuna.Study") -> str:
    from leakdet.tuning.trials import finished

    tune_, done = config.tune, len(finished(study.get_trials(deepcopy=False)))
    lines = [
        f"study    {tune_.study}: {done} of {tune_.n_trials} trials are finished",
        f"search   {', '.join(config.search)}",
        f"method   {tune_.sampler} sampler, {tune_.pruner} pruner, best {tune_.objective} on val, "
        f"{tune_.workers} worker{'s' if tune_.workers > 1 else ''}",
        f"folder   {tune_.folder}",
    ]
    return "\n".join(lines)


def _trainer(config: TuneConfig) -> "Train":
    """What `leakdet.train` does, on a fold where there are some; nothing is scored on test and no model file is written."""
    from leakdet.training_run import train_in

    parts: Sequence[Sequence[StoreSplit]] = _folds(config) if config.tune.folds > 1 else [()]

    def train(folder: Path, training: TrainConfig, extra: "Sequence[Callback]", fold: int) -> None:
        train_in(folder, training, extra, finish=False, parts=parts[fold])

    return train


def _folds(config: TuneConfig) -> "Sequence[Sequence[StoreSplit]]":
    from leakdet.building.demo_store import store_or_demo
    from leakdet.tuning.trial_folds import trial_folds

    store = store_or_demo(config.data, config.demo, config.signal)
    return trial_folds(store, config.tune.folds, config.seed, config.labels.leak)


def experiment_yaml(config: TrainConfig, note: str) -> str:
    """A file that `python -m leakdet.train +experiment=FILE` runs as it is. Loggers stay the user's choice."""
    plain = {key: value for key, value in asdict(config).items() if key != "logger"}
    return f"# @package _global_\n# {note}; run it: python -m leakdet.train +experiment=THIS_FILE\n{as_yaml(plain)}"


def _finish(config: TuneConfig, study: "optuna.Study") -> int:
    """The last worker to end writes the result; the others find it written."""
    from leakdet.tuning.storages import locked
    from leakdet.tuning.study_result import RESULT, counts, winner, write_trials
    from leakdet.tuning.trials import running

    folder = Path(config.tune.folder)
    with locked(folder / "finish.lock"):
        elsewhere = running(study.get_trials(deepcopy=False))
        if elsewhere:
            print(
                f"{len(elsewhere)} trials still run on other hosts; the same command writes the result when they have ended"
            )
            return PARTLY
        best, path = winner(study, config.tune.maximises), folder / RESULT
        stamp = {**counts(study), "best_trial": best.number}
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if known.get("trials") == stamp and (not config.tune.finish or "verdict" in known):
            if config.tune.worker == 0 and config.tune.workers == 1:
                print(
                    f"The study is finished; its result is in {folder}. More trials: tune.n_trials=N"
                )
            return DONE
        write_trials(study, folder / "trials.csv")
        result = _result(config, study, best, stamp)
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return DONE


def _result(
    config: TuneConfig, study: "optuna.Study", best: "FrozenTrial", stamp: dict[str, int]
) -> dict[str, Any]:
    from leakdet.tuning.html_page import write_page
    from leakdet.tuning.study_result import config_of, tied_with_best

    tune_, folder = config.tune, Path(config.tune.folder)
    tuned = config_of(best, config)
    note = f"study {tune_.study}, trial {best.number} of {len(study.trials)}: {tune_.objective} {best.value!r} on val"
    (folder / "best.yaml").write_text(experiment_yaml(tuned, note), encoding="utf-8")
    result: dict[str, Any] = {
        "study": tune_.study,
        "objective": tune_.objective,
        "trials": stamp,
        "best": {
            "trial": best.number,
            "value": best.value,
            "params": best.params,
            "user_attrs": best.user_attrs,
        },
        "tied_with_best": tied_with_best(study, tune_.maximises),
    }
    print(f"best     trial {best.number}: {tune_.objective} {best.value:.4f} on val", flush=True)
    if result["tied_with_best"] > max(1, stamp["complete"] // 2):
        print(
            f"note     {result['tied_with_best']} of {stamp['complete']} complete trials share the best value: "
            "the objective no longer tells them apart (tune.objective=loss may)"
        )
    if tune_.finish:
        result |= _final_models(config, tuned, best.value)
    told = {"trials": stamp, "best": best.params}
    lists = {
        name: ", ".join(f"{key} {value}" for key, value in of.items()) for name, of in told.items()
    }
    facts = {"Objective": f"{tune_.objective} on val, {study.direction.name.lower()}"}
    facts |= {
        "Trials": lists["trials"],
        "Best": f"trial {best.number}, {best.value}: {lists['best']}",
    }
    facts |= {"Did tuning help?": result["verdict"]} if "verdict" in result else {}
    write_page(study, folder / "tune.html", tune_.objective, facts)
    print(f"result   {folder / 'best.yaml'}, {folder / 'trials.csv'}, {folder / 'tune.html'}")
    return result


def _final_models(config: TuneConfig, tuned: TrainConfig, value: float | None) -> dict[str, Any]:
    """Train the winner and the untuned configuration as `leakdet.train` does, and compare them recording by recording."""
    from leakdet.training_run import train_in
    from leakdet.tuning.study_result import compared, same_f1, verdict

    folder = Path(config.tune.folder)
    metrics: dict[str, dict[str, Any]] = {}
    untuned = replace(config.training(), threads=tuned.threads)
    for name, one in (("untuned", untuned), ("best", tuned)):
        print(f"\n{name}: training", flush=True)
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        metrics[name] = train_in(folder / name, one) or {}
    again = metrics["best"]["val"]["recording"]["f1"]
    models = {name: folder / name / "model.safetensors" for name in metrics}
    networks = (untuned.network.name, tuned.network.name)
    comparison = compared(
        models["untuned"], models["best"], config.labels.leak, trust_network=networks
    )
    said = verdict(comparison)
    print(f"\n{said}")
    found: dict[str, Any] = {
        "comparison": comparison,
        "verdict": said,
        "model": str(models["best"]),
    }
    if config.tune.objective == "recording_f1" and config.tune.trainings == 1:
        found["reproduced"] = same_f1(again, value)
        if not found["reproduced"]:
            print(
                f"note     trained again, the winner has F1 {again:.6f} on val, not {value:.6f} (another device?)"
            )
    return found


def main() -> None:
    ARGUMENTS[:] = sys.argv[1:]
    # Hydra takes -m in front of the settings only, a person types it anywhere.
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda argument: argument not in ("-m", "--multirun"))
    open_door("tune", tune)


if __name__ == "__main__":
    main()
