"""The recordings that a command names, listed before any work, and what they may not be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakdet._messages import log_results
from leakdet._remote import RemoteFile, check_reachable
from leakdet.errors import InputError, first_few
from leakdet.scoring.listed_recording import ListedRecording, Listing, list_recordings
from leakdet.storage.model_place import MODEL_SUFFIXES, model_kind


@dataclass(frozen=True)
class FileList:
    """Recordings in the order of the names that gave them, each once, and what gave none."""

    recordings: Sequence[ListedRecording]
    listing: Listing

    @property
    def files(self) -> list[Path | RemoteFile]:
        return [recording.source for recording in self.recordings]


def list_files(names: Sequence[str], name_pattern: str | None = None) -> FileList:
    """The audio of paths, folders, globs and tables, each file once.

    Raises:
        InputError: no audio at all, or a folder that holds a model and no audio; as `Listing`.
        SettingsError: as `Listing`.
    """
    listing, first = list_recordings(names, name_pattern), dict[str, ListedRecording]()
    for recording in listing:
        name = str(recording.source)
        kept = first.setdefault(name, recording)
        if kept is not recording:
            listing.repeated.add(name)
            if not any(kept.columns.values()):  # a folder gave it before the table that tells of it
                first[name] = replace(kept, columns=recording.columns)
    check_listing(listing, bool(first))
    return FileList(list(first.values()), listing)


def check_listing(listing: Listing, found: bool) -> None:
    """Refuse a listing that gave models, or no recording: call it when it has come to its end.

    Raises:
        InputError: as `list_files`.
    """
    if listing.models:
        raise InputError(
            f"these hold models, not recordings: {first_few(listing.models)}. One model is named, "
            "and then recordings. The newest run is runs/train/latest."
        )
    if not found:
        named = f"no audio found in {first_few(listing.names)}"
        losses = [line for table in listing.tables.values() for line in table.losses()]
        raise InputError(f"{'; '.join([named, *losses, *listing.unlisted.sentences()])}.")
    check_reachable(listing.first_remote)


def check_headers(names: Sequence[str], option: str) -> list[Path | RemoteFile]:
    """The files of names that an option gives, whose headers say that they are sound.

    Raises:
        InputError: as `list_files`; or names the first file that is no sound.
    """
    from leakdet.acoustics.audio import read_header  # with SciPy, which takes its time

    listed = list_files(names)
    for file in listed.files:
        try:
            read_header(file)
        except InputError as error:
            raise InputError(f"{option} {file}: {error}.") from error
    log_results(listed.listing.sentences())
    return listed.files


def is_model(file: Path | RemoteFile) -> bool:
    return model_kind(file) in MODEL_SUFFIXES


def refuse_models(models: Sequence[Path | RemoteFile], model: Path | RemoteFile) -> None:
    """Raise `InputError` where there are models among the recordings for `model`."""
    if models:
        raise InputError(
            "predict takes one model, and these are models too: "
            f"{first_few([str(model), *map(str, models)])}. "
            "The newest run is runs/train/latest."
        )


def check_files(
    files: Sequence[Path | RemoteFile], model: Path | RemoteFile, out: Path | RemoteFile | None
) -> None:
    """Refuse models among the files, and an output that is an input.

    Raises:
        InputError: says which.
    """
    refuse_models([file for file in files if is_model(file)], model)
    if isinstance(out, RemoteFile):
        if out in (*files, model):
            raise InputError(f"--out {out}: this is one of the inputs; name another file.")
        return
    if out is None or not out.exists():
        return
    if out.is_dir():
        raise InputError(f"--out {out}: this is a folder; name a file in it.")
    local = [file for file in files if isinstance(file, Path)]
    if any(file.exists() and out.samefile(file) for file in local):
        raise InputError(
            f"--out {out}: this is one of the recordings or their table; name another file."
        )
    if isinstance(model, Path) and model.exists() and out.samefile(model):
        raise InputError(f"--out {out}: this is the model; name another file.")
