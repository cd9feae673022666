import signal

import pytest

from leakdet._messages import LOG
from leakdet._signals import Stopped
from leakdet.building.interrupted_build import told_of_stop
from leakdet.config import BuildConfig


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Stopped(signal.SIGTERM)])
def test_a_stopped_build_says_what_is_kept(
    stop: BaseException,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LOG, "disabled", False)  # as Hydra leaves it
    caplog.set_level("INFO", LOG.name)
    with pytest.raises(type(stop)), told_of_stop(BuildConfig(source="w", out="s")):
        raise stop
    assert "s: nothing of this build, and what was there stays" in caplog.text
