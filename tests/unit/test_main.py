"""`leakdet VERB …`."""

import runpy
import subprocess
import sys
from typing import Any

import pytest

import leakdet
from leakdet.__main__ import VERBS, main
from leakdet.settings import main as settings_main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["leakdet", *arguments])
    main()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_runs_its_door_with_the_words_after_it(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, Any, list[str]]] = []
    monkeypatch.setattr(
        runpy, "run_module", lambda name, **how: calls.append((name, how, list(sys.argv)))
    )
    run(monkeypatch, verb, "--help", "verb")
    ((name, how, argv),) = calls
    assert (name, how["run_name"]) == (f"leakdet.{verb}", "__main__")
    assert argv == [f"leakdet {verb}", "--help", "verb"]


def test_help_lists_every_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--help")
    text = capsys.readouterr().out
    run(monkeypatch)
    assert capsys.readouterr().out == text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")] == list(VERBS)


def test_the_version_is_the_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--version")
    assert capsys.readouterr().out == f"leakdet {leakdet.__version__}\n"


def test_an_unknown_verb_is_an_error_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, "predcit", "a.wav")
    message = capsys.readouterr().err
    assert "'predcit'" in message
    assert "predict" in message


def test_help_may_be_misspelt_and_completion_has_some(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, "hlep")
    assert "Did you mean help?" in capsys.readouterr().err
    run(monkeypatch, "help", "completion")
    assert capsys.readouterr().out.startswith("usage: leakdet completion SHELL")


@pytest.mark.parametrize(
    ("verb", "remedy"), [("trian", "Did you mean train?"), ("info", "allowed are build")]
)
def test_a_verb_without_settings_is_told_from_the_others(
    verb: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert settings_main([verb]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {verb}: ")
    assert remedy in message.replace("\n", " ")


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "leakdet", "predict", "--help"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.startswith("usage: leakdet predict")
