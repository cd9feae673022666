"""Picture and sound of a recording in a row of a page, as data URIs with what they show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from leakdet.evaluation.scored_recordings import MelColumns
from leakdet.reporting.small_pictures import (
    Tick,
    data_uri,
    frequency_ticks,
    mel_png,
    time_ticks,
)


@runtime_checkable
class SoundClip(Protocol):
    """A piece of a recording as a sound file that browsers play (`acoustics.clip.Clip`)."""

    @property
    def content(self) -> bytes: ...
    @property
    def start_s(self) -> float: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def gain_db(self) -> float: ...
    @property
    def media_type(self) -> str: ...


@dataclass
class RowMedia:
    """A mel picture and a sound as data URIs, if any, what they show and why they are here.

    `timeline` is false where the picture shows only the beginning of the recording.
    """

    why: str
    mel: str | None = None
    timeline: bool = True
    hz_ticks: Sequence[Tick] = ()
    s_ticks: Sequence[Tick] = ()
    mel_note: str = ""
    audio: str | None = None
    audio_note: str = ""

    def draw(self, mel: MelColumns, duration_s: float | None) -> None:
        """Add the picture with its axes, as far as its seconds and frequencies are known."""
        self.mel = data_uri(mel_png(mel.level_db), "image/png")
        self.mel_note = "bright is loud"
        if mel.duration_s is None or mel.band_hz is None:
            self.mel_note = f"window after window; low bands at the bottom, {self.mel_note}"
            return
        self.hz_ticks, self.s_ticks = frequency_ticks(mel.band_hz), time_ticks(mel.duration_s)
        if duration_s is not None and mel.duration_s < duration_s / 2:
            self.timeline = False
            self.mel_note += f"; the first {mel.duration_s:.0f} of {duration_s:.0f} s"

    def add_sound(self, clip: SoundClip) -> None:
        """Add the sound of a clip, and say which piece of the recording it is."""
        self.audio = data_uri(clip.content, clip.media_type)
        stop_s = clip.start_s + clip.duration_s
        self.audio_note = (
            f"seconds {clip.start_s:.1f} to {stop_s:.1f}, played at {clip.gain_db:+.0f} dB"
        )
