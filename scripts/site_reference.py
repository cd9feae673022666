"""The site's reference: what `<!-- made from: … -->` in a page stands for. An extension of Sphinx.

`the commands`, `the settings` and `the public names` are taken from the parsers, the settings'
dataclasses and the docstrings, so that the pages say what `--help` says.
"""

import ast
import dataclasses
import importlib
import inspect
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import leakdet
from leakdet.__main__ import VERBS
from leakdet.cli.catalogue import Setting
from leakdet.cli.compose import default_values
from leakdet.cli.help import KINDS, help_text, plain
from leakdet.cli.settings import DOORS, known_settings, option_names

MARK = re.compile(r"<!-- made from: (.*?) -->")
# of further modules: what one's own code is made of
FURTHER = (
    "leakdet.detection.networks:Network",
    "leakdet.detection.drift:find_drift",
    "leakdet.storage.hdf5:seal_h5",
)


def commands() -> Iterator[str]:
    """The page of each verb, as `leakdet VERB --help` prints it."""
    os.environ["COLUMNS"] = "80"  # argparse asks for it
    for verb in VERBS:
        yield f"## {verb}\n\n```text\n{help_of(verb)}\n```\n"


def help_of(verb: str) -> str:
    if verb not in DOORS:
        text: str = importlib.import_module(f"leakdet.{verb}").parser().format_help()
        return text.strip()
    known = known_settings(verb)
    return help_text(verb, known.settings, known.groups, default_values(verb))


def settings() -> Iterator[str]:
    """Every setting, below its verb and group; those of train stand once."""
    seen: dict[str, Setting] = {}
    for verb in ("build", "train", *sorted(DOORS.keys() - {"build", "train"})):
        found = known_settings(verb).settings
        values = default_values(verb)
        own = {name: setting for name, setting in found.items() if seen.get(name) != setting}
        yield f"## {verb}\n"
        if len(own) < len(found):
            yield f"Besides, `{verb}` takes these settings of the verbs above: {_groups(found, own)}.\n"
        for group in dict.fromkeys(name.rpartition(".")[0] for name in own):
            if group:
                yield f"### {verb}: {group}\n"
            for name, setting in own.items():
                if name.rpartition(".")[0] == group:
                    yield setting_text(setting, values.get(name, setting.default))
        seen |= found


def _groups(found: Mapping[str, Setting], own: Mapping[str, Setting]) -> str:
    shared = dict.fromkeys(name.partition(".")[0] for name in found if name not in own)
    return ", ".join(f"`{name}`" for name in shared)


def setting_text(setting: Setting, value: Any) -> str:
    """A setting as an entry of a definition list: default; sentence, type and range."""
    kind = KINDS.get(setting.kind, "names" if setting.names else "")
    about = "; ".join(dict.fromkeys(part for part in (kind, setting.allowed) if part))
    ending = f" ({about})" if about else ""
    return f"`{setting.name}={plain(value)}`\n: {setting.meaning}{ending}\n"


def options() -> Iterator[str]:
    """The options of each group."""
    for group, names in option_names().items():
        yield f"`{group}`\n: {', '.join(f'`{name}`' for name in names)}\n"


def public_names() -> Iterator[str]:
    """Signature and docstring of every public name, and of what one's own code is made of."""
    named = [(f"leakdet.{name}", getattr(leakdet, name)) for name in leakdet.__all__]
    for path in FURTHER:
        module, name = path.split(":")
        named.append((f"{module}.{name}", getattr(importlib.import_module(module), name)))
    for name, thing in named:
        yield f"## {name}\n"
        yield from _of_class(thing) if inspect.isclass(thing) else _of_function(_node(thing))


def _node(thing: Any) -> Any:
    """The definition of a class or function in its source: annotations as they are written."""
    module = inspect.getmodule(thing)
    assert module is not None
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    return next(node for node in tree.body if getattr(node, "name", None) == thing.__name__)


def _of_class(thing: type[Any]) -> Iterator[str]:
    node = _node(thing)
    made = [f"class {thing.__name__}", *_fields(thing, node)]
    yield "```text\n" + "\n".join(made) + "\n```\n"
    yield docstring(ast.get_docstring(node))
    for part in node.body:
        if not isinstance(part, ast.FunctionDef) or part.name.startswith("_"):
            continue
        if not any("overload" in ast.unparse(mark) for mark in part.decorator_list):
            yield f"### {thing.__name__}.{part.name}\n"
            yield from _of_function(part)


def _fields(thing: type[Any], node: ast.ClassDef) -> list[str]:
    """The fields of a dataclass or named tuple as its source has them, with their comments."""
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    if not fields or not (dataclasses.is_dataclass(thing) or issubclass(thing, tuple)):
        return []
    lines = Path(inspect.getfile(thing)).read_text(encoding="utf-8").splitlines()
    return lines[fields[0].lineno - 1 : fields[-1].end_lineno]


def _of_function(node: ast.FunctionDef) -> Iterator[str]:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    if any("property" in mark for mark in marks):
        yield f"```text\n{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}\n```\n"
    else:
        yield f"```text\n{signature(node)}\n```\n"
    yield docstring(ast.get_docstring(node))


def signature(node: ast.FunctionDef) -> str:
    """Name, arguments and result; with an argument a line where one line would be too long."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{node.name}({ast.unparse(node.args)}){returns}"
    if len(line) <= 80:
        return line
    parts = node.args
    positional = [*parts.posonlyargs, *parts.args]
    defaults = [None] * (len(positional) - len(parts.defaults)) + list(parts.defaults)
    lines = [_argument(arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if parts.vararg or parts.kwonlyargs:
        lines.append(f"*{ast.unparse(parts.vararg)}" if parts.vararg else "*")
    keywords = zip(parts.kwonlyargs, parts.kw_defaults, strict=True)
    lines += [_argument(arg, default) for arg, default in keywords]
    lines += [f"**{ast.unparse(parts.kwarg)}"] if parts.kwarg else []
    inside = "".join(f"    {line},\n" for line in lines)
    return f"{node.name}(\n{inside}){returns}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if argument.annotation else "="
    return ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default else "")


def docstring(text: str | None) -> str:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", text or ""):
        head, _, rest = block.partition("\n")
        if block.startswith(">>> "):
            lines.append(f"```pycon\n{block}\n```")
        elif re.fullmatch(r"(Attributes|Raises|Args|Returns|Shape|Yields):", head):
            lines += [f"**{head[:-1]}**", _entries(inspect.cleandoc(rest))]
        else:
            lines.append(block)
    return "\n\n".join(lines) + "\n"


def _entries(text: str) -> str:
    """`name: meaning` lines, which go on indented, as a list."""
    joined = re.sub(r"\n\s+", " ", text)
    return "\n".join(re.sub(r"^([\w.]+):", r"- `\1`:", line) for line in joined.splitlines())


MADE = {
    "the commands": commands,
    "the settings": settings,
    "the options": options,
    "the public names": public_names,
}


def filled(text: str) -> str:
    """A page with what its marks stand for."""
    return MARK.sub(lambda mark: "\n".join(MADE[mark[1]]()), text)


def _read(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
