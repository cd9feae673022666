"""Where rows are, and which model scored them."""

import json
import shutil
from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.model_card import file_hash
from leakdet.worklist_sources import find_sources


def test_the_model_is_found_where_the_rows_say(
    night_rows, example_files, tmp_path: Path, messages
) -> None:
    model = tmp_path / "model.safetensors"
    shutil.copy(example_files.model, model)
    rows = night_rows(model=file_hash(model))
    told = {
        "model": {"hash": file_hash(model), "path": str(model)},
        "decision_rule": {"threshold": 0.4},
    }
    (tmp_path / "rows.csv.json").write_text(json.dumps(told))
    assert find_sources([rows], None).model == model
    moved = model.rename(tmp_path / "moved.safetensors")
    sources = find_sources([rows], None)
    assert (sources.model, sources.threshold) == (None, 0.4)
    assert "it is no longer there; name it with --model" in messages.text
    assert find_sources([rows], moved).model == moved


def test_another_model_than_that_of_the_rows_is_refused(night_rows, example_files) -> None:
    with pytest.raises(InputError, match="and the rows were scored by abc; give the model that"):
        find_sources([night_rows()], example_files.model)


def test_of_two_models_the_one_of_the_latest_recording_counts(night_rows, tmp_path: Path) -> None:
    places = [
        night_rows("new.csv", model="new"),
        night_rows("old.csv", model="old", days_ago=9),
    ]
    for order in (places, places[::-1]):
        assert find_sources(order, None).model_hash == "new"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("no.csv", None, "cannot be read"),
        ("nowhere", None, "there is no such folder, and no such file"),
        ("rows.txt", "path\n", "name a folder of parts"),
        ("other.csv", "a,b\n1,2\n", "no rows of leakdet predict"),
        ("empty", None, "there are no parts in this folder"),
    ],
)
def test_what_holds_no_rows_is_refused(
    tmp_path: Path, name: str, text: str | None, reason: str
) -> None:
    (tmp_path / "empty").mkdir()
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=reason):
        find_sources([tmp_path / name], None)
