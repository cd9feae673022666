"""Kinds of files by their names: sound that is read, and what may hold sound and is not read."""

from pathlib import Path
from typing import Literal

from leakdet._remote import RemoteFile
from leakdet.acoustics.chunk_headers import FILE_NAMES
from leakdet.acoustics.mp3_frames import parse_frame
from leakdet.errors import InputError

AUDIO_SUFFIXES = frozenset(
    ".wav .wave .flac .ogg .oga .opus .mp3 .mp2 .mpga .aif .aiff .aifc .au .snd .caf .w64 .rf64 "
    ".bwf .voc .sph .nist".split()
)
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


def is_audio_name(path: Path | RemoteFile) -> bool:
    """True if the suffix is one that libsndfile reads; a blank behind it does not matter."""
    return _suffix(path) in AUDIO_SUFFIXES


def is_hidden(name: str) -> bool:
    """A hidden name, as waste baskets and the shadows of macOS have."""
    return name.startswith(".") or name == "__MACOSX"


def kind_of_other(path: Path | RemoteFile) -> tuple[Lost | None, str]:
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


def _suffix(path: Path | RemoteFile) -> str:
    return path.suffix.strip().lower()


def _begins_as_sound(path: Path | RemoteFile) -> bool:
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
