"""Reads the rows of predict into columns: numbers as arrays, repeated texts once."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

DAY_S = 86_400
UNDATED, UNREAD = -1, -2  # instead of seconds: no time was given, or none that is understood
# Columns of the rows of predict, and those that have a place of their own in the work list.
OWN = {
    "path", "channel", "decision", "reason", "leak_prob", "threshold", "windows", "leak_windows",
    "duration_s", "source_rate_hz", "flags", "familiarity", "model", "error", "class",
    "p10_prob", "quiet_level_dbfs", "mains_hum_db", "timeline", "site", "recorded_at", "lat", "lon",
}  # fmt: skip


class Kind(IntEnum):
    """What a recording is for the history of its site."""

    JUDGED = 0
    UNDECIDED = 1  # it sounds unlike the training recordings
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
    unread_time: str  # a time that is not understood; "": none

    def __len__(self) -> int:
        return len(self.path)


NUMBERS = (
    "channel", "leak_prob", "quiet_level_dbfs", "familiarity", "source_rate_hz", "lat", "lon",
)  # fmt: skip
CODED = ("site", "logger", "model", "decision", "other")


class _Codes(dict[Any, int]):
    """Numbers texts in the order of their first appearance."""

    def __missing__(self, text: Any) -> int:
        self[text] = code = len(self)
        return code


def read_columns(rows: Iterable[Mapping[str, Any]]) -> RowColumns:
    """Read rows of predict, texts as in a CSV or values; columns that lack are unknown.

    Of a file with a verdict for each channel, a channel is a site: `B7 channel 2`.
    """
    paths, seconds = list[str](), array("q")
    numbers, bad = {name: array("d") for name in NUMBERS}, 0
    codes = {name: _Codes() for name in CODED}
    ids = {name: array("i") for name in CODED}
    kind, leak, clipped = bytearray(), bytearray(), bytearray()
    others: dict[tuple[str, ...], tuple[str, ...]] = {}
    unread = ""
    for row in rows:
        paths.append(str(row.get("path") or ""))
        time = row.get("recorded_at")
        moment = _seconds(time)
        unread = unread or (str(time) if moment == UNREAD else "")
        seconds.append(moment)
        for name in NUMBERS:
            value, ok = _number(row.get(name))
            bad += not ok
            numbers[name].append(value)
        flags, decision = str(row.get("flags") or ""), str(row.get("decision") or "")
        site, channel = str(row.get("site") or "").strip(), numbers["channel"][-1]
        kind.append(_kind(decision, flags, row))
        leak.append(decision == "leak")
        clipped.append("clipped" in flags)
        keys = tuple(row)
        if keys not in others:
            others[keys] = tuple(k for k in keys if k not in OWN and not k.startswith("prob_"))
        other = tuple((name, str(row[name] or "")) for name in others[keys])
        told = (
            f"{site} channel {channel:.0f}" if site and channel > 0 else site,
            str(row.get("logger") or "").strip(),
            str(row.get("model") or ""),
            decision,
            other,
        )
        for name, text in zip(CODED, told, strict=True):
            ids[name].append(codes[name][text])
    return RowColumns(
        paths,
        np.array(seconds, np.int64),
        {name: np.array(values, np.float64) for name, values in numbers.items()},
        np.frombuffer(bytes(kind), np.uint8).astype(np.int64),
        np.frombuffer(bytes(leak), bool),
        np.frombuffer(bytes(clipped), bool),
        {name: np.array(values, np.int64) for name, values in ids.items()},
        {name: list(known) for name, known in codes.items()},
        bad,
        unread,
    )


def _kind(decision: str, flags: str, row: Mapping[str, Any]) -> Kind:
    if row.get("error") or not decision:
        return Kind.FAILED
    if decision == "undecided":
        return KIND_OF_REASON.get(str(row.get("reason") or ""), Kind.UNDECIDED)
    return Kind.MET if "met_in_training" in flags else Kind.JUDGED


def _number(value: Any) -> tuple[float, bool]:
    """A finite number or NaN, and whether it was a number or blank."""
    if value is None or value == "":
        return np.nan, True
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.nan, False
    return (number, True) if abs(number) < np.inf else (np.nan, False)


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
