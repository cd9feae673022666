import csv
import json
from pathlib import Path

import pytest

from leakdet.crossvalidation.fold_files import (
    read_fold,
    record_settings,
    write_fold,
    write_tables,
)
from leakdet.errors import InputError


def test_a_fold_is_read_as_it_was_written_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    outcome = {"scores": {"a.wav": 0.1 + 0.2}, "fold": "pipe 1", "seed": 0}
    outcome |= {"windows": {"a.wav": [0.3]}, "decision_rule": {"threshold": 0.5}}
    write_fold(tmp_path / "folds" / "x.json", outcome)
    assert read_fold(tmp_path / "folds" / "x.json") == outcome
    assert [path.name for path in (tmp_path / "folds").iterdir()] == ["x.json"]


@pytest.mark.parametrize("text", ["", '{"scores": ', "[]", '{"fold": "pipe 1", "seed": 0}'])
def test_a_file_that_is_no_outcome_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.json: not the outcome of a fold.*Remove it"):
        read_fold(path)


def test_a_changed_digit_of_a_fold_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_fold(path, dict.fromkeys(("fold", "seed", "windows", "decision_rule", "scores"), 0.25))
    path.write_text(path.read_text().replace("0.25", "0.75"))
    with pytest.raises(InputError, match=r"x\.json: damaged: .*Remove it, and it is run again"):
        read_fold(path)


def test_settings_of_a_folder_may_not_change(tmp_path: Path) -> None:
    settings = {"settings": {"optimizer": {"lr": 0.1}, "seed": 0}, "recordings": 8}
    record_settings(tmp_path, settings)
    record_settings(tmp_path, settings)
    changed = {"settings": {"optimizer": {"lr": 0.2}, "seed": 0}, "recordings": 9}
    with pytest.raises(InputError, match=r"\(recordings, settings\.optimizer\.lr differ\)"):
        record_settings(tmp_path, changed)
    with pytest.raises(InputError, match=r"\(settings\.optimizer differ\)"):
        record_settings(tmp_path, {"settings": {"seed": 0}, "recordings": 8})


def test_tables_hold_rows_and_results(tmp_path: Path) -> None:
    rows = [{"protocol": "p", "leak_prob": 0.25}, {"protocol": "p", "leak_prob": 0.75}]
    content = write_tables(tmp_path, {"p": {"folds": []}}, rows, settings={"seed": 1})
    with (tmp_path / "predictions.csv").open(newline="", encoding="utf-8") as file:
        assert [float(row["leak_prob"]) for row in csv.DictReader(file)] == [0.25, 0.75]
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == content
    assert content["crossval"] == {"p": {"folds": []}}
    assert content["settings"] == {"seed": 1}
    assert content["splits"] == []
