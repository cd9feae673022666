"""Opening a split of any store that leakdet reads: its own, or a folder of AILH."""

from pathlib import Path

from leakdet.config import LabelsConfig
from leakdet.errors import InputError
from leakdet.storage.ailh_store import FILES, is_ailh, open_ailh_split
from leakdet.storage.labelled_split import labelled
from leakdet.storage.store import SPLITS, StoreSplit, open_leakdet_split, split_files
from leakdet.storage.store_folder import require_store
from leakdet.storage.views import with_sound

SURROGATES = "surrogates"


def open_split(store: Path, name: str) -> StoreSplit:
    """Open a split, without dead windows and without recordings that have no others.

    Raises:
        InputError: the store or split is missing or damaged, or no recording holds sound.
    """
    require_store(store)
    names = split_names(store)
    if name not in names:
        raise InputError(
            f"{store}: there is no {name} split; it has {', '.join(names) or 'none'}. Build the "
            f"store with a share for {name} in split.ratios, or with a split column."
        )
    if is_ailh(store):
        return open_ailh_split(store, name)
    return with_sound(open_leakdet_split(store, name))


def open_labelled(store: Path, name: str, labels: LabelsConfig | None = None) -> StoreSplit:
    """Open a split under label settings. Raises `InputError` as `open_split` and `labelled` do."""
    return labelled(open_split(store, name), labels)


def split_names(store: Path) -> list[str]:
    """Names of the splits that the store has, in the order train, val, test."""
    if is_ailh(store):
        return [name for name in SPLITS if (store / FILES[name]).exists()]
    return [name for name in SPLITS if split_files(store, name)]


def with_surrogates(
    train: StoreSplit, store: Path, labels: LabelsConfig | None = None
) -> tuple[StoreSplit, int]:
    """The train split, as opened, with the surrogates of `store` at its end, under label settings.

    The number is that of these surrogates.
    """
    recorded = labelled(train, labels)
    files = split_files(store, SURROGATES)
    if not files:
        return recorded, 0
    stored = with_sound(open_leakdet_split(store, "train", [*train.files, *files]))
    both = labelled(stored, labels)
    return both, both.recordings - recorded.recordings
