"""The state of each site by a stated rule, its course, its logger, and its reason."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.core.errors import counted
from leakdet.core.locations import Span
from leakdet.sites.nights import (
    WITH_SOUND,
    History,
    Nights,
    at,
    find_nights,
    kth_largest,
    last_few,
    last_of,
    make_history,
    masked_median,
    packed,
    sum_of_last,
)
from leakdet.sites.rows import Kind, RowColumns
from leakdet.sites.rules import WorklistRules

State = Literal["new", "persistent", "ceased", "watch", "quiet", "silent logger", "broken"]
STATES: tuple[State, ...] = get_args(State)
# suspicions whose beginning was heard; other suspicions; all other sites
ListName = Literal["news", "backlog", "other"]
LISTS: tuple[ListName, ...] = get_args(ListName)


@dataclass(frozen=True)
class Recording:
    """A recording of a site; `leak_prob` is None where no window was live, or it failed."""

    path: str
    recorded_at: datetime | None
    leak_prob: float | None
    decision: str  # leak, possible leak, no_leak, undecided; "" where it could not be scored
    quiet_level_dbfs: float | None
    channel: int = 0  # of its file, from 1, where each channel is a site; 0: the whole file
    span: Span | None = None  # the seconds of its file; None: all


@dataclass(frozen=True)
class WorklistRow:
    """A site with its state, the reason for it, and what a dig there is worth.

    What is unknown is None: a `score` of a site that was never heard, the `worth` where the model
    keeps no evidence of its own.
    """

    site: str
    state: State
    why: str  # one sentence: the reason by the rule
    nights: int  # nights with a judged recording, n
    leak_nights: int  # those of them with an alarm, k
    since: date | None  # first night of the present run of alarms
    score: float | None  # of the last night heard: leak_prob pooled over that night's recordings
    median_score: float | None  # of its earlier nights
    level_dbfs: float | None  # lowest quiet level of the last night heard
    median_level_dbfs: float | None  # of its earlier nights
    familiarity: float | None  # of the last night heard
    # score of each night from the first to the last of the network; None: not heard
    trend: tuple[float | None, ...]
    # of the logger: missing, silent, clipped, other rate, level far from its history
    health: tuple[str, ...]
    worth: float | None  # expected worth of a dig there, in the currency of the costs
    leak_share: float | None  # share of true leaks from the first rank down to this one
    leak_share_interval: tuple[float, float] | None  # its 95 % interval
    lat: float | None
    lon: float | None
    columns: Mapping[str, str]  # other columns of its latest row, such as logger and pipe
    recordings: tuple[Recording, ...]  # newest first
    chance: float | None = None  # of a leak there, from which the worth follows
    list_name: ListName = "other"
    # reached in as many of its last judged nights as make a suspicion; orders its list
    ranking_score: float | None = None


@dataclass(frozen=True)
class Alarms:
    """Alarms among the judged nights of each site; nights by their index, -1: none."""

    judged: Int[np.ndarray, " S"]  # nights
    alarms: Int[np.ndarray, " S"]
    last_judged: Int[np.ndarray, " S"]
    last_alarm: Int[np.ndarray, " S"]
    since: Int[np.ndarray, " S"]  # first night of the present run of alarms
    nights_before: Int[np.ndarray, " S"]  # judged nights before it
    alarms_before: Int[np.ndarray, " S"]  # alarms among these
    # alarms among the last `news_nights` of these
    alarms_shortly_before: Int[np.ndarray, " S"]
    onset: Bool[np.ndarray, " S"]  # it was heard to begin: few of these nights had an alarm
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
    shortly = at(sum_of_last(alarms, rules.news_nights), since - 1, 0)
    # a sound of most nights that pauses does not begin anew
    onset = (since >= 0) & (paused >= 0) & (2 * shortly <= np.minimum(since, rules.news_nights))
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
        at(np.cumsum(alarms, axis=1), since - 1, 0),
        shortly,
        onset,
        at(recent, n - 1, 0),
        np.minimum(n, rules.of_nights),
        at(recent, n - 1, 0) >= rules.alarms,
        ((recent >= rules.alarms) & valid).any(axis=1),
        early,
        kth_largest(scores, in_last, rules.alarms),
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
    rise = np.where(
        recent.sum(axis=1) >= rules.alarms, kth_largest(over, recent, rules.alarms), np.nan
    )
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


@dataclass(frozen=True)
class SiteFacts:
    """What is known of all sites, by their numbers, and the rule that judges them."""

    columns: RowColumns
    nights: Nights
    history: History
    alarms: Alarms
    levels: Levels
    presence: Presence
    rules: WorklistRules


def site_facts(columns: RowColumns, rules: WorklistRules, today: date) -> SiteFacts:
    """The facts of the sites of these rows, by the night."""
    nights = find_nights(columns, rules, today)
    history = make_history(columns, nights, rules)
    alarms = follow_alarms(history, rules)
    levels = follow_levels(history, alarms, rules)
    presence = follow_presence(history, nights.network, rules)
    return SiteFacts(columns, nights, history, alarms, levels, presence, rules)


KINDS = {
    Kind.NO_SOUND: ("silent", "without sound"),
    Kind.SPOILT: ("spoilt", "short, stuck or with dropouts"),
    Kind.FAILED: ("failed", "that could not be read"),
}
RATE_NIGHTS = 9  # earlier nights whose usual rate the last one is compared with
GAPS = 0.2  # share of the network's nights since its first; more of them missed are told


def health_texts(facts: SiteFacts) -> list[tuple[str, ...]]:
    """Texts on the logger of each site, on its last night heard where nothing else is said."""
    history, levels, presence = facts.history, facts.levels, facts.presence
    network, clock_back, dates = facts.nights.network, facts.nights.clock_back, facts.nights.dates
    heard, last, night = history.heard, presence.last_heard, np.arange(len(network))
    texts: list[list[str]] = [[] for _ in last]

    def tell(which: Bool[np.ndarray, " S"], text: Callable[[int], str]) -> None:
        for site in np.flatnonzero(which).tolist():
            texts[site].append(text(site))

    own = network & (night >= np.argmax(heard > 0, axis=1)[:, None])
    nights, lacking = own.sum(axis=1), (own & (heard == 0)).sum(axis=1)
    away = (last >= 0) & (presence.missed > 0)
    tell(away, lambda site: f"missing for {counted(int(presence.missed[site]), 'night')}")
    often = (last >= 0) & ~away & (lacking > GAPS * nights)
    tell(often, lambda site: f"missing in {lacking[site]} of {counted(int(nights[site]), 'night')}")
    total = at(heard, last, 0)
    for kind, (name, words) in KINDS.items():
        bad = at(history.counts[kind], last, 0)
        tell(bad > 0, partial(_of, name, bad, total, words))
    clipped = at(history.clipped, last, 0)
    tell((clipped > 0) & (2 * clipped >= total), partial(_of, "clipped", clipped, total, ""))
    rate = at(history.rate_hz, last, np.nan)
    before = masked_median(
        history.rate_hz, last_few((night < last[:, None]) & (heard > 0), RATE_NIGHTS)
    )
    other = ~np.isnan(rate) & ~np.isnan(before) & (rate != before)
    tell(other, lambda site: f"other rate: {rate[site]:.0f} Hz, before {before[site]:.0f} Hz")
    off = np.nan_to_num(levels.off, nan=0.0)
    tell(
        np.abs(off) >= facts.rules.level_far_db,
        lambda site: f"level far: {_shift(float(off[site]))}",
    )
    tell(
        levels.restarted >= 0,
        lambda site: f"logger changed on {dates[levels.restarted[site]]}: levels count from there",
    )
    tell(clock_back > 0, lambda site: f"clock: {clock_back[site]} recordings dated wrongly")
    return [tuple(of_site) for of_site in texts]


def _of(name: str, bad: np.ndarray, total: np.ndarray, words: str, site: int) -> str:
    """`silent: 1 of 2 recordings without sound`."""
    return f"{name}: {bad[site]} of {counted(int(total[site]), 'recording')} {words}".rstrip()


def _shift(off_db: float) -> str:
    return f"{abs(off_db):.0f} dB {'above' if off_db > 0 else 'below'} its own median"


class SiteStates:
    """The state of each site by its number, by the first rule that holds."""

    def __init__(self, facts: SiteFacts) -> None:
        self._history, self._alarms, self._levels = facts.history, facts.alarms, facts.levels
        self._presence, self._dates, self._rules = facts.presence, facts.nights.dates, facts.rules
        self._louder = np.nan_to_num(facts.levels.rise, nan=-np.inf) >= facts.rules.rise_db

    def of(self, site: int) -> tuple[State, str]:
        """The state of a site and its reason. The first rule that holds decides."""
        a, rules = self._alarms, self._rules
        silent = self._silent(site)
        if silent is not None:
            return silent
        if self.is_unjudged(site):
            return "watch", self._unjudged(site)
        if a.suspected[site]:
            return self._suspected(site)
        run, ended = a.since[site] >= 0, a.last_judged[site] - a.last_alarm[site]
        if a.was_suspected[site] and not run and ended <= rules.news_nights:
            last = self._dates[a.last_alarm[site]]
            return "ceased", f"a suspicion before, its last alarm on {last}"
        if run:
            begin = "since" if a.alarms_before[site] else "the first on"
            return "watch", (
                f"an alarm in {self._recent(site)}, {begin} {self._dates[a.since[site]]}; "
                f"{rules.alarms} of {rules.of_nights} make a suspicion{self._level(site)}"
            )
        if self._louder[site]:
            return "watch", f"{self._calm(site)}, but louder{self._level(site)}"
        return "quiet", self._calm(site)

    def is_unjudged(self, site: int) -> bool:
        """True for a site that is heard, but never or no longer judged."""
        never = self._alarms.judged[site] == 0
        return bool(never or self._presence.unjudged[site] >= self._rules.silent_after)

    def _silent(self, site: int) -> tuple[State, str] | None:
        presence, rules = self._presence, self._rules
        last, missed = presence.last_heard[site], counted(int(presence.missed[site]), "night")
        if last < 0:
            return "broken", "none of its recordings counts: its clock is wrong"
        if presence.overdue[site]:
            return "silent logger", (
                f"no recording since {self._dates[last]}, in {missed} of the network"
            )
        spoilt = int(presence.spoilt[site])
        heard = int((self._history.heard[site] > 0).sum())
        if spoilt < min(rules.silent_after, heard):
            return None
        nights = counted(spoilt, "night")
        kinds = {kind: int(grid[site, last]) for kind, grid in self._history.counts.items()}
        if kinds[Kind.NO_SOUND] and not kinds[Kind.SPOILT] and not kinds[Kind.FAILED]:
            return "silent logger", f"no sound in its recordings of the last {nights} heard"
        why = {
            Kind.FAILED: "could not be read",
            Kind.SPOILT: "short, stuck or with dropouts",
            Kind.NO_SOUND: "without sound",
        }
        faults = ", ".join(f"{kinds[kind]} {words}" for kind, words in why.items() if kinds[kind])
        return "broken", f"no usable recording in the last {nights} heard; of the last one {faults}"

    def _unjudged(self, site: int) -> str:
        last = self._alarms.last_judged[site]
        since = "never" if last < 0 else f"not since {self._dates[last]}"
        kinds = {kind: int(grid[site].sum()) for kind, grid in self._history.counts.items()}
        met, other = kinds[Kind.MET], kinds[Kind.UNDECIDED]
        why = [f"{met} recordings met in training, which are no evidence"] if met else []
        why += [f"{other} unlike the training recordings or of another logger"] if other else []
        why += ["nights of a common cause"] if not why else []
        return f"heard, but {since} judged: {' and '.join(why)}"

    def _suspected(self, site: int) -> tuple[State, str]:
        a, since = self._alarms, self._dates[self._alarms.since[site]]
        why, level = f"an alarm in {self._recent(site)}", self._level(site)
        if a.onset[site] and not a.alarms_before[site]:
            quiet = counted(int(a.nights_before[site]), "earlier night")
            why += f", the first on {since} after {quiet}"
        elif a.alarms_before[site]:
            before = min(int(a.nights_before[site]), self._rules.news_nights)
            alarms = int(a.alarms_shortly_before[site]) or "none"
            why += f", since {since}; {alarms} of the {_nights(before)} before had one"
        else:
            why += f", as since its first nights, {since}"
        if a.onset[site]:
            nights = int(a.last_judged[site] - a.since[site]) + 1
            return ("new" if nights <= self._rules.news_nights else "persistent"), why + level
        if self._louder[site]:
            return "new", f"{why}, but louder{level}"
        return "persistent", why + level

    def _recent(self, site: int) -> str:
        """`3 of its last 4 judged nights`."""
        a = self._alarms
        return f"{a.recent_alarms[site]} of its last {_nights(int(a.recent_nights[site]))}"

    def _calm(self, site: int) -> str:
        if self._alarms.recent_alarms[site]:
            return f"an alarm in {self._recent(site)}, none in the last {self._rules.gap}"
        return f"no alarm in its last {_nights(int(self._alarms.recent_nights[site]))}"

    def _level(self, site: int) -> str:
        rise = self._levels.rise[site]
        if np.isnan(rise) or abs(rise) < 1.0:
            return ""
        return f", level {abs(rise):.0f} dB {'above' if rise > 0 else 'below'} its own median"


def _nights(count: int) -> str:
    """`judged night`, `2 judged nights`: what stands behind "its last"."""
    return "judged night" if count == 1 else counted(count, "judged night")
