import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from leakdet.__main__ import VERBS
from leakdet.cli.compose import default_values
from leakdet.cli.help import (
    EXAMPLES,
    MOST_USED,
    SCRIPTS,
    SHELLS,
    USAGE,
    candidates,
    options_text,
    plain,
    settings_text,
)
from leakdet.cli.run import door_help
from leakdet.cli.settings import DOORS, known_settings
from leakdet.settings import PLAIN as PLAIN_VERBS


@pytest.mark.parametrize("door", DOORS)
def test_help_names_the_most_used_settings_with_the_shells_defaults(door: str) -> None:
    text = door_help(door)
    values = default_values(door)
    names = [name for section in MOST_USED[door].values() for name in section]
    assert 12 <= len(names) <= 20
    assert len(set(names)) == len(names)
    for name in names:
        assert f"  {name}={plain(values[name])}\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert f"leakdet settings {door}" in text
    assert "exit codes: 0 done" in text


@pytest.mark.parametrize("door", DOORS)
def test_every_setting_is_listed_in_lines_that_fit(door: str) -> None:
    text = settings_text(known_settings(door).settings.values(), default_values(door))
    assert all(len(line) <= 80 for line in text.splitlines())
    if "trainer=" in text:
        assert "\n  trainer={accelerator: cpu, devices: 1, " in text
        assert "max_epochs:\n" not in text


@pytest.mark.parametrize("door", DOORS)
def test_examples_are_commands_that_compose(door: str) -> None:
    from leakdet.cli.compose import as_hydra_reads
    from leakdet.cli.words import with_names

    for example in EXAMPLES[door]:
        program, verb, *arguments = example.split()
        assert (program, verb) == ("leakdet", door)
        assert as_hydra_reads(door, with_names(door, arguments))


def test_settings_are_found_by_a_word() -> None:
    settings = known_settings("train").settings.values()
    text = settings_text(settings, {}, "EARLY stop")
    assert text.startswith("No setting has 'EARLY stop'")
    text = settings_text(settings, {"augment.mask_mels": 3}, "specaugment")
    assert text.startswith("  augment.mask_mels=3\n")
    assert "optimizer.lr" not in text
    assert "Did you mean optimizer.lr" in settings_text(settings, {}, "optimizr.lr")


@pytest.mark.parametrize("verb", PLAIN_VERBS)
def test_options_are_listed_and_found_by_a_word(verb: str) -> None:
    parser = import_module(f"leakdet.{verb}").parser()
    text = options_text(parser)
    assert all(len(line) <= 80 for line in text.splitlines())
    for option in parser._option_string_actions:
        if option.startswith("--") and option != "--help":
            assert f"  {option}" in text.splitlines() or f"  {option} " in text
    assert options_text(parser, "JSON: AN object").startswith("  --log {normal,full,json}\n")
    assert options_text(parser, "quite").endswith("Did you mean quiet?")


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        (None, "null"),
        (True, "true"),
        ([-20.0, 0.0], "[-20.0,0.0]"),
        ("???", "(required)"),
        (3, "3"),
    ],
)
def test_a_default_is_written_as_a_person_types_it(value: object, typed: str) -> None:
    assert plain(value) == typed


PLAIN = "usage: leakdet predict [-h] [--out OUT]\n   [--unfamiliar {off,normal,strict}] [--quiet]"


def offered(*words: str) -> list[str]:
    return list(candidates(words, VERBS, lambda verb: PLAIN))


def test_first_come_the_verbs() -> None:
    assert offered("") == [*VERBS, "completion", "help"]
    assert offered("t") == ["train", "tune"]
    assert candidates(["tu"], VERBS, str) == {"tune": VERBS["tune"]}
    assert offered("help", "pre") == ["predict"]
    assert offered("settings", "t") == ["train", "tune"]
    assert offered("completion", "") == list(SHELLS)
    assert offered("unknown", "") == []


def test_settings_are_offered_part_by_part_and_once() -> None:
    first = offered("train", "")
    assert {"network=", "signal=", "signal.", "seed=", "optimizer."} <= set(first)
    assert not any(name.startswith("optimizer.lr") for name in first)
    assert offered("train", "optimizer.l") == ["optimizer.lr="]
    assert "optimizer.lr=" in offered("tune", "optimizer.")
    assert "seed=" not in offered("train", "seed=1", "s")
    assert "tune.workers=" in offered("tune", "tune.")
    assert offered("train", "tune") == []
    settings = [s for s in known_settings("train").settings.values() if not s.open]
    assert len(settings) > 100
    for setting in settings[::10]:
        assert f"{setting.name}=" in offered("train", setting.name)


def test_values_that_are_listed_are_offered_each_of_a_sweep_too() -> None:
    assert offered("train", "data.unit=") == ["data.unit=window", "data.unit=segment"]
    assert offered("train", "network=l") == ["network=linear"]
    assert offered("train", "-m", "loss=ce,f") == ["loss=ce,focal"]
    assert offered("train", "compile=") == ["compile=true", "compile=false"]
    assert offered("train", "data.store=") == []  # files
    assert offered("train", "--m") == ["--multirun"]


def test_options_and_their_choices_come_from_the_usage() -> None:
    assert offered("predict", "--") == ["--out", "--unfamiliar", "--quiet", "--help"]
    assert offered("predict", "--unfamiliar", "") == ["off", "normal", "strict"]
    assert offered("predict", "--out", "") == []  # files
    assert offered("predict", "") == []


def leakdet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leakdet", "completion", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_scripts_candidates_and_how_to_install() -> None:
    assert leakdet("fish").stdout == SCRIPTS["fish"] + "\n"
    assert leakdet("bash", "evaluate", "--split", "t").stdout == "train\ntest\n"
    assert leakdet("zsh", "inf").stdout == f"info\t{VERBS['info']}\n"
    assert leakdet().stdout == USAGE + "\n"
    assert all(command in USAGE for command in SHELLS.values())
    wrong = leakdet("tcsh")
    assert wrong.returncode == 2
    assert "completion for 'tcsh'" in wrong.stderr


Ask = Callable[[str], list[str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Ask:
    """Ask the shell of this test what it offers at the end of a line."""
    shell = str(request.param)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "bin" / "leakdet"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leakdet "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    (tmp_path / "recordings").mkdir()

    def run(line: str) -> list[str]:
        command = {
            "bash": ["bash", "--norc", "-c", BASH, "test", line],
            "zsh": ["zsh", "-f", "-c", ZSH, "test", line],
            "fish": ["fish", "--no-config", "-c", FISH, line],
        }[shell]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [text.partition("\t")[0] for text in done.stdout.splitlines() if text]

    return run


BASH = r"""eval "$(leakdet completion bash)"
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:' COMP_LINE=$1 COMP_POINT=${#1}
_leakdet leakdet
printf '%s\n' "${COMPREPLY[@]}" """

# Outside the line editor the builtins that take the candidates are replaced.
ZSH = r"""compdef() { :; }
_describe() { print -rl -- "${(@)${(@P)4}%%:*}"; }
compset() { :; }
_files() { :; }
eval "$(leakdet completion zsh)"
words=("${(@s: :)1}") CURRENT=${#words} PREFIX=$words[-1]
_leakdet"""

FISH = r"""leakdet completion fish | source
complete -C $argv[1]"""


@pytest.mark.parametrize("ask", ["bash", "zsh", "fish"], indirect=True)
def test_the_shell_completes_verbs_settings_and_options(ask: Ask) -> None:
    assert ask("leakdet tr") == ["train"]
    assert ask("leakdet train optimizer.l") == ["optimizer.lr="]
    assert sorted(ask("leakdet predict --unfamiliar ")) == ["normal", "off", "strict"]
    assert [word.removeprefix("network=") for word in ask("leakdet train network=li")] == ["linear"]


@pytest.mark.parametrize("ask", ["fish"], indirect=True)
def test_where_nothing_is_listed_fish_offers_files(ask: Ask) -> None:
    assert ask("leakdet train data.store=rec") == ["data.store=recordings/"]
