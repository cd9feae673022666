"""The search space: drawing parameters from it, applying them to a configuration, and its grid."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from optuna.trial import BaseTrial

from leakdet.config import SearchParam, TrainConfig
from leakdet.errors import SettingsError

Space = Mapping[str, SearchParam]


def with_settings(base: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """A copy with these dotted settings. Raises `SettingsError` on a value out of range."""
    config = base
    for path, value in values.items():
        config = _with_one(config, path.split("."), value)
    return config


def _with_one(node: Any, path: list[str], value: Any) -> Any:
    head, rest = path[0], path[1:]
    if isinstance(node, dict):
        return {**node, head: _with_one(node.get(head, {}), rest, value) if rest else value}
    now = getattr(node, head)
    if rest:
        return replace(node, **{head: _with_one(now, rest, value)})
    whole = isinstance(now, float) and isinstance(value, int) and not isinstance(value, bool)
    return replace(node, **{head: float(value) if whole else value})


def ordered(space: Space) -> list[str]:
    """Names with parents before the parameters that depend on them.

    Raises `SettingsError` on a cycle.
    """
    names: list[str] = []
    while len(names) < len(space):
        ready = [
            name
            for name, param in space.items()
            if name not in names and set(param.when) <= set(names)
        ]
        if not ready:
            cycle = sorted(set(space) - set(names))
            raise SettingsError(f"search: {cycle} depend on each other in a circle.")
        names += ready
    return names


def is_active(param: SearchParam, drawn: Mapping[str, Any]) -> bool:
    return all(parent in drawn and drawn[parent] in values for parent, values in param.when.items())


def draw(trial: BaseTrial, space: Space) -> dict[str, Any]:
    """The trial's parameters; those whose condition does not hold are not drawn."""
    drawn: dict[str, Any] = {}
    for name in ordered(space):
        if is_active(space[name], drawn):
            drawn[name] = _suggest(trial, name, space[name])
    return drawn


def _suggest(trial: BaseTrial, name: str, param: SearchParam) -> Any:
    low, high = param.low or 0.0, param.high or 0.0
    match param.kind:
        case "categorical":
            return trial.suggest_categorical(name, param.choices)
        case "int":
            step = int(param.step or 1)
            return trial.suggest_int(name, int(low), int(high), step=step, log=param.log)
        case _:
            return trial.suggest_float(name, low, high, step=param.step, log=param.log)


def settings_of(space: Space, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted settings and their values, those of `otherwise` included."""
    values = {}
    for name in ordered(space):
        param = space[name]
        if param.setting is None:
            continue
        if name in drawn:
            values[param.setting] = drawn[name]
        elif param.otherwise is not None:
            values[param.setting] = param.otherwise
    return values


def to_json(space: Space) -> dict[str, Any]:
    """Plain values that differ whenever two spaces do."""
    return {name: asdict(space[name]) for name in sorted(space)}


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination that can be drawn.

    Raises `SettingsError` where a parameter has no finite list of values.
    """
    combinations: list[dict[str, Any]] = [{}]
    for name in ordered(space):
        values = _grid_values(name, space[name])
        branches = (
            [{**drawn, name: value} for value in values]
            if is_active(space[name], drawn)
            else [drawn]
            for drawn in combinations
        )
        combinations = list(itertools.chain.from_iterable(branches))
    return combinations


def _grid_values(name: str, param: SearchParam) -> list[Any]:
    if param.kind == "categorical":
        return param.choices
    low, high = param.low or 0.0, param.high or 0.0
    if param.kind == "float" and param.step is None:
        raise SettingsError(
            f"search.{name}: a grid needs a step for a float; give one, drop the parameter or "
            "choose another tune.sampler."
        )
    step = param.step or 1.0
    values = [low + step * index for index in range(math.floor((high - low) / step + 1e-9) + 1)]
    return [int(value) for value in values] if param.kind == "int" else values
