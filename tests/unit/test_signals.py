"""Signals as exceptions."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from leakdet._signals import STOPPING, Stopped, signal_name, signals_raise


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_raises_inside_and_does_what_it_did_outside(number: int) -> None:
    given = signal.signal(number, signal.SIG_DFL)  # also where the tests run under nohup
    with pytest.raises(Stopped) as stop, signals_raise():
        signal.raise_signal(number)
    assert (stop.value.code, stop.value.number) == (128 + number, number)
    assert signal_name(128 + number) == signal.Signals(number).name
    assert signal.signal(number, given) is signal.SIG_DFL


def test_a_second_signal_does_not_disturb_the_end_of_the_first() -> None:
    finished = []

    def work() -> None:
        with signals_raise():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                finished.append(True)

    with pytest.raises(Stopped) as stop:
        work()
    assert (stop.value.number, finished) == (signal.SIGTERM, [True])


def test_what_the_caller_ignores_stays_ignored() -> None:
    code = (
        "import os, signal\n"
        "from leakdet._signals import signals_raise\n"
        "with signals_raise():\n"
        "    os.kill(os.getpid(), signal.SIGHUP); print('goes on')"
    )
    answer = subprocess.run(
        ["nohup", sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "goes on\n"


def test_outside_the_main_thread_no_handler_is_set() -> None:
    handlers = []

    def work() -> None:
        with signals_raise():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
