"""Arguments for files on the suspected seconds of recordings: labels and clips."""

import argparse
from pathlib import Path

from leakdet._remote import is_url
from leakdet.errors import SettingsError
from leakdet.storage.atomic import is_taken

CLIP_S = 10.0
MOST_CLIP_S = 600.0


def add_window_files(parser: argparse.ArgumentParser) -> None:
    """`--labels`, `--labels-format`, `--clips` and `--clip-seconds`."""
    add = parser.add_argument
    labels = "write the suspected seconds of each recording into this new folder, a file for each"
    add("--labels", type=_folder, metavar="DIR", help=labels)
    kinds = "of --labels: selection tables of Raven, or label tracks of Audacity (default: raven)"
    add("--labels-format", choices=("raven", "audacity"), help=kinds)
    clips = "cut the most suspected seconds of every leak out of its recording, as WAV files in "
    clips += "this new folder"
    add("--clips", type=_folder, metavar="DIR", help=clips)
    longest = f"longest clip of --clips, 1 to {MOST_CLIP_S:g} (default: {CLIP_S:g})"
    add("--clip-seconds", type=_seconds, metavar="S", help=longest)


def check_window_files(arguments: argparse.Namespace) -> None:
    """Check that the options go together, and that their folders are new or empty.

    Raises:
        SettingsError: says which do not, and what to do.
    """
    if arguments.labels_format and not arguments.labels:
        raise SettingsError("--labels-format goes with labels; add --labels DIR.")
    if arguments.clip_seconds and not arguments.clips:
        raise SettingsError("--clip-seconds goes with clips; add --clips DIR.")
    for option in ("labels", "clips"):
        folder = getattr(arguments, option)
        if folder is None:
            continue
        if arguments.parts:
            raise SettingsError(
                f"--{option} does not go with --parts, which keeps rows and no windows. Run "
                f"predict --{option} again on the few recordings that matter, such as the leaks."
            )
        _check_new(folder, option)
    if arguments.clips and "-" in arguments.paths:
        raise SettingsError("--clips reads leaks again, and - (standard input) is read once.")
    if arguments.clips and arguments.labels and _same(arguments.clips, arguments.labels):
        raise SettingsError("--clips and --labels name the same folder; give each its own.")


def _check_new(folder: Path, option: str) -> None:
    if is_taken(folder) or (folder.is_symlink() and not folder.exists()):
        raise SettingsError(
            f"--{option} {folder}: exists already, and nothing is replaced; name a new folder."
        )


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()


def _folder(text: str) -> Path:
    if is_url(text):
        raise argparse.ArgumentTypeError(f"{text}: name a folder on a disk, no URL")
    return Path(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= MOST_CLIP_S:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed are 1 to {MOST_CLIP_S:g} seconds")
    return seconds
