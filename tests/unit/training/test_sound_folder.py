"""Sounds to mix in: read from a folder, bad files named, validation untouched."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import soundfile
import torch

from leakdet.config import TrainConfig
from leakdet.core.errors import InputError
from leakdet.training import module
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.sound_folder import read_sound_folder

Fitted = Callable[..., pl.Trainer]
SETTING = "augment.interference"
Opened = Callable[[TrainConfig], LeakDataModule]


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    folder = tmp_path / "clips"
    (folder / "rain").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number, name in enumerate(("a.wav", "rain/b.WAV", "rain/c.flac")):
        soundfile.write(folder / name, 0.1 * rng.standard_normal(16000 + 8000 * number), 16000)
    return folder


def test_every_clip_is_there_and_a_bad_one_is_named_and_left_out(
    clips: Path,
    configured: Callable[..., TrainConfig],
    opened: Opened,
    messages: pytest.LogCaptureFixture,
) -> None:
    config = configured(f"augment.interference={clips}")
    data = opened(config)
    whole = read_sound_folder(SETTING, clips, data.splits.train, "window")
    assert len(set(whole.contents)) == 3
    assert whole.mel.shape == (1 + 2 + 3, *data.sample_shape)
    (clips / "bad.wav").write_text("no sound")
    (clips / "empty.wav").touch()
    assert torch.equal(
        read_sound_folder(SETTING, clips, data.splits.train, "window").mel, whole.mel
    )
    said = messages.text
    assert "bad.wav: not readable as audio" in said
    assert "empty.wav: the file is empty" in said


def test_a_folder_without_sound_is_refused(
    tmp_path: Path, configured: Callable[..., TrainConfig], opened: Opened
) -> None:
    (tmp_path / "none").mkdir()
    config = configured(f"augment.interference={tmp_path / 'none'}")
    data = opened(config)
    with pytest.raises(InputError, match="no audio files under"):
        read_sound_folder(SETTING, tmp_path / "none", data.splits.train, "window")
    (tmp_path / "none" / "bad.wav").write_text("no sound")
    with pytest.raises(InputError, match=r"none of 1 files .* holds sound that can be read"):
        read_sound_folder(SETTING, tmp_path / "none", data.splits.train, "window")


def test_it_is_mixed_into_training_and_never_into_validation(
    clips: Path, fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[int] = []
    original = module.augmented

    def counting(mel: torch.Tensor, *rest: object) -> torch.Tensor:
        result = original(mel, *rest)  # type: ignore[arg-type]
        changed.append(int((result != mel).flatten(1).any(1).sum()))
        return result

    monkeypatch.setattr(module, "augmented", counting)
    still = ("trainer.max_epochs=1", "optimizer.lr=0", "optimizer.min_lr=0", "augment.eq_db=0")
    mixed = fitted(
        tmp_path / "mixed", *still, f"augment.interference={clips}", "augment.interference_prob=1"
    )
    assert min(changed) > 0
    plain = fitted(tmp_path / "plain", *still)
    assert changed[-1] == 0
    assert mixed.callback_metrics["val/loss"] == plain.callback_metrics["val/loss"]
    assert mixed.callback_metrics["train/loss"] != plain.callback_metrics["train/loss"]


def test_every_channel_is_a_sound_where_channels_are_recordings(
    tmp_path: Path, configured: Callable[..., TrainConfig], opened: Opened
) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    noise = 0.1 * np.random.default_rng(0).standard_normal((16000, 2))
    soundfile.write(folder / "a.wav", noise, 16000)
    train = opened(configured()).splits.train
    assert len(read_sound_folder(SETTING, folder, train, "window").contents) == 1
    train.signal = replace(train.signal, channels="each")
    assert len(set(read_sound_folder(SETTING, folder, train, "window").contents)) == 2
