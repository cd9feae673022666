import base64

import numpy as np

from leakdet.evaluation.scored_recordings import MelColumns
from leakdet.reporting.row_media import RowMedia


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
