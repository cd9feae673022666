import os
import signal
import threading

import pytest

from leakdet.tuning.signals import sigterm_raises, stop_code, stop_name


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (KeyboardInterrupt(), 130),
        (SystemExit(1), 130),  # of Lightning, on Ctrl-C
        (SystemExit(130), 130),
        (SystemExit(0), 143),  # of Lightning, on SIGTERM
        (SystemExit(143), 143),
    ],
)
def test_every_way_to_stop_has_its_exit_code(stop: BaseException, code: int) -> None:
    assert stop_code(stop) == code
    assert ("Ctrl-C" in stop_name(stop)) == (code == 130)


def test_sigterm_raises_inside_and_does_what_it_did_outside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop, sigterm_raises():
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop_code(stop.value) == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_no_handler_is_set() -> None:
    handlers = []

    def work() -> None:
        with sigterm_raises():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
