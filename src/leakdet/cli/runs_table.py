"""Several trainings beside each other in a table."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from leakdet.cli.help_pages import WIDTH

HEADINGS = ("run", "settings", "F1 (95 % interval)", "verdict")


def runs_text(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Trainings beside each other: name, what each was given, its score and its verdict.

    What all of them were given stands below the table, once.
    """
    words = [given.split(" ") for _, given, _, _ in rows]
    common = [word for word in words[0] if len(rows) > 1 and all(word in of for of in words)]
    texts = [
        (name, " ".join(word for word in given if word not in common), score, verdict)
        for (name, _, score, verdict), given in zip(rows, words, strict=True)
    ]
    width = max(WIDTH, Console().width)
    # the longest word of each column, which a table would break where they do not fit
    longest = [
        max(len(word) for text in column for word in ("", *text.split()))
        for column in zip(HEADINGS, *texts, strict=True)
    ]
    fits = sum(longest) + 3 * len(longest) + 1 <= width
    shown = _table(texts, longest, width) if fits else "\n".join(_entries(texts, width))
    shared = f"\nAll of them: {' '.join(common)}" if any(common) else ""
    return shown + shared


def _table(texts: Sequence[Sequence[str]], longest: Sequence[int], width: int) -> str:
    """The table; columns have the width of their longest word, and share what is left."""
    needed = [max(map(len, column)) for column in zip(HEADINGS, *texts, strict=True)]
    widths = list(longest)
    for _ in range(width - sum(widths) - 3 * len(widths) - 1):
        narrowest = max(range(len(widths)), key=lambda number: needed[number] / widths[number])
        widths[narrowest] += needed[narrowest] > widths[narrowest]
    table = Table(title="Trainings", title_justify="left")
    for heading, column_width in zip(HEADINGS, widths, strict=True):
        table.add_column(heading, width=column_width)
    for row in texts:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip()


def _entries(texts: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The rows below one another, where they are too wide for a table."""
    yield "Trainings"
    for name, *others in texts:
        yield name
        for heading, text in zip(("settings", "F1", "verdict"), others, strict=True):
            yield from textwrap.wrap(
                f"  {heading:<9}{text}", width, subsequent_indent=" " * 11,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
