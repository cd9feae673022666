"""Runs a command with Hydra: composes its settings, checks them, sweeps."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import configure_log, run_job
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, read_write
from omegaconf.errors import OmegaConfBaseException

from leakdet import __version__
from leakdet.cli.cards import runs_text
from leakdet.cli.checks import (
    check_build,
    check_inputs,
    refuse_used_folder,
    remove_empty,
    remove_unused,
)
from leakdet.cli.compose import (
    as_hydra_reads,
    composed,
    composing,
    default_values,
    sentence_of,
    store_schemas,
    typed,
)
from leakdet.cli.help import help_text
from leakdet.cli.past_runs import arguments_of, resumed
from leakdet.cli.settings import DOORS, conf_folder, known_settings, quoted
from leakdet.cli.words import built, recordings_apart, with_names
from leakdet.config import BuildConfig, TrainConfig, TrainerFlags
from leakdet.core.errors import LeakdetError, SettingsError
from leakdet.core.files import claimed, forget_launcher, fresh_folder, is_further_process
from leakdet.core.locations import without_secrets
from leakdet.core.messages import LOG, asked_for, log_result, messages_on_screen, set_log
from leakdet.core.process import DONE, STOPPED, WRONG, follow_parent, guarded, is_child
from leakdet.storage.folder import with_local_stores

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
    """Check what -m sweeps over, in arguments that `as_hydra_reads` has prepared."""
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
    from leakdet.cli.describe import run_row  # stores and numpy, which no other start needs

    rows = [
        run_row(job.folder)
        if job.folder.is_dir()
        else (job.folder.name, " ".join(job.given), "", f"failed (exit code {job.code})")
        for job in jobs
    ]
    again = f"leakdet info {shlex.quote(str(jobs[0].sweep))}"
    return f"{runs_text(rows)}\n{again} shows this table again"


MOST_CHECKED = 10  # jobs of a sweep before the first begins, 0.1 s each; others when they begin
LOADING = {"build": "loading torch and the sound libraries"}


@dataclass(frozen=True)
class Run:
    """The folder of a run, and how it was started."""

    folder: Path
    arguments: Sequence[str] = ()  # of the command line, as given
    multirun: bool = False  # one of several jobs (-m)
    launcher: str = "basic"  # Hydra's, by which the jobs were started
    experiment: str = ""  # the recipe


def open_door(door: str, task: Callable[[Any, Run], int]) -> NoReturn:
    """Compose `conf/<door>.yaml` with the command line, run `task` and exit with its code.

    Of several jobs (-m), the highest code counts.
    """
    log = "json" if asked_for(sys.argv) else "normal"
    sys.exit(guarded(lambda: _open(door, task), log))


def _open(door: str, task: Callable[[Any, Run], int]) -> int:
    arguments = sys.argv[1:]
    if {"--help", "-h"} & set(arguments):
        print(door_help(door))
        return DONE
    if {"--version", "-V"} & set(arguments):
        print(f"leakdet {__version__}")
        return DONE
    words, arguments = arguments, with_names(door, arguments)
    recordings, builds = None, list[str]()
    if door == "train":
        recordings, arguments, builds = recordings_apart(words, arguments)
        # with the settings of the run that it goes on with
        words = arguments = resumed(arguments)
    # Hydra takes -m before the settings only; here it may stand anywhere.
    ordered = sorted(arguments, key=lambda argument: argument not in MULTIRUN)
    sys.argv[1:] = prepared = as_hydra_reads(door, ordered)
    check_sweep(door, prepared)
    flags = {argument for argument in prepared if argument.startswith("-")}
    if not flags and "hydra.mode=MULTIRUN" not in prepared:
        with composing(door):
            return _run_alone(door, task, words, prepared, recordings, builds)
    folder = _check_jobs(door, prepared) if flags <= set(MULTIRUN) else Path()
    store_schemas()
    _announce(door, prepared, builds=recordings is not None)
    if recordings is not None and not _shows_only(prepared):
        words = [*words, _store_word(recordings, builds)]
        sys.argv.append(words[-1])
    with _own_folder(door, prepared, folder) as own:
        return _run_jobs(door, task, words, own)


def _run_alone(
    door: str,
    task: Callable[[Any, Run], int],
    arguments: Sequence[str],
    prepared: Sequence[str],
    recordings: Path | None,
    builds: Sequence[str],
) -> int:
    """Compose, check and run the only job of a command, as `hydra.main` would; its exit code."""
    config = _with_hydras_own(door, prepared)
    settings = _checked(door, config, prepared, "hydra.run.dir")
    _announce(door, prepared, builds=recordings is not None)
    if recordings is not None:
        store = _store_word(recordings, builds)
        arguments, prepared = [*arguments, store], [*prepared, store]
        sys.argv[1:] = prepared  # which further ranks get
        config = _with_hydras_own(door, prepared)
        settings = _settings(door, config, prepared)

    def job(_: DictConfig) -> int:
        run = _run(arguments)
        _forget_secrets(run.folder / ".hydra")
        code = guarded(lambda: task(settings, run))
        _remove_folder_of(door, run.folder, code)
        return code

    with _own_folder(door, prepared, Path(config.hydra.run.dir)) as folder:
        with read_write(config.hydra):
            if named := sys.argv[1 + len(prepared) :]:
                config.hydra.run.dir = str(folder)
                config.hydra.overrides.hydra += named
        # what a launcher would get; Hydra has no other way to run what is composed
        loader, callbacks = GlobalHydra.instance().config_loader(), Callbacks(config)
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        callbacks.on_run_start(config=config, config_name=door)
        result = run_job(job, config, "hydra.run.dir", None, HydraContext(loader, callbacks))
        callbacks.on_run_end(config=config, config_name=door, job_return=result)
        return int(result.return_value)


def _check_jobs(door: str, prepared: Sequence[str]) -> Path:
    """Check the jobs of a sweep before the first begins; the folder that Hydra gives the sweep."""
    for job in islice(jobs_to_check(prepared), MOST_CHECKED):
        _checked(door, composed(door, job), job, "hydra.sweep.dir")
    hydras = [word for word in prepared if word.startswith(("hydra.", "hydra/"))]
    with composing(door):
        return Path(_with_hydras_own(door, hydras).hydra.sweep.dir)


def _with_hydras_own(door: str, prepared: Sequence[str]) -> DictConfig:
    """The settings of a single run, and Hydra's own below `hydra`."""
    return hydra.compose(door, [*prepared, "hydra.mode=RUN"], return_hydra_config=True)


def _store_word(recordings: Path, builds: Sequence[str]) -> str:
    """The setting that names the store of these recordings, which is made here."""
    return f"data.store={quoted(str(built(recordings, builds)), always=True)}"


@contextmanager
def _own_folder(door: str, prepared: Sequence[str], folder: Path) -> Iterator[Path]:
    """Keep the folder of a run for it alone; a name made of the time is made unique.

    The workers of tune and the parts of crossval share the folder that they are given.
    """
    several = bool(set(MULTIRUN) & set(prepared))
    if door not in ("train", "crossval", "learn") or _shows_only(prepared) or is_further_process():
        yield folder
        return
    name = "hydra.sweep.dir" if several else "hydra.run.dir"
    given = any(argument.startswith(f"{name}=") for argument in prepared)
    if not given:
        folder = fresh_folder(folder)
        sys.argv.append(f"{name}='{folder}'")
    if given and door == "crossval":
        yield folder
        return
    with claimed(folder):
        yield folder


def _shows_only(prepared: Sequence[str]) -> bool:
    """True for flags such as --cfg: nothing is run."""
    return any(a.startswith("-") and a not in MULTIRUN for a in prepared)


def _announce(door: str, prepared: Sequence[str], builds: bool) -> None:
    """Say that the command is at work before the slow imports; once, of several processes.

    Where it `builds` a store first, the line on that store says it.
    """
    if "log=quiet" in prepared:
        set_log("quiet")
    further = is_child() or any(argument.startswith("tune.worker=") for argument in prepared)
    if _shows_only(prepared) or further:
        return
    last = {word.partition("=")[0]: word for word in prepared}
    for word in prepared:
        if word != (counts := last[word.partition("=")[0]]):
            LOG.info(f"note     {word} does not count: {counts} follows it")
    if not builds:
        LOG.info(f"{door:<9}{LOADING.get(door, 'loading torch and Lightning')}")


def _run_jobs(
    door: str, task: Callable[[Any, Run], int], arguments: Sequence[str], folder: Path
) -> int:
    ended: list[Job] = []

    def job(config: DictConfig) -> None:
        if os.getpid() != parent:  # a launcher's process
            follow_parent(parent)
        given = _overrides()
        _forget_secrets(_run(arguments).folder / ".hydra")
        code = guarded(lambda: task(_settings(door, config, given), _run(arguments)))
        folder = _run(arguments).folder
        ended.append(Job(folder, Path(HydraConfig.get().sweep.dir), given, code))
        _remove_folder_of(door, folder, code)
        if code > STOPPED:  # a signal ends the other jobs too
            sys.exit(code)
        if code != DONE and os.getpid() != parent:  # Hydra needs an error
            raise LeakdetError(f"this job ended with exit code {code}; its reason stands above")

    parent = os.getpid()
    start = hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name=door)(job)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here, not as Hydra's own print
    try:
        start()
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingsError(sentence_of(error)) from error
    finally:
        if set(MULTIRUN) & set(arguments) and ended:
            remove_empty_sweep(ended)
    several = bool(set(MULTIRUN) & set(arguments))
    jobs = ended or (ended_elsewhere(folder) if several and door == "train" else [])
    if door == "train" and len(jobs) > 1:
        with messages_on_screen():  # Hydra has disabled them again
            log_result(sweep_text(jobs))
    return max((job.code for job in ended), default=DONE)


def _remove_folder_of(door: str, folder: Path, code: int) -> None:
    """Remove the folder of a job that left nothing in it."""
    if door == "learn" or code == WRONG or code > STOPPED:  # publishing alone writes nothing
        remove_unused(folder)


def _checked(door: str, config: DictConfig, prepared: Sequence[str], place: str) -> Any:
    """The settings of a job before it has a folder; `place` is the setting that names it."""
    settings = _settings(door, config, prepared)
    given = [a.partition("=")[2].strip("'") for a in prepared if a.startswith(f"{place}=")]
    if given and isinstance(settings, TrainConfig) and settings.resume is None:
        folder = Path(given[-1])
        jobs = sorted(folder.glob("[0-9]*/")) if place == "hydra.sweep.dir" else []
        for used in (folder, *jobs):
            refuse_used_folder(used, place, resumes=door != "learn")
    return settings


def _settings(door: str, config: DictConfig, named: Sequence[str]) -> Any:
    settings = typed(config, DOORS[door].schema)
    if isinstance(settings, TrainConfig):
        # a trial of tune takes one device
        forget_launcher(door == "tune" or TrainerFlags.of(settings.trainer).one_device)
        settings.data = with_local_stores(settings.data)
        check_inputs(settings, named)
    if isinstance(settings, BuildConfig):
        check_build(settings)
    set_log(settings.log)
    return settings


def _forget_secrets(notes: Path) -> None:
    """Take signatures and tokens of URLs out of Hydra's notes of the settings."""
    for path in notes.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        if (public := without_secrets(text)) != text:
            path.write_text(public, encoding="utf-8")


def _overrides() -> list[str]:
    """The settings that the command line gives to this job."""
    return [str(word) for word in HydraConfig.get().overrides.task]


def door_help(door: str) -> str:
    """The page of `leakdet DOOR --help`."""
    known = known_settings(door)
    return help_text(door, known.settings, known.groups, default_values(door))


def _run(arguments: Sequence[str]) -> Run:
    hydra_config = HydraConfig.get()
    return Run(
        Path(hydra_config.runtime.output_dir),
        arguments,
        multirun=hydra_config.mode == RunMode.MULTIRUN,
        launcher=str(hydra_config.runtime.choices.get("hydra/launcher", "basic")),
        experiment=str(hydra_config.runtime.choices.get("experiment", "")),
    )
