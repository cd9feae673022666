"""Stores behind URLs: one in memory that counts and fails on purpose, and an S3 server."""

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from leakdet.core import locations


class FlakyStore(MemoryFileSystem):  # type: ignore[misc]
    """Counts requests, and fails as often as it is told to."""

    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    requests: ClassVar[Counter[str]] = Counter()
    failures: ClassVar[list[Exception]] = []
    _lock = threading.Lock()

    @classmethod
    def _asked(cls, what: str) -> None:
        with cls._lock:
            cls.requests[what] += 1
            if cls.failures:
                raise cls.failures.pop(0)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("flaky://").strip("/")

    def cat_file(self, path: str, start: Any = None, end: Any = None, **how: Any) -> bytes:
        self._asked("cat_file")
        return bytes(super().cat_file(path, start, end, **how))

    def info(self, path: str, **how: Any) -> dict[str, Any]:
        self._asked("info")
        return dict(super().info(path, **how))


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> type[FlakyStore]:
    monkeypatch.setattr(locations, "WAIT_S", 0.0)
    monkeypatch.setattr(locations, "_silent", set())
    fsspec.register_implementation("flaky", FlakyStore, clobber=True)
    FlakyStore.store.clear()
    FlakyStore.requests.clear()
    FlakyStore.failures.clear()
    return FlakyStore


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """The address of an S3 server with the bucket `network`."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(locations, "WAIT_S", 0.0)
    monkeypatch.setattr(locations, "_silent", set())
    store = fsspec.filesystem("s3")
    store.clear_instance_cache()
    store = fsspec.filesystem("s3")
    if not store.exists("network"):
        store.mkdir("network")
    yield store
    store.clear_instance_cache()
