"""The rows of the work list from what is known of each site."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from jaxtyping import Float, Int

from leakdet.sites.course import Alarms, Levels, Presence
from leakdet.sites.dig_ranks import Ranks
from leakdet.sites.grid import at, last_of
from leakdet.sites.nights import Nights
from leakdet.sites.row_columns import DAY_S, RowColumns
from leakdet.sites.site_history import History
from leakdet.sites.worklist_row import Recording, State, WorklistRow

FIRST_DAY = datetime.fromisoformat("0001-01-01")


@dataclass(frozen=True)
class SiteFacts:
    """All that is known of the sites, by their ids."""

    columns: RowColumns
    nights: Nights
    history: History
    alarms: Alarms
    levels: Levels
    presence: Presence
    states: Mapping[int, tuple[State, str]]
    ranks: Ranks
    place: Float[np.ndarray, "S 2"]
    health: list[tuple[str, ...]]


def site_rows(facts: SiteFacts, most_recordings: int) -> list[WorklistRow]:
    """A row for each ranked site."""
    site = facts.columns.ids["site"][facts.nights.rows]
    ends = np.searchsorted(site, np.arange(len(facts.columns.texts["site"])), side="right")
    score, last = facts.history.score, last_of(~np.isnan(facts.history.score))
    last_score = at(score, last, np.nan)
    familiar = facts.history.familiarity
    familiarity = at(familiar, last_of(~np.isnan(familiar)), np.nan)
    dates, result = facts.nights.dates, []
    for one in facts.ranks.order:
        begin, end = int(ends[one - 1]) if one else 0, int(ends[one])
        newest = facts.nights.rows[max(begin, end - most_recordings) : end][::-1]
        state, why = facts.states[one]
        since = int(facts.alarms.since[one])
        low, high = facts.ranks.interval[one].tolist()
        result.append(
            WorklistRow(
                site=facts.columns.texts["site"][one],
                state=state,
                why=why,
                nights=int(facts.alarms.judged[one]),
                leak_nights=int(facts.alarms.alarms[one]),
                since=dates[since] if since >= 0 else None,
                score=_known(last_score[one]),
                median_score=_known(facts.alarms.median_score[one]),
                level_dbfs=_known(facts.levels.last[one]),
                median_level_dbfs=_known(facts.levels.median[one]),
                familiarity=_known(familiarity[one]),
                trend=tuple(_known(value) for value in score[one].tolist()),
                health=facts.health[one],
                worth=_known(facts.ranks.worth[one]),
                leak_share=_known(facts.ranks.leak_share[one]),
                leak_share_interval=None if np.isnan(low) else (low, high),
                lat=_known(facts.place[one, 0]),
                lon=_known(facts.place[one, 1]),
                columns=_other_columns(facts.columns, newest),
                recordings=tuple(_recording(facts.columns, row) for row in newest.tolist()),
                chance=_known(facts.ranks.chance[one]),
            )
        )
    return result


def _other_columns(columns: RowColumns, newest: Int[np.ndarray, " M"]) -> dict[str, str]:
    """Those of the latest row; none where no row counts."""
    if not len(newest):
        return {}
    return dict(columns.texts["other"][columns.ids["other"][newest[0]]])


def _recording(columns: RowColumns, row: int) -> Recording:
    return Recording(
        columns.path[row],
        FIRST_DAY + timedelta(seconds=int(columns.seconds[row]) - DAY_S),
        _known(columns.numbers["leak_prob"][row]),
        columns.texts["decision"][columns.ids["decision"][row]],
        _known(columns.numbers["quiet_level_dbfs"][row]),
        int(_known(columns.numbers["channel"][row]) or 0),
    )


def _known(value: float) -> float | None:
    return None if value != value else float(value)
