"""Scores recordings in one thread of its own: those of machines first, then those of the page.

All of them take the way of `leakdet predict`, `Detector.predict_listed`, some at a time.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import TYPE_CHECKING

from leakdet.core.errors import InputError
from leakdet.serving.guard import RequestError
from leakdet.tables.schema import InputRecording, Verdict

if TYPE_CHECKING:
    from leakdet.scoring.detector import Detector

AT_A_TIME = 4 * (os.cpu_count() or 1)  # recordings, so that a machine's waits for few of the page

Scored = Future[list[Verdict]]


class Engine:
    """Scores what is submitted; without a detector, recordings of the page wait for one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._urgent: deque[tuple[InputRecording, Scored]] = deque()
        self._waiting: deque[tuple[InputRecording, Scored]] = deque()
        self._detector: Detector | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="engine")

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Let the thread end after what it is scoring."""
        self.clear()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def detector(self) -> "Detector":
        """The detector in use. Raises `RequestError` while there is none yet."""
        if self._detector is None:
            raise RequestError(503, "the demo model is still being trained; ask again in a minute.")
        return self._detector

    def use(self, detector: "Detector") -> None:
        """Score by this detector from now on."""
        with self._changed:
            self._detector = detector
            self._changed.notify_all()

    @property
    def is_ready(self) -> bool:
        return self._detector is not None

    def submit(self, recording: InputRecording, urgent: bool = False) -> Scored:
        """Score a recording; its verdict, or one of each channel, comes later."""
        future = Scored()
        with self._changed:
            (self._urgent if urgent else self._waiting).append((recording, future))
            self._changed.notify_all()
        return future

    def clear(self) -> None:
        """Forget the recordings of the page that wait."""
        with self._changed:
            forgotten = [future for _, future in self._waiting]
            self._waiting.clear()
        for future in forgotten:  # whose callbacks take locks of their own
            future.cancel()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            self._score([(item, future) for item, future in batch if not future.cancelled()])

    def _next(self) -> Sequence[tuple[InputRecording, Scored]] | None:
        """The next recordings, those of machines first; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or (self._detector and self._some()))
            if self._ended:
                return None
            queue = self._urgent or self._waiting
            batch = [queue.popleft() for _ in range(min(AT_A_TIME, len(queue)))]
            for _, future in batch:
                future.set_running_or_notify_cancel()
            return batch

    def _some(self) -> bool:
        return bool(self._urgent or self._waiting)

    def _score(self, batch: Sequence[tuple[InputRecording, Scored]]) -> None:
        """Give each future the verdicts on its recording, whose paths differ."""
        futures = {str(recording.source): future for recording, future in batch}
        error: Exception = InputError("it was not scored; try it again.")
        try:
            verdicts = self.detector.predict_listed([recording for recording, _ in batch])
            for path, of_recording in groupby(verdicts, lambda verdict: str(verdict.path)):
                futures.pop(path).set_result(list(of_recording))
        except Exception as raised:  # whatever it was, the next ones are scored
            error = raised
        for future in futures.values():
            future.set_exception(error)
