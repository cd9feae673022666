import numpy as np
import pytest
import soundfile

from leakdet.errors import InputError
from leakdet.scoring.leak_clips import clip_name, leak_clips
from leakdet.scoring.verdict import Verdict, Window
from leakdet.storage.csv_file import read_csv


def verdict(path, prob: float, decision: str = "leak", **more) -> Verdict:
    windows = [Window(0.0, 1.0, 0.1), Window(1.0, 2.0, prob), Window(2.0, 3.0, 0.2)]
    return Verdict(str(path), decision, prob, 0.5, windows, live=np.ones(3, bool), **more)


def test_leaks_alone_are_cut_out_and_ranked(write_sound, tmp_path, messages) -> None:
    paths = [write_sound(f"{name}/a.wav", seconds=3.0, seed=n) for n, name in enumerate("uvw")]
    verdicts = [verdict(paths[0], 0.6), verdict(paths[1], 0.9), verdict(paths[2], 0.8, "no_leak")]
    told = {"site": "Elm St/4", "recorded_at": "2026-11-29T02:30"}
    verdicts[1] = verdict(paths[1], 0.9, columns=told)
    with leak_clips(tmp_path / "clips", 10.0) as clips:
        for one in verdicts:
            clips.add(one)
    names = sorted(path.name for path in (tmp_path / "clips").iterdir())
    assert names == [
        "1_0.900_Elm-St-4_2026-11-29T02-30_a_1.0s.wav", "2_0.600_u_a_1.0s.wav", "clips.csv"
    ]  # fmt: skip
    rows = read_csv(tmp_path / "clips/clips.csv", "rows")
    assert [row["clip"] for row in rows] == names[:2]
    assert (rows[0]["path"], rows[0]["site"]) == (str(paths[1]), "Elm St/4")
    assert (rows[0]["start_s"], rows[0]["end_s"], rows[0]["leak_prob"]) == ("1.0", "2.0", "0.9")
    sound, rate_hz = soundfile.read(tmp_path / "clips" / names[0], dtype="int16")
    expected, _ = soundfile.read(paths[1], start=16000, stop=32000, dtype="int16")
    assert rate_hz == 16000
    np.testing.assert_array_equal(sound, expected)
    assert "2 leaks, the most probable first" in messages.text


def test_a_recording_that_has_gone_is_counted_and_named(tmp_path, messages) -> None:
    with leak_clips(tmp_path / "clips", 5.0) as clips:
        clips.add(verdict(tmp_path / "gone.wav", 0.9))
    assert clips.lost == 1
    assert "gone.wav: no clip, since it cannot be read again" in messages.text
    assert list((tmp_path / "clips").iterdir()) == []


def test_a_full_disk_ends_the_run_and_leaves_nothing(write_sound, tmp_path, monkeypatch) -> None:
    path = write_sound("a.wav", seconds=3.0)
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 10})())
    with pytest.raises(InputError, match="free some space"), leak_clips(tmp_path / "c", 5.0) as c:
        c.add(verdict(path, 0.9))
    assert not (tmp_path / "c").exists()


def test_names_hold_nothing_that_a_file_system_refuses() -> None:
    row = {"leak_prob": 0.5, "path": "/a/..;rm -rf/x\udce9\n.wav", "start_s": 0.0, "channel": 2}
    assert clip_name({**row, "site": "s" * 90}) == f"0.500_{'s' * 40}_x-_ch2_0.0s.wav".replace(
        "x-_", "x_"
    )
