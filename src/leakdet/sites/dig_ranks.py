"""The order of sites by the expected worth of a dig there."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leakdet.sites.course import Alarms, Levels
from leakdet.sites.dig_worth import Evidence, chances, leak_shares, worths
from leakdet.sites.rules import WorklistRules
from leakdet.sites.worklist_row import State

# Where no chance is known, and among equal ones: what is news comes first.
BY_NEWS: tuple[State, ...] = (
    "new", "watch", "persistent", "ceased", "quiet", "broken", "silent logger",
)  # fmt: skip
NOT_JUDGED = {"broken", "silent logger"}


@dataclass(frozen=True)
class Ranks:
    """Sites by rank, and what is known of each by its id; NaN: unknown."""

    order: list[int]
    chance: Float[np.ndarray, " S"]
    worth: Float[np.ndarray, " S"]
    leak_share: Float[np.ndarray, " S"]  # from the first rank down to the site
    interval: Float[np.ndarray, "S 2"]


def rank_sites(
    states: Mapping[int, State],
    unjudged: set[int],
    alarms: Alarms,
    levels: Levels,
    rules: WorklistRules,
    evidence: Evidence | None,
) -> Ranks:
    """Rank sites by their chance of a leak, which orders as worth does, and among equals by news.

    Further ties go to the louder, then to the higher score. Those in `unjudged`, and silent and
    broken ones, have no chance.
    """
    sites = len(alarms.judged)
    listed = np.array(sorted(states), np.int64)
    news = np.full(sites, len(BY_NEWS))
    score, odds = alarms.recent_score.copy(), np.full(sites, rules.prior / (1.0 - rules.prior))
    for site, state in states.items():
        news[site] = BY_NEWS.index(state)
        if state in NOT_JUDGED or site in unjudged:
            score[site] = np.nan
        if state == "persistent" and not alarms.onset[site]:
            odds[site] *= rules.old_odds
    chance = chances(score, odds, evidence)
    rise = np.nan_to_num(levels.rise, nan=0.0)
    keys = (-np.nan_to_num(score, nan=-1.0), -rise, news, -np.nan_to_num(chance, nan=-1.0))
    order = listed[np.lexsort([key[listed] for key in keys])]
    share, interval = np.full(sites, np.nan), np.full((sites, 2), np.nan)
    share[order], interval[order] = leak_shares(score[order], odds[order], evidence)
    return Ranks(order.tolist(), chance, worths(chance, rules), share, interval)
