"""Folders of sounds: mixed in, or trained beside the recordings, but never counted or scored."""

import re
import shutil
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import soundfile
import torch

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import negatives
from leakdet.config import AugmentConfig, LossConfig, TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.losses import loss_parts
from leakdet.detection.networks import Output
from leakdet.reporting.training_figures import read_history
from leakdet.runs.training import train_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split
from leakdet.training import log_names, module
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import result_checkpoint
from leakdet.training.run_summary import introduction
from leakdet.training.sounds import (
    check_negatives,
    divided,
    negatives_loss,
    read_sound_folder,
    why_not_synthetic,
    with_negatives,
)

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
    assert "bad.wav: not readable" in said
    assert re.search(r"empty\.wav: .*empty", said)


def test_a_folder_without_sound_is_refused(
    tmp_path: Path, configured: Callable[..., TrainConfig], opened: Opened
) -> None:
    (tmp_path / "none").mkdir()
    config = configured(f"augment.interference={tmp_path / 'none'}")
    data = opened(config)
    with pytest.raises(InputError, match=r"none: no audio|no audio .*none"):
        read_sound_folder(SETTING, tmp_path / "none", data.splits.train, "window")
    (tmp_path / "none" / "bad.wav").write_text("no sound")
    with pytest.raises(InputError, match=r"none of 1 files .*sound"):
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


Configured = Callable[..., TrainConfig]
STILL = AugmentConfig(eq_db=0.0)


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sounds of a kind that no recording of the demo has: pure high tones."""
    folder = tmp_path_factory.mktemp("tones")
    time_s = np.arange(32000) / 16000
    for number in range(3):
        tone = 0.3 * np.sin(2 * np.pi * (5000 + 400 * number) * time_s)
        soundfile.write(folder / f"{number}.wav", tone, 16000)
    return folder


def test_a_batch_gets_a_negative_for_every_four_samples_behind_them() -> None:
    mel, negatives = torch.zeros(9, 2, 3, 1), torch.arange(1.0, 6.0).view(5, 1, 1, 1)
    both = with_negatives(mel, negatives.expand(5, 2, 3, 1), STILL)
    assert both.shape == (12, 2, 3, 1)
    assert torch.equal(both[:9], mel)
    assert (both[9:] > 0).all()
    assert with_negatives(mel, None, STILL) is mel
    own, rest = divided(Output(torch.rand(12, 2), torch.rand(12)), 9)
    assert (len(own.class_logits), len(rest.leak_logit)) == (9, 3)


def test_their_loss_is_that_of_samples_without_a_leak_times_their_weight() -> None:
    config = TrainConfig(loss=LossConfig(aux_weight=0.3))
    config.data.negatives_weight = 0.25
    output, weights = Output(torch.randn(4, 2), torch.randn(4)), torch.ones(2)
    true = torch.ones(4, dtype=torch.int64)  # where 0 is the leak
    whole = loss_parts(output, true, torch.ones(4), config.loss, weights, leaks=(0,)).total
    found = negatives_loss(output, config, weights, leaks=(0,), count=4.0)
    torch.testing.assert_close(found, 0.25 * whole)


def test_they_change_the_network_but_neither_counts_nor_the_loss_that_is_told(
    tones: Path, configured: Configured, opened: Opened, fitted: Fitted, tmp_path: Path
) -> None:
    setting = f"data.negatives={tones}"
    still = ("trainer.max_epochs=1", "optimizer.lr=0", "optimizer.min_lr=0", "augment.eq_db=0")
    still += ("network.dropout=0",)
    runs = {
        name: fitted(tmp_path / name, *still, *more)
        for name, more in (("plain", ()), ("beside", (setting,)))
    }
    histories = [read_history(tmp_path / name / log_names.HISTORY) for name in runs]
    for name in (*log_names.TRAIN_LOSSES, *log_names.VAL_LOSSES, log_names.TRAIN_DRAWN):
        assert histories[0][name] == pytest.approx(histories[1][name], rel=1e-5)
    data = opened(configured(setting))
    assert data.train_counts.tolist() == opened(configured()).train_counts.tolist()
    assert re.search(r"beside   3 sounds .*9 windows, .*0\.1", introduction(data))


def test_what_was_heard_beside_the_recordings_is_no_leak_any_more(
    tones: Path, configured: Configured, opened: Opened, fitted: Fitted, tmp_path: Path
) -> None:
    learning = ("trainer.max_epochs=8", "optimizer.lr=0.003", "patience=20", "loss_patience=0")
    data = opened(configured())
    mel = read_sound_folder("data.negatives", tones, data.splits.train, "window").mel
    setting = (f"data.negatives={tones}", "data.negatives_weight=0.3")
    probs = [
        load_mel_detector(result_checkpoint(fitted(tmp_path / name, *learning, *more)))
        .window_prob(mel)
        .mean()
        .item()
        for name, more in (("plain", ()), ("beside", setting))
    ]
    assert probs[1] < min(0.2, probs[0])


def test_a_model_knows_that_it_has_met_them(
    tones: Path, configured: Configured, tmp_path: Path
) -> None:
    config = configured(f"data.negatives={tones}", "trainer.max_epochs=1")
    metrics = train_in(tmp_path / "run", config)
    assert metrics is not None
    met = load_mel_detector(tmp_path / "run" / "model.safetensors").met
    data = LeakDataModule(config, Path(str(config.data.store)))
    data.setup("fit")
    assert met is not None
    assert data.negatives is not None
    assert met.roles_of(data.negatives.contents) == ["train"] * 3
    assert metrics["recordings"]["train"] == data.splits.train.recordings


def test_several_classes_leave_open_which_one_they_are(
    tones: Path, configured: Configured, opened: Opened
) -> None:
    config = configured(f"data.negatives={tones}")
    data = opened(config)
    data.labels = replace(data.labels, names=("PUMP", "LEAK", "RAIN"))
    with pytest.raises(SettingsError, match="unclear which of PUMP, RAIN they are"):
        _ = data.negatives


@pytest.mark.parametrize("name", ["gasket-leak", "burst"])
def test_a_folder_called_like_a_leak_is_refused(
    name: str, tones: Path, configured: Configured, opened: Opened, tmp_path: Path
) -> None:
    shutil.copytree(tones, tmp_path / "leak-tests" / "2024" / name)
    shutil.copytree(tones, tmp_path / "leak-tests" / "no-leak")
    config = configured(f"data.negatives={tmp_path / 'leak-tests'}")
    data = opened(config)
    data.labels = replace(data.labels, leak_labels=("Burst",))
    with pytest.raises(SettingsError, match=rf"folder {name} .*leak"):
        _ = data.negatives


def test_recordings_of_the_store_are_refused(
    tones: Path, configured: Configured, opened: Opened
) -> None:
    config = configured(f"data.negatives={tones}")
    data = opened(config)
    heard, test = data.negatives, open_split(data.store, "test")
    assert heard is not None
    heard.contents.append(test.texts("content_sha256").tolist()[0])
    with pytest.raises(SettingsError, match=rf"1 of its sounds .*{test.recording_ids[0]}"):
        check_negatives(str(tones), heard, data.labels, data.store)


def test_made_up_negatives_train_where_recordings_are_leaks_or_none(
    configured: Configured, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negatives, "CLIPS", 8)
    made_up = ("data.negatives=synthetic", f"data.cache={tmp_path}")
    data = opened(configured(*made_up))
    assert data.negatives is not None
    assert len(data.negatives.contents) == 8
    assert "beside   8 sounds without a leak" in introduction(data)
    for more, reason in (
        ("data.shuffle_labels=true", "a null test trains on its recordings alone"),
        ("labels.mode=multiclass", "unclear which of them they are"),
    ):
        data = opened(configured(*made_up, more))
        assert data.negatives is data.config.data.negatives is None
        assert reason in introduction(data)
    train = copy(data.splits.train)
    train.signal = None
    assert "how its mel was computed" in why_not_synthetic(configured(*made_up), train)
    assert why_not_synthetic(configured(), train) == ""


def test_a_folder_called_synthetic_is_named_with_its_place(
    tones: Path,
    configured: Configured,
    opened: Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(tones, tmp_path / "synthetic")
    data = opened(configured("data.negatives=./synthetic"))
    monkeypatch.chdir(tmp_path)
    assert data.negatives is not None
    assert len(data.negatives.contents) == 3


def test_none_trains_the_weights_of_a_training_that_was_never_asked(
    fitted: Fitted, tmp_path: Path
) -> None:
    weights = [
        load_mel_detector(
            result_checkpoint(fitted(tmp_path / name, "trainer.max_epochs=1", *more))
        ).network.state_dict()
        for name, more in (("null", ("data.negatives=null",)), ("none", ("data.negatives=none",)))
    ]
    for one, other in zip(*(w.values() for w in weights), strict=True):
        assert torch.equal(one, other)


def test_white_and_pink_noise_and_silence_with_hum_are_no_leaks_to_a_model_that_met_made_up_sounds(
    fitted: Fitted, tmp_path: Path
) -> None:
    learning = ("trainer.max_epochs=8", "optimizer.lr=0.003", "patience=20", "loss_patience=0")
    made_up = ("data.negatives=synthetic", f"data.cache={tmp_path}", "data.negatives_weight=0.3")
    detector = load_mel_detector(result_checkpoint(fitted(tmp_path / "run", *learning, *made_up)))
    rng, time_s = np.random.default_rng(0), np.arange(80000) / 16000
    white = rng.standard_normal(80000)
    pink = np.fft.irfft(np.fft.rfft(white) / np.sqrt(np.arange(1.0, 40002)))
    hum = sum(np.sin(2 * np.pi * 50 * k * time_s) / k for k in range(1, 20)) + 0.003 * white
    assert detector.signal is not None
    log_mel = LogMel(detector.signal)
    for sound in (white, pink, hum):
        level = torch.from_numpy(0.03 * sound / np.std(sound)).float()
        prob = detector.window_prob(log_mel(level.unfold(0, 16000, 8000)).half()).mean().item()
        assert prob < 0.5
