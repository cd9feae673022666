"""From rows of predict over many nights to the ranked list of sites."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from leakdet.errors import counted, first_few
from leakdet.sites.course import follow_alarms, follow_levels, follow_presence
from leakdet.sites.dig_ranks import rank_sites
from leakdet.sites.dig_worth import Evidence
from leakdet.sites.logger_health import health_facts
from leakdet.sites.nights import find_nights
from leakdet.sites.row_columns import Kind, RowColumns, read_columns
from leakdet.sites.rules import WorklistRules
from leakdet.sites.site_history import FEW_SITES, History, make_history
from leakdet.sites.site_places import find_places
from leakdet.sites.site_rows import SiteFacts, site_rows
from leakdet.sites.states import SiteStates
from leakdet.sites.worklist_row import WorklistRow


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

    Raises:
        InputError: there is no row, or none names its site or a possible time.
    """
    rules = rules or WorklistRules()
    columns = rows if isinstance(rows, RowColumns) else read_columns(rows)
    nights = find_nights(columns, rules, today or datetime.now(UTC).date())
    history = make_history(columns, nights, rules)
    alarms = follow_alarms(history, rules)
    levels = follow_levels(history, alarms, rules)
    presence = follow_presence(history, nights.network, rules)
    states = SiteStates(history, alarms, levels, presence, nights.dates, rules)
    listed = (presence.last_heard >= 0) | (nights.clock_back > 0)
    told = {site: states.of(site) for site in np.flatnonzero(listed).tolist()}
    unjudged = {site for site in told if states.is_unjudged(site)}
    by_state = {site: state for site, (state, _) in told.items()}
    ranks = rank_sites(by_state, unjudged, alarms, levels, rules, evidence)
    place, remarks = find_places(columns, nights.rows)
    health = health_facts(
        history, levels, presence, nights.network, nights.clock_back, nights.dates, rules
    )
    facts = SiteFacts(
        columns, nights, history, alarms, levels, presence, told, ranks, place, health
    )
    notes = [*nights.notes, *_left_out(columns, listed), *remarks]
    notes += [*_history_notes(columns, nights.rows, history, nights.dates)]
    notes += _worth_notes(rules, evidence)
    return Worklist(site_rows(facts, rules.recordings), nights.dates, notes)


def _left_out(columns: RowColumns, listed: np.ndarray) -> list[str]:
    """A remark on sites of which no recording counts; they have no row."""
    known = zip(columns.texts["site"], listed, strict=True)
    names = [name for name, has_row in known if name and not has_row]
    if not names:
        return []
    return [
        f"{counted(len(names), 'site')} without a recording that counts: {first_few(names, 3)}."
    ]


def _history_notes(
    columns: RowColumns, rows: np.ndarray, history: History, dates: list[date]
) -> list[str]:
    notes = []
    if columns.bad_numbers:
        notes.append(
            f"{counted(columns.bad_numbers, 'value')} that are no number count as unknown."
        )
    if np.isnan(history.level).all():
        notes.append("No row has a quiet_level_dbfs: levels are unknown, and only scores decide.")
    elif len(history.level) < FEW_SITES:
        notes.append(
            f"With fewer than {FEW_SITES} sites, what rain or a pump does to all of them cannot be "
            "told from what happens at one."
        )
    if history.common.any():
        nights = first_few([str(dates[n]) for n in np.flatnonzero(history.common)], 3)
        notes.append(
            f"Unusually many sites have an alarm in {counted(int(history.common.sum()), 'night')} "
            f"({nights}): a common cause, such as rain, so these count for none."
        )
    if met := int((columns.kind[rows] == Kind.MET).sum()):
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
            "unknown, and sites are ranked by state and score."
        )
    else:
        notes += evidence.notes()
    if rules.dig_cost is None or rules.leak_cost is None:
        notes.append("The worth of a dig is unknown without the costs of a dig and of a leak.")
    return notes
