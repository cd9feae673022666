"""Recordings behind URLs, from predict and build to their results, beside those of local files."""

import csv
import io
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import numpy as np
import pytest
import soundfile
from tests.remote_stores import FlakyStore

from leakdet.building.builder import build_store
from leakdet.config import BuildConfig, SignalConfig
from leakdet.storage.opening import open_split
from leakdet.tables.read import read_rows

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


def test_a_manifest_of_urls_or_behind_one_makes_the_store_of_the_local_one(
    audio: Path, flaky: type[FlakyStore], s3: Any, tmp_path: Path
) -> None:
    files = sorted(audio.rglob("*.wav"))
    names = [path.relative_to(audio).as_posix() for path in files]
    rows = [f"{name},{name.split('/')[0]},{['train', 'val', 'test'][at % 3]},mill {at % 4}"
            for at, name in enumerate(names)]  # fmt: skip
    text, remote = "path,label,split,site\n", "flaky://net/audio"
    (audio / "list.csv").write_text(text + "\n".join(rows))
    (tmp_path / "urls.csv").write_text(text + "\n".join(f"{remote}/{row}" for row in rows))
    for name in [*names, "list.csv"]:
        for store, key in ((fsspec.filesystem("flaky"), "/net"), (s3, "network")):
            store.pipe_file(f"{key}/audio/{name}", (audio / name).read_bytes())
    flaky.failures[:] = [TimeoutError()] * 2  # passes by

    def built(source: object, out: str) -> dict[str, Any]:
        report = build_store(
            BuildConfig(source=str(source), out=str(tmp_path / out), signal=SIGNAL)
        )
        assert report.left_out == []
        return {split: open_split(tmp_path / out, split) for split in ("train", "val", "test")}

    local = built(audio / "list.csv", "local")
    for source, start, prefix in (
        (tmp_path / "urls.csv", remote, f"{remote}/"),
        (f"{remote}/list.csv", remote, ""),
        ("s3://network/audio/list.csv", "s3://network/audio", ""),
    ):
        for split, other in built(source, f"of {start}{prefix}".replace("/", "_")).items():
            same = local[split]
            ids = [identity.removeprefix(prefix) for identity in other.recording_ids]
            assert ids == list(same.recording_ids)
            assert [f"{start}/{identity}" for identity in ids] == list(other.texts("path"))
            for column in ("content_sha256", "group/site"):
                np.testing.assert_array_equal(other.texts(column), same.texts(column))
            np.testing.assert_array_equal(other.read(0, 10), same.read(0, 10))


def test_a_manifest_url_that_gives_none_is_told_in_a_sentence(
    flaky: type[FlakyStore], door: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, original = fsspec.filesystem("flaky"), FlakyStore.cat_file
    store.pipe_file("/net/film.csv", bytes(100))
    store.pipe_file("/net/secret.csv", b"path,label\na.wav,LEAK\n")

    def forbidding(self: Any, path: str, *ends: Any, **how: Any) -> bytes:
        if path.endswith("secret.csv"):
            raise PermissionError("Access Denied")
        return original(self, path, *ends, **how)

    monkeypatch.setattr(FlakyStore, "cat_file", forbidding)
    for name, sentence in (
        ("none.csv", "no such"),
        ("secret.csv", r"\(Access Denied\)"),
        ("film.csv", "CSV UTF-8."),
    ):
        answer = door("build", f"source=flaky://net/{name}", "out=store", cwd=tmp_path)
        assert answer.returncode == 2
        assert re.search(f"flaky://net/{name}: .*{sentence}", " ".join(answer.stderr.split()))
    assert list(tmp_path.iterdir()) == []


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
    assert "no such file" in remote[4]["error"]
    # one for the model and one for each file
    assert flaky.requests["cat_file"] == 6


def test_parts_whose_files_were_not_reached_are_removed_and_scored_again(
    trained: Any, flaky: type[FlakyStore], door: Any, tmp_path: Path
) -> None:
    sound = min(trained.store.rglob("*.wav")).read_bytes()
    for number in range(6):
        fsspec.filesystem("flaky").pipe_file(f"/net/night/{number}.wav", sound)
    command = ("predict", trained.model, "flaky://net/night", "--parts", "my parts")
    original, lost = FlakyStore.cat_file, {"3.wav": TimeoutError(), "4.wav": PermissionError()}

    def losing(self: Any, path: str, *ends: Any, **how: Any) -> bytes:
        if error := lost.get(path.rpartition("/")[2]):
            raise error
        return original(self, path, *ends, **how)

    with (
        mock.patch.object(FlakyStore, "cat_file", losing),
        mock.patch("leakdet.scoring.parts.BATCH_FILES", 2),
    ):
        assert door(*command, cwd=tmp_path).returncode == 1
    page = (Path(__file__).parents[2] / "docs/parts.md").read_text()
    (find,) = re.findall(r"^find .*$", page, re.MULTILINE)
    words = ["my parts" if word == "verdicts" else word for word in shlex.split(find)]
    removed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(removed.stdout.splitlines()) == [
        f"my parts/part-0000{number}.csv" for number in (1, 2)
    ]
    answer = door(*command, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert re.search("2 not finished.*scored again", answer.stderr)
    rows = read_rows(tmp_path / "my parts", ["path", "error"])
    assert [Path(path).name for path in rows["path"]] == [f"{number}.wav" for number in range(6)]
    assert {*rows["error"]} == {""}


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
        ((model, "s3://nowhere/night"), "s3://nowhere/night: there is no such"),
        (("s3://network/none", night), "s3://network/none: there is no such model"),
        ((model, night, "--out", "s3://nowhere/v.csv"), "--out s3://nowhere/v.csv: there is no"),
    ):
        answer = door("predict", *arguments, cwd=tmp_path)
        assert (answer.returncode, sentence in answer.stderr) == (2, True), answer.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3.clear_instance_cache()
    answer = door("predict", trained.model, night, cwd=tmp_path)
    assert answer.returncode == 2
    assert f"{night}: not reached in 5 tries" in answer.stderr
