"""Opening a split of any store that leakdet reads: its own, or a folder of AILH."""

from pathlib import Path

from leakdet.detection.labels import find_leak_label
from leakdet.errors import InputError
from leakdet.storage.ailh_store import FILES, is_ailh, open_ailh_split
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


def split_names(store: Path) -> list[str]:
    """Names of the splits that the store has, in the order train, val, test."""
    if is_ailh(store):
        return [name for name in SPLITS if (store / FILES[name]).exists()]
    return [name for name in SPLITS if split_files(store, name)]


def leak_label_of(split: StoreSplit, wanted: str | None) -> str:
    """The split's spelling of the leak class: of `wanted`, else of the store's leak label."""
    return find_leak_label(
        split.label_names, wanted or split.leak_label, str(split.files[0].parent)
    )


def with_surrogates(train: StoreSplit, store: Path) -> tuple[StoreSplit, int]:
    """The train split with the surrogates of `store` at its end, and how many those are."""
    files = split_files(store, SURROGATES)
    if not files:
        return train, 0
    both = with_sound(open_leakdet_split(store, "train", [*train.files, *files]))
    return both, both.recordings - train.recordings
