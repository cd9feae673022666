"""A model is found by its file, the folder of its run, or its name within runs/train."""

from pathlib import Path

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet._remote import RemoteFile
from leakdet.errors import InputError
from leakdet.storage.model_place import (
    LATEST,
    find_model,
    model_in,
    model_kind,
    require_model,
    runs_in,
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """runs/train with two runs, and the link to the newest."""
    folder = tmp_path / "runs" / "train"
    for name in ("1", "2"):
        (folder / name).mkdir(parents=True)
        (folder / name / "model.safetensors").touch()
    (folder / LATEST).symlink_to("2")
    return folder


def test_the_folder_of_a_run_stands_for_its_best_model(runs: Path) -> None:
    assert model_in(runs / "1") == require_model(runs / "1") == runs / "1" / "model.safetensors"
    assert model_in(runs / "other.ckpt") == runs / "other.ckpt"
    assert find_model(runs) is None
    (runs / "1" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no model in this folder; a training run has"):
        model_in(runs / "1")
    best = runs / "1" / "checkpoints" / "best_f1.ckpt"
    best.parent.mkdir()
    best.touch()
    assert model_in(runs / "1") == best


def test_a_folder_of_runs_is_answered_with_the_newest_first(runs: Path) -> None:
    for folder in (runs, runs.parent):
        newest, first = runs / LATEST, runs / "1"
        with pytest.raises(
            InputError, match=rf"{folder}: a folder of runs, .*: {newest} \(the newest\), {first}"
        ):
            require_model(folder)
    assert runs_in(runs / "1") == []
    (empty := runs / "1" / "figures").mkdir()
    with pytest.raises(InputError, match="no model in this folder"):
        require_model(empty)


def test_a_name_within_runs_is_recognised(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent.parent)
    with pytest.raises(InputError, match=r"latest: .* Did you mean runs/train/latest\?"):
        require_model(Path("latest"))
    with pytest.raises(InputError, match="there is no such model file"):
        require_model(Path("newest"))


@pytest.mark.parametrize("name", ["a.onnx", "A.ONNX", "a.b.Onnx"])
def test_capitals_do_not_change_the_kind_of_a_model(name: str) -> None:
    assert model_kind(Path("runs.ckpt") / name) == ".onnx"


def test_a_model_behind_a_url(flaky: type[FlakyStore]) -> None:
    store = fsspec.filesystem("flaky")
    store.pipe_file("/net/run/checkpoints/best_f1.ckpt", b"")
    store.pipe_file("/net/own.onnx", b"")
    run = RemoteFile("flaky://net/run")
    assert model_in(run) == run / "checkpoints/best_f1.ckpt"
    store.pipe_file("/net/run/model.safetensors", b"")
    assert require_model(run) == run / "model.safetensors"
    assert model_in(RemoteFile("flaky://net/own.onnx")).suffix == ".onnx"
    for name in ("none", "none.ckpt"):
        with pytest.raises(InputError, match=f"init_from=flaky://net/{name}: there is no such"):
            model_in(RemoteFile(f"flaky://net/{name}"), "init_from=")
    flaky.failures[:] = [PermissionError("Access Denied")]
    with pytest.raises(InputError, match=r"flaky://net/run: access is forbidden"):
        require_model(run)
