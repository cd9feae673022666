"""Long work in a child process, one at a time: a verb of leakdet, its progress and its end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from leakdet.core.process import DONE, PARTLY
from leakdet.serving.guard import RequestError

# The child ends with this process, however that ends.
STARTER = (
    "import sys; from leakdet.core.process import follow_parent; follow_parent(int(sys.argv[1])); "
    "sys.argv = ['leakdet', *sys.argv[2:]]; from leakdet.__main__ import main; main()"
)
GRACE_S = 20.0


@dataclass
class Job:
    """A verb that runs or has ended: how far it is, and its error in a sentence."""

    kind: str  # demo, learn or rank
    title: str
    done: int = 0
    total: int = 0
    progress: str = ""
    error: str = ""
    running: bool = True
    result: dict[str, Any] = field(default_factory=dict)  # what came of it

    def content(self) -> dict[str, Any]:
        """Plain values for the page."""
        return {
            name: value for name, value in asdict(self).items() if name != "result"
        } | self.result

    def read_line(self, line: str) -> None:
        """Read a line of the verb's log, an object of JSON."""
        try:
            entry = json.loads(line)
            kind, text = entry["kind"], str(entry["message"])
        except (ValueError, KeyError, TypeError):
            return
        if kind in ("error", "usage"):
            self.error = text
        else:
            self.done, self.total, self.progress = entry.get("done", 0), entry.get("total", 0), text


class Jobs:
    """Runs one job at a time; `changed` is called at every step."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.latest: Job | None = None
        self._changed, self._lock = changed, threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    def start(
        self, kind: str, title: str, words: Sequence[str], finish: Callable[[Job], None]
    ) -> None:
        """Run `leakdet WORDS`, and where it ends well `finish` with its job.

        Raises `RequestError` while another one runs.
        """
        with self._lock:
            if self.latest and self.latest.running:
                raise RequestError(409, f"{self.latest.title} is still at work; wait for its end.")
            job = self.latest = Job(kind, title)
        self._thread = threading.Thread(target=self._run, args=(job, words, finish), daemon=True)
        self._thread.start()

    def _run(self, job: Job, words: Sequence[str], finish: Callable[[Job], None]) -> None:
        try:
            code = self._process_of(job, words)
            if code in (DONE, PARTLY):
                finish(job)
            else:
                job.error = job.error or f"{job.title} ended with exit code {code}."
        except Exception as error:  # shown on the page
            job.error = str(error) or repr(error)
        finally:
            job.running = False
            self._changed()

    def _process_of(self, job: Job, words: Sequence[str]) -> int:
        command = [sys.executable, "-c", STARTER, str(os.getpid()), *words]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for this process, which ends the child
        ) as process:
            self._process = process
            assert process.stderr is not None
            for line in process.stderr:
                job.read_line(line)
                self._changed()
        return process.returncode

    def end(self) -> None:
        """Stop the job that runs, as by SIGTERM, and wait for it."""
        process, thread = self._process, self._thread
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            process.kill()
        if thread is not None:
            thread.join(timeout=5)
