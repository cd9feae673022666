"""Values as people type them on a command line, with the brackets and quotes that Hydra needs."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from leakdet.cli.setting_names import Setting
from leakdet.config.range_checks import require
from leakdet.errors import SettingsError

PLAIN = re.compile(r"[A-Za-z0-9_./:%+-]*")  # what Hydra reads as a text without quotes
SWEEP = re.compile(r"(choice|range|interval|glob|sort|shuffle)\(.*\)").fullmatch
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ITEM = re.compile(rf"\s*({QUOTED}|[^,]*?)\s*(?:,|$)")
PAIR = re.compile(rf"\s*({QUOTED}|[^:,]+?)\s*:\s*({QUOTED}|[^,]+?)\s*(?:,|$)")


def value_for_hydra(value: str, setting: Setting, several: bool) -> str:
    """A value of a known setting; `several`: commas may separate values of a sweep.

    Raises:
        SettingsError: a mapping of names that is none, an open bracket, no number where one is
            meant, or null for a setting that needs a value.
    """
    _check_kind(value, setting)
    if setting.names and setting.kind is dict and not _is_hydras(value):
        return _quoted(json.dumps(dict(_pairs(value, setting.name)), ensure_ascii=False))
    if setting.kind is list and not _is_hydras(value):
        items = list(_items(value))
        return f"[{','.join(_quoted(item, always=setting.names) for item in items)}]"
    if setting.kind is str and not _is_written_out(value, "'\""):
        sweep = several and "," in value and not Path(value).exists()
        values = value.split(",") if sweep else [value]
        return ",".join(_quoted(one, always=_is_no_text(one)) for one in values)
    return text_for_hydra(value, several) if setting.kind is object else value


def _check_kind(value: str, setting: Setting) -> None:
    """Raise `SettingsError` for a value that is not of the kind of the setting."""
    words, fits = KINDS.get(setting.kind, ("a value", bool))
    words = setting.allowed.replace("a number", words) if setting.allowed else words
    if value == "null":
        require(setting.optional, setting.name, value, words)
    elif setting.kind in KINDS and not _is_written_out(value, "'\""):
        for each in [value] if setting.kind is list else value.split(","):
            require(bool(fits(each.strip())), setting.name, each, words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


KINDS: dict[type, tuple[str, Callable[[str], object]]] = {
    int: ("a whole number", re.compile(r"[+-]?\d[\d_]*").fullmatch),
    float: ("a number", _is_number),
    bool: ("true or false", re.compile(r"(?i)true|false|yes|no|on|off|y|n|[01]").fullmatch),
    list: (
        "a list such as [a,b]",
        lambda text: (text[:1] == "[") == (text[-1:] == "]") or text.count("[") == text.count("]"),
    ),
}


def text_for_hydra(value: str, several: bool) -> str:
    """Quote a text that may also be a list, a group or a sweep."""
    plain = _is_written_out(value, "'\"[{") or (several and "," in value)
    return value if plain else _quoted(value)


def _is_hydras(value: str) -> bool:
    """True for a value for a collection that Hydra evaluates, instead of names."""
    nested = value[:1] == "[" and any(bracket in value[1:-1] for bracket in "[{")
    return not value or value == "null" or "${" in value or bool(SWEEP(value)) or nested


def _items(value: str) -> Iterator[str]:
    """The names in `[a, 'b, c']` or `a,b`."""
    inside = value[1:-1] if value[0] == "[" and value[-1] == "]" else value
    if inside.strip():
        yield from (_bare(match[1]) for match in _matches(ITEM, inside))


def _pairs(value: str, name: str) -> Iterator[tuple[str, str]]:
    """The names in `{old: new, 'older: one': new}`."""
    inside = value[1:-1] if value[0] == "{" and value[-1] == "}" else "?"
    matches = _matches(PAIR, inside)
    if sum(len(match[0]) for match in matches) < len(inside.rstrip()):
        raise SettingsError(f"{name}={value}: write it as {name}={{old: new, other: new}}.")
    yield from ((_bare(match[1]), _bare(match[2])) for match in matches)


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Matches that follow one another from the start of the text."""
    found, at = [], 0
    while at < len(text) and (match := pattern.match(text, at)):
        found.append(match)
        at = match.end()
    return found


def _bare(text: str) -> str:
    """A text without the quotes around it."""
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _is_written_out(value: str, openings: str) -> bool:
    return (
        not value or value == "null" or value[0] in openings or "${" in value or bool(SWEEP(value))
    )


def _is_no_text(value: str) -> bool:
    """True for text that Hydra would read as null, number or truth value, losing its spelling."""
    return _is_number(value) or value.casefold() in ("true", "false", "null")


def _quoted(value: str, always: bool = False) -> str:
    if PLAIN.fullmatch(value) and not always:
        return value
    backslashes = len(value) - len(value.rstrip("\\"))  # they would escape the closing quote
    escaped = re.sub(r"(\\*)'", lambda found: 2 * found[1] + "\\'", value)  # they too count double
    return "'" + escaped + "\\" * backslashes + "'"
