"""Reads the rows of predict into columns: numbers as arrays, repeated texts once."""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from itertools import groupby, islice, repeat
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.tables.schema import POSSIBLE_LEAK, RECORDED_AT, SPAN, is_row_column
from leakdet.tables.values import number_of

DAY_S = 86_400
AT_A_TIME = 4_096  # rows that are held as such
UNDATED, UNREAD = -1, -2  # instead of seconds: no time was given, or none that is understood
# columns of a list that have a place of their own in the work list
PLACED = {"site", RECORDED_AT, "lat", "lon"}
# what tables of people call them
NAMED_LAT = ("latitude", "breite", "breitengrad", "geo_lat", "gps_lat")
NAMED_LON = ("longitude", "long", "lng", "länge", "längengrad", "geo_lon", "gps_lon")
USUAL = dict.fromkeys(("lat", *NAMED_LAT), "lat") | dict.fromkeys(("lon", *NAMED_LON), "lon")


class Kind(IntEnum):
    """What a recording is for the history of its site."""

    JUDGED = 0
    UNDECIDED = 1  # it sounds unlike the training recordings, or comes from another source
    MET = 2  # by the model in training: no evidence
    NO_SOUND = 3
    SPOILT = 4  # short, stuck, or with dropouts
    FAILED = 5


KIND_OF_REASON = {
    "silent": Kind.NO_SOUND,
    "short": Kind.SPOILT,
    "stuck": Kind.SPOILT,
    "dropouts": Kind.SPOILT,
}


@dataclass
class RowColumns:
    """Rows as columns; `texts` of a coded column are looked up by its ids. NaN: unknown."""

    path: list[str]
    seconds: Int[np.ndarray, " R"]  # since the year 1 by the recorder's own clock
    numbers: dict[str, Float[np.ndarray, " R"]]
    kind: Int[np.ndarray, " R"]
    is_leak: Bool[np.ndarray, " R"]
    clipped: Bool[np.ndarray, " R"]
    ids: dict[str, Int[np.ndarray, " R"]]
    texts: dict[str, list[Any]]
    bad_numbers: int  # values that are no finite number
    bad_number: str  # the first of them, with its column; "": none
    unread_time: str  # a time that is not understood; "": none

    def __len__(self) -> int:
        return len(self.path)


NUMBERS = (
    "channel", "leak_prob", "quiet_level_dbfs", "familiarity", "source_rate_hz", "lat", "lon",
    *SPAN,
)  # fmt: skip
CODED = ("site", "logger", "model", "decision", "other")


class _Codes(dict[Any, int]):
    """Numbers texts in the order of their first appearance."""

    def __missing__(self, text: Any) -> int:
        self[text] = code = len(self)
        return code


Block = Mapping[str, Sequence[Any] | np.ndarray]  # some rows: the values of each column


def read_columns(rows: Iterable[Mapping[str, Any]]) -> RowColumns:
    """Read rows of predict, texts as in a CSV or values; the rest as `read_blocks`."""
    return read_blocks(_blocks(rows))


def read_blocks(blocks: Iterable[Block]) -> RowColumns:
    """Read columns of rows of predict, some rows at a time; columns that lack are unknown.

    Of a file with a verdict for each channel, a channel is a site: `B7 channel 2`.
    """
    codes = {name: _Codes() for name in CODED}
    collects = gc.isenabled()
    gc.disable()  # it would look at millions of objects, of which none refers back to another
    try:
        read = [_block(block, codes) for block in blocks]
    finally:
        if collects:
            gc.enable()
    columns = _joined(read or [_block({}, codes)])
    columns.texts = {name: list(known) for name, known in codes.items()}
    return columns


def _blocks(rows: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    """Rows that have the same columns."""
    for names, alike in groupby(rows, lambda row: row.keys()):
        while some := list(islice(alike, AT_A_TIME)):
            yield {name: [row[name] for row in some] for name in names}


def _block(block: Block, codes: Mapping[str, "_Codes"]) -> RowColumns:
    """Columns of some rows; their texts are in `codes`."""
    block = _with_places(block)
    blank = [None] * len(next(iter(block.values()), ()))

    def values(name: str) -> list[Any]:
        column = block.get(name, blank)
        return column.tolist() if isinstance(column, np.ndarray) else list(column)

    def texts(name: str) -> list[str]:
        return [str(value or "") for value in values(name)]

    times = values(RECORDED_AT)
    seconds = np.array(list(map(_seconds, times)), np.int64)
    unread = np.flatnonzero(seconds == UNREAD)
    read = {name: _numbers(block.get(name, blank)) for name in NUMBERS}
    flags, decisions, reasons = texts("flags"), texts("decision"), texts("reason")
    in_doubt = np.array([reason == "doubt" for reason in reasons], bool)
    shown = [
        POSSIBLE_LEAK if close else decision
        for decision, close in zip(decisions, in_doubt, strict=True)
    ]
    reaches = read["leak_prob"][0] >= _numbers(block.get("threshold", blank))[0]
    others = [name for name in block if name not in PLACED and not is_row_column(name)]
    other = zip(*map(texts, others), strict=True) if others else repeat((), len(blank))
    coded: dict[str, Iterable[Any]] = {
        "site": map(_site, texts("site"), read["channel"][0].tolist()),
        "logger": map(str.strip, texts("logger")),
        "model": texts("model"),
        "decision": shown,
        "other": (tuple(zip(others, row, strict=True)) for row in other),
    }
    kinds = map(_kind, decisions, reasons, flags, texts("error"))
    return RowColumns(
        texts("path"),
        seconds,
        {name: numbers for name, (numbers, *_) in read.items()},
        np.array(list(kinds), np.int64),
        # in doubt it counts on its side of the threshold, as if there were no doubt
        np.array([decision == "leak" for decision in decisions], bool) | (in_doubt & reaches),
        np.array(["clipped" in flag for flag in flags], bool),
        {name: np.array([codes[name][text] for text in coded[name]], np.int64) for name in CODED},
        {},
        sum(bad for _, bad, _ in read.values()),
        next((f"{name} {first!r}" for name, (_, bad, first) in read.items() if bad), ""),
        str(times[unread[0]]) if len(unread) else "",
    )


def _joined(blocks: Sequence[RowColumns]) -> RowColumns:
    """The columns of all blocks."""
    return RowColumns(
        [path for block in blocks for path in block.path],
        np.concatenate([block.seconds for block in blocks]),
        {name: np.concatenate([block.numbers[name] for block in blocks]) for name in NUMBERS},
        np.concatenate([block.kind for block in blocks]),
        np.concatenate([block.is_leak for block in blocks]),
        np.concatenate([block.clipped for block in blocks]),
        {name: np.concatenate([block.ids[name] for block in blocks]) for name in CODED},
        {},
        sum(block.bad_numbers for block in blocks),
        next((block.bad_number for block in blocks if block.bad_number), ""),
        next((block.unread_time for block in blocks if block.unread_time), ""),
    )


def _site(site: str, channel: float) -> str:
    site = site.strip()
    return f"{site} channel {channel:.0f}" if site and channel > 0 else site


def _kind(decision: str, reason: str, flags: str, error: str) -> Kind:
    if error or not decision:
        return Kind.FAILED
    if decision == "undecided" and reason != "doubt":
        return KIND_OF_REASON.get(reason, Kind.UNDECIDED)
    return Kind.MET if "met_in_training" in flags else Kind.JUDGED


def _with_places(block: Block) -> Block:
    """The same columns, latitude and longitude under the names of rows."""
    named: dict[str, str] = {}
    for name in block:
        usual = USUAL.get(name.strip().casefold(), name)
        named.setdefault(name if usual in block else usual, name)
    return {usual: block[name] for usual, name in named.items()}


def _numbers(
    values: Sequence[Any] | np.ndarray,
) -> tuple[Float[np.ndarray, " R"], int, Any]:
    """Finite numbers or NaN, how many are neither a number nor blank, and the first of these."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64:  # NaN is blank
        infinite = np.isinf(values)
        return np.where(infinite, np.nan, values), int(infinite.sum()), np.inf
    known = [np.nan if value is None or value == "" else value for value in values]
    try:
        numbers = np.array(known, np.float64)
    except (TypeError, ValueError):
        numbers = np.array([number_of(str(value)) for value in known], np.float64)
    numbers[np.isinf(numbers)] = np.nan
    bad = [at for at in np.flatnonzero(np.isnan(numbers)) if known[at] == known[at]]
    return numbers, len(bad), known[bad[0]] if bad else None


def _seconds(time: Any) -> int:
    """Seconds on the recorder's clock: an offset from UTC is not applied."""
    if time is None or time == "":
        return UNDATED
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(str(time).strip())
    except ValueError:
        return UNREAD
    of_day = moment.hour * 3600 + moment.minute * 60 + moment.second
    return moment.toordinal() * DAY_S + of_day
