"""Settings of the data that a network is trained on."""

from dataclasses import dataclass

from leakdet.config.range_checks import check_ranges, doc, require


@dataclass
class DataConfig:
    """The data that the network is trained on, and the way they reach it."""

    store: str | None = doc(None, "Folder or URL of the store; null: the demo, synthesised once.")
    stores: list[str] = doc([], "Several stores that train as one, in place of data.store.")
    cache: str | None = doc(
        None, "Folder of demo, joined and copied stores; null: the user's cache folder."
    )
    unit: str = doc("window", "What one sample of the network is.", one_of=("window", "segment"))
    sampling: str = doc(
        "natural",
        "How often each class is drawn: as it occurs, equally often, the rarer ones repeated up to "
        "the most frequent one, or from equally often to as it occurs.",
        one_of=("natural", "balanced", "oversampled", "curriculum"),
    )
    curriculum_epochs: int = doc(
        10, "Epochs from balanced to natural under curriculum.", at_least=1
    )
    batch_size: int = doc(
        512,
        "Samples in a batch, of all processes together; 0: as many as suit the GPU's memory.",
        at_least=0,
    )
    residency: str = doc(
        "auto",
        "Where windows are kept during training: device memory, main memory, or the disk.",
        one_of=("auto", "device", "ram", "stream"),
    )
    workers: int = doc(0, "Reading processes of residency=stream; 0: a thread.", at_least=0)
    worker_start: str = doc(
        "forkserver", "How these processes are started.", one_of=("fork", "forkserver", "spawn")
    )
    buffer_mb: float = doc(
        64.0, "Megabytes of windows that each reader shuffles under residency=stream.", at_least=1
    )
    negatives: str | None = doc(
        None,
        "Folder of sounds without a leak, such as rain or taps, that train beside the recordings; "
        "null: none.",
    )
    negatives_weight: float = doc(
        0.1, "Weight of the loss of these sounds, where that of the recordings has 1.", at_least=0
    )
    shuffle_labels: bool = doc(
        False,
        "Permute the labels of train and val over recordings: a null test; nothing is learnt.",
    )
    shuffle_repeats: int = doc(
        6, "Trainings of a null test, each with another permutation of the labels.", at_least=1
    )

    def __post_init__(self) -> None:
        check_ranges(self, "data.")
        alone = self.store is None or not self.stores
        require(alone, "data.stores", self.stores, "none beside data.store; name all of them here")

    @property
    def is_demo(self) -> bool:
        """True if no store is named."""
        return self.store is None and not self.stores
