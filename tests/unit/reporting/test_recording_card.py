import base64
import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.acoustics.clip import MelColumns
from leakdet.reporting import recording_card
from leakdet.reporting.recording_card import (
    CLIP_S,
    LEVELS,
    MAX_ROWS,
    MAX_ROWS_WITH_MEDIA,
    OUTCOMES,
    Cards,
    Picture,
    Sound,
    Tick,
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
    picture = Picture.drawn(media.mel(0), 5.0)
    assert picture.uri.startswith("data:image/png;base64,")
    assert [tick.text for tick in picture.s_ticks] == ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]
    assert picture.hz_ticks
    assert (picture.has_timeline, picture.note) == (True, "bright is loud")
    picture = Picture.drawn(media.mel(0), 60.0)
    assert (picture.has_timeline, picture.note) == (
        False,
        "bright is loud; the first 5 of 60 s",
    )


def test_without_signal_settings_a_picture_has_no_axes() -> None:
    picture = Picture.drawn(MelColumns(np.zeros((4, 9), np.float32), None, None), None)
    assert (picture.hz_ticks, picture.s_ticks) == ((), ())
    assert "window after window" in picture.note


def test_a_sound_says_which_piece_it_is(media) -> None:
    clip = media.clip(0, 3.0, 4.0)
    sound = Sound.of_clip(clip)
    kind, content = sound.uri.split(",")
    assert kind == "data:audio/flac;base64"
    assert base64.b64decode(content) == clip.content
    assert sound.note.startswith("plays seconds 3.0 to 7.0, at ")


def test_a_card_marks_what_it_plays_in_its_picture(media) -> None:
    card = Cards().card("a", 0.5, mel=media.mel(0), clip=media.clip(0, 1.0, 2.0))
    assert card.played == Tick(20.0, "40.0")  # of five seconds
    beyond = Cards().card("a", 0.5, mel=media.mel(0), clip=media.clip(0, 6.0, 2.0))
    assert beyond.played is None
    unheard = Cards().card("a", 0.5, mel=media.mel(0))
    assert unheard.played is None


def test_sounds_end_where_the_page_is_full(media, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = [media.clip(0, 0.0, seconds) for seconds in (1.0, 4.0, 0.1)]
    monkeypatch.setattr(recording_card, "MAX_AUDIO_BYTES", len(clips[0].content) + 100)
    cards = Cards()
    drawn = [cards.card("a", 0.5, clip=clip) for clip in clips]
    assert [card.sound is None for card in drawn] == [False, True, True]
    assert (cards.is_full, cards.left_out) == (True, 2)


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
    assert sum("threshold" in reason for reason in reasons.values()) == 20
    assert set(order[:20].tolist()) <= reasons.keys()


def test_rows_say_why_they_are_undecided(scored):
    recordings = scored(2)
    assert {row.undecided for row in report_rows({"test": recordings})} == {""}
    recordings.reason = np.array(["doubt", ""])
    rows = {row.recording[-5]: row for row in report_rows({"test": recordings})}
    assert (rows["0"].reason, rows["1"].reason) == ("doubt", "")
    assert rows["0"].outcome_name == "Undecided"
    assert rows["0"].undecided.endswith(f"threshold: {OUTCOMES[rows['0'].outcome].lower()}")
    assert rows["1"].outcome_name == OUTCOMES[rows["1"].outcome]
    assert "too close to call" in rows["0"].search
    assert "too close to call" not in rows["1"].search


def test_a_picture_has_axes_and_says_where_it_ends(scored, media):
    recordings = scored(2, media=media)
    (first, _) = report_rows({"test": recordings})
    assert first.card.picture.s_ticks[-1].text == "5 s"
    assert first.card.picture.hz_ticks[0].text == "500 Hz"
    assert first.card.picture.has_timeline
    recordings.duration_s = np.array([5.0, 60.0])
    rows = {row.recording[-5]: row.card.picture for row in report_rows({"test": recordings})}
    assert rows["0"].has_timeline
    assert not rows["1"].has_timeline  # would not lie above what it is about
    assert rows["1"].note == "bright is loud; the first 5 of 60 s"


def test_rows_are_bounded_and_hold_those_with_media_wherever_they_stand(scored, media):
    recordings = scored(3_000, media=media)
    rows = report_rows({"test": recordings})
    assert len(rows) == MAX_ROWS
    assert sum(row.has_media for row in rows) == MAX_ROWS_WITH_MEDIA
    assert [row.rank for row in rows] == list(range(MAX_ROWS))
    order = severity_order(recordings)
    assert rows[0].recording == recordings.recording_id[order[0]]
    assert rows[-1].recording == recordings.recording_id[order[-1]]  # the clearest right one


def test_only_the_judged_split_has_media_and_it_comes_first(scored, media):
    rows = report_rows({"val": scored(4, name="val", media=media), "test": scored(4, media=media)})
    assert [row.split for row in rows] == ["test"] * 4 + ["val"] * 4
    assert [row.has_media for row in rows] == [True] * 4 + [False] * 4


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
    assert {(row.card.windows, row.card.leak_windows) for row in rows.values()} == {(3, 2)}
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
    assert not rows["0"].has_media  # neither picture nor sound
    assert rows["1"].card.picture.note.startswith("window after window")
