"""Time of a training by phase of its steps and epochs, and recordings of some steps."""

import math
import re
import statistics
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.utilities import rank_zero_only

from leakdet.core.messages import LOG, log_result
from leakdet.tables.write import write_csv
from leakdet.training.callbacks.speed import quantile

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


KEPT = 10_000  # steps whose times are kept for the median and p95
PENDING = 2_000  # moments that are kept before they are turned into times
PROFILE = "profile.csv"  # in the folder of a run
PHASES = (
    "wait", "copy", "augmentation", "forward", "loss", "backward", "optimiser", "callbacks",
    "validation", "checkpoints", "loop",
)  # fmt: skip
OF_AN_EPOCH = ("validation", "checkpoints")
PHASE_OF = {
    "train_dataloader_next": "wait",
    "batch_to_device": "copy",
    "augmentation": "augmentation",
    "forward": "forward",
    "training_step": "loss",  # what else the step does
    "backward": "backward",
    "optimizer_step": "optimiser",  # around the closure, whose parts have phases of their own
    "optimizer_zero_grad": "optimiser",
    "configure_gradient_clipping": "optimiser",
    "lr_scheduler_step": "optimiser",
}
NAMED = 0.01  # share of the time from which a callback is named
CALLBACK = re.compile(r"\[Callback\]([^.{]+).*\.(\w+)$")  # action: class, other state, and hook
EPOCH, SAVE = "run_training_epoch", "save_checkpoint"  # names of Lightning's actions


class PhaseProfiler(Profiler):
    """Divides the time of each epoch into phases, by the actions that Lightning announces.

    Each moment belongs to the innermost action with a phase of its own, so that the phases of an
    epoch add up to it. On a GPU its clock is read, by events in its stream: a phase is the time in
    which the GPU worked or waited for it, not that in which the program queued its work.

    Lightning's SimpleProfiler counts nested actions twice, and reads the host's clock alone.
    """

    def __init__(self, path: Path) -> None:
        """`path` is that of the table as a CSV file, written at the end."""
        super().__init__()
        self.path = path
        self.epochs: list[dict[str, float]] = []  # seconds by phase
        self._steps: deque[tuple[int, dict[str, float]]] = deque(maxlen=KEPT)
        self._under_way: list[tuple[str, str]] = []  # action and phase, outermost first
        # moment, action and phase before it, whether a step begins (True) or a step ends (False)
        self._moments: list[tuple[Any, str, str, bool | None]] = []
        self.callbacks: defaultdict[str, float] = defaultdict(float)  # seconds by class and hook
        self._step: dict[str, float] = {}
        self._validating = False

    def start(self, action_name: str) -> None:
        if action_name == EPOCH:
            self._begin_epoch()
        if not self._under_way:
            return  # before the first epoch, such as the check of a few validation batches
        phase = self._phase(action_name)
        if action_name.endswith(NEXT_BATCH):
            self._mark(*self._under_way[-1], step=True)
        elif phase != self._under_way[-1][1]:
            self._mark(*self._under_way[-1])
        self._under_way.append((action_name, phase))

    def stop(self, action_name: str) -> None:
        if action_name.endswith("on_validation_end") and action_name.startswith("[Strategy]"):
            self._validating = False
        # what an exception left open is closed with what surrounds it
        while any(action == action_name for action, _ in self._under_way):
            action, phase = self._under_way.pop()
            if phase != self._under_way[-1][1]:
                self._mark(action, phase)
            if action == action_name:
                break
        if len(self._moments) > PENDING:
            self._resolve()

    def describe(self) -> None:
        """End the last epoch: the training is over."""
        if self._under_way:
            self._mark("", "loop")
            self._resolve()
            self._under_way = []
            self._tell()

    @rank_zero_only
    def _tell(self) -> None:
        rows = self.rows()
        write_csv(self.path, rows)
        log_result("\n".join([profile_text(rows), *self._slowest_callbacks()]))

    def _slowest_callbacks(self) -> list[str]:
        """A line on the callbacks that took the most time, where they took some."""
        epochs = self.epochs[1:] or self.epochs
        total_s = sum(map(sum, (epoch.values() for epoch in epochs)))
        most = sorted(self.callbacks.items(), key=lambda item: -item[1])[:3]
        slowest = [f"{name} {seconds:.2f} s" for name, seconds in most if seconds > NAMED * total_s]
        return [f"  slowest callbacks: {', '.join(slowest)}"] if slowest else []

    def _begin_epoch(self) -> None:
        """End the epoch before, with its checkpoints, and begin another."""
        if self._under_way:
            self._mark("", "loop")
            self._resolve()
            if len(self.epochs) == 1:  # it warmed up, and is left out of the table too
                self.callbacks.clear()
        else:
            self._mark("", "")
            self._under_way = [("fit", "loop")]
        self.epochs.append(dict.fromkeys(PHASES, 0.0))
        self._mark("", "loop", step=False)

    def _phase(self, action: str) -> str:
        around = self._under_way[-1][1]
        if action.endswith("on_validation_start") and not self._validating:
            self._validating = True
            self._mark(*self._under_way[-1], step=False)
        if around == "checkpoints" or action == SAVE:
            return "checkpoints"
        if action.startswith("[Callback]"):
            return "callbacks"
        if self._validating:
            return "validation"
        return PHASE_OF.get(action.rpartition(".")[2], around)

    def _mark(self, action: str, phase: str, step: bool | None = None) -> None:
        """Note that a phase of this action ends now, and whether a step begins or ends with it."""
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            moment = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            moment.record()
            self._moments.append((moment, action, phase, step))
        else:
            self._moments.append((time.perf_counter(), action, phase, step))

    def _resolve(self) -> None:
        """Turn the moments into seconds; the last one stays, since the next phase begins there."""
        if self._moments and not isinstance(self._moments[-1][0], float):
            self._moments[-1][0].synchronize()
        for (start, *_, step), (end, action, phase, _) in pairwise(self._moments):
            if step is not None:
                self._step = {}
            if step:
                self._steps.append((len(self.epochs) - 1, self._step))
            seconds = _seconds(start, end)
            self.epochs[-1][phase] += seconds
            self._step[phase] = self._step.get(phase, 0.0) + seconds
            if phase == "callbacks":
                self.callbacks[CALLBACK.sub(r"\1.\2", action)] += seconds
        self._moments = self._moments[-1:]

    def rows(self) -> list[dict[str, Any]]:
        """A row per phase: median and p95 of a step, time in all, share of the epochs.

        Median and p95 of validation and checkpoints are those of an epoch. The first epoch, which
        warms up, is left out where there are others.
        """
        first = 1 if len(self.epochs) > 1 else 0
        epochs = self.epochs[first:]
        total = {phase: sum(epoch[phase] for epoch in epochs) for phase in PHASES}
        rows = []
        for phase in PHASES:
            steps = [step.get(phase, 0.0) for epoch, step in self._steps if epoch >= first]
            times = [epoch[phase] for epoch in epochs] if phase in OF_AN_EPOCH else steps
            times = times or [math.nan]
            rows.append(
                {
                    "phase": phase,
                    "median_ms": 1e3 * statistics.median(times),
                    "p95_ms": 1e3 * quantile(times, 0.95),
                    "total_s": total[phase],
                    "share": total[phase] / (sum(total.values()) or math.nan),
                }
            )
        return rows


def profile_text(rows: list[dict[str, Any]]) -> str:
    """The phases as a table, the longest first."""
    lines = ["Where the time went (of a step; validation and checkpoints: of an epoch)"]
    lines.append(
        f"  {'phase':<13}{'median [ms]':>12}{'p95 [ms]':>12}{'in all [s]':>12}{'share':>8}"
    )
    for row in sorted(rows, key=lambda row: -row["share"]):
        times = f"{row['median_ms']:>12.2f}{row['p95_ms']:>12.2f}{row['total_s']:>12.2f}"
        lines.append(f"  {row['phase']:<13}{times}{row['share']:>8.1%}")
    return "\n".join(lines)


def _seconds(start: Any, end: Any) -> float:
    if isinstance(start, float):
        return float(end - start)
    return float(start.elapsed_time(end)) / 1e3
