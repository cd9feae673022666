import pytest

from leakdet.tuning.stop_codes import stop_code, stop_name


@pytest.mark.parametrize(
    ("stop", "code", "name"),
    [
        (KeyboardInterrupt(), 130, "interrupted (Ctrl-C)"),
        (SystemExit(1), 130, "interrupted (Ctrl-C)"),  # of Lightning, on Ctrl-C
        (SystemExit(130), 130, "interrupted (Ctrl-C)"),
        (SystemExit(0), 143, "stopped by SIGTERM"),  # of Lightning, on SIGTERM
        (SystemExit(143), 143, "stopped by SIGTERM"),
        (SystemExit(129), 129, "stopped by SIGHUP"),
    ],
)
def test_every_way_to_stop_has_its_exit_code(stop: BaseException, code: int, name: str) -> None:
    assert (stop_code(stop), stop_name(stop)) == (code, name)
