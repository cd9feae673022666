"""Words of a command line without a name: `train store` is `train data.store=store`."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from leakdet.cli.compose import compose
from leakdet.cli.settings import ALONE, DOORS, WITH_VALUE, known_settings, nearest, quoted
from leakdet.config import BuildConfig
from leakdet.core.errors import SettingsError
from leakdet.core.files import building_alone
from leakdet.core.locations import Location, is_url
from leakdet.core.messages import LOG
from leakdet.storage.folder import holds_stores

if TYPE_CHECKING:
    from leakdet.building.sources import SourceRecording

NEW = "out"  # the only word that names what is not there yet
SETTING = re.compile(r"[+~]*[A-Za-z_][\w./@:-]*=|~[A-Za-z_]")
STORES = Path("runs") / "stores"
DONE_BY_BUILD = ("labels.ignore", "labels.rename")  # the store has none of these labels


def with_names(door: str, arguments: Sequence[str]) -> list[str]:
    """The arguments with a name before each word that is a path.

    A word with an identifier before its first `=` is a setting; a path with `=` is given as `./…`.
    Raises `SettingsError` for a word too many, and for one beside the setting that it stands for.
    """
    words, line = DOORS[door].words, DOORS[door].line
    names, named, given = iter(words), list[str](), _keys(arguments)
    for argument, is_word in _words(arguments):
        if not is_word:
            named.append(argument)
            continue
        name = next(names, None)
        if name != NEW:
            _check_spelling(door, argument)
        if name is None or name in given:
            count = "one path" if len(words) == 1 else "two paths"
            reason = f"{name}= is given too" if name else f"{door} takes {count}"
            raise SettingsError(f"{argument}: {reason}. Write: {line} [NAME=VALUE …]")
        named.append(f"{name}={quoted(argument, always=True)}")
    return named


def _words(arguments: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each argument, and whether it is a word: no flag, no value of one, and no setting."""
    is_value = False
    for argument in arguments:
        flag = argument.startswith("-") and argument != "-"
        yield argument, not (is_value or flag or SETTING.match(argument))
        # an unknown flag, of which `checked` says what to write, may have one
        is_value = argument in WITH_VALUE or (
            flag and argument not in ALONE and "=" not in argument
        )


def _keys(arguments: Sequence[str]) -> set[str]:
    return {a.partition("=")[0].lstrip("+") for a, is_word in _words(arguments) if not is_word}


def _check_spelling(door: str, word: str) -> None:
    """Refuse a word that is no path and near a setting's name."""
    if Path(word).exists() or is_url(word) or "/" in word:
        return
    names = nearest(word, known_settings(door).names)
    if names and names[0] not in DOORS[door].words:
        raise SettingsError(
            f"{word}: there is no such file or folder, and settings are name=value. Did you mean "
            f"{names[0]}=…? Write: {DOORS[door].line} [NAME=VALUE …]"
        )


def recordings_apart(
    arguments: Sequence[str], named: Sequence[str]
) -> tuple[Path | None, list[str], list[str]]:
    """The recordings that a word names in place of a store, and the settings of train and of build.

    `named` are the `arguments` with names. What both commands know, such as signal, goes to both,
    but for labels that build leaves out or renames, of which the store has none.
    """
    words = [Path(argument) for argument, is_word in _words(arguments) if is_word]
    if not words or not words[0].exists() or holds_stores(words[0]):
        return None, list(named), []
    builds, trains = known_settings("build").names, known_settings("train").names
    settings = {"build": list[str](), "train": list[str]()}
    for argument in named:
        key = argument.partition("=")[0].lstrip("+")
        if key in ("source", "out", "add_to", "like", "overwrite"):
            raise SettingsError(
                f"{argument}: train makes the store of {words[0]} by itself. To choose, make it "
                f"first: {DOORS['build'].line} {argument}"
            )
        if key in builds:
            settings["build"].append(argument)
        elsewhere = key == "data.store" or key in DONE_BY_BUILD
        if not elsewhere and (key not in builds or key in trains):
            settings["train"].append(argument)
    return words[0], settings["train"], settings["build"]


def built(recordings: Path, settings: Sequence[str]) -> Path:
    """The store of these recordings, made unless it is there and the recordings are unchanged."""
    from leakdet.building.listing import listed_source

    place = [f"source={quoted(str(recordings), always=True)}", f"out={STORES}"]
    config = compose("build", [*settings, *place])
    source = listed_source(config)
    assert source is not None  # which only the demo is
    out = STORES / f"{recordings.resolve().stem}-{_key(config, recordings, source.recordings)}"
    count = f"{len(source.recordings)} recordings"
    if holds_stores(out):
        LOG.info(f"store    {out}: the {count} of {recordings} are unchanged")
        return out
    LOG.info(f"store    {out}: made of the {count} of {recordings}, and kept for later trainings")
    config.out = str(out)
    from leakdet.building.builder import build_store, explain_interruption

    with building_alone(out), explain_interruption(config):
        if holds_stores(out):  # another process was faster
            return out
        report = build_store(config, source)
    if report.left_out:
        LOG.info(f"note     {len(report.left_out)} left out, with reasons: leakdet info {out}")
    return out


def _key(config: BuildConfig, recordings: Path, listed: Sequence["SourceRecording"]) -> str:
    """Eight digits that change with the settings, and with the size or time of a recording."""
    settings = asdict(config) | {"workers": 0, "log": ""}
    paths = [recordings, *(recording.path for recording in listed)]
    files = [(str(path), _size_and_time(path)) for path in paths]
    return hashlib.sha256(json.dumps([settings, files], default=str).encode()).hexdigest()[:8]


def _size_and_time(path: Location) -> tuple[int, int]:
    """Of a file; of a folder, whose files are listed, and of what is not on this disk, zeros."""
    if not isinstance(path, Path) or not path.is_file():
        return 0, 0
    found = path.stat()
    return found.st_size, found.st_mtime_ns
