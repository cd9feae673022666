"""`predict --labels`: the suspected seconds of each recording as Raven and Audacity read them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TextIO

from leakdet._messages import log_result
from leakdet._remote import is_url
from leakdet.config import SignalConfig
from leakdet.errors import counted
from leakdet.scoring.leak_stretches import leak_stretches
from leakdet.scoring.verdict import Verdict
from leakdet.storage.atomic import publish, staged_folder

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
            if verdict.path is None or verdict.reason not in ("", "unfamiliar") or verdict.error:
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
    stretches = leak_stretches(verdict)
    for number, one in enumerate(stretches, before + 1):
        cells = (
            number, "Spectrogram 1", verdict.channel or 1, f"{one.start_s:.6f}",
            f"{one.end_s:.6f}", f"{signal.fmin_hz:.1f}", f"{top_hz:.1f}",
            f"{one.leak_prob:.4f}", verdict.decision,
        )  # fmt: skip
        file.write("\t".join(map(str, cells)) + "\n")
    return len(stretches)


def _write_audacity(file: TextIO, verdict: Verdict, before: int, signal: SignalConfig) -> int:
    stretches = leak_stretches(verdict)
    channel = f" channel {verdict.channel}" if verdict.channel else ""
    decided = "" if verdict.decision == "leak" else f" (recording {verdict.decision})"
    for one in stretches:
        text = f"leak {one.leak_prob:.3f}{channel}{decided}"
        file.write(f"{one.start_s:.6f}\t{one.end_s:.6f}\t{text}\n")
    return len(stretches)
