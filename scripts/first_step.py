"""Where the seconds go from the start of a process to its first optimiser step: JSON on the last line, parts in order.

Run by bench_train.py as `python scripts/first_step.py STARTED ARGUMENTS...`, where STARTED is the time at which it was started
and the arguments are those of `python -m leakdet.train`. Nothing but the standard library is imported before the door is.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

marks: list[tuple[str, float]] = []


def mark(part: str) -> None:
    """Ends `part`: what passed since the mark before it."""
    marks.append((part, time.time()))


def marked(owner: Any, name: str, part: str, before: str | None = None) -> None:
    """Replace a function or method by itself and a mark; `before` names what ends when it is called."""
    plain: Callable[..., Any] = getattr(owner, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        if before:
            mark(before)
        found = plain(*arguments, **named)
        mark(part)
        return found

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
        from leakdet.training import datamodule, module
        from leakdet.training import fit as fitting
        from leakdet.training.callbacks import first_batch

        mark("import of Lightning, torchmetrics, h5py")
        marked(datamodule.LeakDataModule, "__init__", "store opened and checked")
        marked(fitting, "make_trainer", "trainer, callbacks, loggers", "class balance told")
        marked(fitting, "prepare", "network, input layer fitted")
        marked(module.LeakModule, "configure_optimizers", "loops and optimiser")
        marked(
            first_batch.FirstBatch,
            "on_train_batch_start",
            "first batch looked at",
            "two validation batches, first batch",
        )

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
