import csv
import re

import numpy as np
import pytest
import soundfile

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.scoring.extras import (
    LeakSpan,
    clip_name,
    label_files,
    label_places,
    leak_clips,
    leak_spans,
    most_suspected,
)
from leakdet.tables.read import read_csv
from leakdet.tables.schema import Verdict, Window


def stretch_verdict(*probs: float, hop_s: float = 0.5, dead: tuple[int, ...] = ()) -> Verdict:
    windows = [Window(hop_s * n, hop_s * n + 1.0, prob) for n, prob in enumerate(probs)]
    live = np.array([n not in dead for n in range(len(probs))])
    return Verdict("a.wav", "leak", max(probs), 0.5, windows, live=live)


def test_neighbouring_windows_are_joined() -> None:
    found = leak_spans(stretch_verdict(0.1, 0.6, 0.9, 0.2, 0.1, 0.1, 0.5, hop_s=1.0))
    assert found == [LeakSpan(1.0, 3.0, 0.9, 2.5), LeakSpan(6.0, 7.0, 0.5, 6.5)]


def test_windows_that_overlap_or_touch_are_one_stretch() -> None:
    assert leak_spans(stretch_verdict(0.6, 0.2, 0.7)) == [LeakSpan(0.0, 2.0, 0.7, 1.5)]
    assert len(leak_spans(stretch_verdict(0.6, 0.2, 0.2, 0.7))) == 2


def test_dead_windows_are_in_no_stretch() -> None:
    assert leak_spans(stretch_verdict(0.9, 0.9, hop_s=1.0, dead=(0,))) == [
        LeakSpan(1.0, 2.0, 0.9, 1.5)
    ]
    assert leak_spans(stretch_verdict(0.9, dead=(0,))) == []


def test_the_most_suspected_seconds_hold_the_highest_window() -> None:
    one = stretch_verdict(0.9, 0.1, 0.6, 0.95, 0.6, 0.1, hop_s=1.0)
    assert most_suspected(one, 10.0) == LeakSpan(2.0, 5.0, 0.95, 3.5)
    assert most_suspected(one, 2.0) == LeakSpan(2.5, 4.5, 0.95, 3.5)
    assert most_suspected(stretch_verdict(0.1, 0.2), 2.0) is None


def test_a_long_stretch_is_cut_within_itself() -> None:
    at_start = stretch_verdict(0.95, *[0.6] * 8, hop_s=1.0)
    assert most_suspected(at_start, 4.0)[:2] == (0.0, 4.0)
    at_end = stretch_verdict(*[0.6] * 8, 0.95, hop_s=1.0)
    assert most_suspected(at_end, 4.0)[:2] == (5.0, 9.0)


def test_of_equal_stretches_the_longest_is_taken() -> None:
    one = stretch_verdict(0.9, 0.1, 0.9, 0.9, 0.1, hop_s=1.0)
    assert most_suspected(one, 9.0)[:2] == (2.0, 4.0)


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


def test_a_recording_in_doubt_is_a_possible_leak(tmp_path) -> None:
    doubt = {"decision": "undecided", "reason": "doubt"}
    foreign = {"decision": "undecided", "reason": "other_source"}
    write(tmp_path / "a", "audacity", [verdict("a.wav", **doubt), verdict("b.wav", **foreign)])
    texts = [(tmp_path / f"a/{name}.wav.labels.txt").read_text().splitlines()[0] for name in "ab"]
    assert texts[0].endswith("leak 0.900 (recording possible leak)")
    assert texts[1].endswith("leak 0.900 (recording undecided)")
    write(tmp_path / "r", "raven", [verdict("a.wav", **doubt)])
    assert "\tpossible leak\n" in (tmp_path / "r/a.wav.selections.txt").read_text()


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
    assert re.search("0 stretches of 1 recording; 2 recordings not judged", messages.text)


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


def clip_verdict(path, prob: float, decision: str = "leak", **more) -> Verdict:
    windows = [Window(0.0, 1.0, 0.1), Window(1.0, 2.0, prob), Window(2.0, 3.0, 0.2)]
    return Verdict(str(path), decision, prob, 0.5, windows, live=np.ones(3, bool), **more)


def test_leaks_alone_are_cut_out_and_ranked(write_sound, tmp_path, messages) -> None:
    paths = [write_sound(f"{name}/a.wav", seconds=3.0, seed=n) for n, name in enumerate("uvw")]
    verdicts = [
        clip_verdict(paths[0], 0.6, "undecided", reason="doubt"),
        clip_verdict(paths[1], 0.9),
        clip_verdict(paths[2], 0.8, "no_leak"),
        clip_verdict(paths[2], 0.45, "undecided", reason="doubt"),  # on the other side
    ]
    told = {"site": "Elm St/4", "recorded_at": "2026-11-29T02:30"}
    verdicts[1] = clip_verdict(paths[1], 0.9, columns=told)
    with leak_clips(tmp_path / "clips", 10.0) as clips:
        for one in verdicts:
            clips.add(one)
    names = sorted(path.name for path in (tmp_path / "clips").iterdir())
    assert names == [
        "1_0.900_Elm-St-4_2026-11-29T02-30_a_1.0s.wav", "2_0.600_u_a_1.0s.wav", "clips.csv"
    ]  # fmt: skip
    rows = read_csv(tmp_path / "clips/clips.csv", "rows")
    assert [row["clip"] for row in rows] == names[:2]
    assert [row["decision"] for row in rows] == ["leak", "possible leak"]
    assert (rows[0]["path"], rows[0]["site"]) == (str(paths[1]), "Elm St/4")
    assert (rows[0]["start_s"], rows[0]["end_s"], rows[0]["leak_prob"]) == ("1.0", "2.0", "0.9")
    sound, rate_hz = soundfile.read(tmp_path / "clips" / names[0], dtype="int16")
    expected, _ = soundfile.read(paths[1], start=16000, stop=32000, dtype="int16")
    assert rate_hz == 16000
    np.testing.assert_array_equal(sound, expected)
    assert "2 leaks, " in messages.text


def test_a_recording_that_has_gone_is_counted_and_named(tmp_path, messages) -> None:
    with leak_clips(tmp_path / "clips", 5.0) as clips:
        clips.add(clip_verdict(tmp_path / "gone.wav", 0.9))
    assert clips.lost == 1
    assert "gone.wav: no clip" in messages.text
    assert list((tmp_path / "clips").iterdir()) == []


def test_a_full_disk_ends_the_run_and_leaves_nothing(write_sound, tmp_path, monkeypatch) -> None:
    path = write_sound("a.wav", seconds=3.0)
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 10})())
    with pytest.raises(InputError, match="free some space"), leak_clips(tmp_path / "c", 5.0) as c:
        c.add(clip_verdict(path, 0.9))
    assert not (tmp_path / "c").exists()


def test_names_hold_nothing_that_a_file_system_refuses() -> None:
    row = {"leak_prob": 0.5, "path": "/a/..;rm -rf/x\udce9\n.wav", "start_s": 0.0, "channel": 2}
    assert clip_name({**row, "site": "s" * 90}) == f"0.500_{'s' * 40}_x-_ch2_0.0s.wav".replace(
        "x-_", "x_"
    )
