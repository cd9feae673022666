import os
import threading

import pytest

from leakdet.acoustics.native_stderr import native_stderr_hidden


def test_what_c_code_writes_is_hidden_until_the_last_thread_is_done(
    capfd: pytest.CaptureFixture[str],
) -> None:
    inside, release = threading.Event(), threading.Event()

    def hold() -> None:
        with native_stderr_hidden():
            inside.set()
            release.wait(10)

    os.write(2, b"before ")
    thread = threading.Thread(target=hold)
    with native_stderr_hidden():
        thread.start()
        inside.wait(10)
        os.write(2, b"hidden ")
    os.write(2, b"hidden too ")
    release.set()
    thread.join()
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"
