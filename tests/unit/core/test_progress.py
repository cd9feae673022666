import json

import pytest

from leakdet.core import progress as _progress
from leakdet.core.messages import messages_on_screen
from leakdet.core.progress import ProgressCounter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds since the start; a test moves them on."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_few_seconds_tells_rate_and_remaining_time(
    clock: list[float], capsys: pytest.CaptureFixture[str]
):
    with messages_on_screen(), ProgressCounter("reading", 100, "files") as progress:
        progress.step(10)
        assert capsys.readouterr().err == ""
        clock[0] += 5.1
        progress.step(10)
        assert capsys.readouterr().err == "reading: 20/100 files, 4 files/s, 20 s left\n"
        clock[0] += 4.9
        progress.step(80)
    assert capsys.readouterr().err == "reading: 100/100 files, 10 files/s, 0 s left\n"


def test_as_json_a_line_has_the_counts_and_no_bar_is_drawn(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    with messages_on_screen("json"), ProgressCounter("reading", 9, "files") as progress:
        clock[0] += 5.1
        progress.step(3)
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["kind"], each["done"], each["total"]) for each in told] == [
        ("progress", 3, 9),
        ("progress", 3, 9),
    ]
    assert (told[0]["task"], told[0]["unit"]) == ("reading", "files")


def test_a_program_sees_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with ProgressCounter("reading", 2, "files") as progress:
        clock[0] += 60
        progress.step()
    assert capsys.readouterr() == ("", "")


def test_an_error_is_not_followed_by_a_summary(capsys: pytest.CaptureFixture[str]):
    with (
        messages_on_screen(),
        pytest.raises(ValueError, match="no"),
        ProgressCounter("reading", 2, "files"),
    ):
        raise ValueError("no")
    assert capsys.readouterr().err == ""


def test_lines_become_rarer(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with messages_on_screen(), ProgressCounter("reading", 100_000, "files") as progress:
        for _ in range(3600):
            clock[0] += 1.0
            progress.step()
        lines = capsys.readouterr().err.splitlines()
        progress.step(100_000 - progress.done)
    assert 40 < len(lines) < 60  # not 720, one every five seconds
    assert lines[0] == "reading: 6/100000 files, 1 files/s, 27.8 h left"


def test_a_counter_within_another_one_is_silent(
    clock: list[float], capsys: pytest.CaptureFixture[str]
):
    with messages_on_screen(), ProgressCounter("folds", 2, "folds") as outer:
        with ProgressCounter("scoring", 9, "windows") as inner:
            clock[0] += 60
            inner.step(9)
        outer.step(2)
    assert capsys.readouterr().err == "folds: 2/2 folds, 2 folds/min, 0 s left\n"


def test_work_done_before_says_nothing_of_the_rate(
    clock: list[float], capsys: pytest.CaptureFixture[str]
):
    progress = ProgressCounter("epoch 1/2", 100, "batches", closing=False)
    progress.begin_at(60)
    with messages_on_screen(), progress:
        clock[0] += 10
        progress.step(20)
    assert capsys.readouterr().err == "epoch 1/2: 80/100 batches, 2 batches/s, 10 s left\n"


def test_a_quiet_command_shows_no_progress(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with messages_on_screen("quiet"), ProgressCounter("reading", 9, "files") as progress:
        clock[0] += 60
        progress.step()
    assert capsys.readouterr().err == ""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(_progress.Console):
        is_terminal = True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_progress, "Console", Terminal)


def test_a_terminal_gets_a_bar_that_is_removed_at_the_end(terminal: None):
    with messages_on_screen(), ProgressCounter("reading [bold]a", 3, "files") as progress:
        progress.step(2)
        bar = progress._bar
        assert bar is not None
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (2, 3)
        assert " files/s, " in bar.tasks[0].fields["rate"]
        progress.retitle("reading [bold]b")
        shown = "".join(segment.text for segment in bar.console.render(bar.get_renderable()))
        assert "reading [bold]b" in shown
    assert bar.live.transient
    assert not bar.live.is_started


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TERM", "dumb")
    with messages_on_screen(), ProgressCounter("reading", 1, "files") as progress:
        progress.step()
        assert progress._bar is None
    assert "reading: 1/1 files" in capsys.readouterr().err
