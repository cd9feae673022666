"""A whole run of predict: what it prints, writes and returns."""

import sys
from pathlib import Path

import pytest
import soundfile

from leakdet.core.errors import InputError, SettingsError
from leakdet.core.process import DONE, PARTLY
from leakdet.predict import parser
from leakdet.runs.prediction import predict


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
    monkeypatch.setitem(sys.modules, "leakdet.scoring.detector", None)
    model, recording = str(example_files.model), str(example_files.recording)
    for words, message in (
        ((model, str(tmp_path)), "no audio found"),
        ((str(tmp_path / "none.safetensors"), recording), "none.safetensors"),
        ((model, recording, "--out", str(tmp_path / "no/rows.csv")), "there is no folder"),
    ):
        with pytest.raises(InputError, match=message):
            run(*words)


def test_labels_and_clips_are_written_beside_the_rows(
    example_files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ("--labels", "labels", "--clips", "clips", "--clip-seconds", "1")
    call = (str(example_files.model), str(example_files.recording), "--threshold", "0")
    assert run(*call, *files) == DONE
    (labels,) = (tmp_path / "labels").iterdir()
    assert labels.name == f"{example_files.recording.name}.selections.txt"
    assert len(labels.read_text().splitlines()) == 2
    table, clip = sorted((tmp_path / "clips").iterdir(), key=lambda path: path.suffix)
    assert (table.name, clip.name[:2]) == ("clips.csv", "1_")
    assert soundfile.info(clip).duration == pytest.approx(1.0)
    with pytest.raises(SettingsError, match="nothing is replaced"):
        run(*call, *files)

    def gone(*_: object) -> None:
        raise InputError("the file cannot be opened")

    monkeypatch.setattr("leakdet.scoring.extras.read_piece", gone)
    assert run(*call, "--clips", "more") == PARTLY
