"""Sounds as they are received: written piece by piece, named safely, bounded in length."""

import hashlib
import re
from collections.abc import AsyncIterable
from dataclasses import dataclass
from pathlib import Path

from leakdet.acoustics.audio import read_length
from leakdet.core.errors import InputError
from leakdet.core.files import require_space
from leakdet.serving.guard import MAX_SOUND_BYTES, RequestError

MAX_S = 3600.0  # of a recording
MAX_POINTS = 400_000_000  # of all channels: an hour of stereo at 48 kHz has 346 million
MAX_NAME = 120  # characters of a shown name, bytes of one on a disk, where 255 are the limit
UNSAFE = re.compile(r"[^\w .,()+=@~-]")  # in names of files that are written


@dataclass(frozen=True)
class Upload:
    """A sound that lies in a folder of the server's; `key` is made of its content and its name."""

    path: Path
    key: str


def shown_name(name: str) -> str:
    """The name of a file as people see it: with the folders that its sender told.

    >>> shown_name("../night/B7.wav"), shown_name("")
    ('night/B7.wav', 'sound')
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    printable = "".join(letter for letter in "/".join(parts) if letter.isprintable())
    return printable[-MAX_NAME:] or "sound"


def safe_name(name: str) -> str:
    """The last part of a name with letters, digits and a few signs alone, never hidden.

    >>> safe_name("../../etc/pass$wd"), safe_name(".wav")
    ('pass_wd', '_.wav')
    """
    last = UNSAFE.sub("_", shown_name(name).rpartition("/")[2]).strip()
    visible = f"_{last}" if last.startswith((".", "-")) else last
    return visible.encode()[-MAX_NAME:].decode(errors="ignore") or "_"


def content_key(digest: str, name: str) -> str:
    """The name under which a sound is stored, made of its content and the name it came by."""
    return f"{digest[:12]}-{safe_name(name)}"


def file_key(path: Path) -> str:
    """The key of a file that was not uploaded."""
    with path.open("rb") as file:
        return content_key(hashlib.file_digest(file, "sha256").hexdigest(), path.name)


async def receive(pieces: AsyncIterable[bytes], folder: Path, name: str) -> Upload:
    """Write what is sent into `folder`; nothing stays where it is not received whole."""
    require_space(folder, MAX_SOUND_BYTES, "receiving a sound")
    digest, partial = hashlib.sha256(), folder / f".{id(pieces)}"
    try:
        with partial.open("wb") as file:
            async for piece in pieces:
                digest.update(piece)
                file.write(piece)
        key = content_key(digest.hexdigest(), name)
        partial.replace(folder / key)
    finally:
        partial.unlink(missing_ok=True)
    return Upload(folder / key, key)


def check_length(path: Path, name: str) -> None:
    """Refuse a sound longer than any recording; why one cannot be read, predict tells."""
    try:
        frames, rate_hz, channels = read_length(path)
    except InputError:
        return
    if frames > MAX_S * rate_hz or frames * channels > MAX_POINTS:
        raise RequestError(
            413,
            f"{name}: it holds {frames / rate_hz / 60:.0f} min of sound in {channels} channels; at "
            f"most {MAX_S / 60:.0f} min, and {MAX_POINTS // 1_000_000} million sample points, are "
            "scored here. Cut it, or use leakdet predict.",
        )
