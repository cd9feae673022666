"""What a caller of a detector gives it: paths, URLs, folders and arrays, one or several."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from leakdet._messages import LOG
from leakdet._remote import RemoteFile, place
from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.audio import SoundSource
from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.acoustics.file_kinds import is_audio_name

PathLike = str | os.PathLike[str] | RemoteFile
Sound = tuple[npt.NDArray[Any], int]  # samples and their rate in Hz


def is_path(recordings: object) -> bool:
    return isinstance(recordings, str | os.PathLike | RemoteFile)


def is_single(recordings: Any) -> bool:
    """True of a file or an array: not of a folder, nor of several."""
    if not is_path(recordings):
        return is_sound(recordings)
    where = place(recordings)
    if isinstance(where, RemoteFile):
        return is_audio_name(where) or not where.is_folder()
    return not where.is_dir()


def is_sound(recordings: object) -> bool:
    return (
        isinstance(recordings, tuple)
        and len(recordings) == 2
        and isinstance(recordings[0], np.ndarray)
    )


def sources_of(recordings: Any) -> Iterator[SoundSource]:
    """Files and arrays, in order; of a folder the audio below it."""
    several = isinstance(recordings, Iterable) and not isinstance(recordings, np.ndarray | bytes)
    single = is_path(recordings) or is_sound(recordings) or not several
    for recording in [recordings] if single else recordings:
        if is_sound(recording):
            yield ArrayRecording(*recording)
        elif is_path(recording):
            unlisted = LeftUnlisted()
            yield from audio_files(place(recording), unlisted)
            for sentence in unlisted.sentences():
                LOG.warning(sentence)
        else:
            raise TypeError(
                "a recording is a path or (samples, rate_hz) with a NumPy array of samples; "
                f"this one is of type {type(recording).__name__}"
            )
