"""Each block of the pages is run in order, or says why not. See scripts/pages.py.

Commands that would train for minutes are composed instead (build, train, tune, crossval, learn),
except those of the tour; the tests of each command run them.
"""

import ast
import doctest
import json
import re
import sys
from pathlib import Path

import pytest

from leakdet.__main__ import VERBS
from leakdet.cli.settings import DOORS
from leakdet.tables.schema import Verdict, Verdicts
from pages import SHELL, UNTYPED, Block, blocks, expanded, is_filled_in, make_folder

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
# api.md is run by test_api.py, with the files of the examples in docstrings
PAGES = {
    page.relative_to(DOCS).as_posix(): blocks(page.read_text(encoding="utf-8"))
    for page in sorted(DOCS.rglob("*.md"))
    if page.name != "api.md"
} | {"CONTRIBUTING.md": blocks((REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8"))}
RUN = [
    page
    for page, found in PAGES.items()
    if any(not block.reason and block.language not in UNTYPED for block in found)
]
TARGETS = re.findall(r"(?m)^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"))
TRAINED = {"tour.md"}  # its trainings take seconds
PARSED = ("export", "completion")  # by test_one_word.py; test_export.py runs the first
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_of_a_kind_that_is_run_or_says_why_not(page: str) -> None:
    text = (DOCS if (DOCS / page).is_file() else REPOSITORY).joinpath(page).read_text("utf-8")
    assert 2 * len(PAGES[page]) == len(re.findall("^```", text, flags=re.MULTILINE))
    for block in PAGES[page]:
        if block.reason or block.language in UNTYPED:
            continue
        assert block.language in (*SHELL, "python"), block
        for words in block.commands:
            known = {"leakdet": (*VERBS, "completion"), "make": TARGETS}
            assert words[1] in known.get(words[0], ()), f"{page}: {words} is run by no test"


@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_run_in_order(
    page: str, trained, door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    users_folder(tmp_path, trained)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names: dict[str, object] = {}
    printed = ""
    for block in PAGES[page]:
        if block.reason:
            continue
        if block.language == "python" and block.file_name:
            (tmp_path / block.file_name).write_text(block.text)
        elif block.language == "python":
            capsys.readouterr()
            exec(compile(block.text, page, "exec"), names)
            printed = capsys.readouterr().out
        elif block.language == "text" and printed:
            assert_alike(block.text, printed)
            printed = ""
        else:
            run_commands(block, page, door, tmp_path)
    sys.modules.pop("my_nets", None)


NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def test_the_notebooks_run_from_top_to_bottom(
    trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users_folder(tmp_path, trained)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    shown: dict[str, list[object]] = {}
    for notebook in NOTEBOOKS:
        content = json.loads(notebook.read_text("utf-8"))
        assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
        code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
        assert all(cell["outputs"] == [] for cell in code), notebook
        names: dict[str, object] = {}
        texts = ["".join(cell["source"]) for cell in code]
        shown[notebook.stem] = [run_cell(text, notebook.name, names) for text in texts]
    sys.modules.pop("my_bands", None)
    assert len(NOTEBOOKS) == 3
    (verdict,) = [value for value in shown["first-model"] if isinstance(value, Verdict)]
    assert "<audio" in (verdict._repr_html_() or "")
    (ranked,) = [value for value in shown["a-night"] if isinstance(value, Verdicts)]
    assert len(ranked) == 6
    assert shown["own-network"][-1][-1] == 24


def run_cell(code: str, name: str, names: dict[str, object]) -> object:
    """Run a cell; the value of its last line, which a notebook shows, or None."""
    *lines, last = ast.parse(code).body
    shows = isinstance(last, ast.Expr)
    lines += [] if shows else [last]
    exec(compile(ast.Module(lines, []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if shows else None


def users_folder(folder: Path, trained) -> None:
    """Sounds, a store, a finished training and a table of confirmed recordings."""
    make_folder(folder, trained.store, new=6)
    (folder / "store").symlink_to(trained.store)
    (folder / "runs/train").mkdir(parents=True)
    (folder / "runs/train/latest").symlink_to(trained.folder)
    for name in ("model.safetensors", "old.safetensors", "current.safetensors"):
        (folder / name).symlink_to(trained.model)
    (folder / "night").mkdir()
    for number, sound in enumerate(sorted((folder / "new").iterdir())):
        (folder / f"night/B{number}_20261120_0230.wav").symlink_to(sound.resolve())
    (folder / "nights").symlink_to("night")
    rows = [f"{sound},{sound.name[:2]},2026-11-20" for sound in (folder / "night").iterdir()]
    (folder / "loggers.csv").write_text("\n".join(["path,site,recorded_at", *rows]))


def assert_alike(expected: str, printed: str) -> None:
    """Compare what was printed with what the page shows; decimals may differ."""
    wanted = re.sub(r"\d+\.\d+", "...", expected)
    assert doctest.OutputChecker().check_output(wanted, printed, SAME), printed


def run_commands(block: Block, page: str, door, folder: Path) -> None:
    for program, verb, *words in block.commands:
        if program == "make" or verb in PARSED or not is_filled_in(words):
            continue  # test_one_word.py parses those with a place to fill in
        if any(re.search(r"^resume=|\.onnx$|^--cluster$", word) for word in words):
            continue  # the tests of training, export and clusters run them
        arguments = expanded(words, folder)
        if verb in DOORS and page not in TRAINED:
            if "-m" in arguments:  # test_one_word.py reads its names
                continue
            arguments.append("--cfg=job")
        result = door(verb, *arguments, cwd=folder)
        assert result.returncode == 0, (page, verb, words, result.stderr)
        assert not re.search("Traceback", result.stderr)
