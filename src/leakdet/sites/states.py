"""The state of each site by a stated rule, and its reason as a sentence."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from leakdet.errors import counted
from leakdet.sites.course import Alarms, Levels, Presence
from leakdet.sites.row_columns import Kind
from leakdet.sites.rules import WorklistRules
from leakdet.sites.site_history import History
from leakdet.sites.worklist_row import State


class SiteStates:
    """Tells the state of one site after the other."""

    def __init__(
        self,
        history: History,
        alarms: Alarms,
        levels: Levels,
        presence: Presence,
        dates: Sequence[date],
        rules: WorklistRules,
    ) -> None:
        self._history, self._alarms, self._levels = history, alarms, levels
        self._presence, self._dates, self._rules = presence, dates, rules
        self._louder = np.nan_to_num(levels.rise, nan=-np.inf) >= rules.rise_db

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
            return "watch", (
                f"an alarm in {self._recent(site)}, the first on {self._dates[a.since[site]]}; "
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
        of = counted(spoilt, "night")
        kinds = {kind: int(grid[site, last]) for kind, grid in self._history.counts.items()}
        if kinds[Kind.NO_SOUND] and not kinds[Kind.SPOILT] and not kinds[Kind.FAILED]:
            return "silent logger", f"no sound in its recordings of the last {of} heard"
        why = {
            Kind.FAILED: "could not be read",
            Kind.SPOILT: "short, stuck or with dropouts",
            Kind.NO_SOUND: "without sound",
        }
        told = ", ".join(f"{kinds[kind]} {words}" for kind, words in why.items() if kinds[kind])
        return "broken", f"no usable recording in the last {of} heard; of the last one {told}"

    def _unjudged(self, site: int) -> str:
        last = self._alarms.last_judged[site]
        since = "never" if last < 0 else f"not since {self._dates[last]}"
        kinds = {kind: int(grid[site].sum()) for kind, grid in self._history.counts.items()}
        met, other = kinds[Kind.MET], kinds[Kind.UNDECIDED]
        why = [f"{met} recordings met in training, which are no evidence"] if met else []
        why += [f"{other} unlike the training recordings"] if other else []
        why += ["nights of a common cause"] if not why else []
        return f"heard, but {since} judged: {' and '.join(why)}"

    def _suspected(self, site: int) -> tuple[State, str]:
        a, since = self._alarms, self._dates[self._alarms.since[site]]
        why, level = f"an alarm in {self._recent(site)}", self._level(site)
        if a.onset[site]:
            nights = int(a.last_judged[site] - a.since[site]) + 1
            quiet = counted(int(a.quiet_before[site]), "earlier night")
            why += f", the first on {since} after {quiet}{level}"
            return ("new" if nights <= self._rules.news_nights else "persistent"), why
        if self._louder[site]:
            return "new", f"{why}, as since its first nights, but louder{level}"
        return "persistent", (
            f"{why}, as since its first nights, {since}: it always sounds so, as a pump or an old "
            f"leak does{level}"
        )

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
