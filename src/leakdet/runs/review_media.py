"""What pages to hear and tick recordings share: their pictures and sounds, and their table."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakdet.core.errors import InputError
from leakdet.core.locations import Location
from leakdet.core.messages import LOG
from leakdet.reporting.recording_card import RowMedia
from leakdet.tables.read import read_table
from leakdet.tables.schema import LABEL, WHY

if TYPE_CHECKING:
    from leakdet.scoring.detector import Detector
    from leakdet.scoring.playback import Playback

MAX_AUDIO_BYTES = 6_000_000  # of all sounds of a page together
CLIP_S = 10.0
CLIP_SHARE_S = 240.0  # of all clips together: those of more than 24 recordings are shorter


class ReviewMedia:
    """Pictures of recordings, and their sounds up to a size in all; `left_out` counts the rest."""

    def __init__(self, detector: "Detector", recordings: int) -> None:
        from leakdet.acoustics.mel import LogMel

        signal = detector.mel_detector.signal
        assert signal is not None  # it has scored sound
        self._detector = detector.mel_detector
        self._clip_s = min(CLIP_S, CLIP_SHARE_S / max(1, recordings))
        self._log_mel = LogMel(signal)
        self._bytes_left = MAX_AUDIO_BYTES
        self.left_out = 0

    def playback(self, path: Location, channel: int = 0) -> "Playback | None":
        """Read a recording again; None, and a warning, where it can no longer be read."""
        from leakdet.scoring.playback import playback

        try:
            return playback(path, channel, self._detector, self._log_mel, self._clip_s)
        except InputError as error:  # it was there when it was scored
            LOG.warning(f"{path}: no picture and no sound of it ({error})")
            return None

    def of(self, heard: "Playback | None") -> RowMedia:
        """The picture of a recording, and its sound where there is room."""
        from leakdet.evaluation.recording_media import mel_columns

        media = RowMedia("")
        if heard is None:
            return media
        signal = self._log_mel.signal
        picture = mel_columns(heard.mel.astype(np.float32), heard.window_start_s, signal)
        media.draw(picture, heard.verdict.duration_s)
        self._bytes_left -= len(heard.clip.content)
        if self._bytes_left < 0:
            self.left_out += 1
        else:
            media.add_sound(heard.clip)
        return media


def check_unlabelled(table: Path, command: str) -> None:
    """Check that `command` may replace the table of recordings to confirm, if one is there."""
    if not table.exists():
        return
    found = read_table(table)
    if found.faults or (found.columns and not {LABEL, WHY} <= set(found.columns)):
        raise InputError(f"{table}: {command} would replace it, and did not write it. Rename it.")
    filled_in = sum(bool(row[LABEL]) for _, row in found.rows)
    if filled_in:
        raise InputError(
            f"{table}: {filled_in} of its {len(found.rows)} labels are filled in, and {command} "
            "would replace them. Rename it, or give another --out."
        )
