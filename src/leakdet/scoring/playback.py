"""What a person needs to judge a recording that was scored: its windows, their mel, and a clip."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float16, Float32

from leakdet.acoustics.audio import SoundSource, SoundStream
from leakdet.acoustics.clip import Clip, make_clip
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.core.errors import InputError
from leakdet.detection.detector import MelDetector
from leakdet.scoring.score_recording import score_recording
from leakdet.tables.schema import Verdict

PICTURE_WINDOWS = 400  # of a longer recording, the mel of the first ones


@dataclass(frozen=True)
class Playback:
    """A recording's verdict with its windows, the mel of the first 400, and a clip."""

    verdict: Verdict
    mel: Float16[np.ndarray, "W S M T"]
    window_start_s: Float32[np.ndarray, " W"]
    clip: Clip


def playback(
    source: SoundSource, channel: int, detector: MelDetector, log_mel: LogMel, clip_s: float
) -> Playback:
    """Read a recording again, in bounded memory; the clip is around its most leak-like window."""
    verdict = score_recording(source, detector, log_mel, channel)
    if verdict.error:
        raise InputError(verdict.error)
    mel, starts, windows = [], [], 0
    for block in MelStream(source, log_mel, channel=channel):
        mel.append(block.mel.numpy())
        starts.append(block.window_start_s)
        windows += len(block.mel)
        if windows >= PICTURE_WINDOWS:
            break
    highest = max(verdict.windows, key=lambda window: window.leak_prob)
    return Playback(
        verdict,
        np.concatenate(mel)[:PICTURE_WINDOWS],
        np.concatenate(starts)[:PICTURE_WINDOWS],
        _clip(source, channel, log_mel, highest.start_s - clip_s / 2, clip_s, verdict.duration_s),
    )


def _clip(
    source: SoundSource,
    channel: int,
    log_mel: LogMel,
    start_s: float,
    clip_s: float,
    duration_s: float | None,
) -> Clip:
    """The sound of `clip_s` seconds from `start_s` on, moved into the recording."""
    signal = log_mel.signal
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
