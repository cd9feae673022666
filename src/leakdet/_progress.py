"""Progress with rate and remaining time: a bar on a terminal, else a line every few seconds."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from leakdet._messages import on_screen

PLAIN_EVERY_S = 5.0


class ProgressCounter:
    """Counts `what` (a plural noun) up to a total, and shows it while a command runs."""

    def __init__(self, title: str, total: int, what: str) -> None:
        self.title, self.total, self.what = title, total, what
        self.done = 0
        self._started = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        self._on_screen = on_screen()
        self._console = Console(stderr=True)

    def __enter__(self) -> "ProgressCounter":
        if self._on_screen and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(self.title, total=self.total, rate="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()
        elif kind is None and self.total:
            self._print_line()

    def step(self, count: int = 1) -> None:
        self.done += count
        if self._bar:
            self._bar.update(self._bar.task_ids[0], advance=count, rate=self._rate())
        elif self.done < self.total and time.monotonic() - self._last_line > PLAIN_EVERY_S:
            self._print_line()

    def _rate(self) -> str:
        return f"{self.done / max(1e-9, time.monotonic() - self._started):.0f} {self.what}/s"

    def _print_line(self) -> None:
        if not self._on_screen:
            return
        self._last_line = time.monotonic()
        elapsed = self._last_line - self._started
        left = elapsed / max(1, self.done) * (self.total - self.done)
        done = f"{self.done}/{self.total} {self.what}"
        line = f"{self.title}: {done}, {self._rate()}, {left:.0f} s left"
        print(line, file=sys.stderr, flush=True)
