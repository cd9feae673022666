"""Reads the headers of all source files: which are audio, up to which frequency, how much space."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from leakdet.acoustics.audio import Header, read_header
from leakdet.acoustics.containers.sound_file import beyond_end
from leakdet.acoustics.mel import mel_filterbank
from leakdet.acoustics.windows import window_starts
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import InputError, SettingsError, first_few
from leakdet.core.locations import SOURCE_FILE, Excerpt, Location
from leakdet.core.parallel import in_order
from leakdet.core.progress import ProgressCounter


@dataclass
class HeaderScan:
    """The recordings whose headers are readable, and the signal settings with a numeric fmax."""

    signal: SignalConfig
    left_out: list[LeftOut]
    readable: list[SourceRecording] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    # length of each file, or span of one
    about_s: dict[Location | Excerpt, float] = field(default_factory=dict)


def scan_headers(source: Source, config: BuildConfig) -> HeaderScan:
    """Read every header, before recordings are divided into splits."""
    scan = HeaderScan(config.signal, list(source.left_out))
    of_rate: defaultdict[int, list[SourceRecording]] = defaultdict(list)
    seen: set[tuple[Location | Excerpt, int]] = set()
    with ProgressCounter("reading headers", len(source.recordings), "files") as progress:
        for recording, header in in_order(_header_of, source.recordings, config.workers):
            progress.step()
            place, span = recording.place, recording.span
            if isinstance(header, InputError):
                scan.left_out.append(LeftOut(place, str(header)))
            elif (recording.sound, recording.channel) in seen:
                scan.left_out.append(LeftOut(place, "listed twice"))
            elif recording.channel > header.channels:
                reason = f"it has no channel {recording.channel}, the last is {header.channels}"
                scan.left_out.append(LeftOut(place, reason))
            elif span and header.length_s and (error := beyond_end(span, header.length_s)):
                scan.left_out.append(LeftOut(place, str(error)))
            else:
                seen.add((recording.sound, recording.channel))
                recordings = [recording]
                if config.signal.channels == "each":
                    recordings = _channels(recording, header.channels)
                of_rate[header.rate_hz] += recordings
                scan.readable += recordings
                seconds = span.end_s - span.start_s if span else header.about_s
                scan.about_s[recording.sound] = seconds
    if not scan.readable:
        raise InputError(
            f"{config.source}: none of {len(source.recordings)} files is readable audio; "
            f"first: {scan.left_out[0].reason}"
        )
    if config.signal.fmax_hz == "auto":
        _choose_fmax(scan, of_rate)
    return scan


def _channels(recording: SourceRecording, count: int) -> list[SourceRecording]:
    """The channels of a file of `count`, or the one that is asked for, as recordings."""
    wanted = [recording.channel] if recording.channel else range(1, count + 1)
    file = recording.recording_id
    return [
        replace(
            recording,
            recording_id=f"{file}#channel{channel}" if count > 1 else file,
            channel=channel,
            groups={SOURCE_FILE: file, **recording.groups},
        )
        for channel in wanted
    ]


def _choose_fmax(scan: HeaderScan, of_rate: Mapping[int, list[SourceRecording]]) -> None:
    """Set fmax to half the lowest rate; leave out recordings whose rate is too low for any mel."""
    signal = scan.signal
    usable = {rate: recordings for rate, recordings in of_rate.items() if _fits(signal, rate)}
    for rate in sorted(of_rate.keys() - usable.keys()) if usable else ():
        reason = f"its sample rate of {rate} Hz is too low for {signal.n_mels} mel bands"
        scan.left_out += [LeftOut(item.recording_id, reason) for item in of_rate[rate]]
    used = usable or of_rate
    kept = {item.recording_id for recordings in used.values() for item in recordings}
    scan.readable = [item for item in scan.readable if item.recording_id in kept]
    fmax_hz = min(signal.sample_rate_hz, *used) / 2
    scan.signal = replace(signal, fmax_hz=fmax_hz)
    scan.remarks.append(_fmax_remark(fmax_hz, signal.sample_rate_hz, used))


def _fits(signal: SignalConfig, rate_hz: int) -> bool:
    """True if a recording of this rate fills every mel band below half of it."""
    try:
        mel_filterbank(replace(signal, fmax_hz=min(signal.sample_rate_hz, rate_hz) / 2))
    except SettingsError:
        return False
    return True


def _header_of(recording: SourceRecording) -> Header | InputError:
    try:
        return read_header(recording.path)
    except InputError as error:
        return error


def _fmax_remark(
    fmax_hz: float, sample_rate_hz: int, of_rate: Mapping[int, list[SourceRecording]]
) -> str:
    lowest = min(of_rate)
    if lowest >= sample_rate_hz:
        why = f"half of the {sample_rate_hz / 1000:g} kHz to which recordings are resampled"
        return f"Frequencies up to {fmax_hz:g} Hz are used ({why})."
    names = [item.recording_id for item in of_rate[lowest]]
    count = f"{len(names)} of {sum(map(len, of_rate.values()))} recordings"
    text = (
        f"Frequencies up to {fmax_hz:g} Hz are used (half of {lowest / 1000:g} kHz, the lowest "
        f"sample rate, that of {count}"
    )
    if len(of_rate) == 1:
        return f"{text})."
    return f"{text}: {first_few(names, 3)}). Without them, more would be used."


MEL_BYTES = 2  # float16
SOUND_BYTES = {"none": 0, "int16": 2, "float32": 4}


def build_bytes(
    assigned: Sequence[tuple[SourceRecording, str]],
    about_s: Mapping[Location | Excerpt, float],
    signal: SignalConfig,
    config: BuildConfig,
) -> int:
    """About how much a build writes at most at a time, uncompressed.

    Everything is spooled, then written split by split, each of whose spools is removed.
    """
    of_split: Counter[str] = Counter()
    for recording, split in assigned:
        size = recording_bytes(about_s[recording.sound], signal, config.waveform)
        of_split[split] += size
    return of_split.total() + max(of_split.values(), default=0)


def recording_bytes(seconds: float, signal: SignalConfig, waveform: str) -> int:
    """About the bytes of a recording of this length: its mel, and its sound where that is kept."""
    samples = int(seconds * signal.sample_rate_hz)
    windows = len(window_starts(samples, signal))
    return windows * math.prod(signal.mel_shape) * MEL_BYTES + samples * SOUND_BYTES[waveform]
