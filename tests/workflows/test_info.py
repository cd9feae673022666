"""`leakdet info`."""

import json
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from leakdet.info import main


def test_it_prints_a_card_for_each_path(trained, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(trained.folder), str(trained.store)]) == 0
    run, store = capsys.readouterr().out.split("\n\n")
    assert run.startswith("run ")
    assert store.startswith("store ")


def test_json_is_an_object_a_line(trained, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", str(trained.folder), str(trained.store)]) == 0
    run, store = map(json.loads, capsys.readouterr().out.splitlines())
    assert (run["kind"], run["path"], run["state"]) == ("run", str(trained.folder), "finished")
    assert run["model"]["test"]["recording"]["n"] == 12
    assert store["train"]["recordings"] == 36


def test_an_unknown_path_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: nothing: ")


@pytest.mark.parametrize("how", [[], ["--markdown"], ["--json"]])
def test_a_model_behind_a_url_is_described_as_one_on_the_disk(
    how: list[str], trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local, url = tmp_path / "pipes.safetensors", "memory://net/pipes.safetensors"
    local.write_bytes(trained.model.read_bytes())
    fsspec.filesystem("memory").pipe_file("/net/pipes.safetensors", local.read_bytes())
    assert main([str(local), *how]) == 0
    told = capsys.readouterr().out.replace(str(local), url)
    assert main([url, *how]) == 0
    assert capsys.readouterr().out.split() == told.split()  # lines break where paths end


@pytest.mark.parametrize("how", [[], ["--markdown"], ["--json"]])
def test_errors_name_the_url(how: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    fsspec.filesystem("memory").pipe_file("/net/damaged.safetensors", b"no model")
    for name, reason in (("none", "there is no such"), ("damaged", "not a whole")):
        assert main([f"memory://net/{name}.safetensors", *how]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"error: memory://net/{name}.safetensors: {reason}")


def test_a_model_is_described_without_torch(trained) -> None:
    code = (
        f"import sys; from leakdet.info import main; main([{str(trained.folder)!r}]); "
        "sys.exit('torch' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode
        == 0
    )
