"""Times the parts of a run from the start of its process to its first optimiser step.

Run by bench_train.py as `python scripts/first_step.py STARTED ARGUMENTS...`, where STARTED is the
time at which it was started and the arguments are those of `python -m leakdet.train`. The last line
is JSON, parts in their order. Nothing but the standard library is imported before the door is.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

marks: list[tuple[str, float]] = []


def mark(part: str) -> None:
    """End `part`, which began at the mark before it."""
    marks.append((part, time.time()))


def mark_once(owner: Any, name: str, part: str, before: str | None = None) -> None:
    """Let the first call of a function mark the end of `part`, and its start that of `before`."""
    plain: Callable[..., Any] = getattr(owner, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        setattr(owner, name, plain)
        if before:
            mark(before)
        result = plain(*arguments, **named)
        mark(part)
        return result

    setattr(owner, name, timed)


def main() -> None:
    started = float(sys.argv.pop(1))
    mark("interpreter")
    from leakdet import train as door

    mark("import of the door: Hydra")

    def train(config: Any, run: Any) -> int:
        mark("configuration")
        from torch.optim.optimizer import register_optimizer_step_post_hook

        mark("import of torch")
        from leakdet.training import datamodule, fit, module
        from leakdet.training.callbacks.diagnostics import Diagnostics

        mark("import of Lightning, torchmetrics, h5py")
        data_module = datamodule.LeakDataModule
        mark_once(data_module, "setup", "store opened and checked")
        mark_once(data_module, "read_windows", "windows read", "introduction")
        mark_once(fit, "make_trainer", "trainer, callbacks, loggers")
        mark_once(fit, "make_module", "network, input layer fitted")
        mark_once(module.LeakModule, "configure_optimizers", "loops and optimiser")
        first = ("first batch diagnosed", "two validation batches, first batch")
        mark_once(Diagnostics, "on_train_batch_start", *first)

        def ended(*_: Any) -> None:
            mark("first step")
            spans = zip([("", started), *marks], marks, strict=False)
            print(json.dumps({part: end - begin for (_, begin), (part, end) in spans}), flush=True)
            os._exit(0)

        register_optimizer_step_post_hook(ended)
        return plain(config, run)

    plain, door.train = door.train, train
    door.main()


if __name__ == "__main__":
    main()
