"""Facts of a training that its model file keeps: the data, the versions, the recordings met."""

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from leakdet.detection.met_recordings import MetRecordings
from leakdet.storage.store import StoreSplit

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule


def training_facts(data: "LeakDataModule") -> dict[str, Any]:
    """The facts about a training that the model file keeps beside settings and epoch."""
    train, val, surrogates = data.splits.train, data.splits.val, data.splits.surrogates
    versions = {name: version(name) for name in ("leakdet", "torch", "lightning")}
    return {
        "store": str(data.store.absolute()),
        "store_signal_hash": train.signal.hash if train.signal else None,
        "recordings": {"train": train.recordings - surrogates, "val": val.recordings},
        "surrogates": surrogates,
        "versions": {"python": platform.python_version(), **versions},
    }


def met_by_training(data: "LeakDataModule", train: StoreSplit) -> MetRecordings | None:
    """Recordings and groups of train, with the negatives, and val, and of the start of training.

    `train` is without surrogates, which are no recordings. None where the store has no content
    hashes, or where it is unknown what the start has met.
    """
    splits = {"train": train, "val": data.splits.val}
    if not all(split.has("content_sha256") for split in splits.values()):
        return None
    contents = {role: split.texts("content_sha256").tolist() for role, split in splits.items()}
    contents["train"] += data.negatives.contents if data.negatives else []
    own = MetRecordings.of(
        contents,
        {role: split.groups for role, split in splits.items()},
    )
    return own if data.start is None else data.start.joined(own)
