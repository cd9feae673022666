"""The night of each recording, and which rows count: of one model, once, by a clock that is right.

A night is named by the morning on which it ends. Times are those of the recorder's own clock.
"""

from dataclasses import dataclass
from datetime import date

import numpy as np
from jaxtyping import Bool, Int

from leakdet.errors import InputError, counted, first_few
from leakdet.sites.clocks import possible_times, site_names, without_clock_back
from leakdet.sites.row_columns import DAY_S, UNDATED, UNREAD, Kind, RowColumns
from leakdet.sites.rules import WorklistRules

HOUR_S = 3600
DAY_H = (8, 20)  # hours in which people use water


@dataclass(frozen=True)
class Nights:
    """The rows that count, by site, night and time, and what was left out of them and why."""

    rows: Int[np.ndarray, " K"]  # into the columns
    night: Int[np.ndarray, " K"]  # from 0, the first night of the network
    first: date
    count: int  # nights from the first to the last, those without a recording too
    network: Bool[np.ndarray, " N"]  # those with enough sites to be nights of the network
    clock_back: Int[np.ndarray, " S"]  # recordings of each site that a wrong clock dated
    notes: tuple[str, ...]

    @property
    def dates(self) -> list[date]:
        """All nights, by the morning on which they end."""
        return [date.fromordinal(self.first.toordinal() + n) for n in range(self.count)]


def find_nights(columns: RowColumns, rules: WorklistRules, today: date) -> Nights:
    """The nights of the rows, and the rows that count.

    Raises:
        InputError: no row names its site, or none a time that can be one.
    """
    notes: list[str] = []
    rows = _sited(columns, notes)
    rows = _dated(columns, rows, notes)
    rows, wrong = possible_times(columns, rows, rules, today, notes)
    rows = _of_one_model(columns, rows, notes)
    rows = _once(columns, rows, notes)
    shift = (24 - rules.night_ends_h) % 24 * HOUR_S
    night = (columns.seconds[rows] + shift) // DAY_S
    rows, night, back = without_clock_back(columns, rows, night, notes)
    rows, night, first, network = _of_network(columns, rows, night, rules, notes)
    _tell_daytime(columns, rows, notes)
    missing = [date.fromordinal(first + int(n)).isoformat() for n in np.flatnonzero(~network)]
    if missing:
        notes.append(
            f"No recordings of the network in {counted(len(missing), 'night')} "
            f"({first_few(missing, 3)}); they count for no logger as missed."
        )
    lost = np.bincount(
        columns.ids["site"][np.concatenate([wrong, back])], minlength=_sites(columns)
    )
    order = np.lexsort((columns.seconds[rows], night, columns.ids["site"][rows]))
    return Nights(
        rows[order],
        night[order] - first,
        date.fromordinal(first),
        len(network),
        network,
        lost,
        tuple(notes),
    )


def _sites(columns: RowColumns) -> int:
    return len(columns.texts["site"])


def _sited(columns: RowColumns, notes: list[str]) -> Int[np.ndarray, " K"]:
    if not len(columns):
        raise InputError("There is no row: a work list needs recordings that predict has scored.")
    has_site = np.array([bool(site) for site in columns.texts["site"]])[columns.ids["site"]]
    if not has_site.any():
        raise InputError(
            "No row names its site: a work list needs the column site. Give predict a manifest "
            "with path, site and recorded_at, or --name-pattern."
        )
    if not has_site.all():
        blank = counted(int((~has_site).sum()), "recording")
        notes.append(f"{blank} without a site left out: name it in the manifest.")
    return np.flatnonzero(has_site)


def _dated(columns: RowColumns, rows: np.ndarray, notes: list[str]) -> Int[np.ndarray, " K"]:
    seconds = columns.seconds[rows]
    undated, unread = int((seconds == UNDATED).sum()), int((seconds == UNREAD).sum())
    if undated + unread == len(rows):
        why = f"{columns.unread_time!r} is no time" if unread else "there is no recorded_at"
        raise InputError(
            f"No row tells when it was recorded ({why}): a work list is made of nights. Give "
            "predict a manifest with recorded_at as 2026-05-17T02:30, or --name-pattern."
        )
    if undated:
        notes.append(f"{counted(undated, 'recording')} without recorded_at left out.")
    if unread:
        notes.append(
            f"{counted(unread, 'recording')} left out whose recorded_at is no time, such as "
            f"{columns.unread_time!r}; write 2026-05-17T02:30."
        )
    return np.asarray(rows[seconds >= 0])


def _of_one_model(columns: RowColumns, rows: np.ndarray, notes: list[str]) -> Int[np.ndarray, " K"]:
    """Rows of the model that scored the latest recording; of several, the one that came last."""
    model = columns.ids["model"][rows]
    if (model == model[0]).all():
        return rows
    seconds = columns.seconds[rows]
    newest = model[np.flatnonzero(seconds == seconds.max())[-1]]
    others = [columns.texts["model"][m] or "(unnamed)" for m in np.unique(model[model != newest])]
    left = counted(int((model != newest).sum()), "recording")
    notes.append(
        f"{left} left out that another model scored ({first_few(others, 3)}): scores of two models "
        f"do not compare. Only those of {columns.texts['model'][newest] or '(unnamed)'}, which "
        "scored the latest, count; score the earlier nights with it to count them."
    )
    return np.asarray(rows[model == newest])


def _once(columns: RowColumns, rows: np.ndarray, notes: list[str]) -> Int[np.ndarray, " K"]:
    """Rows of which none repeats another's site, time and file name; a decided or later one stays.

    A folder that was scored twice, or moved between, has other paths but the same names.
    """
    keys = (columns.ids["site"][rows], columns.seconds[rows])
    order = np.lexsort((rows, columns.kind[rows] == Kind.FAILED, *keys))
    same = np.ones(len(rows), bool)
    for key in keys:
        same[1:] &= key[order][1:] == key[order][:-1]
    same[0] = False
    doubtful = rows[order][np.flatnonzero(same | np.append(same[1:], False))]
    kept: dict[tuple[int, int, str], int] = {}
    for row in doubtful:  # failed ones come last among the same, so that any other one stays
        name = columns.path[row].replace("\\", "/").rpartition("/")[2]
        key = (int(columns.ids["site"][row]), int(columns.seconds[row]), name)
        earlier = kept.get(key)
        if earlier is None or columns.kind[row] != Kind.FAILED:
            kept[key] = int(row)
    if len(kept) == len(doubtful):
        return rows
    twice = counted(len(doubtful) - len(kept), "row")
    notes.append(f"{twice} left out that repeat a recording: each counts once.")
    return np.setdiff1d(rows, np.setdiff1d(doubtful, np.array(list(kept.values()), np.int64)))


def _of_network(
    columns: RowColumns,
    rows: np.ndarray,
    night: np.ndarray,
    rules: WorklistRules,
    notes: list[str],
) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " K"], int, Bool[np.ndarray, " N"]]:
    """Rows of nights in which enough sites were heard, the first of these, and which they are."""
    sites = _sites(columns)
    site_nights = np.unique(night * sites + columns.ids["site"][rows]) // sites
    found, heard = np.unique(site_nights, return_counts=True)
    # sites heard in the night that the median of all pairs of site and night lies in: a wrong
    # clock makes many nights, but few such pairs
    usual = np.sort(np.repeat(heard, heard))[len(site_nights) // 2]
    whole = found[heard >= rules.network_share * usual]
    begin = max(whole[0], whole[-1] - rules.history_nights + 1)
    kept = np.isin(night, whole[whole >= begin])
    old = (night < begin) & np.isin(night, whole)
    if old.any():
        notes.append(
            f"{counted(int(old.sum()), 'recording')} left out that are older than "
            f"{counted(rules.history_nights, 'night')}."
        )
    stray = ~kept & ~old
    if stray.any():
        notes.append(
            f"{counted(int(stray.sum()), 'recording')} left out, of "
            f"{site_names(columns, rows[stray])}, in nights in which hardly any other site was "
            f"heard ({usual} is usual): a wrong clock, or a night that is not yet complete."
        )
    network = np.zeros(int(whole[-1] - begin) + 1, bool)
    network[whole[whole >= begin] - begin] = True
    return rows[kept], night[kept], int(begin), network


def _tell_daytime(columns: RowColumns, rows: np.ndarray, notes: list[str]) -> None:
    hour = columns.seconds[rows] % DAY_S // HOUR_S
    by_day = int(((hour >= DAY_H[0]) & (hour < DAY_H[1])).sum())
    if by_day:
        notes.append(
            f"{counted(by_day, 'recording')} made between {DAY_H[0]}:00 and {DAY_H[1]}:00 count to "
            "the night they adjoin; water use is loud by day, so leave them out where you can."
        )
