"""What each site did in each night: a grid of sites and nights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.sites.night_pooling import pooled
from leakdet.sites.nights import Nights
from leakdet.sites.row_columns import Kind, RowColumns
from leakdet.sites.rules import WorklistRules

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
        {one: counted(kind == one) for one in Kind},
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
