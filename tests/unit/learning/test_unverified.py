"""New recordings without a label, in a file of their own."""

from pathlib import Path

from leakdet.building.sources import SourceRecording
from leakdet.config import SignalConfig
from leakdet.learning.unverified import extract_unverified
from leakdet.learning.vocabulary import Vocabulary
from leakdet.storage.opening import split_names

WORDS = Vocabulary(("drip", "ok"), ("drip",))
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
    split, left_out = extract_unverified(listed, store, SIGNAL, WORDS, [])
    assert split is not None
    assert split.recording_ids.tolist() == ["a.wav", "b.wav"]
    assert split.groups["site"].tolist() == ["B7", "B7"]
    assert split.label_names == ["drip", "ok"]
    assert {row.path for row in left_out} == {"copy.wav", "broken.wav"}
    assert split_names(store) == []
    known = split.texts("content_sha256").tolist()
    (tmp_path / "again").mkdir()
    none, left_out = extract_unverified(listed[:2], tmp_path / "again", SIGNAL, WORDS, known)
    assert none is None
    assert len(left_out) == 2
    assert extract_unverified([], store, SIGNAL, WORDS, []) == (None, [])
