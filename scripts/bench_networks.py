"""Measures cost and accuracy of each network: the tables of networks in docs/benchmarks.md.

`python scripts/bench_networks.py --work runs/networks`. Finished trainings are not run again, so
the script may be stopped and started at any time. The rig's recordings are not in this repository
(scripts/results.py says where they are looked for); without them its table is left as it is.
"""

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch.utils.flop_counter import FlopCounterMode

from bench_kernels import inference_rate, training_rate
from benchmarks import write_section
from leakdet.building.cached_stores import demo_store
from leakdet.cli.settings import OPTIONS
from leakdet.config import DataConfig, DemoConfig, NetworkConfig, SignalConfig, TrainConfig
from leakdet.detection.networks import Network, make_network
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.split_scores import score_split
from leakdet.runs.training import train_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split, split_names
from leakdet.training.memory import keep_freed_memory
from results import PROTOCOLS, RIG, cell, cross_validate, leakdet

NETWORKS = ("linear", "compact", "paper", "dual_head")
SEEDS = range(3)
EPOCHS = 40
DIFFICULTY = 1.5  # at 1, the default, every network but the linear one is nearly always right
# sites that were used neither in training nor in choosing a network
UNSEEN = DemoConfig(seed=2000, difficulty=DIFFICULTY)
SHAPE = (30, 64, 1)  # of a window of `field`
RIG_PROTOCOLS = ("recorder-pipe", "recorder-session", "analog-pipe", "analog-position")


def settings(name: str) -> NetworkConfig:
    """`network=NAME` over the defaults, which are those of `experiment=field`."""
    return NetworkConfig(**OPTIONS["network"][name])


def on_demo(name: str, seed: int, work: Path) -> dict[str, float]:
    """F1 and AUROC on unseen sites, after training by the default recipe on the seed's demo."""
    path = work / f"demo-{DIFFICULTY:g}-{name}-{seed}.json"
    if path.exists():
        finished: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        return finished
    trainer = {
        "accelerator": "cpu",
        "max_epochs": EPOCHS,
        "gradient_clip_val": 1.0,
        "log_every_n_steps": 50,
    }
    config = TrainConfig(
        seed=seed,
        data=DataConfig(sampling="balanced"),
        network=settings(name),
        demo=DemoConfig(seed=seed, difficulty=DIFFICULTY),
        trainer={**trainer, "enable_progress_bar": False, "enable_model_summary": False},
    )
    with tempfile.TemporaryDirectory() as folder:
        train_in(Path(folder), config, finish=False)
        detector = load_mel_detector(Path(folder) / "checkpoints" / "best_f1.ckpt")
    store = demo_store(UNSEEN, SignalConfig())
    scored = [score_split(detector, open_split(store, split)) for split in split_names(store)]
    score = np.concatenate(
        [detector.rule.score(s.window_prob, s.split.recording_offsets) for s in scored]
    )
    is_leak = np.concatenate([s.is_leak for s in scored])
    called = detector.rule.decide(score)
    f1 = 2 * (called & is_leak).sum() / (called.sum() + is_leak.sum())
    scores = {
        "auroc": float(auroc(score, is_leak) or math.nan),
        "f1": float(f1),
        "epoch": detector.card["training"]["epoch"],
    }
    path.write_text(json.dumps(scores), encoding="utf-8")
    print(name, seed, scores, flush=True)
    return scores


def on_rig(name: str, repeats: int, work: Path) -> dict[str, Any]:
    store = work / "rig-store"
    if not store.exists():
        leakdet("build", f"source={RIG / 'recordings.csv'}", f"out={store}")
    named = {protocol: PROTOCOLS[protocol] for protocol in RIG_PROTOCOLS}
    metrics = cross_validate(store, work / f"rig-{name}", 2, named, repeats, f"network={name}")
    protocols: dict[str, Any] = metrics["crossval"]
    return protocols


def costs() -> dict[str, dict[str, float]]:
    """Parameters, multiply-adds and samples per second of each network, timed in turn."""
    keep_freed_memory()
    mel = torch.randn(512, *SHAPE) * 9 - 60
    networks = {name: make_network(settings(name), SHAPE, 2) for name in NETWORKS}
    training: dict[str, list[float]] = {name: [] for name in NETWORKS}
    inference: dict[str, list[float]] = {name: [] for name in NETWORKS}
    for _ in range(8):
        for name, network in networks.items():
            training[name].append(training_rate(network, mel))
            inference[name].append(inference_rate(network, mel))
    return {
        name: {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "multiply-adds": multiply_adds(network),
            "training [samples/s]": statistics.median(training[name][1:]),
            "inference [samples/s]": statistics.median(inference[name][1:]),
        }
        for name, network in networks.items()
    }


def multiply_adds(network: Network) -> int:
    """Multiplications of one sample, half of the operations that torch counts."""
    with FlopCounterMode(display=False) as counter:
        network.eval()(torch.zeros(1, *SHAPE))
    return int(counter.get_total_flops()) // 2


def spread(values: Sequence[float]) -> str:
    """Mean and 95 % interval of the mean over seeds."""
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.3f} ± {half:.3f}"


def demo_trainings(work: Path) -> dict[str, list[dict[str, float]]]:
    return {name: [on_demo(name, seed, work) for seed in SEEDS] for name in NETWORKS}


def write_demo_table(
    cost: Mapping[str, dict[str, float]], trainings: Mapping[str, list[dict[str, float]]]
) -> None:
    rows = [
        {
            "network": name,
            **cost[name],
            "demo F1": spread([row["f1"] for row in of_seeds]),
            "demo AUROC": spread([row["auroc"] for row in of_seeds]),
        }
        for name, of_seeds in trainings.items()
    ]
    seeds, recordings = len(trainings[NETWORKS[0]]), UNSEEN.sites * UNSEEN.recordings_per_site
    note = f"""A sample is a window of `field`, columns averaged by 4; speeds at batch 512, in turn,
median of 7. Demo: the default recipe with demo.difficulty={DIFFICULTY:g} and {EPOCHS} epochs at most,
trained on {seeds} demos of as many seeds, each time tested on the same {recordings} recordings of
{UNSEEN.sites} sites of another demo; mean and 95 % interval of the mean over seeds."""
    write_section("networks", "The networks", rows, note)


def rig_table(repeats: int, work: Path) -> None:
    rows = []
    for name in NETWORKS:
        of_protocols = on_rig(name, repeats, work)
        recording = [of_protocols[protocol]["recording"] for protocol in RIG_PROTOCOLS]
        areas = [
            cell({"auroc": table["auroc"], "interval": table["intervals"]["auroc"]})
            for table in recording
        ]
        row = {"network": name, **dict(zip(RIG_PROTOCOLS, areas, strict=True))}
        row["mean AUROC"] = statistics.mean(table["auroc"] for table in recording)
        row["mean F1"] = statistics.mean(table["f1"] for table in recording)
        rows.append(row)
    note = f"""Recording AUROC of held-out pipes, days and positions with 95 % intervals over recordings
(scripts/results.py says what the recordings are); {repeats} seed(s). No network or setting was chosen
on them."""
    write_section("networks_rig", "The networks on a pipe rig", rows, note)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, default=Path("runs/networks"), help="where finished trainings are kept"
    )
    parser.add_argument("--repeats", type=int, default=1, help="seeds on the rig")
    parser.add_argument("--only", choices=("train", "demo", "rig"), help="train: no table yet")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.only != "rig":
        trainings = demo_trainings(arguments.work)
        if arguments.only != "train":
            write_demo_table(costs(), trainings)
    if arguments.only in ("train", "demo"):
        return
    if not RIG.is_dir():
        print(
            "The rig's recordings are missing: its table stays as it is. RIG=DIR says where they "
            "are."
        )
    else:
        rig_table(arguments.repeats, arguments.work)


if __name__ == "__main__":
    main()
