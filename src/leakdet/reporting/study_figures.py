"""The figures of a study of trainings: its trials, their curves, and what each setting does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from leakdet.reporting.figures import GREY, LEAK, QUIET, STYLE, new_figure, svg

SIZE_IN = (4.6, 3.4)
MOST_SETTINGS = 12  # of which the values are drawn, the most important first
WIDE = 30.0  # ratio of the largest value to the smallest from which an axis is logarithmic


@dataclass(frozen=True)
class TrialFacts:
    """A trial as the figures show it; `checks` are its objective at each validation check."""

    number: int
    state: str
    value: float | None
    params: Mapping[str, object]
    checks: Sequence[float]


def study_figures(
    trials: Sequence[TrialFacts],
    objective: str,
    maximises: bool,
    best: int,
    importance: Mapping[str, float],
) -> list[tuple[str, str, str]]:
    """(heading, how to read it, svg) of the figures that these trials allow.

    `best` is the number of the best trial; `importance` shares 1 among the settings, and is empty
    where the trials cannot tell.
    """
    complete = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    drawn: list[tuple[str, str, str]] = []

    def add(heading: str, reading: str, draw: Callable[[], Figure]) -> None:
        with mpl.rc_context(STYLE):
            drawn.append((heading, reading, svg(draw(), heading)))

    if complete:
        reading = "A dot is a trial; the line is the best so far."
        add("Every trial", reading, lambda: _history(complete, objective, maximises))
    if any(trial.checks for trial in trials):
        reading = "Each line is a training, pruned ones too; the best trial is bold."
        add("Validation checks", reading, lambda: _checks(trials, objective, best))
    if importance:
        reading = "The share of the differences between good and other trials, by PED-ANOVA."
        add("What mattered", reading, lambda: _importance(importance))
    names = [*importance, *sorted({name for trial in complete for name in trial.params})]
    for name in list(dict.fromkeys(names))[:MOST_SETTINGS]:
        reading = "A dot is a complete trial; the best one is orange."
        add(name, reading, partial(_values, complete, name, objective, best))
    return drawn


def _history(trials: Sequence[TrialFacts], objective: str, maximises: bool) -> Figure:
    figure = new_figure(None, SIZE_IN)
    axes = figure.subplots()
    numbers, values = [trial.number for trial in trials], [trial.value or 0.0 for trial in trials]
    axes.plot(numbers, values, "o", color=QUIET, markersize=5)
    best = list(accumulate(values, max if maximises else min))
    axes.step(numbers, best, where="post", color=LEAK, linewidth=1.5)
    axes.set(xlabel="trial", ylabel=objective)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _checks(trials: Sequence[TrialFacts], objective: str, best: int) -> Figure:
    figure = new_figure(None, SIZE_IN)
    axes = figure.subplots()
    for trial in sorted(trials, key=lambda trial: trial.number == best):
        colour, width = GREY if trial.state == "pruned" else QUIET, 0.8
        if trial.number == best:
            colour, width = LEAK, 2.5
        marker = "o" if len(trial.checks) == 1 else "none"
        places = range(1, len(trial.checks) + 1)
        axes.plot(places, trial.checks, marker=marker, color=colour, linewidth=width)
    axes.set(xlabel="validation check", ylabel=f"{objective}, best so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _importance(importance: Mapping[str, float]) -> Figure:
    figure = new_figure(None, SIZE_IN)
    axes = figure.subplots()
    names = list(importance)[::-1][-MOST_SETTINGS:]
    axes.barh(names, [importance[name] for name in names], color=QUIET)
    axes.set(xlabel="importance", xlim=(0, 1))
    return figure


def _values(trials: Sequence[TrialFacts], name: str, objective: str, best: int) -> Figure:
    figure = new_figure(None, SIZE_IN)
    axes = figure.subplots()
    having = [trial for trial in trials if name in trial.params]
    given = [trial.params[name] for trial in having]
    numbers = [float(value) for value in given if type(value) in (int, float)]  # type: ignore[arg-type]
    is_number = len(numbers) == len(given)
    x = numbers if is_number else [str(value) for value in given]
    colours = [LEAK if trial.number == best else QUIET for trial in having]
    axes.scatter(x, [trial.value or 0.0 for trial in having], c=colours, s=24)
    if is_number and min(numbers) > 0 and max(numbers) > WIDE * min(numbers):
        axes.set_xscale("log")
    axes.set(xlabel=name, ylabel=objective)
    return figure
