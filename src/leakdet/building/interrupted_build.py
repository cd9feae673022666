"""What a build that was stopped leaves: nothing of its own, and all that was there before."""

from collections.abc import Iterator
from contextlib import contextmanager

from leakdet._messages import log_result
from leakdet._signals import Stopped
from leakdet.config import BuildConfig


@contextmanager
def told_of_stop(config: BuildConfig) -> Iterator[None]:
    """Say what is kept when Ctrl-C or a signal ends the work inside."""
    try:
        yield
    except (KeyboardInterrupt, Stopped):
        log_result(
            f"kept     {config.out}: nothing of this build, and what was there stays; the same "
            "command builds it anew"
        )
        raise
