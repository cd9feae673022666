"""Progress with rate and remaining time: a bar on a terminal, else lines that become rarer."""

import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from leakdet.core.messages import logs_json, print_status, shows_progress

# A line after so many seconds, then each time the work has taken a tenth longer.
FIRST_LINE_S, LINES_GROW = 5.0, 0.1


class ProgressCounter:
    """Counts `what` (a plural noun) up to a total, and shows it while a command runs.

    One counter is shown at a time: within another one, a counter is silent. `closing` prints a last
    line where lines are printed; `first_line_s` is how long it is silent there.
    """

    _shown: "ProgressCounter | None" = None

    def __init__(
        self,
        title: str,
        total: int,
        what: str,
        *,
        closing: bool = True,
        first_line_s: float = FIRST_LINE_S,
    ) -> None:
        self.title, self.total, self.what = title, total, what
        self.done = self._done_before = 0
        self._closing = closing
        self._line_every_s = first_line_s
        self._started = self._last_line = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> "ProgressCounter":
        if ProgressCounter._shown is not None or not shows_progress():
            return self
        ProgressCounter._shown = self
        console = Console(stderr=True, markup=False, highlight=False)
        if console.is_terminal and not console.is_dumb_terminal and not logs_json():
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}", markup=False),
                console=console,
                transient=True,
                # else lines for a file would go to the terminal
                redirect_stdout=sys.stdout.isatty(),
            )
            self._bar.add_task(self.title, total=self.total, completed=self.done, rate="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if ProgressCounter._shown is not self:
            return
        ProgressCounter._shown = None
        if self._bar:
            self._bar.stop()
        elif kind is None and self.total and self._closing:
            self._print_line()

    def retitle(self, title: str) -> None:
        """Say in another title what is being done."""
        self.title = title
        if self._bar:
            self._bar.update(self._bar.task_ids[0], description=title)

    def begin_at(self, done: int) -> None:
        """Count on from `done`, which others did before: it says nothing of the rate."""
        self.done = self._done_before = done

    def step(self, count: int = 1) -> None:
        self.done += count
        if ProgressCounter._shown is not self:
            return
        if self._bar:
            rate = f"{self._rate()}, {self.left()} left"
            self._bar.update(
                self._bar.task_ids[0], description=self.title, completed=self.done, rate=rate
            )
        elif self.done < self.total and time.monotonic() - self._last_line > self._line_every_s:
            self._print_line()
            self._line_every_s = max(
                self._line_every_s, LINES_GROW * (time.monotonic() - self._started)
            )

    def left(self) -> str:
        """The time that the rest takes at the rate so far."""
        new = self.done - self._done_before
        if not new:
            return "?"
        return time_text(self._elapsed_s() / new * (self.total - self.done))

    def _elapsed_s(self) -> float:
        return max(1e-9, time.monotonic() - self._started)

    def _rate(self) -> str:
        return rate_text((self.done - self._done_before) / self._elapsed_s(), self.what)

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        done = f"{self.done}/{self.total} {self.what}"
        line = f"{self.title}: {done}, {self._rate()}, {self.left()} left"
        counts: dict[str, Any] = {"done": self.done, "total": self.total}
        counts |= {"unit": self.what, "task": self.title}
        print_status(line, kind="progress", **counts)


def rate_text(per_second: float, what: str) -> str:
    """A rate in the unit in which it is a number that people can picture.

    >>> rate_text(12.3, "files"), rate_text(0.25, "folds"), rate_text(0.004, "folds")
    ('12 files/s', '15 folds/min', '14 folds/h')
    """
    for factor, unit in ((1, "s"), (60, "min")):
        if per_second * factor >= 1:
            return f"{per_second * factor:.0f} {what}/{unit}"
    return f"{per_second * 3600:.0f} {what}/h"


def time_text(seconds: float | int) -> str:
    """A duration in one unit.

    >>> time_text(12.4), time_text(600), time_text(9000)
    ('12 s', '10 min', '2.5 h')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
