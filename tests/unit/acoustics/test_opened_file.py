import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from leakdet.acoustics.opened_file import opened_file
from leakdet.errors import InputError


def test_what_comes_through_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    fifo, content = tmp_path / "sound.wav", bytes(range(256)) * 1000
    os.mkfifo(fifo)
    thread = threading.Thread(target=fifo.write_bytes, args=(content,))
    thread.start()
    with opened_file(fifo) as file:
        file.seek(0)
        assert file.read() == content
    thread.join()


def test_a_dash_is_standard_input() -> None:
    code = (
        "from pathlib import Path; from leakdet.acoustics.opened_file import opened_file\n"
        "file = opened_file(Path('-')); file.seek(0); print(len(file.read()))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], input=bytes(70000), capture_output=True, check=True
    )
    assert answer.stdout == b"70000\n"


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    for path, reason in [
        (tmp_path, "it is a folder"),
        (Path("/dev/null"), "it is a device"),
        (tmp_path / "absent.wav", "No such file"),
        (Path("a\0b.wav"), "null byte"),
    ]:
        with pytest.raises(InputError, match=reason):
            opened_file(path)


def test_a_name_of_any_bytes_is_opened(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    (tmp_path / name).write_bytes(b"sound")
    with opened_file(tmp_path / name) as file:
        assert file.read() == b"sound"
