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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median

import optuna

from benchmarks import Row, Section, measure, parser, time_s
from leakdet.evaluation.metrics_json import split_metrics
from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split
from leakdet.tuning.study import CHECKS, finished, ranked, trial_folder

TRIALS, EPOCHS, WORKER_TRIALS = 20, 30, 12
# A small network of the default kind: an epoch is a quarter of a second, and the space is the same.
NETWORK = ("network.conv_channels=8", "network.dense=32")
WHOLE = (f"trainer.max_epochs={EPOCHS}", f"patience={EPOCHS}", "loss_patience=0")
WORKERS_NOTE = (
    f"{WORKER_TRIALS} trials of {EPOCHS} epochs, from the command to its end, start-up "
    "included; one thread a worker, the same trials drawn by both, none twice."
)
PRUNED, UNPRUNED, RANDOM = "TPE, default pruner", "TPE, no pruning", "random, equal checks"
ARMS = {
    PRUNED: ("tune.sampler=tpe",),
    UNPRUNED: ("tune.sampler=tpe", "tune.pruner=none"),
    RANDOM: ("tune.sampler=random", "tune.pruner=none"),
}


def tune(folder: Path, name: str, *arguments: str) -> None:
    """Run the door, without its last trainings, on one thread a worker."""
    study = ["threads=1", "tune.finish=false", f"tune.study={name}", f"tune.folder={folder / name}"]
    command = [sys.executable, "-m", "leakdet.tune", *arguments, *NETWORK, *WHOLE, *study]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def run_arm(folder: Path, arm: str, seed: int, trials: int) -> Row:
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


def measured(folder: Path, study: optuna.Study) -> Row:
    trials = finished(study.get_trials(deepcopy=False))
    best = ranked(trials, maximises=True)[0]
    inside = trial_folder(folder / study.study_name, best.number)
    return {
        "trials": len(trials),
        "pruned": sum(trial.state.name == "PRUNED" for trial in trials),
        "checks": sum(int(trial.user_attrs.get(CHECKS, 0)) for trial in trials),
        "f1": best.value,
        "interval": f1_interval(inside),
    }


def f1_interval(trial: Path) -> list[float]:
    """95 % bootstrap over the validation recordings of the demo's store, which the log names."""
    lines = (trial / "log.txt").read_text(encoding="utf-8").splitlines()
    store = Path(next(line.split(maxsplit=1)[1] for line in lines if line.startswith("store ")))
    detector = load_mel_detector(trial / "checkpoints" / "best_f1.ckpt")
    scored = apply_rule(score_split(detector, open_split(store, "val")), detector.rule)
    interval: list[float] = split_metrics(scored)["recording"]["intervals"]["f1"]
    return interval


def run_seed(folder: Path, seed: int) -> dict[str, Row]:
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
    words = (*ARMS[RANDOM], "-m", f"tune.workers={count}", f"tune.n_trials={WORKER_TRIALS}")
    seconds = time_s(lambda: tune(folder, name, *words))
    trials = loaded(folder, name).get_trials(deepcopy=False)
    if not len(trials) == len({str(trial.params) for trial in trials}) == WORKER_TRIALS:
        sys.exit(f"{count} workers: not {WORKER_TRIALS} different trials, but {len(trials)}")
    return seconds


def arms(seeds: Sequence[dict[str, Row]]) -> Section:
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
    return Section("tune", "Tuning: pruning and sampling", rows, note)


def arm_row(arm: str, runs: Sequence[Row]) -> Row:
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


def workers(folder: Path) -> Iterator[Row]:
    one_s = workers_seconds(folder, 1)
    yield {"workers": 1, "wall time (s)": one_s, "share": 1.0}
    two_s = workers_seconds(folder, 2)
    yield {"workers": 2, "wall time (s)": two_s, "share": two_s / one_s}


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    command.add_argument("--workers", action=argparse.BooleanOptionalAction, default=True)
    folder = Path(tempfile.gettempdir()) / "leakdet-bench-tune"
    command.add_argument("--folder", type=Path, default=folder)
    given = command.parse_args()
    seeds = [run_seed(given.folder, seed) for seed in given.seeds]
    if len(seeds) > 1:
        measure(arms(seeds), given.dry_run)
    if given.workers:
        of_workers = workers(given.folder)
        measure(Section("tune-workers", "Tuning: workers", of_workers, WORKERS_NOTE), given.dry_run)


if __name__ == "__main__":
    main()
