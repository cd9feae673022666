import numpy as np

from leakdet.evaluation.scored_recordings import MelColumns
from leakdet.reporting.recording_rows import (
    CLIP_S,
    MAX_ROWS,
    MAX_ROWS_WITH_MEDIA,
    report_rows,
    rows_with_media,
    severity_order,
)


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
