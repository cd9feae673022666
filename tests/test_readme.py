"""README: a screen long, its commands and its Python run, its links exist; what it links to."""

import re
import shlex
from pathlib import Path

import pytest

from leakdet.cli.settings import option_names
from pages import blocks, expanded, make_folder

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = [block for block in blocks(README) if not block.reason]
COMMANDS = [shlex.join(words) for block in BLOCKS for words in block.commands]


def test_it_is_a_screen_with_one_small_picture():
    assert len(README.splitlines()) <= 70
    (picture,) = re.findall(r"!\[.+\]\((.*?)\)", README)
    assert (REPOSITORY / picture).stat().st_size < 120_000


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
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_links_have_targets():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


def test_the_table_lists_every_option():
    shipped = option_names()
    page = (REPOSITORY / "docs/how/settings.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \| (.*) \|$", page, flags=re.MULTILINE)
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


@pytest.mark.usefixtures("figures")
def test_the_commands_run_in_this_order_and_then_the_python(
    users_folder: Path, door, capsys, monkeypatch: pytest.MonkeyPatch
):
    """Trainings are cut short."""
    for command in COMMANDS:
        if not command.startswith("leakdet"):
            continue
        _, verb, *words = shlex.split(command)
        arguments = expanded(words, users_folder)
        if verb == "train":
            arguments += ["trainer.max_epochs=1"]
        result = door(verb, *arguments, cwd=users_folder)
        assert result.returncode == 0, (command, result.stderr)
    assert len((users_folder / "verdicts.csv").read_text().splitlines()) == 3

    monkeypatch.chdir(users_folder)
    (code,) = (block.text for block in BLOCKS if block.language == "python")
    exec(code, {})
    assert capsys.readouterr().out.startswith(("leak", "no_leak", "undecided"))


def test_contributing_describes_every_room_and_names_files_that_exist():
    contributing = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = REPOSITORY / "src" / "leakdet"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^\| `(\w+)/` \|", contributing, flags=re.MULTILINE))
    for path in re.findall(r"^\d\. `(.*?)`", contributing, flags=re.MULTILINE):
        assert (package / path).is_file(), path
