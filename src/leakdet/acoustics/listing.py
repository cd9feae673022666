"""Sound files below folders, by their names, and what a walk over folders leaves out."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, overload

from leakdet.acoustics.containers.mp3 import parse_frame
from leakdet.acoustics.containers.riff import FILE_NAMES
from leakdet.core.errors import InputError, counted, first_few
from leakdet.core.locations import AUDIO_SUFFIXES, Location, RemoteFile, with_location

# Kinds of sound and film, as phones and recorders write them, that libsndfile cannot decode.
UNREADABLE_SUFFIXES = frozenset(
    ".m4a .aac .mp4 .m4b .3gp .3g2 .amr .awb .wma .wmv .mov .avi .mkv .webm .mka .mpg .mpeg "
    ".ape .wv .tta .dsf .dff .ac3 .dts .ra .rm .spx .mpc .tak .dss .ds2 .raw .pcm .vox .gsm".split()
)
PACKED_SUFFIXES = frozenset(".gz .zip .7z .tar .tgz .bz2 .xz .zst .rar .lzma".split())
UNFINISHED_SUFFIXES = frozenset(".part .partial .filepart .crdownload".split())
ASIDE_SUFFIXES = frozenset(".bak .old .orig .tmp .temp .download".split())  # as of a.wav.bak

Lost = Literal["unreadable", "packed", "unfinished", "nameless"]
LOST: dict[Lost, tuple[str, str]] = {  # what they are, and the remedy
    "unreadable": ("of kinds that cannot be read", "convert them to WAV or FLAC"),
    "packed": ("that are packed", "unpack them"),
    "unfinished": ("by name unfinished or put aside", "rename them if they are whole"),
    "nameless": ("of sound without a suffix", "add one, such as .wav"),
}


def is_audio_name(path: Location) -> bool:
    """True if the suffix is one that libsndfile reads; a blank behind it does not matter."""
    return _suffix(path) in AUDIO_SUFFIXES


def is_hidden(name: str) -> bool:
    """A hidden name, as waste baskets and the shadows of macOS have."""
    return name.startswith(".") or name == "__MACOSX"


def kind_of_other(path: Location) -> tuple[Lost | None, str]:
    """What a file that has no name of sound is, if it may hold sound, and its suffix."""
    suffix = _suffix(path)
    if suffix in UNREADABLE_SUFFIXES:
        return "unreadable", suffix
    if suffix in PACKED_SUFFIXES:
        return "packed", suffix
    is_aside = suffix in ASIDE_SUFFIXES or suffix[1:].isdigit()
    if suffix in UNFINISHED_SUFFIXES or (is_aside and is_audio_name(Path(path.stem))):
        return "unfinished", suffix
    if not suffix and _begins_as_sound(path):
        return "nameless", "without suffix"
    return None, suffix or "without suffix"


def _suffix(path: Location) -> str:
    return path.suffix.strip().lower()


def _begins_as_sound(path: Location) -> bool:
    try:
        if isinstance(path, RemoteFile):
            head = path.read_range(0, 4)
        else:
            with path.open("rb") as file:
                head = file.read(4)
    except (OSError, InputError):
        return False
    known = head in (*FILE_NAMES, b"fLaC", b"OggS") or head[:3] == b"ID3"
    return known or parse_frame(head) is not None


SHOWN = 8  # suffixes that are named


@dataclass
class LeftUnlisted:
    """Names that a walk left out: hidden, of unreadable kinds, folders not entered, links."""

    hidden: int = 0
    kinds: Counter[tuple[Lost, str]] = field(default_factory=Counter)  # kind and suffix
    others: Counter[str] = field(default_factory=Counter)  # suffixes of what holds no sound
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # folder, why
    odd: list[tuple[str, str]] = field(default_factory=list)  # path, what it is instead of sound
    repeated: list[str] = field(default_factory=list)
    _visited: set[tuple[int, int]] = field(default_factory=set)

    @property
    def lost(self) -> bool:
        """True if sound may be among it; hidden names and repeated folders lose none."""
        return bool(self.kinds or self.unreadable or self.odd)

    def sentences(self) -> list[str]:
        """One line for each kind, losses first."""
        lines = [f"left out {folder}: the folder cannot be read ({why})"
                 for folder, why in self.unreadable]  # fmt: skip
        lines += [f"left out {path}: {what}" for path, what in self.odd]
        for kind, (what, remedy) in LOST.items():
            counts = Counter(
                {suffix: n for (lost, suffix), n in self.kinds.items() if lost == kind}
            )
            if counts:
                lines.append(f"left out {_counted(counts)} {what} ({_named(counts)}): {remedy}")
        return lines + self.notes()

    def notes(self) -> list[str]:
        """The lines on what loses no sound: repeated folders, hidden names, other files."""
        lines = []
        if self.repeated:
            lines.append(
                f"folders linked or named twice, listed once: {first_few(self.repeated, 3)}"
            )
        if self.hidden:
            lines.append(f"hidden files and folders skipped: {self.hidden}")
        if self.others:
            lines.append(f"files without sound skipped: {_named(self.others)}")
        return lines

    def enter(self, folder: str) -> bool:
        """True if the walk comes to this folder for the first time, also by links."""
        try:
            status = Path(folder).stat()
        except OSError as error:  # removed meanwhile
            self.add_error(error)
            return False
        identity = (status.st_dev, status.st_ino)
        if identity in self._visited:
            self.repeated.append(folder)
            return False
        self._visited.add(identity)
        return True

    def add_odd(self, path: Path) -> bool:
        """Add a link that leads nowhere and has no name of sound, or a pipe, which may never end.

        True if it was added. What a user names is read, whatever it is.
        """
        what = ""
        try:
            if not stat.S_ISREG(path.stat().st_mode) and is_audio_name(path):
                what = "it is a pipe, device or socket; name it to read it"
        except OSError as error:
            if path.is_symlink() and not is_audio_name(path):
                what = f"the link cannot be followed ({error.strerror})"
        if what:
            self.odd.append((str(path), what))
        return bool(what)

    def add_other(self, path: Location) -> None:
        """Add a file that has no name of sound."""
        kind, suffix = kind_of_other(path)
        if kind:
            self.kinds[kind, suffix] += 1
        else:
            self.others[suffix] += 1

    def add_error(self, error: OSError) -> None:
        self.unreadable.append((str(error.filename), error.strerror or str(error)))


@overload
def audio_files(path: Path, unlisted: LeftUnlisted) -> Iterator[Path]: ...
@overload
def audio_files(path: RemoteFile, unlisted: LeftUnlisted) -> Iterator[RemoteFile]: ...
@overload
def audio_files(path: Location, unlisted: LeftUnlisted) -> Iterator[Location]: ...


def audio_files(
    path: Location, unlisted: LeftUnlisted
) -> Iterator[Path] | Iterator[RemoteFile] | Iterator[Location]:
    """The path itself, whatever its name; of a folder the audio below it, in the order of names.

    Links are followed, and each folder is listed once. What is left out is added to `unlisted`.
    """
    if isinstance(path, RemoteFile):
        yield from _remote_files(path, unlisted)
    else:
        yield from _local_files(path, unlisted)


def _remote_files(folder: RemoteFile, unlisted: LeftUnlisted) -> Iterator[RemoteFile]:
    if is_audio_name(folder):  # of many files, none is asked for before it is read
        yield folder
        return
    try:
        names = folder.names()
        is_file = not names and not folder.is_folder()
    except InputError as error:
        raise with_location(folder, error) from error
    if is_file:
        yield folder
    for name in names:
        if any(map(is_hidden, name.split("/"))):
            unlisted.hidden += 1
        elif is_audio_name(file := folder / name):
            yield file
        else:
            unlisted.add_other(file)


def _local_files(path: Path, unlisted: LeftUnlisted) -> Iterator[Path]:
    if not os.path.isdir(path):  # noqa: PTH112  Path.is_dir raises where it may not look
        yield path
        return
    for root, folders, names in os.walk(path, onerror=unlisted.add_error, followlinks=True):
        if not unlisted.enter(root):
            folders.clear()
            continue
        unlisted.hidden += sum(map(is_hidden, folders)) + sum(map(is_hidden, names))
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        for name in sorted(name for name in names if not is_hidden(name)):
            file = Path(root, name)
            if unlisted.add_odd(file):
                continue
            if is_audio_name(file):
                yield file
            else:
                unlisted.add_other(file)


def _named(counts: Counter[str]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{count} {suffix}" for suffix, count in most]
    more = sum(count for _, count in most[SHOWN:])
    return ", ".join([*named[:SHOWN], *([f"{more} others"] if more else [])])


def _counted(counts: Counter[str]) -> str:
    return counted(counts.total(), "file")
