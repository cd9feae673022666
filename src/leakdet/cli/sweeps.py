"""Sweeps (-m): what they may vary, the jobs to check before the first begins, and their table."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from leakdet._exit_codes import DONE
from leakdet.cli.door_settings import DOORS
from leakdet.cli.early_checks import remove_empty, remove_unused
from leakdet.cli.past_runs import arguments_of
from leakdet.cli.run_lines import run_row
from leakdet.cli.runs_table import runs_text
from leakdet.errors import SettingsError

MULTIRUN = ("-m", "--multirun")
NOTES = "multirun.yaml"  # that Hydra writes into the folder of a sweep


@dataclass(frozen=True)
class Job:
    """A job of a sweep that has ended: its folder, the sweep's, what it was given, exit code."""

    folder: Path
    sweep: Path
    given: Sequence[str]
    code: int


def overrides_of(prepared: Sequence[str]) -> list[Override]:
    """The settings of a command line as Hydra reads them; none where it cannot, and says so."""
    plain = [argument for argument in prepared if not argument.startswith("-")]
    try:
        return list(OverridesParser.create().parse_overrides(plain))
    except HydraException:
        return []


def check_sweep(door: str, prepared: Sequence[str]) -> None:
    """Check what -m sweeps over, in arguments that `as_hydra_reads` has prepared.

    Raises:
        SettingsError: several values of a setting that the jobs of this door must share.
    """
    settings = DOORS[door]
    if settings.swept is None or not set(MULTIRUN) & set(prepared):
        return
    for override in overrides_of(prepared):
        if override.is_sweep_override() and override.key_or_group != settings.swept:
            raise SettingsError(f"{override.input_line}: {settings.advice}.")


def jobs_to_check(prepared: Sequence[str]) -> Iterator[list[str]]:
    """Command lines of single jobs in which each value of a sweep occurs, beside others' first.

    There are none where a sweeper is named, which makes its jobs in another way.
    """
    overrides = overrides_of(prepared)
    if any(override.key_or_group.startswith("hydra/sweeper") for override in overrides):
        return
    values = [_values(override) for override in overrides]
    if not all(values):
        return
    first = [texts[0] for texts in values]
    yield first
    for place, texts in enumerate(values):
        for text in texts[1:]:
            yield [*first[:place], text, *first[place + 1 :]]


def _values(override: Override) -> list[str]:
    """`key=value` for each value; empty for an interval, which Hydra's own sweeper refuses."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        return []
    return [f"{override.get_key_element()}={text}" for text in override.sweep_string_iterator()]


def remove_empty_sweep(jobs: Sequence[Job]) -> None:
    """Remove the empty folders of a sweep's jobs, and its own if no job left anything there."""
    for job in jobs:
        remove_empty(job.folder)
    folder = jobs[0].sweep
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= {NOTES, ".hydra"}:
        (folder / NOTES).unlink(missing_ok=True)
        remove_unused(folder)


def ended_elsewhere(sweep: Path) -> list[Job]:
    """The jobs of a sweep that a launcher ran in processes of its own, in their order."""
    folders = [folder for folder in sweep.glob("*") if folder.name.isdecimal()]
    return [
        Job(folder, sweep, arguments_of(folder) or [], DONE)
        for folder in sorted(folders, key=lambda folder: int(folder.name))
    ]


def sweep_text(jobs: Sequence[Job]) -> str:
    """The trainings of a sweep beside each other: settings, score and verdict of each."""
    rows = [
        run_row(job.folder)
        if job.folder.is_dir()
        else (job.folder.name, " ".join(job.given), "", f"failed (exit code {job.code})")
        for job in jobs
    ]
    again = f"leakdet info {shlex.quote(str(jobs[0].sweep))}"
    return f"{runs_text(rows)}\n{again} shows this table again"
