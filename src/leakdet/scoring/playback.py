"""What a person needs to judge a recording that was scored: its windows, their mel, and a clip."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from leakdet.acoustics.audio import SoundSource, SoundStream
from leakdet.acoustics.clip import PICTURE_WINDOWS, Clip, MelColumns, make_clip, mel_columns
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.core.errors import InputError
from leakdet.core.messages import LOG
from leakdet.detection.detector import MelDetector
from leakdet.scoring.score_recording import score_recording

CLIP_S = 10.0
CLIP_SHARE_S = 240.0  # of all clips together: those of more than 24 recordings are shorter


@dataclass(frozen=True)
class Playback:
    """Leak probabilities of a recording's windows, the mel of the first 400, and a clip."""

    window_prob: Float[np.ndarray, " W"]
    mel: MelColumns
    duration_s: float | None
    clip: Clip


class Player:
    """Reads scored recordings again, in bounded memory; clips are shorter the more there are."""

    def __init__(self, detector: MelDetector, recordings: int) -> None:
        if detector.signal is None:
            raise ValueError("a detector that has scored sound has signal settings")
        self._detector = detector
        self._log_mel = LogMel(detector.signal)
        self._clip_s = min(CLIP_S, CLIP_SHARE_S / max(1, recordings))

    def play(self, source: SoundSource, channel: int = 0) -> Playback | None:
        """The clip is around the most leak-like window. None, and a warning, where unreadable."""
        verdict = score_recording(source, self._detector, self._log_mel, channel)
        try:
            if verdict.error:
                raise InputError(verdict.error)
            mel = self._mel(source, channel)
            highest = max(verdict.windows, key=lambda window: window.leak_prob)
            start_s = highest.start_s - self._clip_s / 2
            clip = self._clip(source, channel, start_s, verdict.duration_s)
        except InputError as error:  # it was there when it was scored
            LOG.warning(f"{source}: no picture and no sound of it ({error})")
            return None
        probs = np.array([window.leak_prob for window in verdict.windows])
        return Playback(probs, mel, verdict.duration_s, clip)

    def _mel(self, source: SoundSource, channel: int) -> MelColumns:
        mel, starts, windows = [], [], 0
        for block in MelStream(source, self._log_mel, channel=channel):
            mel.append(block.mel.numpy())
            starts.append(block.window_start_s)
            windows += len(block.mel)
            if windows >= PICTURE_WINDOWS:
                break
        return mel_columns(
            np.concatenate(mel)[:PICTURE_WINDOWS].astype(np.float32),
            np.concatenate(starts)[:PICTURE_WINDOWS],
            self._log_mel.signal,
        )

    def _clip(
        self, source: SoundSource, channel: int, start_s: float, duration_s: float | None
    ) -> Clip:
        """The sound from `start_s` on, moved into the recording."""
        signal, clip_s = self._log_mel.signal, self._clip_s
        start_s = max(0.0, min(start_s, (duration_s or clip_s) - clip_s))
        start = int(start_s * signal.sample_rate_hz)
        stop = start + int(clip_s * signal.sample_rate_hz)
        position, pieces = 0, [np.empty(0, np.float32)]
        for block in SoundStream(source, signal, channel):
            pieces.append(block[max(0, start - position) : max(0, stop - position)])
            position += len(block)
            if position >= stop:
                break
        clip = make_clip(np.concatenate(pieces), signal.sample_rate_hz, 0.0, clip_s)
        return replace(clip, start_s=start_s)
