"""Lines of a card, a name before each text, within 80 columns."""

import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakdet.cli.help_pages import WIDTH, plain
from leakdet.errors import counted

NBSP = "\u00a0"  # keeps what belongs together on one line
INDENT = 9  # names of lines have up to eight letters
NOT_VERIFIED = "not verified: an older file, without a checksum"
RATES = ("f1", "auroc", "precision", "recall", "fpr")


def line(name: str, text: str) -> list[str]:
    """One entry of a card; a text that is too long goes on below, words stay whole.

    >>> line("leak", "LEAK")
    ['leak     LEAK']
    """
    lines = textwrap.wrap(
        f"{name:<{INDENT}}{text}", WIDTH, subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [shown.replace(NBSP, " ") for shown in lines]


def moment_text(moment: str | None) -> str:
    """A time of a file, ISO 8601 with its zone, as `2026-03-01 14:05 UTC`.

    >>> moment_text("2026-03-01T15:05:00+01:00"), moment_text(None)
    ('2026-03-01 14:05 UTC', 'at an unknown time')
    """
    try:
        return f"{datetime.fromisoformat(str(moment)).astimezone(UTC):%Y-%m-%d %H:%M UTC}"
    except ValueError:
        return "at an unknown time"


def changed_of(path: Path) -> str:
    """The time of a file's last change, where the file does not tell when it was made."""
    return moment_text(datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat())


def intact_text(verified: bool, but: str = "") -> str:
    """A note on the file's checksum; a file whose checksum is wrong is not shown at all.

    >>> intact_text(True), intact_text(False)
    ('yes, by its checksum', 'not verified: an older file, without a checksum')
    """
    return f"yes, by its checksum{but}" if verified else NOT_VERIFIED


def signal_text(signal: Mapping[str, Any] | None) -> str:
    """The way from audio to mel, in the words of the signal settings."""
    if not signal:
        return "unknown: nothing says how its mel was made, so it fits no audio"
    rate = signal["sample_rate_hz"]
    length, hop = signal["window_samples"] / rate, signal["window_hop_samples"] / rate
    top = signal["fmax_hz"]
    top = f"{top:g} Hz" if isinstance(top, int | float) else str(top)
    return (
        f"{rate / 1000:g} kHz, windows of {length:g} s every {hop:g} s, {signal['n_mels']} mel "
        f"bands from {signal['fmin_hz']:g} to {top}"
    )


def rates_text(table: Mapping[str, Any]) -> str:
    """The recordings of a split and the metrics on them, each with its 95 % interval."""
    counts = f"{counted(table['n'], 'recording')}, {table['positives']} with a leak"
    found = [_rate(table, key) for key in RATES if table.get(key) is not None]
    return f"{counts}: {', '.join(found)}" if found else f"{counts}; no rate is defined"


def _rate(table: Mapping[str, Any], key: str) -> str:
    interval = table.get("intervals", {}).get(key)
    ends = f"{NBSP}[{interval[0]:.2f},{NBSP}{interval[1]:.2f}]" if interval else ""
    return f"{key}{NBSP}{table[key]:.2f}{ends}"


def changed_settings(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The settings that differ from `defaults`, both by dotted names, as a command line has them.

    >>> changed_settings({"seed": 1, "patience": 15}, {"seed": 0, "patience": 15})
    'the defaults, but seed=1'
    """
    if not settings:
        return "unknown: the file does not keep them"
    changed = [
        f"{name}={plain(value)}"
        for name, value in settings.items()
        if not isinstance(value, Mapping) and name in defaults and defaults[name] != value
    ]
    return f"the defaults, but {' '.join(changed)}" if changed else "the defaults"


def tree_size(files: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in files)
