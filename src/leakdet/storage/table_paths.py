"""Finds the files that the rows of a table name."""

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

from leakdet._remote import RemoteFile, is_url, place


def file_named(table: Path | RemoteFile, name: str) -> Path | RemoteFile | None:
    """The file of this name, as it is spelled or as another system spells it; None: there is none.

    Relative names are looked for beside the table, then in the current folder. URLs, and files
    beside a table behind one, are not looked for.
    """
    if is_url(name):
        return place(name)
    if isinstance(table, RemoteFile) and not Path(name).is_absolute():
        folder, relative = table.parent, posixpath.normpath(name.replace("\\", "/"))
        while relative.startswith("../"):  # a key of a store is no path that is followed
            folder, relative = folder.parent, relative.removeprefix("../")
        return folder / relative
    beside = table.parent if isinstance(table, Path) else Path()
    for spelled in _spellings(name):
        for file in dict.fromkeys((beside / spelled, Path(spelled))):
            try:
                os.stat(file)  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError, ValueError):
                continue
            except OSError:
                return file  # it may not be read: reported with the reason when it is opened
            return file
    return None


def absence(name: str) -> str:
    """What to say of a name that `file_named` does not find."""
    if Path(name).is_absolute():
        return "no such file"
    return f"no such file, neither beside the manifest nor in {Path.cwd()}"


def _spellings(name: str) -> Iterator[str]:
    for spelled in dict.fromkeys((name, name.replace("\\", "/"))):
        yield spelled
        for form in ("NFC", "NFD"):
            if (other := normalize(form, spelled)) != spelled:
                yield other
        if not spelled.isascii():  # a name in the bytes of the manifest, on a system of UTF-8
            yield os.fsdecode(spelled.encode("cp1252", "replace"))
