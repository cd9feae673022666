"""Several trainings beside each other in a table."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from leakdet.cli.help_pages import WIDTH


def runs_text(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Trainings beside each other: name, what each was given, its score and its verdict.

    What all of them were given stands below the table, once.
    """
    words = [given.split(" ") for _, given, _, _ in rows]
    common = [word for word in words[0] if len(rows) > 1 and all(word in of for of in words)]
    table = Table(title="Trainings", title_justify="left")
    for heading in ("run", "settings", "F1 (95 % interval)", "verdict"):
        table.add_column(heading, overflow="fold")
    for (name, _, score, verdict), given in zip(rows, words, strict=True):
        own = " ".join(word for word in given if word not in common)
        table.add_row(name, own, score, verdict)
    console = Console(highlight=False, markup=False, width=max(WIDTH, Console().width))
    with console.capture() as capture:
        console.print(table)
    shared = f"\nAll of them: {' '.join(common)}" if any(common) else ""
    return capture.get().rstrip() + shared
