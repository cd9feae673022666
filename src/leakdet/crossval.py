"""`leakdet crossval STORE crossval.group_by=pipe`: scores a recipe on held-out groups."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from leakdet.cli.run import Run, open_door
from leakdet.config import CrossvalConfig
from leakdet.core.messages import LOG, print_status
from leakdet.core.process import DONE, INTERRUPTED, Stopped, signal_name


def crossval(config: CrossvalConfig, run: Run) -> int:
    from leakdet.building.cached_stores import store_or_demo
    from leakdet.runs.crossval import cross_validate
    from leakdet.training.callbacks.stopping import Interrupted
    from leakdet.training.settings import check_settings

    check_settings(config)  # before the demo is made
    if config.data.is_demo:
        LOG.info("No data.store was given: cross-validating on the demo, synthetic recordings")
    store = store_or_demo(config.data, config.demo, config.signal)
    folder = Path(config.crossval.out) if config.crossval.out else run.folder
    try:
        cross_validate(config, store, folder)
    except (KeyboardInterrupt, Stopped, Interrupted) as stop:
        code = getattr(stop, "exit_code", INTERRUPTED)
        print_status(_stopped_text(code, folder, run.arguments))
        return code
    return DONE


def _stopped_text(code: int, folder: Path, arguments: Sequence[str]) -> str:
    """A sentence on what a stopped cross-validation keeps, and the command that continues it."""
    shown = os.path.relpath(folder)
    done = len(list((folder / "folds").glob("*.json")))
    kept = f"{done} finished {'fold is' if done == 1 else 'folds are'} kept in {shown}"
    words = [word for word in arguments if not word.startswith("crossval.out=")]
    command = shlex.join(["leakdet", "crossval", *words, f"crossval.out={shown}"])
    return f"stopped by {signal_name(code)}; {kept}\nto continue: {command}"


def main() -> None:
    open_door("crossval", crossval)


if __name__ == "__main__":
    main()
