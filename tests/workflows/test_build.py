"""`build` from sources to stores: contents, refusals, verification, interruption."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building import builder
from leakdet.building import builder as mel_verification
from leakdet.building.builder import build_store
from leakdet.config import (
    BuildConfig,
    DemoConfig,
    LabelsConfig,
    SignalConfig,
    SplitConfig,
)
from leakdet.core.errors import InputError
from leakdet.evaluation.recording_media import StoreMedia
from leakdet.evaluation.traits import traits_of
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split
from leakdet.storage.overlap import check_no_overlap

SIGNAL = SignalConfig(2000, 400, 200, 100, 50, n_mels=8, fmin_hz=0.0)


def sound(path: Path, seed: int, seconds: float = 1.0, rate_hz: int = 2000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(
        path, 0.1 * np.random.default_rng(seed).standard_normal(int(seconds * rate_hz)), rate_hz
    )
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """24 recordings of unequal length in two label folders."""
    root = tmp_path / "audio"
    for number in range(24):
        sound(root / ["LEAK", "NOLEAK"][number % 2] / f"{number}.wav", number, 0.5 + number / 10)
    return root


def config(source: Path, out: Path, **changes) -> BuildConfig:
    return BuildConfig(**{"source": str(source), "out": str(out), "signal": SIGNAL, **changes})


def test_each_recording_is_in_one_split_with_the_mel_of_its_audio(source: Path, tmp_path: Path):
    report = build_store(config(source, tmp_path / "store", verify="full"))
    assert len(report.rows) == 24
    ids = []
    for name in ("train", "val", "test"):
        split = open_split(tmp_path / "store", name)
        assert set(split.label_id.tolist()) == {0, 1}
        for number, recording_id in enumerate(split.recording_ids):
            low, high = split.recording_offsets[number : number + 2].tolist()
            mel = torch.cat(
                [block.mel for block in MelStream(source / recording_id, LogMel(report.signal))]
            )
            assert np.array_equal(split.mel.read(low, high), mel.numpy())
            assert split.texts("path")[number] == str(source / recording_id)
        ids += split.recording_ids.tolist()
    assert sorted(ids) == sorted(
        path.relative_to(source).as_posix() for path in source.rglob("*.wav")
    )
    build_json = json.loads((tmp_path / "store" / "build.json").read_text())
    assert (build_json["recordings"], build_json["left_out"]) == (24, [])
    assert build_json["signal"]["fmax_hz"] == 1000.0


def test_the_number_of_workers_changes_nothing(source: Path, tmp_path: Path):
    for workers in (1, 3):
        build_store(config(source, tmp_path / f"store{workers}", workers=workers))
    one, three = (open_split(tmp_path / f"store{workers}", "train") for workers in (1, 3))
    assert one.recording_ids.tolist() == three.recording_ids.tolist()
    assert np.array_equal(one.mel.read(0, one.windows), three.mel.read(0, three.windows))


def test_unusable_files_are_named_and_left_out(source: Path, tmp_path: Path):
    (source / "LEAK" / "empty.wav").touch()
    (source / "LEAK" / "text.wav").write_text("no sound")
    soundfile.write(source / "NOLEAK" / "header.wav", np.zeros(0), 2000)
    # The same sound with the same label: one of them is kept.
    sound(source / "LEAK" / "copy of 0.wav", 0, 0.5)
    # The sound of LEAK/2.wav with another label: neither can be trusted.
    sound(source / "NOLEAK" / "contradiction.wav", 2, 0.7)
    report = build_store(config(source, tmp_path / "store"))
    reasons = {Path(item.path).name: item.reason for item in report.left_out}
    assert set(reasons) == {
        "empty.wav",
        "text.wav",
        "header.wav",
        "copy of 0.wav",
        "contradiction.wav",
        "2.wav",
    }
    assert "0 bytes" in reasons["empty.wav"]
    assert reasons["copy of 0.wav"].endswith("same sound as LEAK/0.wav")
    assert "labelled NOLEAK" in reasons["contradiction.wav"]
    assert "labelled LEAK" in reasons["2.wav"]
    kept = {row["recording_id"] for row in report.rows}
    assert not kept & {"LEAK/2.wav", "NOLEAK/contradiction.wav", "LEAK/copy of 0.wav"}
    assert len(kept) == 23
    for name in ("train", "val", "test"):
        split = open_split(tmp_path / "store", name)
        # No row is empty or silent.
        assert (split.mel.read(0, split.windows) > -100).any(axis=(1, 2, 3)).all()


def test_a_split_without_one_of_the_classes_is_refused_before_any_sound_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for number in range(6):
        sound(tmp_path / "audio" / ("LEAK" if number == 0 else "NOLEAK") / f"{number}.wav", number)
    with monkeypatch.context() as patched:
        patched.setattr("leakdet.building.builder.Extractor", None)
        with pytest.raises(InputError, match="Every split needs leak and other"):
            build_store(config(tmp_path / "audio", tmp_path / "store"))
    assert not (tmp_path / "store").exists()
    train_and_val = config(
        tmp_path / "audio", tmp_path / "store", split=SplitConfig([1.0, 0.0, 0.0])
    )
    assert len(build_store(train_and_val).rows) == 6


def test_the_lowest_source_rate_limits_the_bands(source: Path, tmp_path: Path):
    sound(source / "LEAK" / "low.wav", 99, rate_hz=1500)
    report = build_store(config(source, tmp_path / "store"))
    assert report.signal.fmax_hz == 750.0
    assert any("up to 750 Hz are used" in remark for remark in report.remarks)


def test_a_store_is_replaced_only_with_overwrite(source: Path, tmp_path: Path):
    build_store(config(source, tmp_path / "store"))
    with pytest.raises(InputError, match="overwrite=true"):
        build_store(config(source, tmp_path / "store"))
    build_store(config(source, tmp_path / "store", overwrite=True, split=SplitConfig(seed=5)))
    assert (
        json.loads((tmp_path / "store" / "build.json").read_text())["settings"]["split"]["seed"]
        == 5
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio", "store"]
    with pytest.raises(InputError, match="is not a store"):
        build_store(config(source, source, overwrite=True))


def test_verification_finds_the_mel_of_another_recording(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A fault of the AILH scripts: a shared buffer gave most files the mel of another."""
    original = builder.Extractor.__call__
    buffers = []

    def faulty(self, recording):
        extracted = original(self, recording)
        extracted.mel.seek(0)
        buffers.append(extracted.mel.read())
        if recording.path.name == "4.wav":
            extracted.mel.close()
            # Mel of an earlier, longer recording, cut to size.
            extracted.mel = io.BytesIO(buffers[1][: len(buffers[-1])])
        return extracted

    monkeypatch.setattr(builder.Extractor, "__call__", faulty)
    with pytest.raises(InputError, match="not that of its audio"):
        build_store(config(source, tmp_path / "store", verify="full", workers=1))
    assert not (tmp_path / "store").exists()


def test_verification_tolerates_only_rounding():
    assert mel_verification.MAX_DIFFERENCE_DB <= 0.125


@pytest.mark.parametrize("kind", ["int16", "float32"])
def test_the_waveform_is_kept_on_request(source: Path, tmp_path: Path, kind: str):
    import h5py

    build_store(config(source, tmp_path / "store", waveform=kind))
    split = open_split(tmp_path / "store", "train")
    recording_ids = split.recording_ids.tolist()
    with h5py.File(tmp_path / "store" / "train.h5") as file:
        offsets, kept = file["waveform_offsets"][...], file["waveform"]
        for number, recording_id in enumerate(recording_ids):
            original = soundfile.read(source / recording_id, dtype="float32")[0]
            samples = kept[offsets[number] : offsets[number + 1]].astype(np.float32)
            samples = samples / 32768 if kind == "int16" else samples
            np.testing.assert_allclose(samples, original[: len(samples)], atol=1e-4)
            # A rest shorter than a window is not kept.
            assert len(original) - len(samples) < 200


@pytest.mark.parametrize("mains_hz", [50.0, 60.0])
def test_mains_hum_is_measured_before_the_high_pass(tmp_path: Path, mains_hz: float):
    """Only the leaks hum. The audit reads it from the store; in an older store it is missing."""
    import h5py

    for number in range(8):
        path = sound(
            tmp_path / "audio" / ["LEAK", "NOLEAK"][number % 2] / f"{number}.wav", number, 3.0
        )
        if number % 2 == 0:
            samples, rate_hz = soundfile.read(path)
            hum = 0.05 * np.sin(2 * np.pi * mains_hz * np.arange(len(samples)) / rate_hz)
            soundfile.write(path, samples + hum, rate_hz)
    signal = replace(SIGNAL, highpass_hz=200.0, fmin_hz=200.0)
    split = SplitConfig(ratios=[0.5, 0.5, 0.0])
    build_store(config(tmp_path / "audio", tmp_path / "store", signal=signal, split=split))
    train = open_split(tmp_path / "store", "train")
    hum_db, is_leak = traits_of(train).values["mains_hum"], train.label_id == 0
    assert hum_db[is_leak].min() > hum_db[~is_leak].max() + 3.0
    with h5py.File(tmp_path / "store" / "train.h5", "r+") as file:
        del file["mains_hum_50_db"]
    seal_h5(tmp_path / "store" / "train.h5")
    older = traits_of(open_split(tmp_path / "store", "train"))
    assert "mains_hum" not in older.values
    assert "build it again" in older.missing["mains_hum"]


def test_the_leak_class_may_have_any_name(tmp_path: Path):
    for number in range(20):
        sound(tmp_path / "audio" / ["burst", "quiet"][number % 2] / f"{number}.wav", number)
    report = build_store(
        config(tmp_path / "audio", tmp_path / "store", labels=LabelsConfig(leak="BURST"))
    )
    assert report.leak_labels == ["burst"]
    assert open_split(tmp_path / "store", "train").leak_labels == ["burst"]


def test_the_demo_is_split_by_site_and_keeps_its_audio(tmp_path: Path):
    demo = DemoConfig(sites=6, recordings_per_site=4, duration_s=1.0)
    report = build_store(
        config(Path("demo"), tmp_path / "store", demo=demo, signal=SignalConfig(), verify="full")
    )
    sites = [
        set(open_split(tmp_path / "store", name).groups["site"])
        for name in ("train", "val", "test")
    ]
    assert sum(map(len, sites)) == len(set.union(*sites)) == 6
    assert all(Path(row["path"]).is_file() for row in report.rows)


def test_a_killed_build_leaves_no_half_store(source: Path, tmp_path: Path, door):
    """Kill -9 at random moments, then a build that finishes and removes what the others left."""
    arguments = [f"source={source}", "out=store", "signal=paper", "signal.n_mels=20", "verify=full"]
    environment = {**os.environ, "PYTHONPATH": str(Path(builder.__file__).parents[2])}
    waits_s = np.random.default_rng(0).uniform(0.3, 5.0, 4)
    for wait_s in waits_s:
        process = subprocess.Popen(
            [sys.executable, "-m", "leakdet.build", *arguments],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (tmp_path / "store").exists():
            assert {"train.h5", "build.json", "recordings.csv"} <= {
                path.name for path in (tmp_path / "store").iterdir()
            }
            break
    result = door("build", *arguments, "overwrite=true", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "recordings" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio", "store"]


def test_each_channel_is_a_recording_beside_those_of_its_file(tmp_path: Path):
    rng = np.random.default_rng(0)
    for number in range(24):
        path = tmp_path / "audio" / ["LEAK", "NOLEAK"][number % 2] / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, 0.1 * rng.standard_normal((2000, 1 + number // 4 % 2)), 2000)
    signal = replace(SIGNAL, channels="each")
    made = config(tmp_path / "audio", tmp_path / "store", signal=signal, verify="full")
    report = build_store(made)
    assert len(report.rows) == 36
    assert any("36 channels of 24 files" in remark for remark in report.remarks)
    splits_of: dict[str, set[str]] = {}
    for row in report.rows:
        splits_of.setdefault(row["path"], set()).add(row["split"])
        name = row["source_file"]
        assert row["recording_id"] in (name, f"{name}#channel{row['channel']}")
    assert {len(names) for names in splits_of.values()} == {1}
    check_no_overlap([open_split(tmp_path / "store", name) for name in ("train", "val", "test")])

    split = open_split(tmp_path / "store", "train")
    rows = np.flatnonzero(split.numbers("channel", 0.0) == 2)
    clip = StoreMedia(split, None).clip(int(rows[0]), 0.0, 10.0)
    original, _ = soundfile.read(str(split.texts("path")[rows[0]]))
    played, _ = soundfile.read(io.BytesIO(clip.content))
    assert played == pytest.approx(original[:, 1] * 10 ** (clip.gain_db / 20), abs=1e-3)
