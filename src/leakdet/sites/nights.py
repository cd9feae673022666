"""What each site did in each night: a grid of sites and nights, without clocks that are wrong.

A night is named by the morning on which it ends. Times are those of the recorder's own clock.
"""

from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.core.errors import InputError, counted, first_few
from leakdet.sites.rows import DAY_S, UNDATED, UNREAD, Kind, RowColumns
from leakdet.sites.rules import WorklistRules
from leakdet.tables.schema import SPAN


def last_of(mask: Bool[np.ndarray, "S N"]) -> Int[np.ndarray, " S"]:
    """Index of the last True of each row; -1 where there is none."""
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    return np.where(mask.any(axis=1), last, -1)


def at(
    grid: Shaped[np.ndarray, "S N"], place: Int[np.ndarray, " S"], none: float | int
) -> np.ndarray:
    """The value of each row at its place; `none` where the place is -1."""
    values = np.take_along_axis(grid, np.maximum(place, 0)[:, None], axis=1)[:, 0]
    return np.where(place >= 0, values, none)


def packed(mask: Bool[np.ndarray, "S N"]) -> tuple[np.ndarray, np.ndarray]:
    """Columns of each row's True values, in order and first; and which of the places they fill."""
    order = np.argsort(~mask, axis=1, kind="stable")
    return order, np.arange(mask.shape[1]) < mask.sum(axis=1)[:, None]


def last_few(mask: Bool[np.ndarray, "S N"], few: int) -> Bool[np.ndarray, "S N"]:
    """The last few True values of each row."""
    from_the_end = np.cumsum(mask[:, ::-1], axis=1)[:, ::-1]
    return mask & (from_the_end <= few)


def sum_of_last(values: Bool[np.ndarray, "S N"], few: int) -> Int[np.ndarray, "S N"]:
    """The sum of each value and those before it, so many in all."""
    total = np.cumsum(values, axis=1)
    total[:, few:] -= total[:, :-few].copy()
    return total


def masked_median(
    values: Float[np.ndarray, "S N"], mask: Bool[np.ndarray, "S N"], fewest: int = 1
) -> Float[np.ndarray, " S"]:
    """The median of the known values of each row; NaN where there are fewer than `fewest`."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    known = mask & ~np.isnan(values)
    count = known.sum(axis=1)
    ordered = np.sort(np.where(known, values, np.inf), axis=1)
    lower, upper = at(ordered, (count - 1) // 2, np.nan), at(ordered, count // 2 - (count == 0), 0)
    return np.where(count >= fewest, (lower + upper) / 2.0, np.nan)


def kth_largest(
    values: Float[np.ndarray, "S N"], mask: Bool[np.ndarray, "S N"], k: int
) -> Float[np.ndarray, " S"]:
    """The k-th largest known value of each row; its smallest where it has fewer than k."""
    known = mask & ~np.isnan(values)
    count = known.sum(axis=1)
    ordered = -np.sort(np.where(known, -values, np.inf), axis=1)
    return at(ordered, np.minimum(k, count) - 1, np.nan)


def pooled(
    scores: Float[np.ndarray, " K"], cell: Int[np.ndarray, " K"], shape: tuple[int, int]
) -> Float[np.ndarray, "S N"]:
    """The median of the scores of each cell, the upper one of two; NaN where a cell has none.

    It reaches a threshold exactly where at least half of the recordings do, as the vote of
    windows does. `cell` is site · nights + night.
    """
    grid = np.full(shape[0] * shape[1], np.nan)
    order = np.lexsort((scores, cell))
    cells, begin, count = np.unique(cell[order], return_index=True, return_counts=True)
    grid[cells] = scores[order][begin + count // 2]
    return grid.reshape(shape)


MOST_BACK = 0.1  # share of sites; where more go back, the rows are not in the order of time


def site_names(columns: RowColumns, rows: Int[np.ndarray, " K"]) -> str:
    """A few of the sites of rows, for a sentence."""
    sites = np.unique(columns.ids["site"][rows])
    return first_few([columns.texts["site"][site] for site in sites[:1000]], 3)


def possible_times(
    columns: RowColumns, rows: np.ndarray, rules: WorklistRules, today: date, notes: list[str]
) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " L"]]:
    """Rows whose time is neither that of a clock that was reset nor in the future, and the rest."""
    seconds = columns.seconds[rows]
    early = seconds < date(rules.oldest_year, 1, 1).toordinal() * DAY_S
    late = seconds >= (today.toordinal() + 2) * DAY_S  # another zone may be a day ahead
    for wrong, what in ((early, f"before {rules.oldest_year}"), (late, f"after {today}")):
        if wrong.any():
            notes.append(
                f"{counted(int(wrong.sum()), 'recording')} dated {what} left out, of "
                f"{site_names(columns, rows[wrong])}: set the clock of these loggers."
            )
    if (early | late).all():
        raise InputError(
            f"Every recorded_at lies before {rules.oldest_year} or after {today}: set the clocks, "
            "and correct recorded_at in the manifest."
        )
    return rows[~(early | late)], rows[early | late]


def without_clock_back(
    columns: RowColumns, rows: np.ndarray, night: np.ndarray, notes: list[str]
) -> tuple[Int[np.ndarray, " K"], Int[np.ndarray, " K"], Int[np.ndarray, " L"]]:
    """Rows without those that a clock set back has dated into an earlier night of their site.

    In the order of the rows, a recording comes after a later night of its site, and its night had
    recordings before. Nights that are only late, as after a lost connection, stay.
    """
    site = columns.ids["site"][rows]
    by_site = np.argsort(site, kind="stable")  # in the order of the rows
    s, n = site[by_site], night[by_site]
    span = int(n.max() - n.min()) + 1
    latest = np.maximum.accumulate(s * span + n - n.min()) - s * span + n.min()
    is_back = n < latest
    # whether the first row of its site and night was not back itself
    _, first, cell = np.unique(s * span + n - n.min(), return_index=True, return_inverse=True)
    again = is_back & ~is_back[first][cell]
    if not again.any():
        return rows, night, rows[:0]
    affected = len(np.unique(s[again]))
    if affected > max(1.0, MOST_BACK * len(np.unique(s))):
        notes.append(
            "The rows are not in the order of time, so whether a logger's clock went back is "
            "unknown."
        )
        return rows, night, rows[:0]
    back = np.zeros(len(rows), bool)
    back[by_site[again]] = True
    notes.append(
        f"{counted(int(back.sum()), 'recording')} left out, of {site_names(columns, rows[back])}: "
        "the clock of these loggers went back, onto nights that they had before. Set it."
    )
    return rows[~back], night[~back], rows[back]


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
    """The nights of the rows, and the rows that count."""
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

    Seconds of a file are recordings of their own.
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
        name += "".join(f"#{columns.numbers[bound][row]}" for bound in SPAN)
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
    all_nights, heard = np.unique(site_nights, return_counts=True)
    # sites heard in the night that the median of all pairs of site and night lies in: a wrong
    # clock makes many nights, but few such pairs
    usual = np.sort(np.repeat(heard, heard))[len(site_nights) // 2]
    whole = all_nights[heard >= rules.network_share * usual]
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


FEW_SITES = 20  # with fewer, what sites have in common cannot be told from what one does
WITH_SOUND = (Kind.JUDGED, Kind.UNDECIDED, Kind.MET)


@dataclass(frozen=True)
class History:
    """Facts by site and night; NaN where nothing was heard or it is unknown.

    `judged` are nights with a decided recording, but those of a common cause; `alarm` those of
    them in which at least half of the decided recordings are leaks.
    """

    score: Float[np.ndarray, "S N"]  # of every night with a decided recording
    judged: Bool[np.ndarray, "S N"]
    alarm: Bool[np.ndarray, "S N"]
    level: Float[np.ndarray, "S N"]  # lowest quiet level of the recordings with sound, dBFS
    familiarity: Float[np.ndarray, "S N"]
    rate_hz: Float[np.ndarray, "S N"]  # of the night's last recording
    logger: Int[np.ndarray, "S N"]  # id, of the night's last recording; -1 unknown
    counts: dict[Kind, Int[np.ndarray, "S N"]]  # recordings of each kind
    clipped: Int[np.ndarray, "S N"]
    common: Bool[np.ndarray, " N"]  # nights of a common cause
    common_rise: Float[np.ndarray, " N"]  # median over sites of level above the site's own, dB

    @cached_property
    def heard(self) -> Int[np.ndarray, "S N"]:
        """Recordings of each site and night."""
        return np.asarray(sum(self.counts.values()))


def make_history(columns: RowColumns, nights: Nights, rules: WorklistRules) -> History:
    """The grid of the rows that count, over all sites and nights."""
    rows, sites = nights.rows, len(columns.texts["site"])
    shape = (sites, nights.count)
    cell = columns.ids["site"][rows] * nights.count + nights.night
    kind = columns.kind[rows]

    def counted(of: Bool[np.ndarray, " K"]) -> Int[np.ndarray, "S N"]:
        return np.bincount(cell[of], minlength=sites * nights.count).reshape(shape)

    def lowest(name: str, of: Bool[np.ndarray, " K"]) -> Float[np.ndarray, "S N"]:
        values = columns.numbers[name][rows]
        grid = np.full(sites * nights.count, np.inf)
        known = of & ~np.isnan(values)
        np.minimum.at(grid, cell[known], values[known])
        return np.where(np.isinf(grid), np.nan, grid).reshape(shape)

    def last(
        values: Float[np.ndarray, " K"] | Int[np.ndarray, " K"], none: float | int
    ) -> np.ndarray:
        grid = np.full(sites * nights.count, none, values.dtype)
        grid[cell] = values  # rows lie in the order of time
        return grid.reshape(shape)

    is_judged = (kind == Kind.JUDGED) & ~np.isnan(columns.numbers["leak_prob"][rows])
    score = pooled(columns.numbers["leak_prob"][rows][is_judged], cell[is_judged], shape)
    decided, leaks = counted(is_judged), counted(is_judged & columns.is_leak[rows])
    alarm = (decided > 0) & (2 * leaks >= decided)
    common = common_nights(alarm, decided > 0, rules.common_share)
    has_sound = np.isin(kind, WITH_SOUND)
    level = lowest("quiet_level_dbfs", has_sound)
    named = np.array([bool(logger) for logger in columns.texts["logger"]])
    logger = columns.ids["logger"][rows]
    logger = np.where(named[logger], logger, -1)
    return History(
        score,
        (decided > 0) & ~common,
        alarm & ~common,
        level,
        lowest("familiarity", has_sound),
        last(columns.numbers["source_rate_hz"][rows], np.nan),
        last(logger, -1),
        {each: counted(kind == each) for each in Kind},
        counted(columns.clipped[rows]),
        common,
        common_rise(level),
    )


def common_nights(
    alarm: Bool[np.ndarray, "S N"], judged: Bool[np.ndarray, "S N"], share: float
) -> Bool[np.ndarray, " N"]:
    """Nights in which the share of sites with an alarm is by `share` above that of the median."""
    sites = judged.sum(axis=0)
    alarms = np.divide(alarm.sum(axis=0), sites, out=np.zeros(len(sites)), where=sites > 0)
    known = sites >= FEW_SITES
    if known.sum() < 3:
        return np.zeros(len(sites), bool)
    return np.asarray(known & (alarms > np.median(alarms[known]) + share))


def common_rise(level: Float[np.ndarray, "S N"]) -> Float[np.ndarray, " N"]:
    """Median rise of each night over the sites' own medians, dB; 0 where too few have a level."""
    known = np.isfinite(level).any(axis=1)
    rise = level[known] - np.nanmedian(level[known], axis=1, keepdims=True)
    sites = np.isfinite(rise).sum(axis=0)
    result = np.zeros(level.shape[1])
    if (enough := sites >= FEW_SITES).any():
        result[enough] = np.nanmedian(rise[:, enough], axis=0)
    return result
