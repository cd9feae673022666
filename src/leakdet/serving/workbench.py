"""The recordings of the page: their verdicts as they come, and what a person ticked.

Ticks lie in `confirm.csv`, which `leakdet learn` reads, and the sounds that they are about in
`sounds/` beside it. Both are written before a tick is answered, so that a closed page and a killed
server lose none. What was uploaded and not ticked lies in `uploads/` and goes at the end.
"""

import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leakdet.core.errors import InputError, LeakdetError, SettingsError
from leakdet.core.files import whole_file
from leakdet.reporting.review_page import CHOICES
from leakdet.scoring.listing import NamePattern
from leakdet.scoring.prediction import VerdictCounts, columns_by, now, write_sidecar
from leakdet.serving.engine import Engine, Scored
from leakdet.tables.read import TableStream, columns_hint, read_table
from leakdet.tables.schema import (
    LABEL,
    RECORDED_AT,
    SPAN,
    TIMELINE,
    WHY,
    InputRecording,
    Verdict,
    confirm_row,
    is_reserved,
)
from leakdet.tables.values import iso_text
from leakdet.tables.workbooks import write_workbook
from leakdet.tables.write import row_writer, write_csv

MAX_RECORDINGS = 5_000
SHOWN = 300  # rows that the page gets at a time
UPLOADS = "uploads"
NOT_SURE = "not_sure"
LABELS = tuple(choice.value for choice in CHOICES)
TICKED, HEARD = "ticked on the page", "heard, not sure"  # why a row stands in the table

RowId = tuple[str, int]  # key and channel


@dataclass
class Entry:
    """A recording of the page, and its verdicts once they are there, shown under a `name`."""

    key: str
    source: Path
    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    pending: Scored | None = None
    stopped: bool = False


@dataclass(frozen=True)
class Row:
    """A verdict of an entry, or an entry that waits for one."""

    number: int
    entry: Entry
    verdict: Verdict | None
    label: str

    @property
    def id(self) -> str:
        return f"{self.number}.{self.channel}"

    @property
    def channel(self) -> int:
        return self.verdict.channel if self.verdict else 0

    @property
    def decision(self) -> str:
        """As people read it; `waiting`, `stopped` or `failed` where there is none."""
        if self.verdict is None:
            return "stopped" if self.entry.stopped else "waiting"
        return self.verdict.shown_decision or "failed"

    @property
    def suspicion(self) -> float:
        """By which rows are sorted; behind all others are failed ones, then those that wait."""
        if self.verdict is None:
            return -2.0
        return -1.0 if self.verdict.leak_prob is None else self.verdict.leak_prob

    @property
    def search(self) -> str:
        flags = self.verdict.flags if self.verdict else ()
        return " ".join([self.entry.name, *self.entry.columns.values(), *flags]).casefold()


@dataclass(frozen=True)
class Filter:
    """Which rows are shown: of a decision (or `ticked`, `open`), of a site, with a text."""

    decision: str = ""
    site: str = ""
    text: str = ""

    def matches(self, row: Row) -> bool:
        of_decision = {
            "": True,
            "ticked": bool(row.label),
            "open": not row.label and row.verdict is not None,
            "undecided": row.verdict is not None and row.verdict.decision == "undecided",
        }.get(self.decision, row.decision == self.decision)
        of_site = not self.site or row.entry.columns.get("site", "") == self.site
        return of_decision and of_site and self.text.casefold() in row.search


class Workbench:
    """Recordings, verdicts and ticks of all tabs; `version` grows with every change."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.folder, self._engine = folder, engine
        self.table, self.sounds = folder / "confirm.csv", folder / "sounds"
        self.uploads = folder / UPLOADS
        self.version = 0
        self._pattern: NamePattern | None = None
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._ticks: dict[RowId, dict[str, str]] = {}  # rows of the table
        self._listed: dict[str, dict[str, str]] = {}  # columns by the ends of paths

    def open(self) -> None:
        """Begin with the ticks that are there; what an earlier server left unticked is removed."""
        shutil.rmtree(self.uploads, ignore_errors=True)
        self.uploads.mkdir(parents=True)
        self.sounds.mkdir(exist_ok=True)
        if not self.table.exists():
            return
        table = read_table(self.table)
        if table.faults or not {"path", LABEL, WHY} <= {*table.columns}:
            raise InputError(
                f"{self.table}: ticks would replace it, and leakdet did not write it. Rename it, "
                "or give another --work."
            )
        for _, values in table.rows:
            key = Path(values["path"]).name
            channel = values.get("channel", "")
            self._ticks[key, int(channel) if channel.isdecimal() else 0] = values
            if (self.sounds / key).is_file() and key not in self._entries:
                columns = {name: text for name, text in values.items() if not is_reserved(name)}
                _copy(self.sounds / key, self.uploads / key)
                self.add(self.uploads / key, key, key.partition("-")[2], columns)

    def close(self) -> None:
        """Remove what was uploaded and not ticked."""
        shutil.rmtree(self.uploads, ignore_errors=True)

    def add(
        self, source: Path, key: str, name: str, columns: Mapping[str, str] | None = None
    ) -> bool:
        """Score a recording; False where the page has it already."""
        with self._lock:
            if earlier := self._entries.get(key):
                if earlier.stopped:
                    self._submit(earlier)
                return False
            if len(self._entries) >= MAX_RECORDINGS:
                raise InputError(
                    f"the page holds {MAX_RECORDINGS} recordings, and takes no more; score more of "
                    "them with leakdet predict."
                )
            entry = self._entries[key] = Entry(key, source, name)
            entry.columns = columns or self._columns_of(entry)
            self._submit(entry)
        return True

    def _submit(self, entry: Entry) -> None:
        recording = InputRecording(entry.source, entry.columns)
        entry.pending, entry.stopped = self._engine.submit(recording), False
        entry.pending.add_done_callback(lambda scored: self._receive(entry, scored))
        self.version += 1

    def _receive(self, entry: Entry, scored: Scored) -> None:
        """Keep the verdicts that came, unless others are awaited by now."""
        verdicts: Sequence[Verdict] = ()
        stopped = False
        try:
            verdicts = scored.result()
        except CancelledError:
            stopped = True
        except Exception as error:
            sentence = str(error) if isinstance(error, LeakdetError) else repr(error)
            verdicts = [Verdict(str(entry.source), None, None, 0.0, error=sentence)]
        with self._lock:
            if entry.pending is not scored:
                return
            entry.pending, entry.stopped = None, stopped
            entry.verdicts = [replace(v, columns=entry.columns) for v in verdicts]
            self.version += 1

    def stop(self) -> None:
        """Score none of the recordings that wait; dropping them again goes on."""
        self._engine.clear()

    def rescore(self) -> None:
        """Score all recordings again, by another model."""
        self._engine.clear()
        with self._lock:
            for entry in self._entries.values():
                entry.verdicts = ()
                self._submit(entry)

    def read_list(self, path: Path) -> int:
        """Take site, time and other columns by the names of files from a table with a path.

        Where rows of several folders differ about a name, it needs its folder to be known.
        """
        table = TableStream(path)
        if "path" not in table.columns:
            hint = columns_hint(table.columns, ["path"], table.remarks)
            raise InputError(f"{path}: a list needs the column path; {hint}")
        if {*SPAN} <= {*table.columns}:
            raise InputError(
                f"{path}: start and end are seconds of a recording, and the page scores whole "
                "ones. Leave these columns out, or use leakdet predict."
            )
        names = [name for name in table.columns if name and not is_reserved(name)]
        paths, listed = set(), dict[str, dict[str, str]]()
        for _, row in table:
            if not isinstance(row, str) and row["path"]:
                columns = {name: row[name] for name in names}
                if RECORDED_AT in columns:
                    columns[RECORDED_AT] = iso_text(columns[RECORDED_AT]) or columns[RECORDED_AT]
                paths.add(row["path"])
                for ending in _endings(row["path"]):
                    differs = listed.get(ending, columns) != columns
                    listed[ending] = {} if differs else columns
        with self._lock:
            self._listed |= listed
            self._apply_columns()
        return len(paths)

    def set_pattern(self, pattern: str) -> None:
        """Take columns from the names of files, as `predict --name-pattern` does; "": no longer."""
        try:
            parsed = NamePattern(pattern) if pattern else None
        except SettingsError as error:
            raise SettingsError(str(error).removeprefix("--name-pattern ")) from error
        with self._lock:
            names = [entry.name for entry in self._entries.values()]
            if parsed and names and not any(parsed.read(Path(name)) for name in names):
                raise SettingsError(f"{pattern!r}: no name here is built so, such as {names[0]}.")
            self._pattern = parsed
            self._apply_columns()

    def _apply_columns(self) -> None:
        for entry in self._entries.values():
            entry.columns = {**entry.columns, **self._columns_of(entry)}
            entry.verdicts = [replace(v, columns=entry.columns) for v in entry.verdicts]
        self.version += 1

    def _columns_of(self, entry: Entry) -> dict[str, str]:
        """What its list and its name tell of a recording; the list is believed."""
        of_name = self._pattern.read(Path(entry.name)) if self._pattern else {}
        endings = filter(self._listed.__contains__, _endings(entry.name))
        return {**(of_name or {}), **self._listed.get(next(endings, ""), {})}

    def tick(self, row_id: str, label: str) -> None:
        """Keep what a recording was, or that nobody is sure; "" takes the tick away."""
        if label and label not in LABELS:
            raise InputError(f"the label {label!r} is none of {', '.join(LABELS)}.")
        with self._lock:
            row = self.row(row_id)
            place, ticks = (row.entry.key, row.channel), dict(self._ticks)
            if not label:
                ticks.pop(place, None)
            elif row.verdict is None or row.verdict.error:
                raise InputError(f"{row.entry.name}: only what was scored can be ticked.")
            else:
                _copy(row.entry.source, self.sounds / row.entry.key)
                why, known = (HEARD, "") if label == NOT_SURE else (TICKED, label)
                path = f"{self.sounds.name}/{row.entry.key}"
                ticks[place] = confirm_row(row.verdict, path, why, known)
            write_csv(self.table, ticks.values(), _table_columns(ticks.values()), for_people=True)
            self._ticks = ticks  # which nobody sees before they are kept
            if not any(key == row.entry.key for key, _ in ticks):
                (self.sounds / row.entry.key).unlink(missing_ok=True)
            self.version += 1

    def row(self, row_id: str) -> Row:
        """The row of this id. Raises `InputError` where there is none."""
        with self._lock:
            row = next((row for row in self._rows() if row.id == row_id), None)
        if row is None:
            raise InputError(f"the page has no recording {row_id!r}; load it again.")
        return row

    def _rows(self) -> Iterable[Row]:
        for number, entry in enumerate(self._entries.values()):
            for verdict in entry.verdicts or (None,):
                channel = verdict.channel if verdict else 0
                yield Row(number, entry, verdict, self._label(entry.key, channel))

    def _label(self, key: str, channel: int) -> str:
        values = self._ticks.get((key, channel))
        return "" if values is None else values[LABEL] or NOT_SURE

    def rows(self, shown: Filter) -> list[Row]:
        """The rows that the filter takes, the most suspicious first."""
        with self._lock:
            rows = [row for row in self._rows() if shown.matches(row)]
        return sorted(rows, key=lambda row: (-row.suspicion, row.entry.name))

    def facts(self) -> dict[str, Any]:
        """Counts of all rows, whatever is shown, and the sites that there are."""
        with self._lock:
            rows = list(self._rows())
            labels = Counter(values[LABEL] or NOT_SURE for values in self._ticks.values())
        return {
            "version": self.version,
            "recordings": len(rows),
            "decisions": Counter(row.decision for row in rows),
            "waiting": sum(row.entry.pending is not None for row in rows),
            "labels": labels,
            "sites": sorted({site for row in rows if (site := row.entry.columns.get("site"))}),
            "dated": any(row.entry.columns.get(RECORDED_AT) for row in rows),
            "pattern": self._pattern.text if self._pattern else "",
        }

    def _header(self, rows: Sequence[Row]) -> list[str]:
        listed = dict.fromkeys(name for row in rows for name in row.entry.columns)
        return columns_by(self._engine.detector.mel_detector, list(listed))

    def write_shown(self, path: Path, shown: Filter) -> None:
        """Write the rows of the filter with their labels as CSV or workbook, for people."""
        rows = [row for row in self.rows(shown) if row.verdict]
        values = [_shown_values(row) for row in rows]
        columns = [*self._header(rows), LABEL]
        if path.suffix == ".xlsx":
            write_workbook(path, values, columns, "verdicts")
        else:
            write_csv(path, values, columns, for_people=True)

    def write_rows(self, out: Path) -> None:
        """Write all rows as `leakdet predict --out` does, for a work list."""
        rows = [row for row in self.rows(Filter()) if row.verdict]
        counts, started_at = VerdictCounts(), now()
        with row_writer(out, "csv", False, self._header(rows)) as write:
            for row in rows:
                assert row.verdict is not None
                values = row.verdict.to_dict()
                write(values)
                counts.add(values)
        write_sidecar(
            out,
            self._engine.detector,
            counts,
            inputs=["the page"],
            left_out=[],
            settings={},
            started_at=started_at,
        )


def _shown_values(row: Row) -> dict[str, Any]:
    """The row of predict with its label; a file of a named folder has its path there."""
    assert row.verdict is not None
    uploaded = row.entry.source.parent.name == UPLOADS
    path = row.entry.name if uploaded else str(row.entry.source)
    label = "" if row.label == NOT_SURE else row.label
    values = {**row.verdict.to_dict(), "path": path, LABEL: label}
    values.pop(TIMELINE)
    return values


def _table_columns(rows: Iterable[Mapping[str, str]]) -> list[str]:
    columns = [name for values in rows for name in values]
    return list(dict.fromkeys(columns)) or ["path", LABEL]


def _endings(name: str) -> Iterator[str]:
    """The name with all its folders, with fewer of them, and alone."""
    parts = name.replace("\\", "/").split("/")
    return ("/".join(parts[start:]) for start in range(len(parts)))


def _copy(source: Path, target: Path) -> None:
    """Copy a sound, whole or not at all."""
    if target.exists():
        return
    with whole_file(target) as partial:
        shutil.copyfile(source, partial)
