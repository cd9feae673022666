import pytest

from leakdet import _progress
from leakdet._messages import messages_on_screen
from leakdet._progress import ProgressCounter


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


def test_a_terminal_gets_a_bar_that_is_removed_at_the_end(monkeypatch: pytest.MonkeyPatch):
    class Terminal(_progress.Console):
        is_terminal = True

    monkeypatch.setattr(_progress, "Console", Terminal)
    with messages_on_screen(), ProgressCounter("reading", 3, "files") as progress:
        progress.step(2)
        bar = progress._bar
        assert bar is not None
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (2, 3)
        assert bar.tasks[0].fields["rate"].endswith(" files/s")
    assert bar.live.transient
    assert not bar.live.is_started
