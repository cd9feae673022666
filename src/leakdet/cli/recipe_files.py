"""Files of settings, `experiment=FILE`, as options of Hydra's group; a file alone runs no code."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from leakdet.errors import InputError, SettingsError
from leakdet.storage.readable import understood

HEADING = "# @package _global_"
PREFIX = "file_"  # an option made of a file never has the name of an experiment in conf/


def with_experiment_file(arguments: Sequence[str]) -> list[str]:
    """Turn `experiment=any/where/best.yaml` into a group option with a search path of its own.

    With -m there may be several, separated by commas, beside names of conf/experiment.
    """
    several = bool({"-m", "--multirun"} & set(arguments))
    passed: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        given = value.split(",") if several and not Path(value).exists() else [value]
        if key.lstrip("+") != "experiment" or not any(map(_is_yaml, given)):
            passed.append(argument)
            continue
        group = Path(tempfile.mkdtemp(prefix="leakdet-"))
        atexit.register(shutil.rmtree, group, ignore_errors=True)
        (group / "experiment").mkdir()
        options = [_copied(each, group) if _is_yaml(each) else each for each in given]
        passed += [f"experiment={','.join(options)}", f"hydra.searchpath=[file://{group}]"]
    return passed


def file_options(prepared: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words that compose each file of settings alone."""
    searched = [word for word in prepared if word.startswith("hydra.searchpath=[file://")]
    for word in prepared:
        key, _, value = word.partition("=")
        for option in value.split(",") if key == "experiment" else ():
            if option.startswith(PREFIX):
                yield [f"experiment={option}", *searched]


def _is_yaml(option: str) -> bool:
    return option.strip("'\"").endswith((".yaml", ".yml"))


def _copied(option: str, group: Path) -> str:
    """The name under which a file of settings is copied into a group of experiments."""
    path = Path(option.strip("'\""))
    if not path.is_file():
        raise InputError(f"experiment={option}: there is no such file.")
    with understood(path, "a YAML file of settings"):
        text = path.read_text(encoding="utf-8-sig")
        settings = OmegaConf.load(path)
        if not isinstance(settings, DictConfig):
            raise TypeError("it has no names with values")
        _check_headings(text)
        _check_runs_nothing(path, OmegaConf.to_container(settings))
    name = base = PREFIX + re.sub(r"\W", "_", path.stem)
    while (group / "experiment" / f"{name}.yaml").exists():  # the same name in another folder
        name = f"{base}_{len(list((group / 'experiment').iterdir()))}"
    (group / "experiment" / f"{name}.yaml").write_text(f"{HEADING}\n{text}", encoding="utf-8")
    return name


def _check_headings(text: str) -> None:
    """Refuse a heading that would put the settings elsewhere, or that is cut off."""
    for line in map(str.strip, text.splitlines()):
        if re.match(r"#\s*@(package\b|\S*$)", line) and line.split("@")[1].split() != [
            "package",
            "_global_",
        ]:
            raise ValueError(f"{line!r} should be {HEADING}")


def _check_runs_nothing(path: Path, settings: Any) -> None:
    """Refuse what Hydra would import and call: its own settings, and `_target_`."""
    own = "hydra" in settings or "hydra" in str(settings.get("defaults", ""))
    if own or "_target_" in set(_keys(settings)):
        raise SettingsError(
            f"{path}: a file of settings may hold neither hydra settings nor _target_, by which "
            "it could run code. Give hydra settings on the command line."
        )


def _keys(node: Any) -> Iterator[Any]:
    for each in node if isinstance(node, list) else ():
        yield from _keys(each)
    for key, value in node.items() if isinstance(node, dict) else ():
        yield key
        yield from _keys(value)
