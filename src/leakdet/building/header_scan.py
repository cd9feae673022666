"""Reads the headers of all source files: which are audio, and up to which frequency."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from leakdet._parallel import in_order
from leakdet._progress import ProgressCounter
from leakdet.acoustics.audio import read_rate_hz
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import BuildConfig, SignalConfig
from leakdet.errors import InputError


@dataclass
class HeaderScan:
    """The recordings whose headers are readable, and the signal settings with a numeric fmax."""

    signal: SignalConfig
    left_out: list[LeftOut]
    readable: list[SourceRecording] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def scan_headers(source: Source, config: BuildConfig) -> HeaderScan:
    """Read every header, before recordings are divided into splits.

    Raises:
        InputError: no file is readable audio.
    """
    scan = HeaderScan(config.signal, list(source.left_out))
    rates: Counter[int] = Counter()
    seen: set[Path] = set()
    with ProgressCounter("reading headers", len(source.recordings), "files") as progress:
        for recording, rate_hz in in_order(_rate_of, source.recordings, config.workers):
            progress.step()
            if isinstance(rate_hz, InputError):
                scan.left_out.append(LeftOut(recording.recording_id, str(rate_hz)))
            elif recording.path in seen:
                scan.left_out.append(LeftOut(recording.recording_id, "listed twice"))
            else:
                seen.add(recording.path)
                scan.readable.append(recording)
                rates[rate_hz] += 1
    if not scan.readable:
        raise InputError(
            f"{config.source}: none of {len(source.recordings)} files is readable audio; "
            f"first: {scan.left_out[0].reason}"
        )
    if config.signal.fmax_hz == "auto":
        fmax_hz = min(config.signal.sample_rate_hz, *rates) / 2
        scan.signal = replace(config.signal, fmax_hz=fmax_hz)
        scan.remarks.append(_fmax_remark(fmax_hz, config.signal.sample_rate_hz, rates))
    return scan


def _rate_of(recording: SourceRecording) -> int | InputError:
    try:
        return read_rate_hz(recording.path)
    except InputError as error:
        return error


def _fmax_remark(fmax_hz: float, sample_rate_hz: int, rates: Counter[int]) -> str:
    lowest = min(rates)
    if lowest >= sample_rate_hz:
        reason = f"half of the {sample_rate_hz / 1000:g} kHz to which recordings are resampled"
    else:
        count = f"{rates[lowest]} of {rates.total()} recordings"
        reason = f"half of {lowest / 1000:g} kHz, the lowest sample rate, that of {count}"
    return f"Frequencies up to {fmax_hz:g} Hz are used ({reason})."
