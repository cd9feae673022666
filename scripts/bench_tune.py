"""Benchmark of tuning on its demo: pruning, TPE against random search, two workers against one.

Three arms for each seed of the demo and of the sampler, with the default space: TPE with the
default pruner and without pruning, 20 trials each; random search without pruning for as many
validation checks as the first arm took. No training stops early, so that only the pruner saves
checks. Finished studies are not run again, so a stopped benchmark continues; `--seeds 0` runs one.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

import optuna

from benchmarks import write_section
from leakdet.evaluation.metrics_json import split_metrics
from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split
from leakdet.tuning.study import CHECKS, finished, ranked, trial_folder

TRIALS, EPOCHS, WORKER_TRIALS = 20, 30, 12
# A small network of the default kind: an epoch is a quarter of a second, and the space is the same.
NETWORK = ("network.conv_channels=8", "network.dense=32")
WHOLE = (f"trainer.max_epochs={EPOCHS}", f"patience={EPOCHS}", "loss_patience=0")
PRUNED, UNPRUNED, RANDOM = "TPE, default pruner", "TPE, no pruning", "random, equal checks"
ARMS = {
    PRUNED: ("tune.sampler=tpe",),
    UNPRUNED: ("tune.sampler=tpe", "tune.pruner=none"),
    RANDOM: ("tune.sampler=random", "tune.pruner=none"),
}


def tune(folder: Path, name: str, *arguments: str) -> None:
    """Run the door, without its last trainings, on one thread a worker."""
    command = [
        sys.executable,
        "-m",
        "leakdet.tune",
        *arguments,
        *NETWORK,
        *WHOLE,
        "threads=1",
        "tune.finish=false",
        f"tune.study={name}",
        f"tune.folder={folder / name}",
    ]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def run_arm(folder: Path, arm: str, seed: int, trials: int) -> dict[str, Any]:
    name = f"{arm.replace(', ', '-').replace(' ', '-')}-{seed}"
    if not (folder / name / "result.json").exists():
        seeds = (f"demo.seed={seed}", f"tune.seed={seed}")
        tune(folder, name, *ARMS[arm], *seeds, f"tune.n_trials={trials}")
    scores = measured(folder, loaded(folder, name))
    print(arm, seed, scores, flush=True)
    return scores


def loaded(folder: Path, name: str) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.load_study(study_name=name, storage=f"sqlite:///{folder / name / 'study.db'}")


def measured(folder: Path, study: optuna.Study) -> dict[str, Any]:
    trials = finished(study.get_trials(deepcopy=False))
    best = ranked(trials, maximises=True)[0]
    inside = trial_folder(folder / study.study_name, best.number)
    return {
        "trials": len(trials),
        "pruned": sum(trial.state.name == "PRUNED" for trial in trials),
        "checks": sum(int(trial.user_attrs.get(CHECKS, 0)) for trial in trials),
        "f1": best.value,
        "interval": f1_interval(
            inside / "checkpoints" / "best_f1.ckpt", store_of(inside / "log.txt")
        ),
    }


def store_of(log: Path) -> Path:
    """The demo's store, as the trial's log names it."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return Path(next(line.split(maxsplit=1)[1] for line in lines if line.startswith("store ")))


def f1_interval(checkpoint: Path, store: Path) -> list[float]:
    """95 % bootstrap over the validation recordings."""
    detector = load_mel_detector(checkpoint)
    scored = apply_rule(score_split(detector, open_split(store, "val")), detector.rule)
    interval: list[float] = split_metrics(scored)["recording"]["intervals"]["f1"]
    return interval


def run_seed(folder: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Run the pruned arm, then random search; beside them, where cores allow, the unpruned arm."""
    with ThreadPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
        unpruned = pool.submit(run_arm, folder, UNPRUNED, seed, TRIALS)
        pruned = pool.submit(run_arm, folder, PRUNED, seed, TRIALS).result()
        # Rounded up: random search gets no less training.
        equal = pool.submit(run_arm, folder, RANDOM, seed, math.ceil(pruned["checks"] / EPOCHS))
        return {PRUNED: pruned, UNPRUNED: unpruned.result(), RANDOM: equal.result()}


def workers_seconds(folder: Path, count: int) -> float:
    """Wall time of a study in seconds, start-up included; any `count` draws the same trials."""
    name = f"workers-{count}"
    shutil.rmtree(folder / name, ignore_errors=True)
    started = time.monotonic()
    tune(
        folder, name, *ARMS[RANDOM], "-m", f"tune.workers={count}", f"tune.n_trials={WORKER_TRIALS}"
    )
    seconds = time.monotonic() - started
    trials = loaded(folder, name).get_trials(deepcopy=False)
    drawn = {str(trial.params) for trial in trials}
    if len(trials) != WORKER_TRIALS or len(drawn) != WORKER_TRIALS:
        sys.exit(
            f"{count} workers: {len(trials)} trials, {len(drawn)} different ones, "
            f"not {WORKER_TRIALS}"
        )
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--workers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "leakdet-bench-tune"
    )
    arguments = parser.parse_args()
    seeds = [run_seed(arguments.folder, seed) for seed in arguments.seeds]
    if len(seeds) > 1:
        write_arms(seeds)
    if arguments.workers:
        write_workers(workers_seconds(arguments.folder, 1), workers_seconds(arguments.folder, 2))


def write_arms(seeds: Sequence[dict[str, dict[str, Any]]]) -> None:
    rows = [arm_row(arm, [of_seed[arm] for of_seed in seeds]) for arm in ARMS]
    checks = [mean(of_seed[arm]["checks"] for of_seed in seeds) for arm in ARMS]
    within = sum(
        of_seed[UNPRUNED]["interval"][0]
        <= of_seed[PRUNED]["f1"]
        <= of_seed[UNPRUNED]["interval"][1]
        for of_seed in seeds
    )
    gains = [of_seed[PRUNED]["f1"] - of_seed[RANDOM]["f1"] for of_seed in seeds]
    better, equal = sum(gain > 0 for gain in gains), gains.count(0)
    note = (
        f"The demo of `tune` with {', '.join(NETWORK)}, 240 validation recordings, the default "
        f"space, {EPOCHS} epochs a training and no early stop; {len(seeds)} seeds, each of the "
        f"demo and of the sampler. Pruning left {checks[0] / checks[1]:.0%} of the checks; its "
        "best value lay within the interval of the unpruned best value for "
        f"{within} of {len(seeds)} seeds. Against random search at equal checks it was better "
        f"for {better} seeds, equal for {equal}, worse for {len(seeds) - better - equal}. The "
        "best value is the best of many on one validation set, so it flatters every arm."
    )
    write_section("tune", "Tuning: pruning and sampling", rows, note)


def arm_row(arm: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    middle = sorted(runs, key=lambda run: run["f1"])[len(runs) // 2]["interval"]
    return {
        "search": arm,
        "trials (mean)": mean(run["trials"] for run in runs),
        "pruned (each seed)": ", ".join(str(run["pruned"]) for run in runs),
        "validation checks (mean)": mean(run["checks"] for run in runs),
        "best val F1 (each seed)": ", ".join(f"{run['f1']:.4f}" for run in runs),
        "best val F1 (median)": f"{median(run['f1'] for run in runs):.4f}",
        "95 % interval of the median run": f"{middle[0]:.3f} to {middle[1]:.3f}",
    }


def write_workers(one_s: float, two_s: float) -> None:
    rows = [
        {"workers": 1, "wall time (s)": one_s, "share": 1.0},
        {"workers": 2, "wall time (s)": two_s, "share": two_s / one_s},
    ]
    note = (
        f"{WORKER_TRIALS} trials of {EPOCHS} epochs, from the command to its end, start-up "
        "included; one thread a worker, the same trials drawn by both, none twice."
    )
    write_section("tune-workers", "Tuning: workers", rows, note)


if __name__ == "__main__":
    main()
