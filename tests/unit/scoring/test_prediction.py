"""A run of predict: rows, counts and the sidecar, also where it is interrupted."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakdet.scoring.audio_detector import Detector, load_detector
from leakdet.scoring.file_list import FileList, list_files
from leakdet.scoring.listed_recording import Listing
from leakdet.scoring.prediction import write_verdicts
from leakdet.scoring.verdict import Verdict


@pytest.fixture
def detector(example_files) -> Detector:
    return load_detector(example_files.model, device="cpu")


def test_rows_counts_and_sidecar_agree(detector, example_files, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_text("no sound")
    paths, out = [str(example_files.recording), str(tmp_path / "bad.wav")], tmp_path / "rows.csv"
    counts = write_verdicts(detector, paths, list_files(paths), out)
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    content = json.loads((tmp_path / "rows.csv.json").read_text())
    assert (len(rows), counts.total, content["recordings"]) == (2, 2, 2)
    assert {row["model"] for row in rows} == {content["model"]["hash"]}
    assert content["decisions"]["failed"] == 1
    settings = {"format": "csv", "windows": False, "workers": 0, "device": "cpu"}
    assert content["settings"] == settings


def test_an_interrupted_run_keeps_its_rows_and_says_so(
    detector, example_files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Iterator[Verdict]:
        yield Verdict("a.wav", "leak", 0.9, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(detector, "predict_listed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_verdicts(detector, ["in"], FileList([], Listing([])), tmp_path / "rows.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv.partial"]
    assert "a.wav,leak" in (tmp_path / "rows.csv.partial").read_text()


def test_without_a_file_nothing_is_written_beside_it(
    detector, example_files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [str(example_files.recording)]
    write_verdicts(detector, paths, list_files(paths))
    assert capsys.readouterr().out.startswith("path,decision,")
    assert list(tmp_path.iterdir()) == []
