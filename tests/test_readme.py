"""README: its commands and its Python run, its links exist, and its table lists every option."""

import re
import shlex
from pathlib import Path

import pytest

from leakdet.cli.config_groups import option_names
from pages import blocks, expanded, make_folder

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = [block for block in blocks(README) if not block.reason]
COMMANDS = [shlex.join(words) for block in BLOCKS for words in block.commands]


def test_the_first_screen_shows_the_two_make_commands():
    first_screen = README.splitlines()[:12]
    assert [line.split("#")[0].strip() for line in first_screen if line.startswith("make ")] == [
        "make train",
        "make test",
    ]


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command.startswith("make ")]
)
def test_make_targets_exist(command: str):
    target = command.split()[1]
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_links_have_targets():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target


def test_the_table_lists_every_option():
    shipped = option_names()
    table = re.findall(r"^\| `(\w+)` \| (.*) \|$", README, flags=re.MULTILINE)
    listed = {
        group: set(re.findall(r"`(\w+)`", options)) for group, options in table if group in shipped
    }
    assert set(listed) == set(shipped)
    for group, options in listed.items():
        assert set(shipped[group]) <= options, group


@pytest.fixture
def users_folder(trained, tmp_path: Path) -> Path:
    """Audio of the demo as a user has it: in folders by label, in a manifest, and two new files."""
    make_folder(tmp_path, trained.store)
    return tmp_path


def test_the_commands_run_in_this_order_and_then_the_python(
    users_folder: Path, door, capsys, monkeypatch: pytest.MonkeyPatch
):
    """Trainings are cut short. Commands for a GPU and studies are only composed."""
    for command in COMMANDS:
        if not command.startswith(".venv/bin/leakdet"):
            continue
        _, verb, *words = shlex.split(command)
        arguments = expanded(words, users_folder)
        if "trainer=gpu" in arguments or verb == "tune":
            arguments = [a for a in arguments if a != "-m"] + ["--cfg", "job"]
        elif verb == "crossval":
            arguments += ["trainer.max_epochs=1", "crossval.folds=2"]
        elif verb == "train" and "--cfg" not in arguments:
            arguments += {"trainer.max_epochs=1", "data.store=store"} - set(arguments)
        result = door(verb, *arguments, cwd=users_folder)
        assert result.returncode == 0, (command, result.stderr)
    assert len((users_folder / "verdicts.csv").read_text().splitlines()) == 3

    monkeypatch.chdir(users_folder)
    (code,) = (block.text for block in BLOCKS if block.language == "python")
    exec(code.replace('"data.store=store"', '"data.store=store", "trainer.max_epochs=1"'), {})
    f1, verdict, mel = capsys.readouterr().out.splitlines()
    assert 0 <= float(f1) <= 1
    assert verdict.startswith(("leak", "no_leak"))
    assert mel.endswith(", 30, 64, 1)")


def test_contributing_describes_every_room_and_names_files_that_exist():
    contributing = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = Path(__file__).parents[1] / "src" / "leakdet"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^\| `(\w+)/` \|", contributing, flags=re.MULTILINE))
    for path in re.findall(r"^\d\. `(.*?)`", contributing, flags=re.MULTILINE):
        assert (package / path).is_file(), path
