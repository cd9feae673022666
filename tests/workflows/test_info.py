"""`leakdet info`."""

import subprocess
import sys

import pytest

from leakdet.info import main


def test_it_prints_a_card_for_each_path(trained, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(trained.folder), str(trained.store)]) == 0
    run, store = capsys.readouterr().out.split("\n\n")
    assert run.startswith("run ")
    assert store.startswith("store ")


def test_an_unknown_path_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: nothing: there is no such file")


def test_a_model_is_described_without_torch(trained) -> None:
    code = (
        f"import sys; from leakdet.info import main; main([{str(trained.folder)!r}]); "
        "sys.exit('torch' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode
        == 0
    )
