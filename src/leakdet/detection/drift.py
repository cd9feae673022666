"""Drift: whether the sound or the scores of a site have moved, and since when.

Two comparisons by Kolmogorov–Smirnov tests, each over every site of a call. *Within a site*: the
recordings before a day and those from it on, over all days. *Against training*: all recordings of
the site and those of training. Sites differ anyway, so that a test alone would fire at every new
one: the median must also have moved by more than training recordings differ. p-values are
multiplied by the number of sites, columns and days (Bonferroni), so that in all of a call the
chance of one false alarm is at most 5 %, as long as recordings of a site that has not moved are
drawn alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.core.errors import counted

ALPHA = 0.05  # of a false alarm, over all sites and both comparisons
FEWEST = 20  # recordings of a site; of fewer nothing is said
FEWEST_EACH = 8  # of them before a day, and from it on
MOST_DAYS = 50  # that are tried as the first one of another sound; of more, as many evenly
LEAST_SHIFT = 1.5  # of the median within a site, in standard deviations of training


@dataclass(frozen=True)
class Move:
    """What moved most at a site; `band` None: its scores.

    `shift` is that of the median, in dB or of the score: against the days before `since` or, where
    that is None, against training. `more` other columns moved too. `recordings` are those after.
    """

    site: str
    band: int | None
    shift: float
    before: float
    since: np.datetime64 | None
    recordings: int
    more: int

    def sentence(self, centres_hz: Sequence[float]) -> str:
        """What moved, by how much and since when; `centres_hz` are those of the bands."""
        since = f"since {self.since} ({self.recordings} recordings)"
        if self.band is None:
            after = self.before + self.shift
            return (
                f"{self.site} scores otherwise {since}: the median leak_prob is {after:.2f}, "
                f"before it was {self.before:.2f}"
            )
        side = "stronger" if self.shift > 0 else "weaker"
        band = f"its band at {centres_hz[self.band]:,.0f} Hz is {abs(self.shift):.1f} dB {side}"
        more = f", and {self.more} more bands moved" if self.more > 0 else ""
        if self.since is None:
            return f"{self.site} sounds unlike the training recordings: {band} than theirs{more}"
        return f"{self.site} sounds otherwise {since}: {band} than before{more}"

    @property
    def remedy(self) -> str:
        """What to do about the site, as a sentence without its full stop."""
        if self.since is None:
            return "Confirm some of its recordings before you rely on its verdicts"
        if self.band is None:
            return "A leak or another sound: confirm one"
        return "Find out what changed (sensor, pump, leak), and confirm some recordings"


@dataclass
class Drift:
    """The sites that moved, how many were `judged`, and how many could not be: `too_few`.

    `undated` of those judged have too few dated recordings to say since when.
    """

    moves: list[Move] = field(default_factory=list)
    judged: int = 0
    too_few: int = 0
    undated: int = 0

    def summary(self, noun: str) -> str:
        """How many sites were compared, and why others were not; `noun` is site or folder."""
        if not self.judged:
            return f"{noun}s were not compared: none has {FEWEST} recordings with sound"
        sites = counted(self.judged, noun)
        parts = [f"{sites} compared with training, {len(self.moves) or 'none'} moved"]
        if self.undated and noun == "site":
            parts.append(f"{self.undated} of them without enough times to tell since when")
        if self.too_few:
            parts.append(f"{self.too_few} with fewer than {FEWEST} recordings not compared")
        return "; ".join(parts)


def find_drift(
    bands: Float[np.ndarray, "N B"],
    scores: Float[np.ndarray, " N"],
    sites: Shaped[np.ndarray, " N"],
    recorded_at: Shaped[np.ndarray, " N"],
    training_bands: Float[np.ndarray, "K B"],
    training_scores: Float[np.ndarray, " V"] | None = None,
) -> Drift:
    """Compare recordings, site by site, with their own past and with training.

    `bands` are level-free means in dB, `recorded_at` is datetime64 (NaT: unknown), a blank site
    takes no part. Scores are compared over time only, where `training_scores` say how widely they
    spread: the scores of one site are alike, and depend on how many leaks there are.
    """
    days, result = recorded_at.astype("datetime64[D]"), Drift()
    known = np.flatnonzero(sites != "")
    if not len(known):
        return result
    names, of, counts = np.unique(sites[known], return_inverse=True, return_counts=True)
    rows_of = np.split(known[np.argsort(of, kind="stable")], counts.cumsum()[:-1])
    result.judged, result.too_few = int((counts >= FEWEST).sum()), int((counts < FEWEST).sum())
    spread = training_bands.std(axis=0)
    if training_scores is not None:
        bands_and_scores = np.column_stack([bands, scores])
        spread = np.append(spread, training_scores.std())
    else:
        bands_and_scores = bands
    for site, rows in zip(names, rows_of, strict=True):
        if len(rows) < FEWEST:
            continue
        dated = rows[~np.isnat(days[rows])]
        dated = dated[np.argsort(recorded_at[dated], kind="stable")]
        result.undated += len(dated) < FEWEST
        move = None
        if len(dated) >= FEWEST:
            move = _within(str(site), bands_and_scores[dated], days[dated], spread, result.judged)
        move = move or _against(str(site), bands[rows], training_bands, result.judged)
        if move is not None:
            result.moves.append(_named(move, bands.shape[1]))
    return result


def _within(
    site: str,
    columns: Float[np.ndarray, "N C"],
    days: Shaped[np.ndarray, " N"],
    spread: Float[np.ndarray, " C"],
    sites: int,
) -> Move | None:
    """The day from which on the recordings, in time order, differ most from those before."""
    from scipy import special  # slow to import, and few runs of predict come to it

    starts = np.flatnonzero(np.append(True, days[1:] != days[:-1]))
    tried = _tried_days(starts, len(days))
    tests = columns.shape[1] * len(tried) * sites
    least, best, found = LEAST_SHIFT * np.maximum(spread, 1e-9), 0.0, None
    order = columns.argsort(axis=0, kind="stable")
    is_last = _is_last(np.take_along_axis(columns, order, axis=0))
    medians = np.stack([np.median(part, axis=0) for part in np.split(columns, starts[1:])])
    for day in tried:
        first = int(starts[day])
        before = np.median(columns[:first], axis=0)
        shift = np.median(columns[first:], axis=0) - before
        size = first * (len(columns) - first) / len(columns)
        distance = np.sqrt(size) * _distances(order >= first, is_last)
        moved = special.kolmogorov(distance) * tests < ALPHA / 2
        moved &= (np.abs(shift) >= least) & (_by_day(medians, day) * tests < ALPHA / 2)
        strength = distance * moved
        if strength.max() > best:
            best, column = strength.max(), int((strength + np.abs(shift) / least * moved).argmax())
            after = len(columns) - first
            more = int(moved.sum()) - 1
            shifted = (float(shift[column]), float(before[column]))
            found = Move(site, column, *shifted, days[first], after, more)
    return found


def _tried_days(starts: Int[np.ndarray, " D"], recordings: int) -> list[int]:
    """Numbers of the days that have enough recordings before them and from them on."""
    tried = np.flatnonzero((starts >= FEWEST_EACH) & (starts <= recordings - FEWEST_EACH))
    if len(tried) > MOST_DAYS:
        tried = tried[np.linspace(0, len(tried) - 1, MOST_DAYS).round().astype(int)]
    return [int(day) for day in tried]


def _by_day(medians: Float[np.ndarray, "D C"], first: int) -> Float[np.ndarray, " C"]:
    """p-value of the t-test between the medians of the days before `first` and those from it on.

    Recordings of one day are alike, so that days have to differ, not recordings alone.
    """
    from scipy import special

    before, after = medians[:first], medians[first:]
    freedom = len(medians) - 2
    if freedom < 2:
        return np.ones(medians.shape[1])
    squares = np.square(before - before.mean(0)).sum(0) + np.square(after - after.mean(0)).sum(0)
    error = np.sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))
    t = np.abs(after.mean(0) - before.mean(0)) / np.maximum(error, 1e-12)
    return np.asarray(2.0 * special.stdtr(freedom, -t))


def _against(
    site: str, bands: Float[np.ndarray, "N B"], training: Float[np.ndarray, "K B"], sites: int
) -> Move | None:
    """The band in which a site differs most from training, by more than single recordings do."""
    from scipy import special

    tests = bands.shape[1] * sites
    both = np.concatenate([bands, training])
    order = both.argsort(axis=0, kind="stable")
    is_last = _is_last(np.take_along_axis(both, order, axis=0))
    distance = _distances(order < len(bands), is_last)
    size = len(bands) * len(training) / len(both)
    p_value = special.kolmogorov(np.sqrt(size) * distance) * tests
    before = np.median(training, axis=0)
    shift = np.median(bands, axis=0) - before
    # as if the whole site were one recording of training: sites are what they are throughout
    strange = np.abs(shift) / np.maximum(training.std(axis=0), 1e-9)
    moved = (p_value < ALPHA / 2) & (strange >= -special.ndtri(ALPHA / 4 / tests))
    if not moved.any():
        return None
    band = int((strange * moved).argmax())
    more = int(moved.sum()) - 1
    return Move(site, band, float(shift[band]), float(before[band]), None, len(bands), more)


def _is_last(ordered: Float[np.ndarray, "N C"]) -> Bool[np.ndarray, "N C"]:
    """True for the last of equal values in each column, where distributions may be compared."""
    return np.concatenate([ordered[1:] != ordered[:-1], np.ones_like(ordered[:1], bool)])


def _distances(
    is_second: Bool[np.ndarray, "N C"], is_last: Bool[np.ndarray, "N C"]
) -> Float[np.ndarray, " C"]:
    """Largest difference of the distributions of two samples, whose values are in order."""
    second = is_second[:, 0].sum()
    step = np.where(is_second, 1.0 / second, -1.0 / (len(is_second) - second))
    return np.asarray(np.abs(step.cumsum(axis=0) * is_last).max(axis=0))


def _named(move: Move, bands: int) -> Move:
    """The move, with None for the column of scores that stands behind the bands."""
    return replace(move, band=None) if move.band == bands else move
