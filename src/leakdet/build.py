"""`leakdet build RECORDINGS STORE`: makes a store from audio, or from an AILH store."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from leakdet.cli.run import Run, open_door
from leakdet.config import BuildConfig
from leakdet.core.files import building_alone
from leakdet.core.messages import log_result
from leakdet.core.process import DONE, PARTLY

if TYPE_CHECKING:
    from leakdet.building.report import BuildReport


def build(config: BuildConfig, run: Run) -> int:
    from leakdet.building.listing import listed_source
    from leakdet.building.sources import with_like
    from leakdet.storage.ailh import is_ailh

    config = with_like(config)
    converts = is_ailh(Path(config.source))
    listed = None if config.add_to or converts else listed_source(config)  # before torch is loaded
    from leakdet.building.addition import add_to_store
    from leakdet.building.ailh import convert_store
    from leakdet.building.builder import build_store, explain_interruption

    place = Path(os.path.realpath(config.add_to or config.out))
    with building_alone(place, "add_to" if config.add_to else "out"):
        if config.add_to:
            report = add_to_store(config)
        else:
            with explain_interruption(config):
                report = convert_store(config) if converts else build_store(config, listed)
    show(report)
    return PARTLY if report.left_out else DONE


def show(report: "BuildReport") -> None:
    """Print the summary of a build."""
    from rich.console import Console
    from rich.table import Table

    from leakdet.building.report import notes, table_rows

    console = Console(soft_wrap=True, highlight=False, markup=False)
    table = Table(title=str(report.out), title_justify="left")
    for column in ("split", "label", "recordings", "windows", "hours"):
        table.add_column(column, justify="left" if column in ("split", "label") else "right")
    for split, label, *counts in table_rows(report):
        table.add_row(split, label, *counts)
    with console.capture() as capture:
        console.print(table)
    log_result(capture.get().rstrip("\n"))
    for note in notes(report):
        log_result(note)


def main() -> None:
    open_door("build", build)


if __name__ == "__main__":
    main()
