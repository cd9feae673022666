import io
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building.builder import build_store, explain_interruption, verify_mel
from leakdet.config import BuildConfig, DemoConfig, SignalConfig, SplitConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.messages import LOG
from leakdet.core.process import Stopped
from leakdet.storage.store import open_leakdet_split
from leakdet.storage.writer import RecordingRow, SplitWriter

SIGNAL = SignalConfig(2000, 400, 40, 100, 10, n_mels=8, fmin_hz=0.0, fmax_hz=1000.0)


def stored(folder: Path, audio: Path, mel: np.ndarray) -> Path:
    """A store in which the only recording of test has this mel."""
    folder.mkdir()
    name, path = audio.name, str(audio)
    row = RecordingRow(
        name, path, "LEAK", {}, 1.0, "0", 1.0, 2000, -20.0, 0.0, 0.0, (), len(mel), mel_crc32=0
    )
    writer = SplitWriter(folder, "test", SIGNAL)
    writer.add(row, io.BytesIO(mel.tobytes()), None)
    writer.write(folder / "test.h5", ["LEAK", "NORMAL"], ["LEAK"])
    return folder


def mel_of(audio: Path) -> np.ndarray:
    return torch.cat([block.mel for block in MelStream(audio, LogMel(SIGNAL))]).numpy()


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_a_long_recording_is_compared_in_little_memory(tmp_path: Path, write_sound, traced: None):
    audio = write_sound("long.wav", 300.0, 2000)
    mel = mel_of(audio)
    store = stored(tmp_path / "store", audio, mel)
    size = mel.nbytes
    del mel
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    verify_mel(store, store, LogMel(SIGNAL), full=True, workers=1)
    assert tracemalloc.get_traced_memory()[1] - before < size / 2


@pytest.mark.parametrize("windows", [-1, 1])
def test_a_window_too_few_or_too_many_is_found(tmp_path: Path, write_sound, windows: int):
    audio = write_sound("short.wav", 9.0, 2000)
    mel = mel_of(audio)
    wrong = mel[:-1] if windows < 0 else np.concatenate([mel, mel[-1:]])
    store = stored(tmp_path / "store", audio, wrong)
    with pytest.raises(InputError, match=r"short\.wav .*\(off by inf dB\)"):
        verify_mel(store, store, LogMel(SIGNAL), full=True, workers=1)


@pytest.mark.parametrize(("wrong", "shown"), [(np.nan, "nan"), (0.0, r"\d+\.\d\d")])
def test_one_wrong_number_in_the_last_window_is_found(
    tmp_path: Path, write_sound, wrong: float, shown: str
):
    audio = write_sound("short.wav", 9.0, 2000)
    mel = mel_of(audio)
    mel[-1, -1, -1] = wrong
    store = stored(tmp_path / "store", audio, mel)
    with pytest.raises(InputError, match=rf"off by {shown} dB"):
        verify_mel(store, store, LogMel(SIGNAL), full=True, workers=1)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Stopped(signal.SIGTERM)])
def test_a_stopped_build_says_what_is_kept(
    stop: BaseException,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LOG, "disabled", False)  # as Hydra leaves it
    caplog.set_level("INFO", LOG.name)
    with pytest.raises(type(stop)), explain_interruption(BuildConfig(source="w", out="s")):
        raise stop
    assert "s: nothing of this build" in caplog.text


@pytest.mark.parametrize(
    ("verify", "remark"), [("sample", "a sample of"), ("full", "every recording")]
)
def test_what_was_verified_is_told(config, verify: str, remark: str):
    report = build_store(config(verify=verify))
    assert report.remarks[-1].startswith("Verified: ")
    assert remark in report.remarks[-1]


def test_the_demo_is_split_by_site_and_the_callers_settings_stay(config):
    demo = DemoConfig(sites=6, recordings_per_site=2, duration_s=0.5)
    settings = config(source="demo", demo=demo, signal=SignalConfig(), verify="off")
    report = build_store(settings)
    assert any("(split.group_by=[site])" in remark for remark in report.remarks)
    assert settings.split == SplitConfig()
    site_of = {row["site"]: row["split"] for row in report.rows}
    assert all(row["split"] == site_of[row["site"]] for row in report.rows)


def test_a_store_that_holds_its_source_is_not_replaced(config, tmp_path: Path):
    demo = DemoConfig(sites=6, recordings_per_site=2, duration_s=0.5)
    out = build_store(config(source="demo", demo=demo, signal=SignalConfig(), verify="off")).out
    held = sorted(out.rglob("*"))
    rows = [
        f"{path},{('leak', 'no')[number % 2]}\n" for number, path in enumerate(out.rglob("*.wav"))
    ]
    (tmp_path / "list.csv").write_text("".join(["path,label\n", *rows]))
    for source in (out / "manifest.csv", tmp_path / "list.csv"):
        with pytest.raises(InputError, match="would be deleted"):
            build_store(config(source=str(source), overwrite=True, verify="off"))
    assert sorted(out.rglob("*")) == held


def test_mel_that_cannot_be_computed_is_refused_before_any_work(config, tmp_path: Path):
    with pytest.raises(SettingsError, match="hold no FFT bin"):
        build_store(config(signal=SignalConfig(2000, 400, 200, 100, 50, n_mels=64, fmin_hz=0.0)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio"]


def test_a_group_column_stays_when_its_recordings_are_left_out(
    config, source: Path, tmp_path: Path
):
    leak, quiet = sorted(source.rglob("*.wav"))[0], sorted(source.rglob("*.wav"))[-1]
    quiet.write_bytes(leak.read_bytes())  # one sound with two labels: both are left out
    rows = ["path,label,split,site"]
    for number, path in enumerate(sorted(source.rglob("*.wav"))):
        site = "north" if path in (leak, quiet) else ""
        rows.append(
            f"{path},{path.parent.name},{'train' if site else ('train', 'val')[number % 2]},{site}"
        )
    (tmp_path / "list.csv").write_text("\n".join(rows))
    report = build_store(config(source=str(tmp_path / "list.csv"), verify="off"))
    split = open_leakdet_split(report.out, "train")
    assert split.groups["site"].tolist() == [""] * split.recordings
