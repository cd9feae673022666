"""The sound files below folders, and what a walk over folders leaves out, counted by kind."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leakdet.errors import first_few

AUDIO_SUFFIXES = frozenset(
    ".wav .wave .flac .ogg .oga .opus .mp3 .mp2 .mpga .aif .aiff .aifc .au .snd .caf .w64 .rf64 "
    ".bwf .voc .sph .nist".split()
)
# Kinds of sound and film, as phones and recorders write them, that libsndfile cannot decode.
UNREADABLE_SUFFIXES = frozenset(
    ".m4a .aac .mp4 .m4b .3gp .3g2 .amr .awb .wma .wmv .mov .avi .mkv .webm .mka .mpg .mpeg "
    ".ape .wv .tta .dsf .dff .ac3 .dts .ra .rm .spx .mpc .tak .dss .ds2 .raw .pcm .vox .gsm".split()
)


@dataclass
class LeftUnlisted:
    """What a walk left out: hidden names, kinds that cannot be read, folders not entered, links."""

    hidden: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
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
        if self.kinds:
            named = ", ".join(f"{count} {suffix}" for suffix, count in sorted(self.kinds.items()))
            lines.append(
                f"left out {self.kinds.total()} files of kinds that cannot be read ({named}): "
                "convert them to WAV or FLAC"
            )
        return lines + self.notes()

    def notes(self) -> list[str]:
        """The lines on what loses no sound: repeated folders and hidden names."""
        lines = []
        if self.repeated:
            lines.append(
                f"folders linked or named twice, listed once: {first_few(self.repeated, 3)}"
            )
        if self.hidden:
            lines.append(f"hidden files and folders skipped: {self.hidden}")
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

    def add_error(self, error: OSError) -> None:
        self.unreadable.append((str(error.filename), error.strerror or str(error)))


def is_audio_name(path: Path) -> bool:
    """True if the suffix is one that libsndfile reads."""
    return path.suffix.lower() in AUDIO_SUFFIXES


def is_hidden(name: str) -> bool:
    """A hidden name, as waste baskets and the shadows of macOS have."""
    return name.startswith(".") or name == "__MACOSX"


def audio_files(path: Path, unlisted: LeftUnlisted) -> Iterator[Path]:
    """The path itself, whatever its name; of a folder the audio below it, in the order of names.

    Links are followed, and each folder is listed once. What is left out is added to `unlisted`.
    """
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
            elif (suffix := file.suffix.lower()) in UNREADABLE_SUFFIXES:
                unlisted.kinds[suffix] += 1
