"""The exit code of a stopped worker of tune."""

from leakdet._exit_codes import INTERRUPTED
from leakdet._signals import signal_name

TERMINATED = 143


def stop_code(stop: BaseException) -> int:
    """130, 143 or that of another signal. Lightning makes Ctrl-C exit(1) and SIGTERM exit(0)."""
    code = getattr(stop, "code", None)
    if isinstance(stop, KeyboardInterrupt) or code == 1:
        return INTERRUPTED
    return code if isinstance(code, int) and code > 128 else TERMINATED


def stop_name(stop: BaseException) -> str:
    code = stop_code(stop)
    return "interrupted (Ctrl-C)" if code == INTERRUPTED else f"stopped by {signal_name(code)}"
