"""Recordings of some training steps: a trace of operators, or NVTX ranges."""

from abc import ABC, abstractmethod
from pathlib import Path

import torch
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.utilities import rank_zero_only

from leakdet._messages import LOG, log_result

SKIPPED = 10  # steps before a trace or the ranges begin: first steps allocate, tune and compile
TRACE = "trace.json"  # in the folder of a run
NOTHING = f"profile  nothing was recorded: the training ended within its first {SKIPPED} steps"
NEXT_BATCH = "train_dataloader_next"  # how the name of Lightning's action ends


class StepRecording(Profiler, ABC):
    """Records some steps after the first ones, and what lies between them."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._first, self._end = SKIPPED, SKIPPED + steps
        self._step = 0
        self._recording = False
        self._ranges: list[str] = []  # under way, the innermost last

    def start(self, action_name: str) -> None:
        if action_name.endswith(NEXT_BATCH):
            if self._step == self._first:
                self._recording = True
                self.begin()
            elif self._step == self._end:
                self.close()
            self._step += 1
        if self._recording:
            self._ranges.append(action_name)
            self.push(action_name)

    def stop(self, action_name: str) -> None:
        if self._ranges and self._ranges[-1] == action_name:
            self._ranges.pop()
            self.pop()

    def describe(self) -> None:
        """End a recording that the training ended before."""
        if self._step <= self._first:
            LOG.warning(NOTHING)
        self.close()

    def close(self) -> None:
        """End the recording, once."""
        if self._recording:
            while self._ranges:
                self.stop(self._ranges[-1])
            self._recording = False
            self.finish()

    @abstractmethod
    def begin(self) -> None:
        """Begin to record."""

    @abstractmethod
    def push(self, name: str) -> None:
        """Open a range."""

    @abstractmethod
    def pop(self) -> None:
        """Close the innermost range."""

    @abstractmethod
    def finish(self) -> None:
        """End the recording."""


class OperatorTrace(StepRecording):
    """torch's profiler: a trace of its operators, under the actions that Lightning announces.

    Lightning's own counts validation batches as steps, and names its file after the last action.
    """

    def __init__(self, path: Path, steps: int) -> None:
        super().__init__(steps)
        self.path = path
        self._open: list[torch.profiler.record_function] = []

    def begin(self) -> None:
        self._profile = torch.profiler.profile()
        self._profile.start()

    def push(self, name: str) -> None:
        self._open.append(torch.profiler.record_function(name))
        self._open[-1].__enter__()  # type: ignore[no-untyped-call]

    def pop(self) -> None:
        self._open.pop().__exit__(None, None, None)

    def finish(self) -> None:
        self._profile.stop()
        self._tell()

    @rank_zero_only
    def _tell(self) -> None:
        self._profile.export_chrome_trace(str(self.path))
        log_result(f"trace    {self.path}: open it in chrome://tracing or in Perfetto")


class NvtxRanges(StepRecording):
    """A range of NVTX for each action of Lightning, inside the capture range of Nsight Systems."""

    def begin(self) -> None:
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]

    def push(self, name: str) -> None:
        torch.cuda.nvtx.range_push(name)  # type: ignore[no-untyped-call]

    def pop(self) -> None:
        torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
