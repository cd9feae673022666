"""Files of rows: checked first, one writer at a time, whole in the end."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakdet._messages import LOG
from leakdet.errors import InputError
from leakdet.scoring.output_file import check_output, is_regular, output_file


def write(out: Path, text: str) -> None:
    with output_file(out) as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    out.write_text("old")
    with output_file(out) as file:
        file.write("caf\udce9\n")
        assert out.read_text() == "old"
    assert out.read_bytes() == b"caf\xe9\n"
    assert names(tmp_path) == ["v.csv"]


def test_what_was_written_before_an_interruption_is_called_partial(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hydra disables the logger, and raises the root's level for the tests that follow
    monkeypatch.setattr(LOG, "disabled", False)
    caplog.set_level("WARNING", LOG.name)
    out = tmp_path / "v.csv"
    out.write_text("old")

    def interrupted(text: str) -> None:
        with output_file(out) as file:
            file.write(text)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted("row\n")
    assert (tmp_path / "v.csv.partial").read_text() == "row\n"
    assert "v.csv.partial holds the rows that were written" in caplog.text
    assert out.read_text() == "old"
    with pytest.raises(KeyboardInterrupt):
        interrupted("")  # nothing was written: the older rows are not kept as if they were new
    assert names(tmp_path) == ["v.csv"]


def test_a_link_leads_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("real.csv")
    write(tmp_path / "link.csv", "new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_regular(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "rows\n")
    reader.join(timeout=10)
    assert got == ["rows\n"]
    assert pipe.is_fifo()


def test_what_the_caller_has_opened_is_written_at_its_own_position(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("earlier\n")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    with file.open("a") as appended:
        for out in ("/dev/stdout", str(tmp_path / "stdout"), f"/dev/fd/{appended.fileno()}"):
            code = (
                "import sys; from pathlib import Path\n"
                "from leakdet.scoring.output_file import output_file\n"
                "with output_file(Path(sys.argv[1])) as file: file.write('row\\n')"
            )
            subprocess.run(
                [sys.executable, "-c", code, out],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=appended,
                pass_fds=[appended.fileno()],
                check=True,
            )
    assert file.read_text() == "earlier\n" + 3 * "row\n"
    assert sorted(names(tmp_path)) == ["all.csv", "stdout"]


def test_one_process_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    with output_file(out) as file:
        file.write("first\n")
        with pytest.raises(InputError, match="another process is writing this file"):
            write(out, "second")
    assert out.read_text() == "first\n"


def test_a_dead_process_keeps_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from leakdet.scoring.output_file import output_file\n"
        "with output_file(Path(sys.argv[1])) as file:\n"
        "    file.write('dead'); file.flush(); os._exit(9)"
    )
    out = tmp_path / "v.csv"
    answer = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert answer.returncode == 9
    assert (tmp_path / "v.csv.partial").read_text() == "dead"
    write(out, "alive")
    assert out.read_text() == "alive"
    assert names(tmp_path) == ["v.csv"]


def test_a_full_disk_leaves_what_was_there() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), "row")


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_output(tmp_path / "v.csv")
    check_output(Path(os.devnull))
    with pytest.raises(InputError, match="there is no folder"):
        check_output(tmp_path / "none" / "v.csv")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(InputError, match=r"about 2.0 MB will be written, and its disk has 1.0 MB"):
        check_output(tmp_path / "v.csv", 2_000_000)
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    with pytest.raises(InputError, match="may not be written"):
        check_output(tmp_path / "v.csv")
