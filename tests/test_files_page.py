"""docs/files.md describes every container, suffix, flag and message of the code, and no others."""

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import soundfile

from leakdet.acoustics.containers.riff import STRAY_BYTES
from leakdet.acoustics.listing import LOST
from leakdet.acoustics.measures import Flag
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building import sources
from leakdet.config import SignalConfig
from leakdet.core.locations import AUDIO_SUFFIXES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "files.md").read_text()
READERS = ("audio", "containers/sound_file", "containers/source")
LISTERS = "scan extraction sources".split()
NOISE = 0.1 * np.random.default_rng(0).standard_normal(24000)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below this row of headings."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def texts(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and node.id.isupper():
            yield str(getattr(sources, node.id))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )


def reasons(node: ast.AST) -> list[ast.expr]:
    """The expressions of this node that say why a recording is left out."""
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
        return [node.value]
    if isinstance(node, ast.FunctionDef) and node.name == "_contradiction":
        found = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
        return [value for value in found if value is not None]
    if isinstance(node, ast.FunctionDef) and node.name in ("absence", "_fault"):
        return [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
    if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
        return [inner for inner in ast.walk(node.value) if isinstance(inner, ast.JoinedStr)]
    if not isinstance(node, ast.Call):
        return []
    called = ast.unparse(node.func).rsplit(".", 1)[-1]
    if called in ("LeftOut", "_leave_out"):
        return node.args[1:]
    if called == "append" and isinstance(node.args[0], ast.Tuple):
        return node.args[0].elts
    return node.args if called == "RowError" else []


def nodes(room: str, modules: tuple[str, ...] | list[str]) -> Iterator[ast.AST]:
    for module in modules:
        yield from ast.walk(ast.parse((ROOT / f"src/leakdet/{room}/{module}.py").read_text()))


def test_flags_are_those_of_the_code() -> None:
    described = rows("flag | meaning")
    assert [name for name, _ in described] == [f"`{flag}`" for flag in get_args(Flag)]
    assert all(meaning for _, meaning in described)


def test_messages_of_the_reader_are_those_of_the_code() -> None:
    raised = [
        node.args
        for node in nodes("acoustics", READERS)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "InputError"
    ]
    messages = {text for args in raised for text in texts(args)}
    assert len(messages) > 10
    assert {message for message, _ in rows("message | remedy")} == messages


def test_reasons_to_leave_out_are_those_of_the_code() -> None:
    listing = [*nodes("building", LISTERS), *nodes("tables", ["read", "values"])]
    given = {text for node in listing for text in texts(reasons(node))}
    assert len(given) > 15
    assert {reason for reason, _ in rows("reason | remedy")} == given


def test_kinds_that_may_hold_sound_are_those_of_the_code() -> None:
    assert rows("files … | remedy") == [[what, remedy] for what, remedy in LOST.values()]


def test_suffixes_and_limits_are_those_of_the_code() -> None:
    listed = re.findall(r"`(\.\w+)`", PAGE[: PAGE.index("| containers |")])
    assert sorted(listed) == sorted(AUDIO_SUFFIXES)
    assert f"Up to {STRAY_BYTES:,} bytes" in PAGE


def encoded(kind: str, sound: np.ndarray = NOISE, **how: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, 16000, format=kind, **how)
    return file.getvalue()


def flags_of(content: bytes, path: Path) -> list[Flag]:
    path.write_bytes(content)
    stream = MelStream(path, LogMel(SignalConfig()))
    assert list(stream)
    return stream.facts.flags


def test_containers_are_those_that_libsndfile_writes(tmp_path: Path) -> None:
    (checked, _), (unchecked, _) = rows("containers | sizes are compared")
    named = [*checked.split(", "), *unchecked.split(", ")]
    # without a header, and with a second file
    assert sorted(named) == sorted(set(soundfile.available_formats()) - {"RAW", "SD2"})
    for kind in named:
        subtype = {"XI": "DPCM_16", "WVE": "ALAW"}.get(kind)
        content = encoded(kind, **({"subtype": subtype} if subtype else {}))
        found = set(flags_of(content, tmp_path / "x")) - {"narrow_band", "short"}
        assert found == ({"unchecked"} if kind in unchecked.split(", ") else set()), kind
