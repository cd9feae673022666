"""Tuning on the demo: what pruning saves, what it costs, and TPE against random search at equal training.

Three arms for each of three seeds, with the same space: TPE with the median pruner and without pruning, 20 trials each; random
search without pruning for as many validation checks as the first arm took. Studies that are finished are not run again.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

import optuna
from optuna.storages.journal import JournalFileBackend

from benchmarks import write_section
from leakdet.storage.bundle import load_detector
from leakdet.storage.opening import open_any_split
from leakdet.storage.results import evaluation
from leakdet.storage.scoring import score_split
from leakdet.tuning.trials import CHECKS, finished, ranked, trial_folder

TRIALS, EPOCHS = 20, 8
DEMO = ("demo.sites=16", "demo.recordings_per_site=12", "demo.duration_s=1.5", "demo.difficulty=3")
ARMS = {
    "TPE, median pruner": ("tune.sampler=tpe", "tune.pruner=median"),
    "TPE, no pruning": ("tune.sampler=tpe", "tune.pruner=none"),
    "random, equal checks": ("tune.sampler=random", "tune.pruner=none"),
}


def run_arm(folder: Path, arm: str, seed: int, trials: int) -> optuna.Study:
    name = f"{arm.replace(', ', '-').replace(' ', '-')}-{seed}"
    command = [
        sys.executable,
        "-m",
        "leakdet.tune",
        *DEMO,
        *ARMS[arm],
        f"tune.study={name}",
        f"tune.folder={folder / name}",
    ]
    command += [
        f"tune.seed={seed}",
        f"tune.n_trials={trials}",
        f"trainer.max_epochs={EPOCHS}",
        "tune.finish=false",
    ]
    subprocess.run(command, check=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    backend = JournalFileBackend(str(folder / name / "study.journal"))
    return optuna.load_study(study_name=name, storage=optuna.storages.JournalStorage(backend))


def measured(folder: Path, study: optuna.Study) -> dict[str, Any]:
    trials = finished(study.get_trials(deepcopy=False))
    best = ranked(trials, maximises=True)[0]
    inside = trial_folder(folder / study.study_name, best.number)
    interval = f1_interval(inside / "checkpoints" / "best_f1.ckpt", store_of(inside / "log.txt"))
    pruned = sum(trial.state.name == "PRUNED" for trial in trials)
    checks = sum(int(trial.user_attrs.get(CHECKS, 0)) for trial in trials)
    seconds = sum(float(trial.user_attrs.get("seconds", 0)) for trial in trials)
    return {
        "trials": len(trials),
        "pruned": pruned,
        "checks": checks,
        "f1": best.value,
        "interval": interval,
        "s": seconds,
    }


def store_of(log: Path) -> Path:
    """The demo's store, as the trial's log names it."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return Path(next(line.split(maxsplit=1)[1] for line in lines if line.startswith("store ")))


def f1_interval(checkpoint: Path, store: Path) -> list[float]:
    """95 % bootstrap over the validation recordings."""
    detector = load_detector(checkpoint)
    split = open_any_split(store, "val")
    found: list[float] = evaluation(score_split(detector, split), detector.rule)["recording"]["intervals"][
        "f1"
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "leakdet-bench-tune")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for seed in arguments.seeds:
        for arm in ARMS:
            trials = TRIALS
            if arm.startswith("random"):
                trials = max(1, found["TPE, median pruner"][-1]["checks"] // EPOCHS)
            study = run_arm(arguments.folder, arm, seed, trials)
            found[arm].append(measured(arguments.folder, study))
            print(arm, seed, found[arm][-1], flush=True)
    write(found)


def write(found: dict[str, list[dict[str, Any]]]) -> None:
    rows = [
        {
            "search": arm,
            "trials (mean)": mean(run["trials"] for run in runs),
            "pruned (mean)": mean(run["pruned"] for run in runs),
            "validation checks (mean)": mean(run["checks"] for run in runs),
            "training (s, mean)": mean(run["s"] for run in runs),
            "best val F1 (each seed)": ", ".join(f"{run['f1']:.4f}" for run in runs),
            "best val F1 (median)": f"{median(run['f1'] for run in runs):.4f}",
            "95 % interval of the median run": interval_of_median(runs),
        }
        for arm, runs in found.items()
    ]
    checks = [row["validation checks (mean)"] for row in rows]
    note = (
        f"The demo at difficulty 3 ({', '.join(DEMO)}), {EPOCHS} epochs a training, default search space, "
        f"{len(found['TPE, median pruner'])} sampler seeds. Pruning left {checks[0] / checks[1]:.0%} of the checks. The best "
        "value is the best of many on one validation set, so it flatters every arm."
    )
    write_section("tune", "Tuning: pruning and sampling", rows, note)


def interval_of_median(runs: list[dict[str, Any]]) -> str:
    middle = sorted(runs, key=lambda run: run["f1"])[len(runs) // 2]["interval"]
    return f"{middle[0]:.3f} to {middle[1]:.3f}"


if __name__ == "__main__":
    main()
