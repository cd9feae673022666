"""Runs of before: a link to the latest one, and its settings for a run that continues it."""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from omegaconf import ListConfig, OmegaConf

from leakdet.config.fields import OWN_CODE, OWN_NAME
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.files import as_input_error, replace_link
from leakdet.storage.model_card import LATEST, RUNS

TRUST = "trust_network"  # the setting that names code which a run's folder may name
NOTED = Path(".hydra/overrides.yaml")  # Hydra's note of the settings that a run was given


def point_latest(folder: Path) -> None:
    """Make `runs/train/latest` a link to `folder`, if that lies there and links can be made."""
    link = folder.parent / LATEST
    elsewhere = folder.parent.parts[-2:] != RUNS.parts
    if elsewhere or (link.exists() and not link.is_symlink()):
        return
    with suppress(OSError):
        replace_link(link, folder.name)


def resumed(arguments: Sequence[str]) -> list[str]:
    """The arguments with those of the run that `resume` names, where they do not give them anew.

    `resume=latest` names the newest run in `runs/train`. `resume=auto` stays as it is: it compares
    settings with those of earlier runs, so the command line must give them.
    """
    given = [argument for argument in arguments if argument.startswith("resume=")]
    place = given[-1].partition("=")[2].strip("'\"") if given else "auto"
    if place in ("auto", "null", ""):
        return list(arguments)
    if place == LATEST and not Path(LATEST).exists():
        place = str(_latest())
    folder = Path(place)
    if folder.name.endswith(".ckpt"):
        folder = folder.parent.parent
    earlier = arguments_of(folder)
    if earlier is None:
        return [*(a for a in arguments if a not in given), f"resume={place}"]
    keys = {_key(argument) for argument in arguments}
    keys |= {"init_from", "init_reset"}  # of the beginning, which is past
    kept = [a for a in earlier if _key(a) not in keys and not _key(a).startswith(("hydra", "-"))]
    if any(a.startswith("hydra.searchpath=") for a in earlier) and "experiment" not in keys:
        raise SettingsError(
            f"{folder}: this run was started with a file of settings, which is not kept with it. "
            f"Repeat its command with resume={place}"
        )
    _check_own_code(folder, kept, arguments)
    return [*kept, *(a for a in arguments if a not in given), f"resume={place}"]


def _check_own_code(folder: Path, kept: Sequence[str], arguments: Sequence[str]) -> None:
    """Refuse to import what a run's folder names and this command does not."""
    trusted = {name for a in arguments if _key(a) == TRUST for name in _own_names(a)}
    if missing := sorted(_named_code(kept) - trusted):
        raise SettingsError(
            f"{folder}: this run used code of its own, {' and '.join(missing)}, which is imported "
            f"only where the command names it. If you trust it, add {_trusting(missing)}"
        )


def command_to_continue(folder: Path, arguments: Sequence[str]) -> str:
    """The command that goes on with a run which was started with these arguments."""
    named = sorted(_named_code(arguments))
    words = [f"resume={os.path.relpath(folder)}", *([_trusting(named)] if named else [])]
    return f"leakdet train {shlex.join(words)}"


def keep_note(folder: Path, noted: bytes) -> None:
    """Note the settings of a run again if its folder was removed or emptied while it trained."""
    if not (folder / NOTED).exists():
        (folder / NOTED).parent.mkdir(parents=True, exist_ok=True)
        (folder / NOTED).write_bytes(noted)


def _named_code(arguments: Sequence[str]) -> set[str]:
    """The code of their own that settings name."""
    return {name for a in arguments if _may_name_code(_key(a)) for name in _own_names(a)}


def _trusting(names: Sequence[str]) -> str:
    listed = names[0] if len(names) == 1 else f"[{','.join(names)}]"
    return f"{TRUST}={listed}"


def _may_name_code(key: str) -> bool:
    """True for a setting that may name code, and for a group that holds one."""
    return any(f"{setting}.".startswith(f"{key}.") for setting in OWN_CODE)


def _own_names(argument: str) -> list[str]:
    """The code that a setting names; a reference, `${…}`, may name any and counts as a whole."""
    referring = [argument.partition("=")[2]] if "${" in argument else []
    return [match[0] for match in OWN_NAME.finditer(argument)] + referring


def arguments_of(folder: Path) -> list[str] | None:
    """The settings that a run was given on its command line; None where it kept none."""
    noted = folder / NOTED
    if not noted.is_file():
        return None
    with as_input_error(noted, "what Hydra noted of a run", "Give the run's settings anew."):
        arguments = OmegaConf.load(noted)
        if not isinstance(arguments, ListConfig):
            raise TypeError("it is no list")
        return [str(argument) for argument in arguments]


def _latest() -> Path:
    link = RUNS / LATEST
    if not link.exists():
        raise InputError(f"resume=latest: {RUNS} has no latest run. Name one: resume=FOLDER")
    return Path(os.path.relpath(link.resolve()))


def _key(argument: str) -> str:
    return argument.lstrip("+~").partition("=")[0]
