"""`predict --clips`: the most suspected seconds of every leak, cut out of its recording as WAV."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakdet._messages import LOG, log_result
from leakdet._remote import RemoteFile, absolute_name, place
from leakdet.acoustics.source_piece import read_piece
from leakdet.errors import InputError, counted
from leakdet.scoring.leak_stretches import most_suspected
from leakdet.scoring.verdict import Verdict
from leakdet.storage.atomic import publish, staged_folder
from leakdet.storage.csv_file import write_csv
from leakdet.storage.disk_space import require_space

TABLE = "clips.csv"
TOLD = "leak_prob threshold decision flags familiarity model"


def check_clips(files: Sequence[Path | RemoteFile], folder: Path, most_s: float) -> None:
    """Check before any work that leaks can be read again, and that their clips have room.

    The disk must hold clips of every tenth file, of 16 bits at 48 kHz.

    Raises:
        InputError: says what is wrong.
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
        """Cut out the seconds of a leak; other verdicts have none."""
        stretch = most_suspected(verdict, self._most_s) if verdict.decision == "leak" else None
        if stretch is None or verdict.path is None:
            return
        source = place(verdict.path)
        try:
            piece = read_piece(source, stretch.start_s, stretch.end_s, verdict.channel)
        except InputError as error:
            self.lost += 1
            LOG.warning(f"{source}: no clip, since it cannot be read again ({error})")
            return
        require_space(self._folder, piece.about_bytes, f"--clips: {source}")
        number = len(self._rows)
        piece.write(self._folder / f"{number}.wav")
        row = verdict.to_dict()
        path = absolute_name(verdict.path)
        seconds = {"start_s": stretch.start_s, "end_s": round(stretch.end_s, 3)}
        channel = {"channel": verdict.channel} if verdict.channel else {}
        told = {name: row[name] for name in TOLD.split()}
        clip = {"clip": number, "path": path, **channel, **seconds, **verdict.columns, **told}
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
            write_csv(self._folder / TABLE, ranked)
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
    told = [f"{row['leak_prob']:.3f}", *filter(None, parts), f"{row['start_s']:.1f}s"]
    return "_".join(told) + ".wav"


@contextmanager
def leak_clips(folder: Path, most_s: float) -> Iterator[LeakClips]:
    """Clips of at most `most_s` seconds; the folder gets its name when all are written."""
    with staged_folder(folder) as staged:
        clips = LeakClips(staged, most_s)
        yield clips
        count = clips.name_all()
        publish(staged, folder)
    log_result(f"clips    {folder}: {counted(count, 'leak')}, the most probable first")
