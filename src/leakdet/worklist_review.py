"""The recordings of a work list to hear and to confirm: one of each of the first sites."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakdet._progress import ProgressCounter
from leakdet._remote import RemoteFile, is_url, place
from leakdet.errors import counted, first_few
from leakdet.reporting.review_page import LABEL, ReviewPage, ReviewRow
from leakdet.reporting.row_media import RowMedia
from leakdet.review_media import WHY, ReviewMedia
from leakdet.sites.worklist_row import Recording, WorklistRow

if TYPE_CHECKING:  # it loads torch
    from leakdet.scoring.audio_detector import Detector

ONE_NIGHT = timedelta(hours=18)
TIMES = "recorded_at"
TOLD = ("leak_prob", "decision", "quiet_level_dbfs", "model")
RESERVED = {"path", "channel", "site", TIMES, LABEL, WHY, *TOLD, "split", "weight"}


@dataclass(frozen=True)
class Shown:
    """A recording to hear, of a site with its rank."""

    rank: int
    row: WorklistRow
    recording: Recording


def choose_recordings(rows: Sequence[WorklistRow], most: int) -> list[Shown]:
    """Of the first `most` sites with sound, the most leak-like recording of their last night."""
    shown: list[Shown] = []
    for rank, row in enumerate(rows, 1):
        if len(shown) >= most:
            break
        scored = [recording for recording in row.recordings if recording.leak_prob is not None]
        if scored:
            night = [other for other in scored if _same_night(other, scored[0])]
            shown.append(Shown(rank, row, max(night, key=lambda other: other.leak_prob or 0.0)))
    return shown


def _same_night(one: Recording, newest: Recording) -> bool:
    if one.recorded_at is None or newest.recorded_at is None:
        return one is newest
    return newest.recorded_at - one.recorded_at < ONE_NIGHT


def found_file(name: str, places: Sequence[Path]) -> Path | RemoteFile:
    """Where a recording of these rows lies: absolute, a URL, or the first that is there.

    Relative names are those of the folder in which predict ran: the current one, or else that of
    the rows or the one above it.
    """
    if is_url(name):
        return place(name)
    folders = [Path(), *places, *(folder.parent for folder in places)]
    candidates = [folder / name for folder in folders]
    found = next((path for path in candidates if path.exists()), candidates[0])
    return Path(os.path.abspath(found))  # noqa: PTH100  links stay as they are named


def confirm_rows(
    shown: Sequence[Shown], files: Sequence[Path | RemoteFile], model: str
) -> list[dict[str, str]]:
    """The table to fill in, as learn and build read it: a row for each recording, label empty."""
    rows = []
    for one, file in zip(shown, files, strict=True):
        at, recording = one.recording.recorded_at, one.recording
        channel = {"channel": recording.channel} if recording.channel else {}
        first = {
            "path": str(file),
            **channel,
            "site": one.row.site.removesuffix(f" channel {recording.channel}"),
            TIMES: "" if at is None else at.isoformat(),
        }
        own = {name: text for name, text in one.row.columns.items() if name not in RESERVED}
        values = {
            **first,
            **own,
            LABEL: "",
            WHY: f"rank {one.rank}, {one.row.state}: {one.row.why}",
            "leak_prob": recording.leak_prob,
            "decision": recording.decision,
            "quiet_level_dbfs": recording.quiet_level_dbfs,
            "model": model,
        }
        rows.append({name: "" if value is None else str(value) for name, value in values.items()})
    return rows


def gone_sentence(files: Sequence[Path | RemoteFile]) -> str:
    """What is said where files are no longer where predict read them; "" where all are there."""
    gone = [str(file) for file in files if isinstance(file, Path) and not file.exists()]
    if not gone:
        return ""
    return (
        f"{len(gone)} of {counted(len(files), 'recording')} to hear are no longer there "
        f"({first_few(gone, 2)}): their rows have neither picture nor sound."
    )


def review_page(
    shown: Sequence[Shown],
    rows: Sequence[dict[str, str]],
    files: Sequence[Path | RemoteFile],
    detector: "Detector | None",
    threshold: float,
    table: str,
) -> ReviewPage:
    """The recordings with pictures and sounds, as far as their files and the model are there."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    media = ReviewMedia(detector, len(shown)) if detector else None
    drawn = []
    with ProgressCounter("pictures and sounds", len(shown), "recordings") as progress:
        for one, values, file in zip(shown, rows, files, strict=True):
            drawn.append(_drawn(one, values, file, media, threshold))
            progress.step()
    return ReviewPage("", "", [], table, columns, drawn)


def _drawn(
    one: Shown,
    values: dict[str, str],
    file: Path | RemoteFile,
    media: ReviewMedia | None,
    threshold: float,
) -> ReviewRow:
    gone = isinstance(file, Path) and not file.exists()
    heard = media.playback(file, one.recording.channel) if media and not gone else None
    facts = {
        "channel": values.get("channel", ""),
        "recorded": values[TIMES].replace("T", " "),
        "leak probability": values["leak_prob"][:5],
        "quiet level": f"{float(level):.0f} dB" if (level := values["quiet_level_dbfs"]) else "",
        "file": f"{file} (gone)" if gone else str(file),
    }
    windows = [window.leak_prob for window in heard.verdict.windows] if heard else []
    return ReviewRow(
        one.row.site,
        values,
        values[WHY],
        facts,
        threshold,
        np.array(windows),
        media.of(heard) if media else RowMedia(""),
    )
