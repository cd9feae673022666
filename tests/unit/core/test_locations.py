import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet.core import locations
from leakdet.core.errors import InputError
from leakdet.core.files import read_json, write_json
from leakdet.core.locations import (
    Location,
    RemoteFile,
    absolute_name,
    check_reachable,
    errors_naming,
    explained,
    is_url,
    local_copy,
    parse_location,
    reason_of,
)


class NoCredentialsError(Exception):
    """As botocore names its own."""


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("s3://b/a", ImportError("Install s3fs"), r"pip install 'leakdet\[cloud\]'$"),
        ("abfs://b/a", ImportError("Install adlfs"), "pip install adlfs$"),
        ("gs://b/a", ImportError("Please install gcsfs"), "pip install gcsfs$"),
        ("hdfs://b/a", ImportError("Install pyarrow"), "is missing: Install pyarrow$"),
        ("s3://b/a", FileNotFoundError("b/a"), "no such file.*bucket$"),
        ("s3://b/a", PermissionError("Denied"), r"access is forbidden \(Denied\); the credentials"),
        ("s3://b/a", NoCredentialsError("none"), r"no credentials \(none\); give them"),
        ("abfs://b/a", ValueError("account_name is needed.\nx"), "^account_name is needed$"),
    ],
)
def test_what_another_try_cannot_change_is_a_sentence(
    url: str, error: Exception, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence), explained(url):
        raise error


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), OSError(121, "I/O")])
def test_what_may_pass_is_left_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)), explained("s3://b/a"):
        raise error


def test_a_reason_is_one_line_and_never_empty() -> None:
    assert reason_of(OSError(5, "Input/output error")) == "Input/output error"
    assert reason_of(TimeoutError()) == "TimeoutError"
    assert reason_of(RuntimeError("slow.\nmore")) == "slow"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("night/a.wav", Path("night/a.wav")),
        ("file:///data/a.wav", Path("/data/a.wav")),
        ("s3://bucket/a.wav", RemoteFile("s3://bucket/a.wav")),
        ("zip://a.wav::s3://bucket/a.zip", RemoteFile("zip://a.wav::s3://bucket/a.zip")),
        ("x:y", Path("x:y")),
        ("-", Path("-")),
    ],
)
def test_a_name_is_a_path_or_a_url(name: str, expected: Location) -> None:
    assert parse_location(name) == expected
    assert parse_location(expected) == expected
    assert is_url(name) == (name[0] in "fsz")


def test_the_parts_of_a_name() -> None:
    file = RemoteFile("s3://bucket/night/pump 1.tar.WAV")
    assert (file.name, file.stem, file.suffix) == ("pump 1.tar.WAV", "pump 1.tar", ".WAV")
    assert str(RemoteFile("s3://bucket/night/") / "a/b.wav") == "s3://bucket/night/a/b.wav"
    assert str(RemoteFile("zip://in::s3://b/a.zip") / "b.wav") == "zip://in/b.wav::s3://b/a.zip"
    assert str(RemoteFile("memory://a.csv").parent / "b.csv") == "memory://b.csv"
    assert str(RemoteFile("s3://bucket/night/a.wav").parent) == "s3://bucket/night"
    assert sorted([RemoteFile("s3://b"), RemoteFile("s3://a")])[0].url == "s3://a"


def test_a_folder_is_listed_in_order_and_globs_are_found(flaky: type[FlakyStore]) -> None:
    store = fsspec.filesystem("flaky")
    for name in ("b.wav", "a/2.wav", "a/10.wav", "a [1].wav"):
        store.pipe_file(f"/net/night/{name}", name.encode())
    night = RemoteFile("flaky://net/night")
    assert night.names() == ["a [1].wav", "a/10.wav", "a/2.wav", "b.wav"]
    assert night.is_folder()
    assert not (night / "b.wav").is_folder()
    assert (night / "a/2.wav").read_bytes() == b"a/2.wav"
    found = [file.url for file in (night / "a/*.wav").matches()]
    assert found == ["flaky://net/night/a/10.wav", "flaky://net/night/a/2.wav"]
    odd = night / "a [1].wav"
    assert odd.matches() == [odd]


def test_what_fails_for_a_while_is_asked_again(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/a", b"sound")
    flaky.failures[:] = [TimeoutError(), ConnectionResetError(), OSError(121, "Remote I/O error")]
    assert RemoteFile("flaky://net/a").read_range(1, 3) == b"ou"
    assert flaky.requests["cat_file"] == 4


def test_the_waits_between_tries_double(
    flaky: type[FlakyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(locations, "WAIT_S", 1.0)
    monkeypatch.setattr(locations.time, "sleep", waits.append)
    flaky.failures[:] = [TimeoutError()] * 9
    with pytest.raises(InputError, match="not reached in 5 tries"):
        RemoteFile("flaky://net/a").read_bytes()
    assert len(waits) == 4
    for number, wait in enumerate(waits):
        assert 0.5 * 2**number <= wait <= 1.5 * 2**number


def test_a_host_that_gave_up_is_asked_once_until_it_answers(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/a", b"sound")
    file = RemoteFile("flaky://net/a")
    flaky.failures[:] = [TimeoutError()] * 6
    with pytest.raises(InputError, match="not reached in 5 tries"):
        file.read_bytes()
    with pytest.raises(InputError, match="not reached in 1 try"):
        file.read_bytes()
    assert file.read_bytes() == b"sound"
    flaky.failures[:] = [TimeoutError()]
    assert file.read_bytes() == b"sound"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (FileNotFoundError("/net/a"), "no such file"),
        (PermissionError("Access Denied"), "access is forbidden .Access Denied.; the credentials"),
        (ValueError("account_name is needed"), "account_name is needed"),
    ],
)
def test_what_another_try_cannot_change_is_asked_once(
    flaky: type[FlakyStore], failure: Exception, reason: str
) -> None:
    flaky.failures[:] = [failure]
    with pytest.raises(InputError, match=reason):
        RemoteFile("flaky://net/a").read_bytes()
    assert flaky.requests.total() == 1


def test_an_unknown_kind_of_url_is_refused() -> None:
    with pytest.raises(InputError, match="Protocol not known: leak"):
        RemoteFile("leak://a.wav").read_bytes()


def test_files_are_written_whole_and_removed(flaky: type[FlakyStore], tmp_path: Path) -> None:
    rows, there = tmp_path / "rows.csv", RemoteFile("flaky://net/rows.csv")
    rows.write_text("path\n")
    there.put(rows)
    assert there.read_bytes() == b"path\n"
    there.remove()
    assert not there.exists()


def test_a_name_is_made_absolute_and_a_url_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("night")
    for name in ("a.wav", "link/*.wav"):
        assert absolute_name(name) == str(tmp_path / name)
    assert absolute_name("s3://net/a.wav") == "s3://net/a.wav"


def test_a_bucket_is_tried_by_its_first_files(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/c", b"sound")
    files = {"flaky://net": [RemoteFile(f"flaky://net/{name}") for name in "abc"]}
    other = {"flaky://other": [RemoteFile("flaky://other/a")]}
    check_reachable({})
    check_reachable(files)  # two are missing: their rows will say so
    with pytest.raises(InputError, match=r"flaky://other/a: .*no such"):
        check_reachable(files | other)
    flaky.failures[:] = [PermissionError("Access Denied")] * 3
    with pytest.raises(InputError, match="flaky://net/a: access is forbidden"):
        check_reachable(files)
    flaky.failures[:] = [PermissionError("Access Denied")]
    check_reachable(files)


def test_files_on_an_s3_server(s3: Any, tmp_path: Path) -> None:
    s3.pipe_file("network/night/a.wav", b"0123456789")
    s3.pipe_file("network/night/empty.wav", b"")
    night = RemoteFile("s3://network/night")
    assert night.names() == ["a.wav", "empty.wav"]
    assert night.is_folder()
    assert (night / "a.wav").size() == 10
    assert (night / "a.wav").read_range(2, 5) == b"234"
    assert (night / "a.wav").read_range(8, 50) == b"89"
    assert (night / "empty.wav").read_range(0, 50) == b""
    assert (night / "*.wav").matches() == [night / "a.wav", night / "empty.wav"]
    (tmp_path / "rows.csv").write_text("path\n")
    (night / "rows.csv").put(tmp_path / "rows.csv")
    assert s3.cat_file("network/night/rows.csv") == b"path\n"
    with pytest.raises(InputError, match=r"s3://nowhere/a.wav: .*no such"):
        check_reachable({"s3://nowhere": [RemoteFile("s3://nowhere/a.wav")]})
    with pytest.raises(InputError, match="no such file"):
        RemoteFile("s3://nowhere/night").names()


def test_a_web_server_that_lists_names_without_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "LEAK").mkdir()
    (tmp_path / "LEAK/a.wav").write_bytes(b"0123")
    (tmp_path / "list.csv").write_text("path\n")
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        root = RemoteFile(f"http://127.0.0.1:{server.server_port}/")
        assert root.sizes() == {"LEAK/a.wav": 0, "list.csv": 0}
        assert (root / "list.csv").names() == []
        assert (root / "LEAK/a.wav").read_bytes() == b"0123"
        server.shutdown()
    monkeypatch.setattr(locations, "WAIT_S", 0.0)
    monkeypatch.setattr(locations, "_silent", set())
    with pytest.raises(InputError, match=r"not reached in 5 tries .Connect call failed"):
        root.exists()  # fsspec would say that there is none


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (404, "no such file"),
        (403, "access is forbidden .403, message='Forbidden'"),
        (503, "not reached in 5 tries .503, message="),
    ],
)
def test_what_a_web_server_answers(
    status: int, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(locations, "WAIT_S", 0.0)
    monkeypatch.setattr(locations, "_silent", set())
    handler = SimpleHTTPRequestHandler
    monkeypatch.setattr(handler, "log_message", lambda *_: None)
    monkeypatch.setattr(handler, "do_GET", lambda self: self.send_error(status))
    monkeypatch.setattr(handler, "do_HEAD", lambda self: self.send_error(status))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        file = RemoteFile(f"http://127.0.0.1:{server.server_port}/a.wav")
        if status == 404:
            assert not file.exists()
        else:
            with pytest.raises(InputError, match=answer):
                file.exists()
        locations._silent.clear()
        with pytest.raises(InputError, match=answer):
            file.read_bytes()
        server.shutdown()


def test_a_server_that_is_not_there_ends_in_a_sentence(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3.clear_instance_cache()
    with pytest.raises(InputError, match=r"not reached in 5 tries .Could not connect"):
        RemoteFile("s3://network/a.wav").read_bytes()


def test_credentials_that_lack_are_named(
    s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    s3.clear_instance_cache()
    with pytest.raises(InputError, match=r"no credentials \(Unable to locate credentials\); give"):
        RemoteFile("s3://network/a.wav").read_bytes()


def test_a_file_is_copied_under_its_name(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/model.safetensors", b"weights")
    copy = local_copy(RemoteFile("flaky://net/model.safetensors"))
    assert (copy.name, copy.read_bytes()) == ("model.safetensors", b"weights")
    assert local_copy(copy) is copy
    with pytest.raises(InputError, match=r"model=flaky://net/none: .*no such"):
        local_copy(RemoteFile("flaky://net/none"), "model=")


def test_copies_are_removed_when_the_process_ends() -> None:
    code = (
        "import fsspec; from leakdet.core.locations import RemoteFile\n"
        "from leakdet.core.locations import local_copy\n"
        "fsspec.filesystem('memory').pipe_file('/a', b'x')\n"
        "print(local_copy(RemoteFile('memory://a')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    copy = Path(answer.stdout.strip())
    assert copy.name == "a"
    assert not copy.parent.exists()


def test_errors_name_the_file_and_not_its_copy() -> None:
    file, copy = RemoteFile("s3://bucket/list.csv"), Path("/tmp/leakdet-1/list.csv")
    with (
        pytest.raises(InputError, match=r"^s3://bucket/list.csv, line 2: bad$"),
        errors_naming(file, copy),
    ):
        raise InputError(f"{copy}, line 2: bad")
    with (
        pytest.raises(InputError, match=r"^/tmp/leakdet-1/list.csv: bad"),
        errors_naming(copy, copy),
    ):
        raise InputError(f"{copy}: bad")


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://h/n/a.wav?X-Amz-Expires=9&X-Amz-Signature=5e", "https://h/n/a.wav"),
        ("https://h/n/a.wav?sv=2024&sig=5e%2F", "https://h/n/a.wav"),
        ("https://h/n/a.wav?access_token=5e", "https://h/n/a.wav"),
        (f"https://h/n/a.wav?q={'5e' * 20}", "https://h/n/a.wav"),
        ("https://me:5e@h/n/a.wav", "https://h/n/a.wav"),
        ("https://h/n/a.wav?id=1", "https://h/n/a.wav?id=1"),  # it is another file than id=2
        ("abfs://box@account.dfs/n/a.wav", "abfs://box@account.dfs/n/a.wav"),
        ("s3://b/n/a?.wav", "s3://b/n/a?.wav"),
    ],
)
def test_what_is_written_of_a_url_has_no_secret(url: str, public: str, tmp_path: Path) -> None:
    file = RemoteFile(url)
    assert (str(file), absolute_name(url)) == (public, public)
    assert file.name.partition("?")[0] in ("a.wav", "a")
    assert parse_location(public) == file  # in this process it can be read all the same
    assert reason_of(OSError(f"403, url='{url}'")) == f"403, url='{public}'"
    write_json(tmp_path / "a.json", {"inputs": [url, f"see {url} too"]})
    assert read_json(tmp_path / "a.json", "it")["inputs"] == [public, f"see {public} too"]
