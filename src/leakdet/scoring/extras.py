"""Files on the suspected seconds of recordings: label files and clips."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TextIO

from leakdet.acoustics.clip import read_piece
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError, counted
from leakdet.core.files import publish, require_space, staged_folder
from leakdet.core.locations import Location, absolute_name, is_url, parse_location
from leakdet.core.messages import LOG, log_result
from leakdet.tables.schema import SCORED, Verdict
from leakdet.tables.write import write_csv


class LeakSpan(NamedTuple):
    """Neighbouring windows that reach the threshold, and the highest leak_prob among them."""

    start_s: float
    end_s: float
    leak_prob: float
    peak_s: float  # middle of the highest window


def leak_spans(verdict: Verdict) -> list[LeakSpan]:
    """The live windows of a recording that reach the threshold, in order.

    Windows that touch or overlap are one stretch. Dead windows, as of silence, never count.
    """
    spans: list[LeakSpan] = []
    live = verdict.live
    for number, window in enumerate(verdict.windows):
        if window.leak_prob < verdict.threshold or (live is not None and not live[number]):
            continue
        start_s, end_s, prob = window
        peak_s = (start_s + end_s) / 2
        if spans and start_s <= spans[-1].end_s:
            before = spans.pop()
            start_s = before.start_s
            if before.leak_prob >= prob:
                prob, peak_s = before.leak_prob, before.peak_s
        spans.append(LeakSpan(start_s, end_s, prob, peak_s))
    return spans


def most_suspected(verdict: Verdict, most_s: float) -> LeakSpan | None:
    """The stretch with the highest window, of at most `most_s` seconds around that; None of none.

    Of equal ones the longest.
    """
    spans = leak_spans(verdict)
    if not spans:
        return None
    highest = max(spans, key=lambda span: (span.leak_prob, span.end_s - span.start_s))
    start_s, end_s, prob, peak_s = highest
    if end_s - start_s > most_s:
        start_s = max(start_s, min(peak_s - most_s / 2, end_s - most_s))
        end_s = start_s + most_s
    return LeakSpan(start_s, end_s, prob, peak_s)


RAVEN = (
    "Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)",
    "High Freq (Hz)", "Leak Prob", "Decision",
)  # fmt: skip
ENDINGS = {"raven": ".selections.txt", "audacity": ".labels.txt"}


def label_places(paths: Sequence[str]) -> dict[str, PurePosixPath]:
    """Where the labels of recordings go: as these lie below the folder that all are in.

    >>> [str(place) for place in label_places(["/n/a/1.wav", "/n/b/1.wav"]).values()]
    ['a/1.wav', 'b/1.wav']
    """
    full = {path: _absolute(path) for path in paths}
    above = os.path.commonpath([place.parent for place in full.values()])
    return {path: place.relative_to(above) for path, place in full.items()}


def _absolute(path: str) -> PurePosixPath:
    if is_url(path):
        return PurePosixPath("/", path.partition("://")[2])
    return PurePosixPath(os.path.abspath(path))  # noqa: PTH100  links stay as they are named


@contextmanager
def label_files(
    folder: Path, kind: str, paths: Sequence[str], signal: SignalConfig
) -> Iterator[Callable[[Verdict], None]]:
    """A function that takes verdicts and writes their labels; `kind` is raven or audacity.

    The folder gets its name when all are written. A recording that was judged and has no suspected
    second gets a file without any; one that was not judged gets none.
    """
    places, ending = label_places(paths), ENDINGS[kind]
    written: dict[str, int] = {}  # selections so far
    unjudged = 0
    with staged_folder(folder) as staged:

        def add(verdict: Verdict) -> None:
            nonlocal unjudged
            if verdict.path is None or verdict.reason not in SCORED or verdict.error:
                unjudged += 1
                return
            place = staged / f"{places[verdict.path]}{ending}"
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("a", encoding="utf-8", errors="surrogateescape", newline="") as file:
                before = written.setdefault(verdict.path, 0)
                lines = _write_raven if kind == "raven" else _write_audacity
                written[verdict.path] += lines(file, verdict, before, signal)

        yield add
        publish(staged, folder)
    left = f"; {counted(unjudged, 'recording')} not judged have none" if unjudged else ""
    stretches = counted(sum(written.values()), "stretch").replace("stretchs", "stretches")
    log_result(f"labels   {folder}: {stretches} of {counted(len(written), 'recording')}{left}")


def _write_raven(file: TextIO, verdict: Verdict, before: int, signal: SignalConfig) -> int:
    if not file.tell():
        file.write("\t".join(RAVEN) + "\n")
    top_hz = signal.top_hz
    if verdict.source_rate_hz:
        top_hz = min(top_hz, verdict.source_rate_hz / 2)
    spans = leak_spans(verdict)
    for number, span in enumerate(spans, before + 1):
        cells = (
            number, "Spectrogram 1", verdict.channel or 1, f"{span.start_s:.6f}",
            f"{span.end_s:.6f}", f"{signal.fmin_hz:.1f}", f"{top_hz:.1f}",
            f"{span.leak_prob:.4f}", verdict.shown_decision,
        )  # fmt: skip
        file.write("\t".join(map(str, cells)) + "\n")
    return len(spans)


def _write_audacity(file: TextIO, verdict: Verdict, before: int, signal: SignalConfig) -> int:
    spans = leak_spans(verdict)
    channel = f" channel {verdict.channel}" if verdict.channel else ""
    decided = "" if verdict.decision == "leak" else f" (recording {verdict.shown_decision})"
    for span in spans:
        text = f"leak {span.leak_prob:.3f}{channel}{decided}"
        file.write(f"{span.start_s:.6f}\t{span.end_s:.6f}\t{text}\n")
    return len(spans)


TABLE = "clips.csv"
COPIED_COLUMNS = ("leak_prob", "threshold", "decision", "flags", "familiarity", "model")


def check_clips(files: Sequence[Location], folder: Path, most_s: float) -> None:
    """Check before any work that leaks can be read again, and that their clips have room.

    The disk must hold clips of every tenth file, of 16 bits at 48 kHz.
    """
    for file in files:
        if isinstance(file, Path) and file.exists() and not file.is_file():
            raise InputError(f"--clips reads leaks again, and {file} can be read once only.")
    require_space(folder, int(len(files) / 10 * most_s * 96_000), f"--clips {folder}")


class LeakClips:
    """The clips of one run of predict; `add` takes its verdicts."""

    def __init__(self, folder: Path, most_s: float) -> None:
        self.lost = 0  # recordings that could not be read again
        self._folder, self._most_s = folder, most_s
        self._rows: list[dict[str, Any]] = []

    def add(self, verdict: Verdict) -> None:
        """Cut out the seconds of a leak or possible leak; other verdicts have none."""
        stretch = most_suspected(verdict, self._most_s) if verdict.counts_as_leak else None
        if stretch is None or verdict.path is None:
            return
        source = parse_location(verdict.path)
        try:
            piece = read_piece(source, stretch.start_s, stretch.end_s, verdict.channel)
        except InputError as error:
            self.lost += 1
            LOG.warning(f"{source}: no clip, since it cannot be read again ({error})")
            return
        require_space(self._folder, piece.about_bytes, f"--clips: {source}")
        number = len(self._rows)
        piece.write(self._folder / f"{number}.wav")
        row = verdict.to_dict() | {"decision": verdict.shown_decision}
        path = absolute_name(verdict.path)
        seconds = {"start_s": stretch.start_s, "end_s": round(stretch.end_s, 3)}
        channel = {"channel": verdict.channel} if verdict.channel else {}
        copied = {name: row[name] for name in COPIED_COLUMNS}
        columns = {**verdict.columns, **seconds}
        clip = {"clip": number, "path": path, **channel, **seconds, **columns, **copied}
        self._rows.append(clip)

    def name_all(self) -> int:
        """Give the clips their names, the most probable leak first, and write their table."""
        ranked = sorted(self._rows, key=lambda row: -row["leak_prob"])
        digits = len(str(len(ranked)))
        for rank, row in enumerate(ranked, 1):
            name = f"{rank:0{digits}d}_{clip_name(row)}"
            (self._folder / f"{row['clip']}.wav").rename(self._folder / name)
            row["clip"] = name
        if ranked:
            write_csv(self._folder / TABLE, ranked, for_people=True)
        return len(ranked)


def clip_name(row: dict[str, Any]) -> str:
    """Probability, site, time and name of a recording, and the second at which the clip begins.

    >>> clip_name({"leak_prob": 0.97, "path": "/n/Elm St/a.wav", "start_s": 2.5})
    '0.970_Elm-St_a_2.5s.wav'
    """
    path = Path(row["path"])
    site = row.get("site") or path.parent.name
    channel = f"ch{row['channel']}" if "channel" in row else ""
    words = (site, row.get("recorded_at", ""), path.stem, channel)
    parts = [re.sub(r"[^\w.+-]+", "-", word.encode("utf-8", "replace").decode())[:40].strip("-")
             for word in words]  # fmt: skip
    name = [f"{row['leak_prob']:.3f}", *filter(None, parts), f"{row['start_s']:.1f}s"]
    return "_".join(name) + ".wav"


@contextmanager
def leak_clips(folder: Path, most_s: float) -> Iterator[LeakClips]:
    """Clips of at most `most_s` seconds; the folder gets its name when all are written."""
    with staged_folder(folder) as staged:
        clips = LeakClips(staged, most_s)
        yield clips
        count = clips.name_all()
        publish(staged, folder)
    log_result(f"clips    {folder}: {counted(count, 'leak')}, the most probable first")
