import csv

import numpy as np
import pytest

from leakdet.config import SignalConfig
from leakdet.scoring.label_files import label_files, label_places
from leakdet.scoring.verdict import Verdict, Window

SIGNAL = SignalConfig(sample_rate_hz=16000, fmin_hz=300.0)
WINDOWS = [Window(0.0, 1.0, 0.9), Window(0.5, 1.5, 0.6), Window(3.0, 4.0, 0.7)]


def verdict(path: str, decision: str = "leak", **more) -> Verdict:
    live = np.ones(3, bool)
    return Verdict(path, decision, 0.8, 0.5, WINDOWS, source_rate_hz=11025, live=live, **more)


def write(folder, kind: str, verdicts: list[Verdict]) -> None:
    with label_files(folder, kind, [one.path for one in verdicts], SIGNAL) as add:
        for one in verdicts:
            add(one)


def test_a_raven_selection_table(tmp_path) -> None:
    write(tmp_path / "out", "raven", [verdict("/n/a.wav"), verdict("/n/b/a.wav", "no_leak")])
    with (tmp_path / "out/a.wav.selections.txt").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert rows == [
        {
            "Selection": "1",
            "View": "Spectrogram 1",
            "Channel": "1",
            "Begin Time (s)": "0.000000",
            "End Time (s)": "1.500000",
            "Low Freq (Hz)": "300.0",
            "High Freq (Hz)": "5512.5",
            "Leak Prob": "0.9000",
            "Decision": "leak",
        },
        {**rows[0], "Selection": "2", "Begin Time (s)": "3.000000", "End Time (s)": "4.000000",
         "Leak Prob": "0.7000"},
    ]  # fmt: skip
    assert "no_leak" in (tmp_path / "out/b/a.wav.selections.txt").read_text()


def test_an_audacity_label_track(tmp_path) -> None:
    write(tmp_path / "out", "audacity", [verdict("a.wav"), verdict("b.wav", "no_leak")])
    assert (tmp_path / "out/a.wav.labels.txt").read_text() == (
        "0.000000\t1.500000\tleak 0.900\n3.000000\t4.000000\tleak 0.700\n"
    )
    text = (tmp_path / "out/b.wav.labels.txt").read_text()
    assert text.startswith("0.000000\t1.500000\tleak 0.900 (recording no_leak)\n")


def test_channels_share_the_table_of_their_file(tmp_path) -> None:
    write(tmp_path / "out", "raven", [verdict("a.wav", channel=1), verdict("a.wav", channel=2)])
    lines = (tmp_path / "out/a.wav.selections.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["Selection", "1", "2", "3", "4"]
    assert [line.split("\t")[2] for line in lines] == ["Channel", "1", "1", "2", "2"]


def test_what_was_not_judged_has_no_file(tmp_path, messages) -> None:
    silent = Verdict("s.wav", "undecided", None, 0.5, reason="silent")
    failed = Verdict("f.wav", None, None, 0.5, error="cut off")
    quiet = Verdict("q.wav", "no_leak", 0.1, 0.5, [Window(0.0, 1.0, 0.1)])
    write(tmp_path / "out", "audacity", [silent, failed, quiet])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["q.wav.labels.txt"]
    assert (tmp_path / "out/q.wav.labels.txt").read_text() == ""
    assert "0 stretches of 1 recording; 2 recordings not judged have none" in messages.text


@pytest.mark.parametrize(
    ("paths", "places"),
    [
        (["/n/a/1.wav", "/n/b/1.wav"], ["a/1.wav", "b/1.wav"]),
        (["/n/1.wav", "/n/1.flac"], ["1.wav", "1.flac"]),
        (["/n/x/1.wav"], ["1.wav"]),
        (["s3://bucket/a/1.wav", "s3://bucket/b/1.wav"], ["a/1.wav", "b/1.wav"]),
        (["x/../y/1.wav", "z/1.wav"], ["y/1.wav", "z/1.wav"]),
    ],
)
def test_labels_lie_as_the_recordings_do(paths: list[str], places: list[str]) -> None:
    assert [str(place) for place in label_places(paths).values()] == places


def test_a_run_that_fails_leaves_nothing(tmp_path) -> None:
    unlisted = [verdict("a.wav"), verdict("b.wav")]
    with pytest.raises(KeyError), label_files(tmp_path / "out", "raven", ["a.wav"], SIGNAL) as add:
        list(map(add, unlisted))
    assert not (tmp_path / "out").exists()
