"""What each site did over its nights, as numbers from which its state follows."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.sites.grid import (
    at,
    held,
    last_few,
    last_of,
    masked_median,
    packed,
    sum_of_last,
)
from leakdet.sites.rules import WorklistRules
from leakdet.sites.site_history import WITH_SOUND, History


@dataclass(frozen=True)
class Alarms:
    """Alarms among the judged nights of each site; nights by their index, -1: none."""

    judged: Int[np.ndarray, " S"]  # nights
    alarms: Int[np.ndarray, " S"]
    last_judged: Int[np.ndarray, " S"]
    last_alarm: Int[np.ndarray, " S"]
    since: Int[np.ndarray, " S"]  # first night of the present run of alarms
    quiet_before: Int[np.ndarray, " S"]  # judged nights before it
    onset: Bool[np.ndarray, " S"]  # enough of these were quiet to have heard it begin
    recent_alarms: Int[np.ndarray, " S"]  # among the last few judged nights
    recent_nights: Int[np.ndarray, " S"]
    suspected: Bool[np.ndarray, " S"]
    was_suspected: Bool[np.ndarray, " S"]  # now or before
    early: Int[np.ndarray, " S"]  # earlier nights, of which medians are, lie before this one
    recent_score: Float[np.ndarray, " S"]  # held in as many of the last nights as suspect
    median_score: Float[np.ndarray, " S"]  # of earlier nights


@dataclass(frozen=True)
class Levels:
    """Quiet level of each site, in dBFS, against its own earlier nights with the same logger."""

    last: Float[np.ndarray, " S"]
    median: Float[np.ndarray, " S"]
    off: Float[np.ndarray, " S"]  # of the last night over the median and the common rise, dB
    rise: Float[np.ndarray, " S"]  # the same, held in as many of the last nights as suspect
    restarted: Int[np.ndarray, " S"]  # night of the first recording of a changed logger; -1


@dataclass(frozen=True)
class Presence:
    """Whether each site is heard; nights by their index, -1: none."""

    last_heard: Int[np.ndarray, " S"]
    missed: Int[np.ndarray, " S"]  # nights of the network since then
    overdue: Bool[np.ndarray, " S"]  # more than its own interval explains
    spoilt: Int[np.ndarray, " S"]  # its last nights in a row without any usable sound
    unjudged: Int[np.ndarray, " S"]  # its last nights in a row with usable sound, but not judged


def follow_alarms(history: History, rules: WorklistRules) -> Alarms:
    """The alarms of each site, and its present run of them."""
    judged, scores = history.judged, history.score
    order, valid = packed(judged)
    alarms = np.take_along_axis(history.alarm, order, axis=1) & valid
    n = judged.sum(axis=1)
    place = np.arange(judged.shape[1])
    recent = sum_of_last(alarms, rules.of_nights)
    pause = (sum_of_last(alarms, rules.gap) == 0) & (place >= rules.gap - 1) & valid
    paused = last_of(pause)
    in_run = alarms & (place > paused[:, None])
    since = np.where(in_run.any(axis=1), np.argmax(in_run, axis=1), -1)
    onset = (since >= 0) & (paused >= 0)
    # earlier nights lie before the present run, or else before the last few, or the last one
    few = np.where(n > rules.of_nights, rules.of_nights, 1)
    early = at(order, np.where(onset, since, np.maximum(n - few, -1)), 0)
    in_last = last_few(judged, rules.of_nights)
    before = judged & (np.arange(judged.shape[1]) < early[:, None])
    return Alarms(
        n,
        alarms.sum(axis=1),
        last_of(judged),
        last_of(history.alarm),
        at(order, since, -1),
        np.maximum(since, 0),
        onset,
        at(recent, n - 1, 0),
        np.minimum(n, rules.of_nights),
        at(recent, n - 1, 0) >= rules.alarms,
        ((recent >= rules.alarms) & valid).any(axis=1),
        early,
        held(scores, in_last, rules.alarms),
        masked_median(scores, before),
    )


def follow_levels(history: History, alarms: Alarms, rules: WorklistRules) -> Levels:
    """The level of each site against its own; it restarts where the logger changed."""
    level, night = history.level, np.arange(history.level.shape[1])
    known = ~np.isnan(level)
    last = last_of(known)
    logger = at(history.logger, last_of(history.logger >= 0), -1)
    other = (history.logger >= 0) & (history.logger != logger[:, None])
    restarted = last_of(other)  # the last night of an earlier logger
    same = known & (night > restarted[:, None])
    early = np.where(alarms.judged > 0, alarms.early, last)
    median = masked_median(level, same & (night < early[:, None]), rules.level_nights)
    over = level - median[:, None] - history.common_rise
    recent = last_few(same & (night >= early[:, None]), rules.of_nights)
    rise = np.where(recent.sum(axis=1) >= rules.alarms, held(over, recent, rules.alarms), np.nan)
    first = np.argmax((history.logger >= 0) & (night > restarted[:, None]), axis=1)
    return Levels(
        at(level, last, np.nan),
        median,
        at(over, last, np.nan),
        rise,
        np.where(restarted >= 0, first, -1),
    )


def follow_presence(
    history: History, network: Bool[np.ndarray, " N"], rules: WorklistRules
) -> Presence:
    """When each site was heard last, and since when it tells nothing."""
    heard = history.heard > 0
    usable = np.sum([history.counts[kind] for kind in WITH_SOUND], axis=0) > 0
    last, night = last_of(heard), np.arange(heard.shape[1])
    missed = (network & (night > last[:, None])).sum(axis=1)
    order, valid = packed(heard)
    number = np.cumsum(network)[order].astype(float)  # nights of the network, counted
    gaps = np.diff(number, axis=1)
    interval = np.nan_to_num(masked_median(gaps, valid[:, 1:]), nan=1.0)
    after_usable = night > last_of(usable)[:, None]
    after_judged = night > last_of(history.judged)[:, None]
    return Presence(
        last,
        missed,
        missed >= rules.silent_after * interval,
        (heard & after_usable).sum(axis=1),
        (usable & after_judged & ~history.common).sum(axis=1),
    )
