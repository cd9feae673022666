"""Measures cost and accuracy of each network; on recordings of a rig research/networks_rig.py does.

Finished trainings are not run again, so the script may be stopped and started at any time.
"""

import math
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch.utils.flop_counter import FlopCounterMode

from bench_kernels import inference_rate, median_rates, training_rate
from benchmarks import Row, Section, kept, measure, parser
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

NETWORKS = ("linear", "compact", "paper", "dual_head")
SEEDS = range(3)
EPOCHS = 40
DIFFICULTY = 1.5  # at 1, the default, every network but the linear one is nearly always right
# sites that were used neither in training nor in choosing a network
UNSEEN = DemoConfig(seed=2000, difficulty=DIFFICULTY)
SHAPE = (30, 64, 1)  # of a window of `field`


def settings(name: str) -> NetworkConfig:
    """`network=NAME` over the defaults, which are those of `experiment=field`."""
    return NetworkConfig(**OPTIONS["network"][name])


def on_demo(name: str, seed: int) -> dict[str, float]:
    """F1 and AUROC on unseen sites, after training by the default recipe on the seed's demo."""
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
    return {
        "auroc": float(auroc(score, is_leak) or math.nan),
        "f1": float(2 * (called & is_leak).sum() / (called.sum() + is_leak.sum())),
        "epoch": detector.card["training"]["epoch"],
    }


def trained(name: str, work: Path) -> list[dict[str, float]]:
    """The scores of a network on the demo, of each seed."""
    path = work / f"demo-{DIFFICULTY:g}-{name}"
    return [kept(Path(f"{path}-{seed}.json"), partial(on_demo, name, seed)) for seed in SEEDS]


def multiply_adds(network: Network) -> int:
    """Multiplications of one sample, half of the operations that torch counts."""
    with FlopCounterMode(display=False) as counter:
        network.eval()(torch.zeros(1, *SHAPE))
    return int(counter.get_total_flops()) // 2


def spread(values: Sequence[float]) -> str:
    """Mean and 95 % interval of the mean over seeds."""
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.3f} ± {half:.3f}"


def demo_rows(work: Path) -> Iterator[Row]:
    """Cost of each network, timed in turn, and its scores on the demo."""
    of_seeds = {name: trained(name, work) for name in NETWORKS}
    keep_freed_memory()
    mel = torch.randn(512, *SHAPE) * 9 - 60
    networks = {name: make_network(settings(name), SHAPE, 2) for name in NETWORKS}
    training, inference = (
        median_rates({name: partial(rate, networks[name], mel) for name in NETWORKS}, 7, warm=1)
        for rate in (training_rate, inference_rate)
    )
    for name, network in networks.items():
        yield {
            "network": name,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "multiply-adds": multiply_adds(network),
            "training [samples/s]": training[name],
            "inference [samples/s]": inference[name],
            "demo F1": spread([scores["f1"] for scores in of_seeds[name]]),
            "demo AUROC": spread([scores["auroc"] for scores in of_seeds[name]]),
        }


def main() -> None:
    command = parser(__doc__)
    about = "where finished trainings are kept"
    command.add_argument("--work", type=Path, default=Path("runs/networks"), help=about)
    command.add_argument("--only-train", action="store_true", help="no table yet")
    given = command.parse_args()
    for name in NETWORKS:
        trained(name, given.work)
    recordings = UNSEEN.sites * UNSEEN.recordings_per_site
    note = f"""A sample is a window of `field`, columns averaged by 4; speeds at batch 512, in turn,
median of 7. Demo: the default recipe with demo.difficulty={DIFFICULTY:g} and {EPOCHS} epochs at most,
trained on {len(SEEDS)} demos of as many seeds, each time tested on the same {recordings} recordings of
{UNSEEN.sites} sites of another demo; mean and 95 % interval of the mean over seeds."""
    if not given.only_train:
        measure(Section("networks", "The networks", demo_rows(given.work), note), given.dry_run)


if __name__ == "__main__":
    main()
