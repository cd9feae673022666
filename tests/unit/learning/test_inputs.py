from pathlib import Path

import numpy as np
import pytest

from leakdet.building.sources import SourceRecording
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.labels import LabelMap
from leakdet.learning.inputs import (
    Vocabulary,
    add_recordings,
    contents,
    extract_unverified,
    known_contents,
    read_confirmed,
    recorded_times,
    require_both_classes,
    time_notes,
    without,
)
from leakdet.storage.opening import open_labelled, split_names
from leakdet.storage.views import pooled

STORE = Vocabulary(("ok", "drip"), ("drip",), ("noise",))


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("leak", "drip"),
        ("LEAK", "drip"),
        ("Drip", "drip"),
        ("no_leak", "ok"),
        ("No leak", "ok"),
        ("dry_hole", "ok"),
        ("dry hole", "ok"),
        ("ok", "ok"),
        ("noise", None),
    ],
)
def test_words_of_the_crew_mean_labels_of_the_store(label: str, name: str | None) -> None:
    assert STORE.name_of(label, "here") == name


def test_an_unknown_label_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(InputError, match=r"c.csv, a.wav: the label 'maybe' is none of leak, no_l"):
        STORE.name_of("maybe", "c.csv, a.wav")


def test_of_several_classes_the_word_leak_does_not_say_which() -> None:
    several = Vocabulary(("gasket", "orifice", "ok"), ("gasket", "orifice"))
    with pytest.raises(InputError, match="any of gasket, orifice"):
        several.name_of("leak", "here")
    assert several.name_of("dry_hole", "here") == "ok"


def test_a_model_that_does_not_say_its_labels_has_the_usual_ones() -> None:
    unknown = LabelMap("binary", ("NO_LEAK", "LEAK"), (1,))
    assert Vocabulary.of_model(unknown) == Vocabulary(("leak", "no_leak"), ("leak",))
    told = LabelMap(
        "binary", ("NO_LEAK", "LEAK"), (1,), ("drip",), {"drip": "drip", "ok": "ok", "x": None}
    )
    assert Vocabulary.of_model(told) == Vocabulary(("drip", "ok"), ("drip",), ("x",))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-12-02", "2026-12-02T00:00:00"),
        ("2026-12-02T03:10", "2026-12-02T03:10:00"),
        ("2026-12-02 03:10:05+02:00", "2026-12-02T01:10:05"),
        ("02.12.2026", "2026-12-02T00:00:00"),
        ("2.12.2026 3:10", "2026-12-02T03:10:00"),
        ("12/02/2026", "NaT"),
        ("", "NaT"),
    ],
)
def test_a_time_is_read_where_it_can_mean_one_thing_only(text: str, time: str) -> None:
    (found,) = recorded_times({"recorded_at": np.array([text])}, 1)
    assert str(found) == time


def test_what_is_not_understood_is_named() -> None:
    groups = {"recorded_at": np.array(["12/02/2026", "2026-12-02", ""])}
    (note,) = time_notes(groups)
    assert note.startswith("recorded_at 12/02/2026 ")
    assert time_notes({"recorded_at": np.array(["2026-12-02", ""])}) == []
    assert time_notes({"site": np.array(["a"])}) == []


def test_the_first_column_counts_that_tells_a_time() -> None:
    groups = {"time": np.array(["03:10"]), "date": np.array(["2026-12-02"])}
    assert str(recorded_times(groups, 1)[0]) == "2026-12-02T00:00:00"
    assert time_notes(groups) == []
    assert np.isnat(recorded_times({"site": np.array(["a"])}, 1)).all()


CONFIRMED_WORDS = Vocabulary(("leak", "no_leak"), ("leak",))


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
    confirmed = read_confirmed(table, CONFIRMED_WORDS)
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
    recordings = read_confirmed(tmp_path / "new", CONFIRMED_WORDS).source.recordings
    assert sorted(row.label for row in recordings) == ["leak", "no_leak"]


def test_a_label_that_means_nothing_is_refused_with_its_recording(write_sound, tmp_path) -> None:
    write_sound("a.wav", 0.1)
    table = tmp_path / "c.csv"
    table.write_text("path,label\na.wav,perhaps\n")
    with pytest.raises(InputError, match=r"a.wav: the label 'perhaps'"):
        read_confirmed(table, CONFIRMED_WORDS)


@pytest.mark.parametrize("labels", [[], ["leak"] * 9, ["leak", "no_leak", "no_leak"]])
def test_one_class_only_is_refused_with_the_reason(labels: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"at least 2 .*\(learn.min_per_class\)"):
        require_both_classes(labels, CONFIRMED_WORDS, 2, "c.csv")


UNVERIFIED_WORDS = Vocabulary(("drip", "ok"), ("drip",))
SIGNAL = SignalConfig(fmax_hz=8000.0)


def test_they_are_read_but_no_split_of_the_store(tmp_path: Path, write_sound) -> None:
    store = tmp_path / "added"
    store.mkdir()
    listed = [
        SourceRecording(name, write_sound(name, 2.0, seed=seed), "?", groups={"site": "B7"})
        for seed, name in enumerate(("a.wav", "b.wav"))
    ]
    (tmp_path / "copy.wav").write_bytes((tmp_path / "a.wav").read_bytes())
    (tmp_path / "broken.wav").write_bytes(b"RIFF nothing")
    listed += [SourceRecording(n, tmp_path / n, "?") for n in ("copy.wav", "broken.wav")]
    split, left_out = extract_unverified(listed, store, SIGNAL, UNVERIFIED_WORDS, [])
    assert split is not None
    assert split.recording_ids.tolist() == ["a.wav", "b.wav"]
    assert split.groups["site"].tolist() == ["B7", "B7"]
    assert split.label_names == ["drip", "ok"]
    assert {row.path for row in left_out} == {"copy.wav", "broken.wav"}
    assert split_names(store) == []
    known = split.texts("content_sha256").tolist()
    (tmp_path / "again").mkdir()
    none, left_out = extract_unverified(
        listed[:2], tmp_path / "again", SIGNAL, UNVERIFIED_WORDS, known
    )
    assert none is None
    assert len(left_out) == 2
    assert extract_unverified([], store, SIGNAL, UNVERIFIED_WORDS, []) == (None, [])


WORDS = Vocabulary(("drip", "ok"), ("drip",))


@pytest.fixture
def digs(tmp_path: Path, write_sound) -> Path:
    """Two leaks and two quiet recordings that can be read, and what cannot."""
    for number in range(4):
        write_sound(f"{number}.wav", 2.0, seed=number)
    (tmp_path / "copy.wav").write_bytes((tmp_path / "0.wav").read_bytes())
    (tmp_path / "broken.wav").write_bytes(b"RIFF nothing")
    table = tmp_path / "c.csv"
    rows = ["0.wav,leak", "1.wav,leak", "2.wav,dry_hole", "3.wav,ok", "copy.wav,leak"]
    rows += ["broken.wav,leak", "0.wav,leak", "gone.wav,"]
    table.write_text("path,label\n" + "\n".join(rows) + "\n")
    return table


def test_sound_is_extracted_and_what_cannot_be_used_is_told(digs: Path, tmp_path: Path) -> None:
    signal = SignalConfig(fmax_hz=8000.0)
    added = add_recordings(digs, tmp_path / "added", signal, WORDS, 2)
    assert added.split.recording_ids.tolist() == ["0.wav", "1.wav", "2.wav", "3.wav"]
    assert added.split.is_leak.tolist() == [True, True, False, False]
    assert added.split.label_names == ["drip", "ok"]
    assert added.split.signal == signal
    reasons = {row.path: row.reason for row in added.left_out}
    assert reasons["copy.wav"].endswith("same sound as 0.wav")
    assert reasons["0.wav"] == "listed twice"
    assert "broken.wav" in reasons
    assert added.unconfirmed == 1
    again = add_recordings(digs, tmp_path / "added", signal, WORDS, 2)
    assert again.split.recordings == 4


def test_too_few_that_can_be_read_are_refused(digs: Path, tmp_path: Path) -> None:
    (tmp_path / "3.wav").write_bytes(b"RIFF nothing")
    signal = SignalConfig(fmax_hz=8000.0)
    with pytest.raises(SettingsError, match=r"2 .*with a leak and 1 without"):
        add_recordings(digs, tmp_path / "added", signal, WORDS, 2)


def test_where_no_file_is_found_the_error_says_so(tmp_path: Path) -> None:
    table = tmp_path / "c.csv"
    table.write_text("path,label\n" + "".join(f"{n}.wav,leak\n" for n in range(4)))
    with pytest.raises(SettingsError, match=r"4 .*cannot be used.*no such file"):
        add_recordings(table, tmp_path / "added", SignalConfig(), WORDS, 2)


def test_a_sound_with_two_labels_counts_for_neither(tmp_path: Path, write_sound) -> None:
    for number in range(4):
        write_sound(f"{number}.wav", 2.0, seed=number)
    (tmp_path / "copy.wav").write_bytes((tmp_path / "0.wav").read_bytes())
    table = tmp_path / "c.csv"
    table.write_text("path,label\n0.wav,leak\n1.wav,leak\n2.wav,ok\n3.wav,ok\ncopy.wav,ok\n")
    with pytest.raises(SettingsError, match=r"1 .*with a leak and 2 without"):
        add_recordings(table, tmp_path / "added", SignalConfig(fmax_hz=8000.0), WORDS, 2)


def test_a_store_is_used_as_it_is_under_the_old_words(learner, tmp_path: Path) -> None:
    words = Vocabulary(("quiet", "leak", "other"), ("leak",))
    new = learner.new()
    added = add_recordings(new, tmp_path / "added", SignalConfig(), words, 2)
    assert added.store == new
    assert not (tmp_path / "added").exists()
    assert added.split.label_names == ["quiet", "leak", "other"]
    assert added.split.is_leak.tolist() == [True, False] * 4
    with pytest.raises(InputError, match="label 'other' is none of"):
        add_recordings(new, tmp_path / "added", SignalConfig(), WORDS, 2)


def test_recordings_of_the_store_are_told_from_new_ones(learner, write_store) -> None:
    old = open_labelled(learner.store, "train")
    alike = learner.recording(0, "A")
    other = learner.recording(1, "A", label="leak")
    fresh = [learner.recording(number, "A") for number in (900, 901)]
    split = pooled([open_labelled(write_store(train=[alike, other, *fresh]), "train")])
    same, corrected = known_contents(split, [old])
    assert same.tolist() == [True, False, False, False]
    assert corrected.tolist() == [False, True, False, False]
    left = without(old, contents(split)[corrected].tolist())
    assert left.recordings == old.recordings - 1
    assert without(old, []).recordings == old.recordings
    with pytest.raises(SettingsError, match="nothing of train is left"):
        without(old, np.unique(contents(old)).tolist())
