"""The rows of predict, defined once: what goes in, what comes out, and the columns of a row.

A recording goes in as an `InputRecording` and comes out as a `Verdict`, whose row has the columns
of `COLUMNS`. A new column is an entry there and a line in docs/verdicts.md; CSV, Parquet, JSON
lines, the readers and the names that are reserved follow from it.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from leakdet.core.locations import Location, Span

NO_COLUMNS: Mapping[str, str] = {}
SPAN = ("start_s", "end_s")  # columns of a list that is about some seconds of its files


def listed_span(columns: Mapping[str, str]) -> Span | None:
    """The seconds in the columns of a list, which are numbers or blank; None: the whole file."""
    start, end = (columns.get(name) for name in SPAN)
    return Span(float(start), float(end)) if start and end else None


@dataclass(frozen=True, slots=True)
class InputRecording:
    """A recording to score, with what its list tells of it.

    `columns` go on into its row. `error` says why it cannot be read, where its list knows already.
    """

    source: Location
    columns: Mapping[str, str] = field(default_factory=lambda: NO_COLUMNS)
    error: str = ""

    @property
    def span(self) -> Span | None:
        """The seconds that its list names; None: it is about the whole file."""
        return listed_span(self.columns)


Decision = Literal["leak", "no_leak", "undecided"]
DECISIONS = (*get_args(Decision), "")  # of rows; blank where a recording could not be scored
Reason = Literal["", "silent", "short", "stuck", "dropouts", "other_source", "unfamiliar", "doubt"]
SCORED = ("", "other_source", "unfamiliar", "doubt")  # reasons with sound to be judged by
POSSIBLE_LEAK = "possible leak"  # what people read of a recording in doubt


class Window(NamedTuple):
    """A window of a recording: its bounds in seconds, and its leak probability in 0..1."""

    start_s: float
    end_s: float
    leak_prob: float


View = Mapping[str, Callable[..., Any]]  # `html(verdict)`, and `plot(verdict, axes)`


@dataclass(frozen=True, repr=False)
class Verdict:
    """A detector's decision on one recording, with its evidence.

    `leak_prob` is the score of its live windows; it is a leak where `leak_prob` reaches
    `threshold`. Where it is `undecided`, as without a whole live window, `reason` says why.
    Where a recording cannot be scored at all, `error` says why. What is unknown is None.
    """

    path: str | None  # None: an array
    decision: Decision | None
    leak_prob: float | None
    threshold: float
    windows: list[Window] = field(default_factory=list)
    leak_windows: int | None = None  # live windows that reach the threshold by themselves
    duration_s: float | None = None
    source_rate_hz: int | None = None
    flags: list[str] = field(default_factory=list)  # oddities of the file and its sound
    error: str = ""
    reason: Reason = ""  # why it is undecided
    model: str = ""  # the first 12 digits of the model file's SHA-256
    # distance to the training recordings over its threshold; above 1 it sounds unlike them
    familiarity: float | None = None
    p10_prob: float | None = None  # 10th percentile of the leak probability of its live windows
    quiet_level_dbfs: float | None = None  # of its quiet part, as `QuietLevel` defines it
    mains_hum_db: float | None = None  # of 50 or 60 Hz and harmonics above their neighbours
    channel: int = 0  # of the file, from 1, where each has a verdict; 0: they were made one
    # of a multiclass model: the most probable class where it is decided, and the probability of
    # each class, of which those that mean a leak add up to `leak_prob`
    class_name: str | None = None
    class_prob: dict[str, float | None] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)  # what its list tells of it
    # which windows hold sound; None: all. No part of the row
    live: npt.NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)
    # its sound whatever its level (`band_features`), float32; no part of the row
    features: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        """One line: the decision and its score, not the windows."""
        path = "an array" if self.path is None else repr(self.path)
        if self.error:
            return f"Verdict({path}: error {self.error!r})"
        reason = f" ({self.reason})" if self.reason else ""
        score = "" if self.leak_prob is None else f", leak_prob {self.leak_prob:.3f}"
        flags = f", {', '.join(self.flags)}" if self.flags else ""
        return (
            f"Verdict({path}: {self.decision}{reason}{score}, threshold {self.threshold:g}, "
            f"{len(self.windows)} windows{flags})"
        )

    @property
    def span(self) -> Span | None:
        """The seconds of the file that were judged, as its list names them; None: all."""
        return listed_span(self.columns)

    def with_view(self, view: View) -> "Verdict":
        """This verdict, with what shows it in a notebook; no part of its value, nor of a copy."""
        object.__setattr__(self, "_view", view)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_view"}

    def _repr_html_(self) -> str | None:
        view: View = vars(self).get("_view", {})
        return view["html"](self) if view else None

    def plot(self, axes: Any = None) -> Any:
        """Draw the leak probability over time into axes of matplotlib, by default new ones.

        Raises:
            TypeError: no detector gave this verdict.
        """
        view: View = vars(self).get("_view", {})
        if not view:
            raise TypeError("plot() is for verdicts of Detector.predict and predict_each")
        return view["plot"](self, axes)

    @property
    def counts_as_leak(self) -> bool:
        """True of a leak, and of a recording in doubt that reaches the threshold."""
        reaches = self.leak_prob is not None and self.leak_prob >= self.threshold
        return self.decision == "leak" or (self.reason == "doubt" and reaches)

    @property
    def shown_decision(self) -> str:
        """The decision as people read it: a recording in doubt is a possible leak."""
        return POSSIBLE_LEAK if self.reason == "doubt" else self.decision or ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the row of `leakdet predict`, and `timeline` with the windows.

        >>> Verdict("a.wav", "leak", 0.9, 0.5, [Window(0.0, 1.0, 0.9)], 1, 1.0, 16000).to_dict()
        {'path': 'a.wav', 'decision': 'leak', 'reason': '', 'leak_prob': 0.9, 'threshold': 0.5,
         'windows': 1, 'leak_windows': 1, 'duration_s': 1.0, 'source_rate_hz': 16000, 'flags': '',
         'familiarity': None, 'model': '', 'error': '', 'p10_prob': None, 'quiet_level_dbfs': None,
         'mains_hum_db': None, 'timeline': [(0.0, 1.0, 0.9)]}
        """
        values = {
            **self.columns,
            **{column.name: column.value_of(self) for column in COLUMNS},
            **{CLASS_PROB + name: prob for name, prob in self.class_prob.items()},
            TIMELINE: [tuple(window) for window in self.windows],
        }
        names = row_columns(self.channel > 0, self.class_prob, self.columns)
        return {name: values[name] for name in (*names, TIMELINE)}


class Verdicts(list[Verdict]):
    """A list of verdicts; `pandas.DataFrame(verdicts.rows())` is a table of them."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each verdict, as `leakdet predict` writes it, without its windows."""
        rows = [verdict.to_dict() for verdict in self]
        return [{name: row[name] for name in row if name != TIMELINE} for row in rows]

    def __repr__(self) -> str:
        """One line for each verdict."""
        return "[" + ",\n ".join(map(repr, self)) + "]"


@dataclass(frozen=True)
class Column:
    """A column of a row: its name, its type in Parquet, and how a verdict gives its value.

    CSV and JSON lines have the value as Python writes it. None, for what is unknown, is blank in
    CSV and null elsewhere.
    """

    name: str
    type: Literal["string", "int64", "float64"] = "string"
    value: Callable[[Verdict], Any] | None = None  # None: the field of this name

    def value_of(self, verdict: Verdict) -> Any:
        """The plain value of a verdict in this column."""
        return self.value(verdict) if self.value else getattr(verdict, self.name)


COLUMNS = (
    Column("path"),  # behind it stand the columns of a list
    Column("channel", "int64"),  # of a model that scores every channel
    Column("start_s", "float64", lambda verdict: verdict.span and verdict.span.start_s),
    Column("end_s", "float64", lambda verdict: verdict.span and verdict.span.end_s),
    Column("decision"),
    Column("reason"),
    Column("leak_prob", "float64"),
    Column("threshold", "float64"),
    Column("windows", "int64", lambda verdict: None if verdict.error else len(verdict.windows)),
    Column("leak_windows", "int64"),
    Column("duration_s", "float64"),
    Column("source_rate_hz", "int64"),
    Column("flags", value=lambda verdict: ",".join(verdict.flags)),
    Column("familiarity", "float64"),
    Column("model"),
    Column("error"),
    Column("p10_prob", "float64"),
    Column("quiet_level_dbfs", "float64"),
    Column("mains_hum_db", "float64"),
    Column("class", value=lambda verdict: verdict.class_name),  # of a multiclass model
)
CLASS_PROB = "prob_"  # begins the columns of the classes, behind all others
ROW_MARKS = {"path", "decision"}  # the columns by which rows of predict are known
TIMELINE = "timeline"  # the windows, in JSON lines only
WINDOW_COLUMNS = ("path", "window_start_s", "window_end_s", "leak_prob")  # of a file beside a CSV

# columns that a list may have, and that leakdet knows
RECORDED_AT = "recorded_at"
# columns of tables to confirm: the label to be filled in, and what marks a table as leakdet's own
LABEL, WHY = "label", "why_suggested"

FORMULA = re.compile(r"(?!'*[+-]?[\d.]+$)'*[=+\-@\t\r]")  # a cell that a spreadsheet would run


def is_formula(value: object) -> bool:
    """True of a text that a spreadsheet takes for a formula; a number is none."""
    return isinstance(value, str) and value[:1] in "=+-@\t\r'" and FORMULA.match(value) is not None


def defused(value: Any) -> Any:
    """A cell of a table for people: a formula behind an apostrophe, which `fused` takes away.

    >>> defused("=1+1"), defused("-1.5"), fused(defused("'=1+1"))
    ("'=1+1", '-1.5', "'=1+1")
    """
    return f"'{value}" if is_formula(value) else value


EXACT = ("lat", "lon")  # columns whose digits are places on the ground


def rounded(column: str, value: Any) -> Any:
    """A value of a table for people: four digits of what was computed, six decimals of a place.

    >>> rounded("worth", -1795.9386), rounded("lat", 50.1109221), rounded("nights", 12345)
    (-1796, 50.110922, 12345)
    """
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    if column in EXACT:
        return round(value, 6)
    short = float(f"{value:.4g}")
    return int(short) if abs(short) >= 1000 else short


def texts_for_people(row: Mapping[str, Any]) -> dict[str, str]:
    """The cells of such a row as text; what is unknown is blank."""
    values = {name: rounded(name, value) for name, value in row.items()}
    return {name: "" if value is None else str(value) for name, value in values.items()}


COPIED_COLUMNS = (
    "leak_prob", "threshold", "decision", "reason", "familiarity", "duration_s", "source_rate_hz",
    "flags", "model",
)  # fmt: skip


def confirm_row(verdict: Verdict, path: str, why: str, label: str = "") -> dict[str, str]:
    """A row of a table to confirm: the recording, its label, and what was said of it."""
    row = verdict.to_dict()
    channel = {"channel": row["channel"]} if "channel" in row else {}
    copied = {name: row[name] for name in COPIED_COLUMNS}
    # the columns of the list, such as site: learn takes them as groups and dates
    first = {"path": path, **channel, LABEL: label, WHY: why}
    return texts_for_people({**first, **verdict.columns, **copied})


def fused(text: str) -> str:
    """The text that `defused` was given."""
    return text[1:] if text[:1] == "'" and is_formula(text) else text


_TYPES = {column.name: column.type for column in COLUMNS}
_RESERVED = frozenset(_TYPES) | {TIMELINE, LABEL, WHY}
# columns of recordings.csv and of the files of a store
_RESERVED |= frozenset(
    "recording_id split weight live_windows rms_dbfs dc_offset clipped_fraction content_sha256 "
    "mel_crc32 mains_hum_50_db mains_hum_60_db surrogate_of source_file".split()
)


def row_columns(
    by_channel: bool = False, classes: Iterable[str] = (), listed: Iterable[str] = ()
) -> list[str]:
    """Names of the columns of a row: of each channel, of these classes, with those of a list.

    A list that names seconds has them in its columns `start_s` and `end_s`.
    """
    probs = [CLASS_PROB + name for name in classes]
    absent = {*SPAN} | ({"channel"} if not by_channel else set())
    absent |= {"class"} if not probs else set()
    path, *others = [column.name for column in COLUMNS if column.name not in absent]
    return list(dict.fromkeys([path, *listed, *others, *probs]))


def column_type(name: str) -> str:
    """The type of a column in Parquet: string, also of a list's own columns, int64 or float64."""
    return "float64" if name.startswith(CLASS_PROB) else _TYPES.get(name, "string")


def is_row_column(name: str) -> bool:
    """True of a column that predict writes itself; False of one that it takes from a list."""
    return name in _TYPES or name == TIMELINE or name.startswith(CLASS_PROB)


def is_reserved(name: str) -> bool:
    """True of a column that makes no group of recordings, and that no table of them can add."""
    return name in _RESERVED or name.startswith(CLASS_PROB)
