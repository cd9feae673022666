"""Rows that go to a URL: written on this machine, and put there whole when they are complete."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakdet._remote import RemoteFile
from leakdet._remote_copies import told_as
from leakdet.errors import InputError
from leakdet.scoring.earlier_rows import check_replaceable
from leakdet.scoring.output_file import PARTIAL
from leakdet.scoring.row_writers import windows_file
from leakdet.scoring.sidecar import sidecar_path


@contextmanager
def local_rows(out: Path | RemoteFile | None, windows: bool = False) -> Iterator[Path | None]:
    """The local file to write rows to; at the end it is put to `out` with those beside it.

    An empty `NAME.partial` there shows beforehand that files may be written, and is removed in the
    end. Where the work or the transfer fails, the rows that were written stay on this machine.

    Raises:
        InputError: `out` is a folder, cannot be read or written, or predict did not write it.
    """
    if not isinstance(out, RemoteFile):
        yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="leakdet-rows-"))
    local, marker = folder / out.name, out.parent / (out.name + PARTIAL)
    try:
        _check_place(out, marker, folder, windows)
        with told_as(out, local):
            yield local
        _put(out, local)
    except BaseException:
        if not any(path.stat().st_size for path in folder.iterdir() if path.is_file()):
            shutil.rmtree(folder)  # it holds no rows
        raise
    finally:
        with suppress(InputError):
            marker.remove()
    shutil.rmtree(folder)


def _check_place(out: RemoteFile, marker: RemoteFile, folder: Path, windows: bool) -> None:
    """Look at what is there by copies of it, and try whether files may be written."""
    earlier = folder / "earlier"
    earlier.mkdir()
    copy = earlier / (out.name or "none")
    try:
        if not out.name or out.url.endswith("/"):
            raise InputError("this is a folder; name a file in it")
        for file in (copy, sidecar_path(copy), *[windows_file(copy)] * windows):
            there = out.parent / file.name
            if there.exists():
                if there.is_folder():
                    raise InputError("this is a folder; name a file in it")
                file.write_bytes(there.read_bytes())
        (earlier / "empty").touch()
        marker.put(earlier / "empty")
    except InputError as error:
        raise InputError(f"--out {out}: {error}.") from error
    with told_as(out.parent, earlier):
        check_replaceable(copy, windows)
    shutil.rmtree(earlier)


def _put(out: RemoteFile, local: Path) -> None:
    for file in (windows_file(local), local, sidecar_path(local)):  # it tells of the others
        if file.exists():
            try:
                (out.parent / file.name).put(file)
            except InputError as error:
                raise InputError(
                    f"--out {out}: cannot be written ({error}). The rows are whole in {local}; "
                    "copy them from there."
                ) from error
