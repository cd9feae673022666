"""Recordings behind URLs, from predict and build to their results, beside those of local files."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import soundfile
from tests.remote_stores import FlakyStore

from leakdet.building.builder import build_store
from leakdet.config import BuildConfig, SignalConfig
from leakdet.storage.opening import open_split

SIGNAL = SignalConfig(2000, 400, 200, 100, 50, n_mels=8, fmin_hz=0.0)


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    """24 recordings in two label folders."""
    for number in range(24):
        path = tmp_path / "audio" / ["LEAK", "NOLEAK"][number % 2] / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        sound = 0.1 * np.random.default_rng(number).standard_normal(1000 + 200 * number)
        soundfile.write(path, sound, 2000)
    return tmp_path / "audio"


def test_a_build_from_a_url_makes_the_store_of_the_local_folder(
    audio: Path, flaky: type[FlakyStore], tmp_path: Path
) -> None:
    store = fsspec.filesystem("flaky")
    for path in audio.rglob("*.wav"):
        store.pipe_file(f"/net/audio/{path.relative_to(audio)}", path.read_bytes())
    flaky.failures[:] = [TimeoutError()] * 2  # passes by
    for source, out in ((str(audio), "local"), ("flaky://net/audio", "remote")):
        report = build_store(BuildConfig(source=source, out=str(tmp_path / out), signal=SIGNAL))
        assert report.left_out == []
    for split in ("train", "val", "test"):
        local, remote = (open_split(tmp_path / out, split) for out in ("local", "remote"))
        np.testing.assert_array_equal(local.recording_ids, remote.recording_ids)
        np.testing.assert_array_equal(local.texts("content_sha256"), remote.texts("content_sha256"))
        np.testing.assert_array_equal(local.read(0, 10), remote.read(0, 10))
        assert all(str(path).startswith("flaky://net/audio/") for path in remote.texts("path"))


def test_a_file_that_cannot_be_had_is_left_out_of_a_build(
    audio: Path, flaky: type[FlakyStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fsspec.filesystem("flaky")
    for path in audio.rglob("*.wav"):
        store.pipe_file(f"/net/audio/{path.relative_to(audio)}", path.read_bytes())
    original = FlakyStore.cat_file

    def forbidding(self: Any, path: str, *ends: Any, **how: Any) -> bytes:
        if path.endswith("LEAK/0.wav"):
            raise PermissionError("Access Denied")
        return original(self, path, *ends, **how)

    monkeypatch.setattr(FlakyStore, "cat_file", forbidding)
    config = BuildConfig(source="flaky://net/audio", out=str(tmp_path / "store"), signal=SIGNAL)
    (left_out,) = build_store(config).left_out
    assert left_out.path == "LEAK/0.wav"
    assert "access is forbidden" in left_out.reason


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predict_reads_model_and_recordings_from_urls(
    trained: Any, flaky: type[FlakyStore], door: Any, tmp_path: Path
) -> None:
    store = fsspec.filesystem("flaky")
    recordings = sorted(trained.store.rglob("*.wav"))[:3]
    for number, path in enumerate(recordings):
        store.pipe_file(f"/net/night/{number}.wav", path.read_bytes())
    store.pipe_file("/net/night/3.wav", b"no sound")
    store.pipe_file("/net/run/model.safetensors", trained.model.read_bytes())
    (tmp_path / "list.csv").write_text(
        "path,site\nflaky://net/night/1.wav,mill\nflaky://net/x.wav,\n"
    )
    local = rows_of(door("predict", trained.model, *recordings, cwd=tmp_path).stdout)
    flaky.requests.clear()
    flaky.failures[:] = [TimeoutError()]
    answer = door("predict", "flaky://net/run", "flaky://net/night", "list.csv", cwd=tmp_path)
    assert answer.returncode == 1, answer.stderr
    remote = rows_of(answer.stdout)
    assert [row["path"] for row in remote] == [
        *(f"flaky://net/night/{number}.wav" for number in range(4)),
        "flaky://net/x.wav",
    ]
    for one, other in zip(local, remote[:3], strict=True):
        assert {**one, "path": "", "site": ""} == {**other, "path": "", "site": ""}
    assert remote[3]["error"].startswith("not readable as audio")
    assert remote[4]["error"] == "there is no such file, folder or bucket"
    # one for the model and one for each file
    assert flaky.requests["cat_file"] == 6


def test_rows_and_parts_of_an_s3_server(
    trained: Any, s3: Any, door: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, path in enumerate(sorted(trained.store.rglob("*.wav"))[:2]):
        s3.pipe_file(f"network/2026-05-17/mill {number}.wav", path.read_bytes())
    s3.pipe_file("network/model.safetensors", trained.model.read_bytes())
    s3.pipe_file("network/rows/keep.txt", b"")
    model, night, out = (f"s3://network/{name}" for name in
                         ("model.safetensors", "2026-05-17", "rows/verdicts.csv"))  # fmt: skip
    answer = door("predict", model, night, "--out", out, "--windows", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    written = s3.cat_file("network/rows/verdicts.csv").decode()
    assert [row["path"] for row in rows_of(written)] == [f"{night}/mill {n}.wav" for n in (0, 1)]
    facts = json.loads(s3.cat_file("network/rows/verdicts.csv.json"))
    assert (facts["rows"], facts["model"]["path"]) == ("verdicts.csv", model)
    assert sorted(s3.ls("network/rows", detail=False)) == [
        f"network/rows/{name}"
        for name in ("keep.txt", "verdicts.csv", "verdicts.csv.json", "verdicts.windows.csv")
    ]
    answer = door("predict", model, f"{night}/*.wav", "--parts", "parts", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert rows_of((tmp_path / "parts/part-00000.csv").read_text()) == rows_of(written)
    assert list(tmp_path.iterdir()) == [tmp_path / "parts"]
    for arguments, sentence in (
        ((model, "s3://nowhere/night"), "s3://nowhere/night: there is no such file, folder or"),
        (("s3://network/none", night), "s3://network/none: there is no such model file"),
        ((model, night, "--out", "s3://nowhere/v.csv"), "--out s3://nowhere/v.csv: there is no"),
    ):
        answer = door("predict", *arguments, cwd=tmp_path)
        assert (answer.returncode, sentence in answer.stderr) == (2, True), answer.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3.clear_instance_cache()
    answer = door("predict", trained.model, night, cwd=tmp_path)
    assert answer.returncode == 2
    assert f"{night}: not reached in 5 tries" in answer.stderr
