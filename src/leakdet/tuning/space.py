"""The search space: checked, drawn from, applied to a configuration, and its grid."""

import difflib
import itertools
import math
import types
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from optuna.trial import BaseTrial

from leakdet.config import SearchParam, TrainConfig
from leakdet.core.errors import SettingsError

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


# Searching these would tune luck, the data, or the decision (which is fitted once, on val).
NOT_SEARCHED = (
    "seed", "decision", "labels", "signal", "demo", "threads", "logger", "log",
    "compile", "compile_mode", "compile_fullgraph", "profile", "profile_steps", "trust_network",
)  # fmt: skip
NOT_SEARCHED_DATA = (
    "data.store", "data.cache", "data.shuffle_labels", "data.shuffle_repeats", "data.unit",
)  # fmt: skip


def check_space(space: Space, base: TrainConfig) -> None:
    """Raises `SettingsError` on the first parameter that cannot be drawn or set, with its name."""
    if not space:
        raise SettingsError(
            "search: the space is empty; choose one of conf/search, such as search=default."
        )
    settings = [param.setting for param in space.values() if param.setting]
    for name, param in space.items():
        if param.kind == "categorical":
            _check_choices(name, param)
        else:
            _check_numbers(name, param)
        _check_condition(name, param, space)
        if param.setting and settings.count(param.setting) > 1:
            _refuse(name, f"{param.setting} is searched by another parameter too")
        _check_setting(name, param, base)
    ordered(space)


def _refuse(name: str, problem: str) -> NoReturn:
    raise SettingsError(f"search.{name}: {problem}.")


def _check_choices(name: str, param: SearchParam) -> None:
    plain = all(
        choice is None or isinstance(choice, bool | int | float | str) for choice in param.choices
    )
    if not param.choices or not plain:
        _refuse(
            name,
            f"choices={param.choices} must list at least one number, word, true, false or null",
        )
    if len(set(map(repr, param.choices))) < len(param.choices):
        _refuse(name, f"choices={param.choices} names a value twice")


def _check_numbers(name: str, param: SearchParam) -> None:
    low, high, step = param.low, param.high, param.step
    if low is None or high is None or not -math.inf < low < high < math.inf:
        _refuse(name, f"low={low} and high={high} must be two numbers, low below high")
    if param.log and low <= 0:
        _refuse(name, f"low={low} must be above 0 where log is true")
    if step is not None and (param.log or not 0 < step <= high - low):
        _refuse(name, f"step={step} must be above 0, at most {high - low:g}, and without log")
    if param.kind == "int" and not all(float(n).is_integer() for n in (low, high, step or 1)):
        numbers = f"low={low}, high={high}, step={step}"
        _refuse(name, f"{numbers} must be whole numbers where kind is int")


def _check_condition(name: str, param: SearchParam, space: Space) -> None:
    for parent, values in param.when.items():
        if parent not in space or space[parent].kind != "categorical":
            known = [other for other, one in space.items() if one.kind == "categorical"]
            _refuse(name, f"when.{parent} must name a categorical parameter of the space: {known}")
        choices = space[parent].choices
        if not isinstance(values, list) or not values or any(v not in choices for v in values):
            _refuse(name, f"when.{parent}={values} must list some of its choices, {choices}")


def _check_setting(name: str, param: SearchParam, base: TrainConfig) -> None:
    """Check that the setting exists, may be searched, and takes the parameter's values."""
    if param.setting is None:
        if param.kind != "categorical":
            _refuse(name, "only a categorical switch may do without a setting")
        return
    if param.setting.split(".")[0] in NOT_SEARCHED or param.setting in NOT_SEARCHED_DATA:
        _refuse(
            name,
            f"{param.setting} is not searched: it would tune luck, the data or the decision, "
            "not the training",
        )
    kind = _setting_type(base, param.setting, name)
    if param.kind == "float" and not _fits(0.5, kind):
        _refuse(
            name,
            f"{param.setting} takes {_type_name(kind)}, not a float; "
            "say kind: int or kind: categorical",
        )
    otherwise = [] if param.otherwise is None else [param.otherwise]
    for value in [*_extremes(param), *otherwise]:
        if not _fits(value, kind):
            allowed = _type_name(kind)
            _refuse(name, f"{value!r} is not allowed for {param.setting}, which takes {allowed}")
        try:
            with_settings(base, {param.setting: value})
        except SettingsError as error:
            _refuse(name, f"{value!r} is out of the range of {param.setting}: {error}")


def _extremes(param: SearchParam) -> list[Any]:
    """All choices, or both ends of the range."""
    if param.kind == "categorical":
        return param.choices
    ends = [end for end in (param.low, param.high) if end is not None]
    return [int(end) for end in ends] if param.kind == "int" else ends


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _fits(value: Any, kind: Any) -> bool:
    """True if a value has a type; whole numbers count as floats, true and false not as numbers."""
    if kind is Any:
        return True
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(kind))
    if kind in (int, float):
        allowed = int if kind is int else int | float
        return isinstance(value, allowed) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _setting_type(base: TrainConfig, path: str, name: str) -> Any:
    """The declared type of a dotted setting; `Any` inside `trainer`."""
    node: Any = base
    kind: Any = type(base)
    parts = path.split(".")
    for depth, part in enumerate(parts):
        if isinstance(node, dict):
            return Any
        known = [field.name for field in fields(node)] if is_dataclass(node) else []
        if part not in known:
            near = difflib.get_close_matches(part, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
            where = ".".join(parts[:depth]) or "the training configuration"
            _refuse(name, f"{path} is no setting: {where} has no {part!r}; {hint}")
        kind = get_type_hints(type(node))[part]
        node = getattr(node, part)
    if is_dataclass(node) or isinstance(node, dict):
        _refuse(name, f"{path} is a group of settings, not one")
    return kind
