"""Draw every augmentation on one second of sound, before and after.

    python scripts/make_figures.py [--audio FILE]

Writes PNGs into `figures/augmentation` (`--out`), of a leak of the demo unless `--audio` is given.
The titles name the strengths drawn; those of a training are `augment.*`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from leakdet.acoustics.augment import (
    draw_mixup,
    mask,
    mix_interference,
    random_gain,
    smooth_random_eq,
)
from leakdet.acoustics.clip import read_sound
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import LEAK, NOLEAK, demo_recording
from leakdet.config import DemoConfig, SignalConfig

SIGNAL = SignalConfig()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, help="a recording of your own")
    parser.add_argument("--out", type=Path, default=Path("figures/augmentation"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sound = read_sound(options.audio, SIGNAL)[0] if options.audio else demo_sound(LEAK)
    for name, (title, after) in changes(sound, demo_sound(NOLEAK)).items():
        torch.manual_seed(options.seed)
        figure = before_after(picture(mel(sound)), picture(after()), title, SIGNAL.window_s)
        figure.savefig(options.out / f"{name}.png", dpi=110)
        print(options.out / f"{name}.png")


def changes(sound: np.ndarray, other: np.ndarray) -> dict[str, tuple[str, Callable[[], Tensor]]]:
    """File name -> title and the changed log-mel."""
    own, rest = mel(sound), mel(other)
    return {
        "eq": ("smooth random EQ (augment.eq_db=6)", lambda: smooth_random_eq(own, 6.0, 3)),
        "gain": ("random gain (augment.gain_db=6)", lambda: random_gain(own, 6.0)),
        "specaugment": (
            "SpecAugment, filled with the mean (augment.mask_mels=16 mask_columns=8)",
            lambda: mask(own, 16, 8),
        ),
        "mixup": (
            "mixup with a recording without a leak (augment.mixup_alpha=1)",
            lambda: mixed(own, rest),
        ),
        "interference": (
            "interference (augment.interference=FOLDER, here at the sample's own level)",
            lambda: mix_interference(own, rest, 1.0, 0.0, 0.0),
        ),
    }


def mixed(own: Tensor, rest: Tensor) -> Tensor:
    """Mix as a training step does, with a partner other than the sample itself."""
    _, share = draw_mixup(1, 1.0, own.device)
    return share * own + (1 - share) * rest


def mel(sound: np.ndarray) -> Tensor:
    """Log-mel [1, segments, mels, frames] of the first window."""
    log_mel: Tensor = LogMel(SIGNAL)(
        torch.from_numpy(sound[: SIGNAL.window_samples].astype(np.float32))[None]
    )
    return log_mel


def picture(log_mel: Tensor) -> np.ndarray:
    """Log-mel [mels, columns] in time order."""
    return log_mel[0].permute(1, 0, 2).flatten(1).numpy()


def demo_sound(label: str) -> np.ndarray:
    """The first demo recording of a label."""
    demo = DemoConfig()
    recordings = (demo_recording(demo, 0, index) for index in range(demo.recordings_per_site))
    return next(recording.samples for recording in recordings if recording.label == label)


def before_after(
    before: Float[np.ndarray, "M columns"],
    after: Float[np.ndarray, "M columns"],
    title: str,
    seconds: float,
) -> Figure:
    """Log-mels before and after on one colour scale in dB, and their difference, white where it is
    0.
    """
    figure = Figure((10.5, 3.4), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    low, high = np.percentile(np.concatenate([before, after], axis=1), [1, 99.5])
    change = after - before
    most = max(1.0, float(np.percentile(np.abs(change), 99.5)))
    panels = [
        ("before", before, "cividis", low, high),
        ("after", after, "cividis", low, high),
        ("after minus before", change, "RdBu_r", -most, most),
    ]
    extent = (0.0, seconds, 0.0, float(len(before)))
    for panel, (name, level_db, colours, least, greatest) in zip(axes, panels, strict=True):
        image = panel.imshow(
            level_db,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=extent,
            cmap=colours,
            vmin=float(least),
            vmax=float(greatest),
        )
        panel.set(title=name, xlabel="s")
        if panel is not axes[0]:
            figure.colorbar(image, ax=panel, label="dB")
    axes[0].set_ylabel("mel band")
    figure.suptitle(title)
    return figure


if __name__ == "__main__":
    main()
