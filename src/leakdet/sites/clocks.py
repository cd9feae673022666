"""Recordings that a wrong clock dated: reset, ahead, or gone back."""

from datetime import date

import numpy as np
from jaxtyping import Int

from leakdet.errors import InputError, counted, first_few
from leakdet.sites.row_columns import DAY_S, RowColumns
from leakdet.sites.rules import WorklistRules

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
    """Rows without those that a clock that went back dated once more into a night of their site.

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
