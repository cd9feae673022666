"""A whole run of predict: what it prints, writes and returns."""

import sys
from pathlib import Path

import pytest

from leakdet._exit_codes import DONE, PARTLY
from leakdet.errors import InputError
from leakdet.predict import parser
from leakdet.prediction_run import predict


def run(*words: str) -> int:
    return predict(parser().parse_args([*words, "--device", "cpu"]))


def test_the_exit_code_says_whether_all_was_scored(
    example_files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(example_files.model), str(example_files.recording)) == DONE
    assert len(capsys.readouterr().out.splitlines()) == 2
    (tmp_path / "bad.wav").write_text("no sound")
    assert run(str(example_files.model), str(tmp_path)) == PARTLY
    assert "bad.wav,,,,0" in capsys.readouterr().out


def test_what_cannot_be_is_refused_before_torch_is_loaded(
    example_files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "leakdet.scoring.audio_detector", None)
    model, recording = str(example_files.model), str(example_files.recording)
    for words, message in (
        ((model, str(tmp_path)), "no audio found"),
        ((str(tmp_path / "none.safetensors"), recording), "none.safetensors"),
        ((model, recording, "--out", str(tmp_path / "no/rows.csv")), "there is no folder"),
    ):
        with pytest.raises(InputError, match=message):
            run(*words)
