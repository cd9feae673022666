import signal

import pytest

from leakdet._messages import LOG
from leakdet._signals import Stopped
from leakdet.building.interrupted_build import told_of_stop
from leakdet.config import BuildConfig


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Stopped(signal.SIGTERM)])
@pytest.mark.parametrize(("shard", "kept"), [("", "what was there stays"), ("0/2", "shards")])
def test_a_stopped_build_says_what_is_kept(
    stop: BaseException,
    shard: str,
    kept: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LOG, "disabled", False)  # as Hydra leaves it
    caplog.set_level("INFO", LOG.name)
    with pytest.raises(type(stop)), told_of_stop(BuildConfig(source="w", out="s", shard=shard)):
        raise stop
    assert f"s: nothing of this build, and {kept}" in caplog.text
