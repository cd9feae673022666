"""README, docs and help say what the code does: exit codes, verbs, settings and options."""

import contextlib
import importlib
import re
import shlex
import signal
from pathlib import Path

import pytest

from leakdet.__main__ import VERBS
from leakdet.cli.compose import as_hydra_reads, default_values
from leakdet.cli.help import plain
from leakdet.cli.settings import DOORS, known_settings
from leakdet.cli.words import with_names
from leakdet.core.errors import InputError
from leakdet.core.process import CODES, INTERRUPTED
from pages import SHELL, blocks

REPOSITORY = Path(__file__).parents[1]
OF_A_GPU = {"compile"}  # whose default trainer=gpu changes
OF_OTHERS = {
    "--audio",
    "--build-arg",
    "--cfg",
    "--gpus",
    "--init",
    "--nthreads",
}  # of scripts, Hydra, Docker, Dask
PAGES = {
    page.relative_to(REPOSITORY).as_posix(): page.read_text(encoding="utf-8")
    for page in (REPOSITORY / "docs").rglob("*.md")
}
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PAGES["README.md"] = README
CODE = {
    name: [b.text.replace("\\\n", " ") for b in blocks(text) if b.language in SHELL]
    + re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"(?ms)^```.*?^```", "", text))
    for name, text in PAGES.items()
}
LINES = [
    (name, " ".join(line.split()))
    for name in CODE
    for code in CODE[name]
    for line in code.splitlines()
]
COMMANDS = sorted(
    {
        (page, line[line.index("leakdet ") :].split(" #")[0].strip())
        for page, line in LINES
        if re.match(r"(\.venv/bin/)?leakdet (?!completion)[a-z]+ ", line)
    }
)


def test_every_code_is_one_of_the_table() -> None:
    told = re.search(r"exit codes: (.*?)\.", PAGES["docs/reference/commands.md"], flags=re.DOTALL)
    assert told
    assert sorted(map(int, re.findall(r"\b\d+\b", told[1]))) == sorted(CODES)
    for name, text in PAGES.items():
        for code in re.findall(r"exit code (?:stays )?(\d+)", text):
            assert int(code) in CODES, (name, code)
        for called, code in re.findall(r"(SIG[A-Z0-9]+) with (\d+)", text):
            assert int(code) == 128 + signal.Signals[called], (name, called)
    assert CODES.keys() >= {INTERRUPTED} == {128 + signal.SIGINT}


def test_readme_and_the_program_list_the_same_verbs() -> None:
    rows = re.findall(r"^\| `([a-z]+)[ `]", README.split("## What a score")[0], flags=re.MULTILINE)
    assert set(rows) == set(VERBS)
    for page, command in COMMANDS:
        assert command.split()[1] in VERBS, (page, command)


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_a_verb_has_the_codes_and_fits_a_terminal(
    verb: str, door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = door(verb, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout.startswith(f"usage: leakdet {verb} ")
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    text = " ".join(result.stdout.split())
    assert all(f"{code} {meaning}" in text for code, meaning in CODES.items())


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_in_the_docs_is_one_that_the_program_takes(page: str, command: str) -> None:
    _, verb, *words = shlex.split(command)
    words = [word for word in words if word not in ("…", "...")]
    words = [re.sub(r"=\$[A-Z_]+$", "=0", word) for word in words]  # a number that SLURM gives
    if verb in DOORS:
        with contextlib.suppress(InputError):  # a file that is not here
            as_hydra_reads(verb, with_names(verb, words))
    else:
        importlib.import_module(f"leakdet.{verb}").parser().parse_args(words)


def test_settings_in_the_docs_exist() -> None:
    known = [known_settings(door) for door in DOORS]
    names = {name for part in known for name in part.names}
    branches = {name.rpartition(".")[0] for name in names}
    tops = {name.partition(".")[0] for name in names if "." in name}
    files = {"tune.html"}
    unknown = []
    for page, line in LINES:
        for name in re.findall(r"(?<![\w./])([a-z_]+(?:\.[a-z_0-9]+)+)(?=[=`\s]|$)", line):
            free = any(part.is_free(name) for part in known) or name.startswith("trainer.")
            if name.partition(".")[0] in tops and not free and name not in names | branches | files:
                unknown.append((page, name))
    assert unknown == []


def test_defaults_in_the_docs_are_those_of_the_settings() -> None:
    """Of `name` (number), `name=value` the default, and of the options called default."""
    values = {name: plain(value) for door in DOORS for name, value in default_values(door).items()}
    told = []
    for page, text in PAGES.items():
        told += [(page, *found) for found in re.findall(r"`([a-z_.]+)` \((\d[\d.]*)\)", text)]
        told += [
            (page, *found)
            for found in re.findall(r"`([a-z_.]+)=([^`\s]+)`,? the default", text)
            + re.findall(r"default,? `([a-z_.]+)=([^`\s]+)`", text)
        ]
    assert len(told) > 5
    wrong = [(page, name, value) for page, name, value in told if values.get(name) != value]
    assert [entry for entry in wrong if entry[1] not in OF_A_GPU] == []


def test_options_in_the_docs_exist() -> None:
    verbs = [verb for verb in VERBS if verb not in DOORS]
    parsers = [importlib.import_module(f"leakdet.{verb}").parser() for verb in verbs]
    known = {option for parser in parsers for option in parser._option_string_actions}
    for page, text in PAGES.items():
        for option in re.findall(r"`(--[a-z-]+)", text):
            assert option in known | OF_OTHERS, (page, option)
