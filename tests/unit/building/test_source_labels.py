"""The labels of a source: merged, renamed, left out, before anything is read."""

from pathlib import Path

from leakdet.building.source_labels import relabelled
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import LabelsConfig


def source(*labels: str) -> Source:
    recordings = [
        SourceRecording(f"{n}.wav", Path(f"{n}.wav"), label) for n, label in enumerate(labels)
    ]
    return Source(recordings, [LeftOut("x.wav", "stray")])


def test_the_most_frequent_spelling_is_kept() -> None:
    found, view = relabelled(source("LEAK", "ok", "Leak", "Leak", "OK"), LabelsConfig(), "x")
    assert [recording.label for recording in found.recordings] == [
        "Leak",
        "OK",
        "Leak",
        "Leak",
        "OK",
    ]
    assert (view.names, view.leaks) == (("Leak", "OK"), ("Leak",))
    assert found.left_out == [LeftOut("x.wav", "stray")]


def test_recordings_are_left_out_and_counted() -> None:
    settings = LabelsConfig(ignore="?", rename={"rauschen": "ok"}, leak=["drip", "leak"])
    found, view = relabelled(source("leak", "Rauschen", "?", "drip", "?"), settings, "x")
    assert [recording.label for recording in found.recordings] == ["leak", "ok", "drip"]
    assert view.sentence() == "leak: drip, leak; no leak: ok; left out: ? (2 recordings)"


def test_a_file_with_two_labels_is_left_out_and_one_with_two_spellings_is_not() -> None:
    twice = [SourceRecording("a.wav", Path("a.wav"), label) for label in ("leak", "Leak", "ok")]
    alike, _ = relabelled(Source([*twice[:2], *source("ok").recordings], []), LabelsConfig(), "x")
    assert len(alike.recordings) == 3
    rest, _ = relabelled(Source([*twice, *source("ok").recordings], []), LabelsConfig(), "x")
    assert [recording.recording_id for recording in rest.recordings] == ["0.wav"]
    assert {item.reason for item in rest.left_out} == {"listed with the labels Leak and ok"}


def test_channels_may_have_labels_of_their_own_but_not_beside_the_whole_file() -> None:
    rows = (("a", "leak", 1), ("a", "ok", 2), ("b", "leak", 0), ("b", "leak", 2))
    listed = [SourceRecording(name, Path(name), label, channel=n) for name, label, n in rows]
    kept, _ = relabelled(Source(listed, []), LabelsConfig(), "x")
    assert [(item.channel, item.label) for item in kept.recordings] == [(1, "leak"), (2, "ok")]
    assert {item.reason for item in kept.left_out} == {"listed both whole and by channel"}
