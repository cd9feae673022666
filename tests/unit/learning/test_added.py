"""New recordings as a split beside the old store's."""

from pathlib import Path

import numpy as np
import pytest

from leakdet.config import SignalConfig
from leakdet.errors import InputError, SettingsError
from leakdet.learning.added import add_recordings, contents, known_contents, without
from leakdet.learning.vocabulary import Vocabulary
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled

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
    assert reasons["copy.wav"] == "the same sound as 0.wav"
    assert reasons["0.wav"] == "listed twice"
    assert "broken.wav" in reasons
    assert added.unconfirmed == 1
    again = add_recordings(digs, tmp_path / "added", signal, WORDS, 2)
    assert again.split.recordings == 4


def test_too_few_that_can_be_read_are_refused(digs: Path, tmp_path: Path) -> None:
    (tmp_path / "3.wav").write_bytes(b"RIFF nothing")
    signal = SignalConfig(fmax_hz=8000.0)
    with pytest.raises(SettingsError, match="2 confirmed with a leak and 1 without"):
        add_recordings(digs, tmp_path / "added", signal, WORDS, 2)


def test_where_no_file_is_found_the_error_says_so(tmp_path: Path) -> None:
    table = tmp_path / "c.csv"
    table.write_text("path,label\n" + "".join(f"{n}.wav,leak\n" for n in range(4)))
    with pytest.raises(SettingsError, match=r"4 that cannot be used, such as .*no such file"):
        add_recordings(table, tmp_path / "added", SignalConfig(), WORDS, 2)


def test_a_sound_with_two_labels_counts_for_neither(tmp_path: Path, write_sound) -> None:
    for number in range(4):
        write_sound(f"{number}.wav", 2.0, seed=number)
    (tmp_path / "copy.wav").write_bytes((tmp_path / "0.wav").read_bytes())
    table = tmp_path / "c.csv"
    table.write_text("path,label\n0.wav,leak\n1.wav,leak\n2.wav,ok\n3.wav,ok\ncopy.wav,ok\n")
    with pytest.raises(SettingsError, match="1 confirmed with a leak and 2 without"):
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
