"""A batch names itself by its first and last file."""

from pathlib import Path

from leakdet.parts.batch import Batch
from leakdet.scoring.listed_recording import ListedRecording


def test_a_batch_says_which_files_it_holds() -> None:
    recordings = tuple(ListedRecording(Path(f"/x/{name}.wav")) for name in "ab")
    batch = Batch(3, recordings, ("a.wav", "b.wav"))
    assert len(batch) == 2
    assert str(batch) == "batch 3 (a.wav to b.wav)"
    assert str(batch.only(1)) == "b.wav"
    assert batch.only(1) == Batch(3, recordings[1:], ("b.wav",))
    assert batch.only(0, "too loud").recordings[0].error == "too loud"
