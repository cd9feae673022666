import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leakdet
from leakdet import _cluster, _cluster_engine
from leakdet._cluster import cluster
from leakdet._cluster_engine import Engine, KillsWorkersError
from leakdet.errors import InputError, SettingsError

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with cluster("local:2") as engine:
        yield engine


def killing_once(folder: Path) -> Callable[[int], int]:
    """Work that ends its process at item 3, the first time; pickled by value, as it is nested."""
    seen = str(folder / "seen")

    def work(item: int) -> int:
        if item == 3 and not os.path.exists(seen):  # noqa: PTH110
            os.close(os.open(seen, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    return work


def test_every_item_comes_once_whatever_worker_is_lost(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        results = list(engine.unordered(killing_once(tmp_path), range(40)))
    assert sorted(results) == [(item, item * item) for item in range(40)]
    assert (tmp_path / "seen").exists()


def test_few_items_of_an_endless_list_are_in_flight(engine: Engine):
    taken = itertools.count()
    results = engine.unordered(lambda item: -item, (next(taken) for _ in itertools.repeat(None)))
    got = [next(results) for _ in range(50)]
    results.close()
    assert all(result == -item for item, result in got)
    assert next(taken) <= 50 + 2 * 4


@pytest.mark.parametrize("kind", [InputError, ValueError])
def test_an_error_in_the_work_is_raised_as_itself(engine: Engine, kind: type[Exception]):
    def work(item: int) -> None:
        raise kind(f"item {item} cannot be read")

    with pytest.raises(kind, match=r"^item \d cannot be read$"):
        list(engine.unordered(work, range(9)))
    assert list(engine.unordered(lambda item: item, [5])) == [(5, 5)]


def test_a_worker_of_another_version_is_named(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    here = leakdet.__version__
    monkeypatch.setattr(leakdet, "__version__", "9.9")
    with pytest.raises(SettingsError, match=rf"has leakdet {here} .*this command leakdet 9\.9 on"):
        list(engine.unordered(lambda item: item, [1]))


def test_an_item_that_kills_its_worker_is_named_and_no_other(monkeypatch: pytest.MonkeyPatch):
    def work(item: int) -> int:
        if item == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    monkeypatch.setitem(_cluster.SETTINGS, "distributed.scheduler.allowed-failures", 0)
    with cluster("local:1") as engine:
        results = engine.unordered(work, range(4))
        with pytest.raises(KillsWorkersError, match=r"^1: killed its worker 1 time, with"):
            list(results)
        tried: list[int] = []
        results = engine.unordered(work, range(4), suspected=lambda item: tried.append(item) or -1)
        assert {item: result for item, result in results if result != -1}.keys() <= {0, 2, 3}
        assert 1 in tried
        assert engine.alone(work, 2) == 2


class Client:
    """Stands for Dask's: the workers of one look after the other."""

    def __init__(self, *looks: dict[str, int] | Exception) -> None:
        self.looks = iter(looks)

    def nthreads(self) -> dict[str, int]:
        match next(self.looks):
            case Exception() as error:
                raise error
            case threads:
                return threads


def told(caplog: pytest.LogCaptureFixture, address: str, *looks: Any) -> list[str]:
    engine = Engine(Client(*looks), address)
    with caplog.at_level(logging.INFO, "leakdet"):
        for _ in looks:
            engine._looked_at = -_cluster_engine.LOOK_EVERY_S
            engine.look()
    return [record.getMessage() for record in caplog.records]


def test_lost_workers_and_none_are_said_once(caplog: pytest.LogCaptureFixture):
    first, second = {"tcp://a:1": 2}, {"tcp://b:1": 1}
    assert told(caplog, "s.json", {}, {}, first | second, second) == [
        "cluster s.json: no worker is there yet. Start some, on any machine: "
        "dask worker --scheduler-file s.json --nthreads 1",
        "cluster  s.json: 2 workers, 3 threads",
        "1 worker of the cluster lost; 1 left. What they had in hand is done again.",
    ]


def test_a_lost_scheduler_is_said(caplog: pytest.LogCaptureFixture):
    with pytest.raises(InputError, match="cluster tcp://a:1: the scheduler is lost"):
        told(caplog, "tcp://a:1", {"tcp://b:1": 1}, OSError("closed"))


def test_workers_of_this_machine_are_not_waited_for_without_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    there: dict[str, int] = {"tcp://a:1": 1}
    monkeypatch.setattr(_cluster_engine, "GIVE_UP_S", 0.0)
    assert len(told(caplog, "s.json", there, {}, {})) == 3  # others start workers when they like
    with pytest.raises(InputError, match="local:1: all workers ended, and none was started again"):
        told(caplog, "local:1", there, {})
