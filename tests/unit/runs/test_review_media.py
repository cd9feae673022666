"""Pictures and sounds of a page to tick recordings, and whether its table may be replaced."""

from pathlib import Path

import pytest

from leakdet.core.errors import InputError
from leakdet.runs import review_media
from leakdet.runs.review_media import ReviewMedia, check_unlabelled
from leakdet.scoring.detector import load_detector


@pytest.fixture(scope="module")
def detector(example_files):
    return load_detector(example_files.model, device="cpu")


def test_a_recording_has_a_picture_and_a_sound(detector, write_sound) -> None:
    media = ReviewMedia(detector, 1)
    row = media.of(media.playback(write_sound("a.wav", seconds=3.0)))
    assert (row.mel or "").startswith("data:image/png")
    assert (row.audio or "").startswith("data:audio/")


def test_clips_of_many_recordings_are_shorter(detector, write_sound) -> None:
    path = write_sound("a.wav", seconds=12.0)
    clips = [ReviewMedia(detector, count).playback(path) for count in (24, 60)]
    assert [clip.clip.duration_s if clip else None for clip in clips] == [10.0, 4.0]


def test_sounds_end_where_the_page_is_full(detector, write_sound, monkeypatch) -> None:
    monkeypatch.setattr(review_media, "MAX_AUDIO_BYTES", 1000)
    media = ReviewMedia(detector, 1)
    row = media.of(media.playback(write_sound("a.wav", seconds=3.0)))
    assert (row.audio, media.left_out) == (None, 1)
    assert row.mel is not None


def test_a_file_that_is_gone_has_neither(detector, tmp_path: Path, messages) -> None:
    media = ReviewMedia(detector, 1)
    row = media.of(media.playback(tmp_path / "gone.wav"))
    assert (row.mel, row.audio, media.left_out) == (None, None, 0)
    assert "gone.wav: no picture and no sound of it" in messages.text


def test_a_table_of_its_own_without_labels_may_be_replaced(tmp_path: Path) -> None:
    table = tmp_path / "confirm.csv"
    check_unlabelled(table, "worklist")
    table.write_text("path,label,why_suggested\na.wav,,near\n")
    check_unlabelled(table, "worklist")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("path,label,why_suggested\na.wav,leak,near\nb.wav,,x\n", "1 of its 2 labels are filled"),
        ("path,label\na.wav,\n", "worklist would replace it, and did not write it"),
    ],
)
def test_labels_and_what_others_wrote_are_kept(tmp_path: Path, text: str, reason: str) -> None:
    table = tmp_path / "confirm.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=reason):
        check_unlabelled(table, "worklist")
