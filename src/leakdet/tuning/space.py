"""The search space: checked against the training settings, drawn from, applied to a configuration."""

import difflib
import itertools
import math
import types
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

from optuna.trial import BaseTrial

from leakdet.config import SearchParam, TrainConfig
from leakdet.errors import SettingsError

Space = Mapping[str, SearchParam]

# What a search over them would tune is luck, the data, or the verdict (which is fitted once, on val).
NOT_SEARCHED = ("seed", "decision", "labels", "signal", "demo", "threads", "compile", "logger")
NOT_SEARCHED_DATA = ("data.store", "data.cache", "data.shuffle_labels", "data.unit")


def check_space(space: Space, base: TrainConfig) -> None:
    """Raises `SettingsError` on the first parameter that could not be drawn or set, with its dotted name."""
    if not space:
        raise SettingsError(
            "search: the space is empty; choose one of conf/search, such as search=default."
        )
    settings = [param.setting for param in space.values() if param.setting]
    for name, param in space.items():
        _check_numbers(name, param)
        _check_condition(name, param, space)
        if param.setting and settings.count(param.setting) > 1:
            raise SettingsError(
                f"search.{name}: {param.setting} is searched by another parameter too."
            )
        _check_values(name, param, base)
    ordered(space)


def _refuse(name: str, problem: str) -> None:
    raise SettingsError(f"search.{name}: {problem}.")


def _check_numbers(name: str, param: SearchParam) -> None:
    if param.kind == "categorical":
        plain = all(
            choice is None or isinstance(choice, bool | int | float | str)
            for choice in param.choices
        )
        if not param.choices or not plain:
            _refuse(
                name,
                f"choices={param.choices} must be a list of at least one number, word, truth value or null",
            )
        if len(set(map(repr, param.choices))) < len(param.choices):
            _refuse(name, f"choices={param.choices} names a value twice")
        return
    low, high = param.low, param.high
    if (
        low is None
        or high is None
        or not (math.isfinite(low) and math.isfinite(high) and low < high)
    ):
        _refuse(name, f"low={low} and high={high} must be two numbers, low below high")
        return
    if param.log and low <= 0:
        _refuse(name, f"low={low} must be above 0 where log is true")
    if param.step is not None and (param.log or not 0 < param.step <= high - low):
        _refuse(name, f"step={param.step} must be above 0, at most {high - low:g}, and without log")
    numbers = (low, high, param.step or 1.0)
    if param.kind == "int" and any(number != int(number) for number in numbers):
        _refuse(name, f"low, high and step of an int must be whole numbers, not {numbers}")


def _check_condition(name: str, param: SearchParam, space: Space) -> None:
    for parent, values in param.when.items():
        if parent not in space or space[parent].kind != "categorical":
            _refuse(
                name,
                f"when.{parent} must name a categorical parameter of the space; there are {_categorical(space)}",
            )
        unknown = (
            [value for value in values if value not in space[parent].choices]
            if isinstance(values, list)
            else values
        )
        if unknown or not values:
            _refuse(
                name,
                f"when.{parent}={values} must list some of its choices, {space[parent].choices}",
            )


def _categorical(space: Space) -> list[str]:
    return [name for name, param in space.items() if param.kind == "categorical"]


def _check_values(name: str, param: SearchParam, base: TrainConfig) -> None:
    if param.setting is None:
        if param.kind != "categorical":
            _refuse(name, "only a categorical switch may do without a setting")
        return
    top = param.setting.split(".")[0]
    if top in NOT_SEARCHED or param.setting in NOT_SEARCHED_DATA:
        _refuse(
            name,
            f"{param.setting} is not searched: it would tune luck, the data or the verdict, not the training",
        )
    kind = setting_type(base, param.setting, name)
    values = (
        param.choices
        if param.kind == "categorical"
        else [_typed(param, param.low), _typed(param, param.high)]
    )
    if param.kind == "float" and kind is not Any and not _fits(0.5, kind):
        _refuse(
            name,
            f"{param.setting} takes {_type_name(kind)}, not a float; say kind: int or kind: categorical",
        )
    for value in [*values, *([param.otherwise] if param.otherwise is not None else [])]:
        if not _fits(value, kind):
            _refuse(
                name,
                f"{value!r} is not allowed for {param.setting}, which takes {_type_name(kind)}",
            )
        try:
            with_settings(base, {param.setting: value})
        except SettingsError as error:
            _refuse(name, f"{value!r} is out of the range of {param.setting}: {error}")


def _typed(param: SearchParam, value: float | None) -> float | int | None:
    return int(value) if param.kind == "int" and value is not None else value


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(kind))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def setting_type(base: TrainConfig, path: str, name: str) -> Any:
    """The declared type of a dotted setting; `Any` inside `trainer`. Raises `SettingsError` where there is none."""
    node: Any = base
    kind: Any = type(base)
    for depth, part in enumerate(path.split(".")):
        if isinstance(node, dict):
            return Any
        known = [f.name for f in fields(node)] if is_dataclass(node) else []
        if part not in known:
            near = difflib.get_close_matches(part, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
            where = ".".join(path.split(".")[:depth]) or "the training configuration"
            _refuse(name, f"{path} is no setting: {where} has no {part!r}; {hint}")
        kind = get_type_hints(type(node))[part]
        node = getattr(node, part)
    if is_dataclass(node) or isinstance(node, dict):
        _refuse(name, f"{path} is a group of settings, not one")
    return kind


def with_settings(base: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """A copy with these dotted settings. Raises `SettingsError` on a value out of range."""
    config: Any = base
    for path, value in values.items():
        config = _with_one(config, path.split("."), value)
    found: TrainConfig = config
    return found


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
    """Names such that every parameter comes after those that it depends on. Raises `SettingsError` on a circle."""
    done: list[str] = []
    while len(done) < len(space):
        ready = [
            name
            for name, param in space.items()
            if name not in done and set(param.when) <= set(done)
        ]
        if not ready:
            raise SettingsError(
                f"search: {sorted(set(space) - set(done))} depend on each other in a circle."
            )
        done += ready
    return done


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
            return trial.suggest_int(
                name, int(low), int(high), step=int(param.step or 1), log=param.log
            )
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


def described(space: Space) -> dict[str, Any]:
    """Plain values that differ whenever two spaces do."""
    return {name: asdict(space[name]) for name in sorted(space)}


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination that can be drawn. Raises `SettingsError` where a parameter has no finite list of values."""
    found: list[dict[str, Any]] = [{}]
    for name in ordered(space):
        values = _grid_values(name, space[name])
        branches = (
            [{**drawn, name: value} for value in values]
            if is_active(space[name], drawn)
            else [drawn]
            for drawn in found
        )
        found = list(itertools.chain.from_iterable(branches))
    return found


def _grid_values(name: str, param: SearchParam) -> list[Any]:
    if param.kind == "categorical":
        return param.choices
    low, high = param.low or 0.0, param.high or 0.0
    if param.kind == "float" and param.step is None:
        _refuse(
            name,
            "a grid needs a step for a float; give one, drop the parameter or choose another tune.sampler",
        )
    step = param.step or 1.0
    values = [low + step * index for index in range(math.floor((high - low) / step + 1e-9) + 1)]
    return [_typed(param, value) for value in values]
