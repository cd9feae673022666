import json
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.remote_stores import FlakyStore

from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile
from leakdet.storage import model_card
from leakdet.storage.model_card import (
    CARD_KEY,
    FORMAT_VERSION,
    LATEST,
    find_model,
    has_checksums,
    model_in,
    model_kind,
    read_card,
    require_model,
    runs_in,
)


def test_a_missing_package_is_named_with_its_remedy(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(model_card.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"onnx, .*pip install .*\[export\]"):
        model_card.require_packages()
    for name in ("model.onnx", "MODEL.ONNX"):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match=r"need onnx, onnxruntime, which are not installed"):
            require_model(tmp_path / name)


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
    with pytest.raises(InputError, match=r"no model .*model\.safetensors"):
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
    with pytest.raises(InputError, match=r"figures: .*no model"):
        require_model(empty)


def test_a_name_within_runs_is_recognised(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent.parent)
    with pytest.raises(InputError, match=r"latest: .* Did you mean runs/train/latest\?"):
        require_model(Path("latest"))
    with pytest.raises(InputError, match=r"newest: .*no such model"):
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
        with pytest.raises(InputError, match=rf"init_from=flaky://net/{name}: .*no such"):
            model_in(RemoteFile(f"flaky://net/{name}"), "init_from=")
    flaky.failures[:] = [PermissionError("Access Denied")]
    with pytest.raises(InputError, match=r"flaky://net/run: access is forbidden"):
        require_model(run)


def written(path: Path, card: object) -> Path:
    save_file({"a": np.zeros(2)}, path, metadata={CARD_KEY: json.dumps(card)})
    return path


def test_it_is_what_the_model_file_holds(example_files) -> None:
    card = read_card(example_files.model)
    assert card["network"]["name"] == "linear"
    assert card["format_version"] == FORMAT_VERSION


def test_it_is_read_without_torch(example_files) -> None:
    code = (
        "import sys; from pathlib import Path; from leakdet.storage.model_card import read_card; "
        f"read_card(Path({str(example_files.model)!r})); print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ([1], "is list, not an object"),
        ({"format_version": 99}, "its format version is 99"),
        ({"format_version": FORMAT_VERSION}, "lacks \\['signal'"),
    ],
)
def test_another_description_is_refused(card: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        read_card(written(tmp_path / "m.safetensors", card))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(InputError, match="no such model file"):
        read_card(path)
    path.write_bytes(b"no safetensors")
    with pytest.raises(InputError, match="not a whole"):
        read_card(path)
    save_file({"a": np.zeros(2)}, path)
    with pytest.raises(InputError, match="not a model"):
        read_card(path)


def test_a_changed_byte_is_noticed_wherever_it_is(example_files, tmp_path: Path) -> None:
    """In the header, the description, or a weight; none of them changes without a word."""
    whole, path = example_files.model.read_bytes(), tmp_path / "m.safetensors"
    seal = whole.index(b'"leakdet_blake2b"')
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        if seal <= at < seal + 53:
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match=r"m\.safetensors: .*Copy it again"):
            read_card(path)


def test_files_without_a_checksum_are_read_and_known_as_such(example_files, tmp_path: Path) -> None:
    card = read_card(example_files.model)
    older = written(tmp_path / "m.safetensors", card)
    assert read_card(older) == card
    assert not has_checksums(older)
    assert has_checksums(example_files.model)
