import base64
import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.evaluation.scored_recordings import MelColumns
from leakdet.reporting.recording_card import (
    CLIP_S,
    LEVELS,
    MAX_ROWS,
    MAX_ROWS_WITH_MEDIA,
    RowMedia,
    frequency_ticks,
    mel_png,
    palette_png,
    report_rows,
    rows_with_media,
    severity_order,
    time_ticks,
    timeline_paths,
)


def test_a_palette_png_decodes_to_the_colours_of_its_levels():
    index = np.random.default_rng(0).integers(0, LEVELS, (64, 100)).astype(np.uint8)
    decoded = imread(io.BytesIO(palette_png(index)))
    colours = mpl.colormaps["cividis"](np.linspace(0, 1, LEVELS))[:, :3]
    assert decoded[..., :3] == pytest.approx(colours[index], abs=1 / 255)


def test_a_mel_picture_has_low_bands_at_the_bottom_and_at_most_400_columns():
    level_db = np.full((8, 1000), -80.0)
    level_db[0] = -20.0
    decoded = imread(io.BytesIO(mel_png(level_db)))
    assert decoded.shape[:2] == (8, 400)
    assert decoded[-1].mean() > decoded[0].mean() + 0.2


def test_timeline_bars_part_at_the_threshold():
    below, above = timeline_paths(np.array([0.2, 0.5, 0.9]), 0.5)
    assert below == "M0.1 100v-20h.8V100"
    assert above == "M1.1 100v-50h.8V100M2.1 100v-90h.8V100"


def test_frequencies_stand_beside_their_bands():
    band_hz = np.array([250.0, 500.0, 1000.0, 2000.0])
    ticks = {tick.text: tick.percent for tick in frequency_ticks(band_hz)}
    assert ticks == {"500 Hz": 37.5, "1 kHz": 62.5, "2 kHz": 87.5}


def test_texts_of_an_axis_do_not_touch():
    percents = [tick.percent for tick in frequency_ticks(np.linspace(10.0, 22_050.0, 64))]
    assert min(np.diff(percents)) >= 11.0
    assert frequency_ticks(np.linspace(510.0, 990.0, 8)) == []


@pytest.mark.parametrize(
    ("duration_s", "last", "percent"),
    [
        (0.25, "0.25 s", 100.0),
        (4.9, "4 s", 400 / 4.9),
        (20.0, "20 s", 100.0),
        (90.0, "80 s", 800 / 9),
    ],
)
def test_seconds_are_round_and_few(duration_s, last, percent):
    ticks = time_ticks(duration_s)
    assert (ticks[0].percent, ticks[0].text) == (0.0, "0 s")
    assert (ticks[-1].percent, ticks[-1].text) == (pytest.approx(percent), last)
    assert 3 <= len(ticks) <= 7


def test_a_picture_has_axes_and_says_how_much_it_shows(media) -> None:
    drawn = RowMedia("")
    drawn.draw(media.mel(0), 5.0)
    assert drawn.mel.startswith("data:image/png;base64,")
    assert [tick.text for tick in drawn.s_ticks] == ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]
    assert drawn.hz_ticks
    assert (drawn.timeline, drawn.mel_note) == (True, "bright is loud")
    drawn.draw(media.mel(0), 60.0)
    assert (drawn.timeline, drawn.mel_note) == (False, "bright is loud; the first 5 of 60 s")


def test_without_signal_settings_a_picture_has_no_axes() -> None:
    drawn = RowMedia("")
    drawn.draw(MelColumns(np.zeros((4, 9), np.float32), None, None), None)
    assert (drawn.hz_ticks, drawn.s_ticks) == ((), ())
    assert "window after window" in drawn.mel_note


def test_a_sound_says_which_piece_it_is(media) -> None:
    heard, clip = RowMedia(""), media.clip(0, 3.0, 4.0)
    heard.add_sound(clip)
    kind, content = heard.audio.split(",")
    assert kind == "data:audio/flac;base64"
    assert base64.b64decode(content) == clip.content
    assert heard.audio_note.startswith("seconds 3.0 to 7.0, played at ")


def test_worst_errors_come_first_and_the_rest_by_doubt(scored):
    recordings = scored(200)
    order = severity_order(recordings)
    wrong = recordings.wrong[order]
    margin = np.abs(recordings.score - 0.5)[order]
    errors = int(wrong.sum())
    assert errors > 5
    assert wrong[:errors].all()
    assert (np.diff(margin[:errors]) <= 0).all()
    assert (np.diff(margin[errors:]) >= 0).all()


def test_rows_with_media_are_errors_and_the_clearest_of_both_kinds(scored):
    recordings = scored(200)
    reasons = rows_with_media(recordings, severity_order(recordings))
    chosen = list(reasons)
    assert len(chosen) == MAX_ROWS_WITH_MEDIA
    assert sum(recordings.wrong[chosen]) >= 2 * MAX_ROWS_WITH_MEDIA // 3
    clearest = np.where(recordings.is_leak & recordings.decision, recordings.score, 0).argmax()
    assert reasons[clearest] == "among the clearest leaks found"
    assert all(recordings.wrong[row] == ("error" in why) for row, why in reasons.items())


def test_without_errors_the_closest_to_the_threshold_have_media(scored):
    recordings = scored(200, gap=0.0)
    recordings.is_leak = recordings.decision
    order = severity_order(recordings)
    reasons = rows_with_media(recordings, order)
    assert list(reasons.values()).count("among the closest to the threshold") == 20
    assert set(order[:20].tolist()) <= reasons.keys()


def test_verdicts_close_to_the_threshold_are_doubtful(scored):
    recordings = scored(4)
    recordings.score = np.array([0.5, 0.59, 0.41, 0.61])
    rows = report_rows({"test": recordings})
    assert {row.score: row.doubtful for row in rows} == {
        0.5: True,
        0.59: True,
        0.41: True,
        0.61: False,
    }


def test_a_picture_has_axes_and_says_where_it_ends(scored, media):
    recordings = scored(2, media=media)
    (first, _) = report_rows({"test": recordings})
    assert first.media.s_ticks[-1].text == "5 s"
    assert first.media.hz_ticks[0].text == "500 Hz"
    assert first.media.timeline
    recordings.duration_s = np.array([5.0, 60.0])
    rows = {row.recording[-5]: row.media for row in report_rows({"test": recordings})}
    assert rows["0"].timeline
    assert not rows["1"].timeline  # would not lie above what it is about
    assert rows["1"].mel_note == "bright is loud; the first 5 of 60 s"


def test_rows_are_bounded_and_hold_those_with_media_wherever_they_stand(scored, media):
    recordings = scored(3_000, media=media)
    rows = report_rows({"test": recordings})
    assert len(rows) == MAX_ROWS
    assert sum(row.media is not None for row in rows) == MAX_ROWS_WITH_MEDIA
    assert [row.rank for row in rows] == list(range(MAX_ROWS))
    order = severity_order(recordings)
    assert rows[0].recording == recordings.recording_id[order[0]]
    assert rows[-1].recording == recordings.recording_id[order[-1]]  # the clearest right one


def test_only_the_judged_split_has_media_and_it_comes_first(scored, media):
    rows = report_rows({"val": scored(4, name="val", media=media), "test": scored(4, media=media)})
    assert [row.split for row in rows] == ["test"] * 4 + ["val"] * 4
    assert [row.media is not None for row in rows] == [True] * 4 + [False] * 4


def test_a_row_says_what_was_decided_and_how_many_windows_agree(scored):
    recordings = scored(4)
    recordings.score = np.array([0.9, 0.8, 0.1, 0.2])
    recordings.window_prob = np.tile([0.4, 0.5, 0.9], 4).astype(np.float32)
    rows = {row.recording[-5]: row for row in report_rows({"test": recordings})}
    assert [rows[name].outcome_name for name in "0123"] == [
        "Leak found",
        "False alarm",
        "Missed leak",
        "True negative",
    ]
    assert {(row.windows, row.leak_windows) for row in rows.values()} == {(3, 2)}
    assert "false alarm" in rows["1"].search
    assert "site-1" in rows["1"].search


class Recorder:
    """No picture; notes which seconds are asked for."""

    def __init__(self):
        self.starts_s = {}

    def mel(self, row):
        return MelColumns(np.zeros((4, 10)), None, None) if row else None

    def clip(self, row, start_s, max_s):
        self.starts_s[row] = start_s
        assert max_s == CLIP_S


def test_the_clip_lies_around_the_window_most_like_a_leak(scored):
    recorder = Recorder()
    recordings = scored(2, media=recorder)
    recordings.window_start_s = np.array([0.0, 30.0, 60.0] * 2, np.float32)
    recordings.window_prob = np.array([0.1, 0.2, 0.9, 0.9, 0.2, 0.1], np.float32)
    rows = {row.recording[-5]: row for row in report_rows({"test": recordings})}
    assert recorder.starts_s == {0: 55.0, 1: 0.0}
    assert rows["0"].media is None  # neither picture nor sound
    assert rows["1"].media.mel_note.startswith("window after window")
