"""Confirmed recordings from tables and folders."""

from pathlib import Path

import pytest

from leakdet.errors import InputError, SettingsError
from leakdet.learning.confirmed import read_confirmed, require_both_classes
from leakdet.learning.vocabulary import Vocabulary

WORDS = Vocabulary(("leak", "no_leak"), ("leak",))


def test_rows_of_predict_with_labels_filled_in_are_read(tmp_path: Path, write_sound) -> None:
    for name in "abc":
        write_sound(f"{name}.wav", 0.1)
    table = tmp_path / "c.csv"
    table.write_text(
        "path,label,decision,leak_prob,site,recorded_at\n"
        "a.wav,leak,no_leak,0.2,B7,2026-11-20\n"
        "b.wav,dry_hole,leak,0.9,B7,2026-11-21\n"
        "c.wav,,leak,0.8,B8,2026-11-21\n"
        "gone.wav,leak,leak,0.8,B8,2026-11-21\n"
    )
    confirmed = read_confirmed(table, WORDS)
    found = {row.recording_id: row for row in confirmed.source.recordings}
    assert {name: row.label for name, row in found.items()} == {"a.wav": "leak", "b.wav": "no_leak"}
    assert found["a.wav"].groups == {"site": "B7", "recorded_at": "2026-11-20"}
    assert confirmed.unconfirmed == 1
    (gone,) = confirmed.source.left_out
    assert "gone.wav" in gone.path
    assert "no such file" in gone.reason


def test_a_folder_names_labels_too(write_sound, tmp_path: Path) -> None:
    write_sound("new/leak/a.wav", 0.1)
    write_sound("new/dry_hole/b.wav", 0.1)
    recordings = read_confirmed(tmp_path / "new", WORDS).source.recordings
    assert sorted(row.label for row in recordings) == ["leak", "no_leak"]


def test_a_label_that_means_nothing_is_refused_with_its_recording(write_sound, tmp_path) -> None:
    write_sound("a.wav", 0.1)
    table = tmp_path / "c.csv"
    table.write_text("path,label\na.wav,perhaps\n")
    with pytest.raises(InputError, match=r"a.wav: the label 'perhaps'"):
        read_confirmed(table, WORDS)


@pytest.mark.parametrize("labels", [[], ["leak"] * 9, ["leak", "no_leak", "no_leak"]])
def test_one_class_only_is_refused_with_the_reason(labels: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"at least 2 of each \(learn.min_per_class\)"):
        require_both_classes(labels, WORDS, 2, "c.csv")
