"""The rows of the work list from what is known of each site."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from leakdet.core.errors import counted, first_few
from leakdet.core.locations import Span
from leakdet.sites.nights import FEW_SITES, at, last_of
from leakdet.sites.rows import DAY_S, Kind, RowColumns, read_columns
from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import (
    LISTS,
    Recording,
    SiteFacts,
    SiteStates,
    State,
    WorklistRow,
    health_texts,
    site_facts,
)
from leakdet.sites.worth import Evidence, Ranks, rank_sites
from leakdet.tables.schema import POSSIBLE_LEAK, SPAN

APART_DEG = 0.001  # about 100 m; recordings of one site farther apart contradict each other


def find_places(
    columns: RowColumns, rows: Int[np.ndarray, " K"]
) -> tuple[Float[np.ndarray, "S 2"], list[str]]:
    """Latitude and longitude of each site in degrees, NaN where unknown, and remarks.

    `rows` are in the order of time. 0, 0 is what a receiver without a fix writes, and unknown.
    """
    site = columns.ids["site"][rows]
    lat, lon = columns.numbers["lat"][rows], columns.numbers["lon"][rows]
    given = ~np.isnan(lat) | ~np.isnan(lon)
    with np.errstate(invalid="ignore"):
        good = (np.abs(lat) <= 90.0) & (np.abs(lon) <= 180.0) & ((lat != 0.0) | (lon != 0.0))
    place = np.full((len(columns.texts["site"]), 2), np.nan)
    least, most = np.full_like(place, np.inf), np.full_like(place, -np.inf)
    both = np.stack([lat, lon], axis=1)[good]
    place[site[good]] = both
    np.minimum.at(least, site[good], both)
    np.maximum.at(most, site[good], both)
    notes = []
    if bad := int((given & ~good).sum()):
        swapped = (np.abs(lat) > 90.0) & (np.abs(lat) <= 180.0) & (np.abs(lon) <= 90.0)
        hint = " Lat and lon may be the wrong way round." if swapped.any() else ""
        notes.append(
            f"{counted(bad, 'recording')} with a lat or lon that is no place count as without one."
            f"{hint}"
        )
    apart = np.flatnonzero((most - least > APART_DEG).any(axis=1))
    if len(apart):
        names = first_few([columns.texts["site"][number] for number in apart], 3)
        notes.append(
            f"{counted(len(apart), 'site')} with places that contradict each other ({names}): the "
            "latest is shown; correct lat and lon in the manifest."
        )
    used = np.unique(site)
    unknown = int(np.isnan(place[used, 0]).sum())
    if 0 < unknown < len(used):
        notes.append(f"{counted(unknown, 'site')} without a place: on no map.")
    return place, notes


FIRST_DAY = datetime.fromisoformat("0001-01-01")


def site_rows(
    facts: SiteFacts,
    states: Mapping[int, tuple[State, str]],
    ranks: Ranks,
    place: Float[np.ndarray, "S 2"],
) -> list[WorklistRow]:
    """A row for each ranked site."""
    columns, alarms, levels = facts.columns, facts.alarms, facts.levels
    sites = columns.ids["site"][facts.nights.rows]
    ends = np.searchsorted(sites, np.arange(len(columns.texts["site"])), side="right")
    score, familiarity = facts.history.score, facts.history.familiarity
    last_score = at(score, last_of(~np.isnan(score)), np.nan)
    last_familiarity = at(familiarity, last_of(~np.isnan(familiarity)), np.nan)
    health, dates, rows = health_texts(facts), facts.nights.dates, []
    for site in ranks.order:
        begin, end = int(ends[site - 1]) if site else 0, int(ends[site])
        newest = facts.nights.rows[max(begin, end - facts.rules.recordings) : end][::-1]
        state, why = states[site]
        since = int(alarms.since[site])
        low, high = ranks.interval[site].tolist()
        rows.append(
            WorklistRow(
                site=columns.texts["site"][site],
                state=state,
                why=why + _possible_leaks(facts, site, slice(begin, end)),
                nights=int(alarms.judged[site]),
                leak_nights=int(alarms.alarms[site]),
                since=dates[since] if since >= 0 else None,
                score=_known(last_score[site]),
                median_score=_known(alarms.median_score[site]),
                level_dbfs=_known(levels.last[site]),
                median_level_dbfs=_known(levels.median[site]),
                familiarity=_known(last_familiarity[site]),
                trend=tuple(_known(value) for value in score[site].tolist()),
                health=health[site],
                worth=_known(ranks.worth[site]),
                leak_share=_known(ranks.leak_share[site]),
                leak_share_interval=None if np.isnan(low) else (low, high),
                lat=_known(place[site, 0]),
                lon=_known(place[site, 1]),
                columns=_other_columns(columns, newest),
                recordings=tuple(_recording(columns, row) for row in newest.tolist()),
                chance=_known(ranks.chance[site]),
                list_name=LISTS[ranks.part[site]],
                ranking_score=_known(ranks.score[site]),
            )
        )
    return rows


def _possible_leaks(facts: SiteFacts, site: int, of_site: slice) -> str:
    """How many recordings of the last night of a site are too close to call; "": none."""
    columns, nights = facts.columns, facts.nights
    last = nights.rows[of_site][nights.night[of_site] == facts.presence.last_heard[site]]
    words = [columns.texts["decision"][word] for word in columns.ids["decision"][last]]
    if not (close := words.count(POSSIBLE_LEAK)):
        return ""
    return f"; {POSSIBLE_LEAK} in {close} of {counted(len(words), 'recording')} of its last night"


def _other_columns(columns: RowColumns, newest: Int[np.ndarray, " M"]) -> dict[str, str]:
    """Those of the latest row; none where no row counts."""
    if not len(newest):
        return {}
    return dict(columns.texts["other"][columns.ids["other"][newest[0]]])


def _recording(columns: RowColumns, row: int) -> Recording:
    span = Span(*(float(columns.numbers[name][row]) for name in SPAN))
    return Recording(
        columns.path[row],
        FIRST_DAY + timedelta(seconds=int(columns.seconds[row]) - DAY_S),
        _known(columns.numbers["leak_prob"][row]),
        columns.texts["decision"][columns.ids["decision"][row]],
        _known(columns.numbers["quiet_level_dbfs"][row]),
        int(_known(columns.numbers["channel"][row]) or 0),
        span if span.end_s > span.start_s else None,
    )


def _known(value: float) -> float | None:
    return None if value != value else float(value)


@dataclass(frozen=True)
class Worklist:
    """The sites, ranked; the nights of the network; and what must be known to read it."""

    rows: list[WorklistRow]
    nights: list[date]  # from the first to the last; `trend` of each row has one value for each
    notes: list[str]  # a sentence each


def make_worklist(
    rows: RowColumns | Iterable[Mapping[str, Any]],
    rules: WorklistRules | None = None,
    evidence: Evidence | None = None,
    today: date | None = None,
) -> Worklist:
    """Rank the sites of rows of predict: columns `site` and `recorded_at`, and what it wrote.

    Values are texts, as in a CSV, or numbers; of many rows, give what `read_blocks` has read.
    `evidence` are scores whose truth is known, as a model file keeps them; without them no chance,
    worth or share of leaks is known, and sites are ranked by state. A recording after `today` has
    a wrong clock; None: the current date in UTC.
    """
    rules = rules or WorklistRules()
    columns = rows if isinstance(rows, RowColumns) else read_columns(rows)
    facts = site_facts(columns, rules, today or datetime.now(UTC).date())
    nights, presence = facts.nights, facts.presence
    listed = (presence.last_heard >= 0) | (nights.clock_back > 0)
    site_states = SiteStates(facts)
    states = {site: site_states.of(site) for site in np.flatnonzero(listed).tolist()}
    unjudged = {site for site in states if site_states.is_unjudged(site)}
    names = {site: state for site, (state, _) in states.items()}
    ranks = rank_sites(names, unjudged, facts.alarms, facts.levels, rules, evidence)
    place, remarks = find_places(columns, nights.rows)
    notes = [*_no_dig_pays(rules, ranks), *nights.notes, *_left_out(columns, listed), *remarks]
    notes += [*_history_notes(facts), *_worth_notes(rules, evidence)]
    return Worklist(site_rows(facts, states, ranks, place), nights.dates, notes)


def _left_out(columns: RowColumns, listed: np.ndarray) -> list[str]:
    """A remark on sites of which no recording counts; they have no row."""
    known = zip(columns.texts["site"], listed, strict=True)
    names = [name for name, has_row in known if name and not has_row]
    if not names:
        return []
    return [
        f"{counted(len(names), 'site')} without a recording that counts: {first_few(names, 3)}."
    ]


def _history_notes(facts: SiteFacts) -> list[str]:
    columns, history, notes = facts.columns, facts.history, []
    if columns.bad_numbers:
        notes.append(
            f"{counted(columns.bad_numbers, 'value')} that are no number count as unknown "
            f"(such as {columns.bad_number}); write 50.11, 50,11 or 50.11° N."
        )
    if np.isnan(history.level).all():
        notes.append("No row has a quiet_level_dbfs: levels are unknown, and only scores decide.")
    elif len(history.level) < FEW_SITES:
        notes.append(
            f"With fewer than {FEW_SITES} sites, what rain or a pump does to all of them cannot be "
            "told from what happens at one."
        )
    if history.common.any():
        dates = facts.nights.dates
        nights = first_few([str(dates[n]) for n in np.flatnonzero(history.common)], 3)
        notes.append(
            f"Unusually many sites have an alarm in {counted(int(history.common.sum()), 'night')} "
            f"({nights}): a common cause, such as rain, so these count for none."
        )
    if met := int((columns.kind[facts.nights.rows] == Kind.MET).sum()):
        notes.append(
            f"{counted(met, 'recording')} that the model met in training decide nothing: its "
            "verdict on them is no evidence."
        )
    return notes


def _worth_notes(rules: WorklistRules, evidence: Evidence | None) -> list[str]:
    notes = []
    if evidence is None:
        notes.append(
            "No scores of the model's own test recordings are known: the chance of a leak is "
            "unknown, and each list is ranked by score."
        )
    else:
        notes += evidence.notes()
    if rules.dig_cost is None or rules.leak_cost is None:
        notes.append("What a dig is worth is unknown without the costs of a dig and of a leak.")
    return notes


def _no_dig_pays(rules: WorklistRules, ranks: Ranks) -> list[str]:
    """Where no dig is worth its cost: by how much the best would lose, and what chance pays."""
    known = ranks.worth[~np.isnan(ranks.worth)]
    if not len(known) or known.max() > 0.0 or rules.dig_cost is None:
        return []
    loss, chance = float(f"{-known.max():.2g}"), 100 * np.nanmax(ranks.chance)
    text = f"By these costs no dig pays: the best would lose {loss:,.0f}."
    if not rules.leak_cost or rules.dig_cost >= rules.leak_cost:
        return [f"{text} A dig costs as much as a leak, or more."]
    pays = 100 * rules.dig_cost / rules.leak_cost
    return [
        f"{text} A dig pays above a chance of {pays:.2g} %; the highest here is {chance:.2g} %."
    ]
