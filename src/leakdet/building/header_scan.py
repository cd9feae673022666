"""The headers of all source files, read before anything is decoded: what is no audio, and which rates there are."""

from dataclasses import replace
from pathlib import Path

from leakdet._parallel import in_order
from leakdet._progress import Advance
from leakdet.acoustics.audio import read_rate_hz
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import BuildConfig, SignalConfig
from leakdet.errors import InputError


def scan(
    source: Source, config: BuildConfig
) -> tuple[list[SourceRecording], list[LeftOut], SignalConfig, list[str]]:
    """Read every header: leave out what is no audio before splits are made, and find the highest frequency all can have."""
    readable: list[SourceRecording] = []
    left_out = list(source.left_out)
    rates: set[int] = set()
    seen: set[Path] = set()
    with Advance("reading headers", len(source.recordings), "files") as progress:
        for recording, outcome in in_order(_rate_of, source.recordings, config.workers):
            progress.step()
            if isinstance(outcome, InputError):
                left_out.append(LeftOut(recording.recording_id, str(outcome)))
            elif recording.path in seen:
                left_out.append(LeftOut(recording.recording_id, "listed twice"))
            else:
                seen.add(recording.path)
                readable.append(recording)
                rates.add(outcome)
    if not readable:
        raise InputError(
            f"{config.source}: none of {len(source.recordings)} files is readable audio; first: {left_out[0].reason}"
        )
    signal = config.signal
    remarks = []
    if signal.fmax_hz == "auto":
        fmax_hz = min(signal.sample_rate_hz, *rates) / 2
        signal = replace(signal, fmax_hz=fmax_hz)
        remarks.append(
            f"fmax_hz=auto became {fmax_hz:g} Hz: half of the lowest rate among {sorted(rates)} and the signal's own."
        )
    return readable, left_out, signal, remarks


def _rate_of(recording: SourceRecording) -> int | InputError:
    try:
        return read_rate_hz(recording.path)
    except InputError as error:
        return error
