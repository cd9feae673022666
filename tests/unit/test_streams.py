"""Standard streams of any encoding, and closed ones."""

import subprocess
import sys

import pytest

CODE = (
    "from leakdet._streams import prepare_streams\n"
    "import sys\n"
    "prepare_streams()\n"
    "print('caf\\xe9 \\u6f0f\\u6c34 \\udce9', flush=True)\n"
    "print('caf\\xe9', file=sys.stderr, flush=True)"
)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", b"caf\xc3\xa9 \xe6\xbc\x8f\xe6\xb0\xb4 \xe9\n"),
        ("latin-1", b"caf\xe9 \\u6f0f\\u6c34 \\udce9\n"),
        ("ascii", b"caf\\xe9 \\u6f0f\\u6c34 \\udce9\n"),
    ],
)
def test_what_an_encoding_lacks_is_escaped(encoding: str, expected: bytes) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONIOENCODING": encoding, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert answer.stdout == expected


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_stop_nothing(closed: str) -> None:
    command = f'exec {sys.executable} -c "$CODE" {closed}'
    environment = {"CODE": CODE, "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"}
    answer = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, check=False
    )
    assert answer.returncode == 0
