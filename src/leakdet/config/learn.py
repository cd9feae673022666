"""Settings of `learn`."""

from dataclasses import dataclass, field, replace

from leakdet.config.fields import MISSING, check_ranges, doc, require
from leakdet.config.train import DataConfig, TrainConfig
from leakdet.core.errors import SettingsError

TARGET_BATCH, TARGET_PASSES = 48, 10  # windows of a step, validation checks being one a pass


@dataclass
class LearnSettings:
    """What is learnt, how, and where the new model is made known."""

    new: str | None = doc(
        None,
        "Confirmed recordings: a CSV with path and label, a folder by label, or a store; null: "
        "nothing is learnt, publish alone is done.",
    )
    # `from` is a word of Python's; on the command line it is learn.from
    from_: str = doc(
        "auto",
        "Learn from the new recordings alone (target: a new sensor or place), from the store's "
        "and the new ones (joint: a known sensor), or as their groups say.",
        one_of=("auto", "target", "joint"),
    )
    target_weight: float = doc(
        3.0, "Weight of a new recording under joint, where one of the store has 1.", above=0
    )
    min_per_class: int = doc(
        2, "Fewest new leaks, and fewest new recordings without one, to learn from.", at_least=2
    )
    steps: int = doc(200, "Steps of 48 windows under target.", at_least=TARGET_PASSES)
    folds: int = doc(
        4, "Parts of the new recordings, each scored by a model of the others.", at_least=2
    )
    hold_out: str = doc(
        "auto",
        "New recordings that judge and do not train: those of COLUMN:VALUE, or none; auto: the "
        "newest group of eight or more with both classes, where others remain.",
    )
    unverified: bool = doc(
        False,
        "Learn rows without a label too, as the model calls them, by the rule of Ma et al. (2025) "
        "in rounds; on real pipes it cost accuracy.",
    )
    keep: float = doc(
        0.5,
        "Share of a recording's windows that train under unverified, those most like its label.",
        above=0,
        at_most=1,
    )
    rounds: int = doc(
        3,
        "Parts in the order of recorded_at, learnt one after the other, under unverified.",
        at_least=1,
    )
    publish: str | None = doc(
        None, "Link that is moved to the new model unless it is worse; null: none."
    )

    def __post_init__(self) -> None:
        check_ranges(self, "learn.")
        column, _, value = self.hold_out.partition(":")
        ok = self.hold_out in ("auto", "none") or bool(column and value)
        allowed = "auto, none, or COLUMN:VALUE such as site:B7"
        require(ok, "learn.hold_out", self.hold_out, allowed)

    def published_alone(self) -> str:
        """The link that a model is published by where nothing is learnt."""
        if self.publish is None:
            raise SettingsError(
                "learn.new must be given: the confirmed recordings, a CSV with path and label. "
                "(learn.publish=LINK alone publishes the model as it is.)"
            )
        return self.publish


@dataclass
class OldData(DataConfig):
    """The data that trained the old model; without a store, the new recordings alone are learnt."""

    store: str | None = doc(
        None, "Store that trained the old model; null: none, the new recordings alone are learnt."
    )
    stores: list[str] = doc([], "Several stores that trained it, in place of data.store.")
    cache: str | None = doc(None, "Folder of joined stores; null: the user's cache folder.")


@dataclass
class LearnConfig(TrainConfig):
    """`leakdet learn`: a model, the store that trained it, and confirmed recordings to learn."""

    model: str = doc(MISSING, "Model file to start from, its run's folder, or a published link.")
    data: OldData = field(default_factory=OldData)
    learn: LearnSettings = field(default_factory=LearnSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = "null: learn always trains from random weights, which did better"
        require(self.init_from is None, "init_from", self.init_from, allowed)
        allowed = "null: repeat the command of a learn that was stopped"
        require(self.resume is None, "resume", self.resume, allowed)

    def joint(self) -> TrainConfig:
        """The settings of a training on the store's recordings and the new ones."""
        return self.plain()

    def target(self) -> TrainConfig:
        """The settings of a training on a handful of recordings, with nothing chosen by them."""
        plain = self.joint()
        trainer = {
            **plain.trainer,
            "max_epochs": TARGET_PASSES,
            "limit_train_batches": self.learn.steps // TARGET_PASSES,
            "check_val_every_n_epoch": TARGET_PASSES,
        }
        return replace(
            plain,
            data=replace(plain.data, sampling="balanced", batch_size=TARGET_BATCH),
            stop=replace(plain.stop, name="fixed", passes=TARGET_PASSES, batches=1),
            decision=replace(plain.decision, policy="fixed", threshold=0.5),
            trainer=trainer,
            # for so small a batch a second thread waits more than it works: 14 s became 72 s where
            # other processes used the cores
            threads=plain.threads or 1,
        )
