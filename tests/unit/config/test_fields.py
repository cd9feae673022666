import math
import re
import types
from collections.abc import Iterator
from dataclasses import Field, asdict, dataclass, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from leakdet.config import (
    BuildConfig,
    CrossvalConfig,
    ProtocolConfig,
    SearchParam,
    SignalConfig,
    TrainConfig,
    TuneConfig,
)
from leakdet.config.fields import Allowed, Difference, check_ranges, differences, doc, from_dict
from leakdet.core.errors import SettingsError

SCHEMAS = (BuildConfig, TrainConfig, CrossvalConfig, TuneConfig, ProtocolConfig, SearchParam)


def settings_of(schema: type, prefix: str = "") -> Iterator[tuple[str, Field[Any], Any]]:
    """Every setting below a schema: dotted name, field, type."""
    kinds = get_type_hints(schema)
    for known in fields(schema):
        if is_dataclass(kinds[known.name]):
            yield from settings_of(kinds[known.name], f"{prefix}{known.name}.")
        else:
            yield prefix + known.name, known, kinds[known.name]


ALL = [
    pytest.param(*found, id=f"{schema.__name__}.{found[0]}")
    for schema in SCHEMAS
    for found in settings_of(schema)
]


@pytest.mark.parametrize(("name", "known", "kind"), ALL)
def test_every_setting_has_a_sentence_and_every_number_a_range(name: str, known: Any, kind: Any):
    meaning = known.metadata["meaning"]
    assert re.fullmatch(r"[A-Zips].{6,200}\.", meaning), meaning
    options = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    free = name in ("signal.fmax_hz", "low", "high", "step")  # bounded by other settings
    if {int, float} & set(options) and not free:
        assert known.metadata["allowed"] is not None


@pytest.mark.parametrize("schema", [BuildConfig, TrainConfig, CrossvalConfig, TuneConfig])
def test_every_schema_has_a_sentence(schema: type):
    groups = {schema} | {kind for kind in get_type_hints(schema).values() if is_dataclass(kind)}
    assert all(group.__doc__ and not group.__doc__.startswith(group.__name__) for group in groups)


@dataclass
class Example:
    share: float = doc(0.5, "A share.", above=0, at_most=1)
    mode: str = doc("on", "A mode.", one_of=("on", "off"))
    names: list[str] = doc(["a"], "Names.")
    limit: float | None = doc(None, "A limit.", at_least=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 0.0}, r"x\.share=0\.0 .*above 0 and at most 1\."),
        ({"share": math.nan}, r"x\.share=nan "),
        ({"mode": "of"}, r"x\.mode='of' .*one of on, off\."),
        ({"limit": 1}, r"x\.limit=1 .*at least 2\."),
    ],
)
def test_a_bad_value_is_told_with_setting_value_and_range(changes: Any, message: str):
    with pytest.raises(SettingsError, match=f"^{message}"):
        check_ranges(Example(**changes), "x.")


def test_good_values_pass_and_lists_are_not_shared():
    check_ranges(Example(share=1, mode="off", limit=2.0))
    one, other = Example(), Example()
    one.names.append("b")
    assert other.names == ["a"]


@pytest.mark.parametrize(
    ("allowed", "inside", "outside"),
    [
        (Allowed(at_least=0, below=1), (0, 0.999), (-1e-9, 1, math.inf)),
        (Allowed(above=0, at_most=1), (1e-9, 1), (0, 1.001, -math.inf)),
        (Allowed(one_of=("a",)), ("a",), ("b", "")),
    ],
)
def test_bounds_include_what_they_say(allowed: Allowed, inside: Any, outside: Any):
    assert all(value in allowed for value in inside)
    assert not any(value in allowed for value in outside)


def test_stored_settings_of_another_version_are_refused():
    stored = asdict(SignalConfig())
    assert from_dict(SignalConfig, stored, "x") == SignalConfig()
    message = r"model.x: its SignalConfig has unknown fields \['colour'\]"
    with pytest.raises(SettingsError, match=message):
        from_dict(SignalConfig, {**stored, "colour": 1}, "model.x")
    del stored["n_mels"]
    with pytest.raises(SettingsError, match=r"lacks \['n_mels'\]"):
        from_dict(SignalConfig, stored, "model.x")


def test_nested_settings_are_told_by_their_dotted_names() -> None:
    stored = {"seed": 0, "network": {"name": "paper", "extra": {}}, "old": 1}
    now = {"seed": 0, "network": {"name": "linear", "extra": {"width": 4}}, "new": [2]}
    assert list(differences(stored, now)) == [
        Difference("network.extra.width", None, 4),
        Difference("network.name", "paper", "linear"),
        Difference("new", None, [2]),
        Difference("old", 1, None),
    ]
    assert list(differences(now, now)) == []


def test_a_group_that_one_side_lacks_is_one_difference() -> None:
    assert [str(d) for d in differences({"a": {"b": 1}}, {"a": None})] == ["a: {'b': 1} / None"]
