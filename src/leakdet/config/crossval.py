"""Settings of `crossval`."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from leakdet.config.fields import check_ranges, doc, require
from leakdet.config.train import TrainConfig


@dataclass
class ProtocolConfig:
    """The groups that one cross-validation holds out, and its recordings."""

    group_by: Any = doc(
        None,
        "Group column, or list of these, to hold out by; recording: each stands alone; null: what "
        "the store was split by.",
    )
    where: Any = doc(
        None, "Column (or label) to values: only these recordings take part; null: all."
    )
    folds: int | None = doc(
        None,
        "Number of folds, 2 or more; 0: leave one group out; null: 0 for up to 20 groups, else 10.",
        at_least=0,
    )

    def __post_init__(self) -> None:
        check_ranges(self, "crossval.")
        if self.group_by is not None:
            self.group_by = _texts("crossval.group_by", self.group_by)
        where = {} if self.where is None else self.where
        allowed = "a group such as {pipe:[1,3],label:[leak,no_leak]}"
        require(isinstance(where, dict), "crossval.where", where, allowed)
        self.where = {
            str(name): _texts(f"crossval.where.{name}", values) for name, values in where.items()
        }
        allowed = "null, 0 (leave one group out), or at least 2"
        require(self.folds != 1, "crossval.folds", self.folds, allowed)


@dataclass
class CrossvalSettings(ProtocolConfig):
    """A cross-validation: one protocol described here, or several by name."""

    protocols: Any = doc(
        None,
        "Several cross-validations, each a name with its group_by, where and folds; null: one.",
    )
    repeats: int = doc(1, "Repetitions with seeds seed, seed + 1, ..., all anew.", at_least=1)
    val_fraction: float = doc(
        0.25,
        "Share of the recordings not held out for validation: early stopping and the threshold.",
        above=0,
        below=1,
    )
    out: str | None = doc(None, "Folder of the folds, which keeps finished ones; null: the run's.")
    parts: int = doc(
        1, "Jobs that share the folds: -m crossval.parts=2 crossval.part=0,1.", at_least=1
    )
    part: int = doc(0, "Number of this job, from 0 to below parts.", at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"from 0 to below parts={self.parts}"
        require(self.part < self.parts, "crossval.part", self.part, allowed)
        self.protocols = {} if self.protocols is None else self.protocols
        ok = isinstance(self.protocols, dict)
        require(ok, "crossval.protocols", self.protocols, "a group of protocols")
        known = {f.name for f in fields(ProtocolConfig)}
        for name, values in self.protocols.items():
            ok = isinstance(values, dict) and values.keys() <= known
            allowed = f"a group of {', '.join(sorted(known))}"
            require(ok, f"crossval.protocols.{name}", values, allowed)

    def by_name(self) -> dict[str, ProtocolConfig]:
        """Every protocol that is asked for."""
        if self.protocols:
            return {str(name): ProtocolConfig(**values) for name, values in self.protocols.items()}
        only = ProtocolConfig(self.group_by or "recording", self.where, self.folds)
        return {"leave-out-" + "-".join(only.group_by): only}

    def grouped_by(self, columns: list[str]) -> "CrossvalSettings":
        """These settings with `columns` wherever `group_by` is not given."""
        given = {"group_by": columns}
        protocols = {
            name: {**values, **(given if values.get("group_by") is None else {})}
            for name, values in self.protocols.items()
        }
        return replace(self, group_by=self.group_by or columns, protocols=protocols)

    @property
    def groups_left_open(self) -> bool:
        """True if a protocol does not say what it holds out."""
        asked = [values.get("group_by") for values in self.protocols.values()]
        return None in (asked or [self.group_by])


def _texts(name: str, value: object) -> list[str]:
    """One value or a list of them as texts, so that pipe=[1,3] and pipe=1 name pipes."""
    values = value if isinstance(value, list) else [value]
    ok = bool(values) and all(isinstance(item, str | int | float) for item in values)
    require(ok, name, value, "a name or a list of names")
    return [str(item) for item in values]


FEW_RECORDINGS, FEW_OF_A_CLASS = 200, 10  # in all; in test


@dataclass
class FoldsConfig:
    """The folds by which `train` measures its model where recordings are few."""

    folds: int | None = doc(
        None,
        "Folds that measure the model, 2 or more; 0: none, test does; null: as crossval, where "
        "build divided fewer than 200 recordings, or fewer than 10 of a class are in test.",
        at_least=0,
    )
    group_by: Any = doc(
        None, "As of crossval: what a fold holds out; null: what the store was split by."
    )

    def __post_init__(self) -> None:
        only = ProtocolConfig(group_by=self.group_by, folds=self.folds)
        self.group_by = only.group_by

    @property
    def given(self) -> bool:
        """True if folds are asked for, however many recordings there are."""
        return bool(self.folds or self.group_by)

    @staticmethod
    def are_few(recordings: int, test_leaks: int, test_others: int) -> bool:
        """True where test says little: of few recordings, or with few of a class."""
        return recordings < FEW_RECORDINGS or min(test_leaks, test_others) < FEW_OF_A_CLASS


@dataclass
class MeasuredTrainConfig(TrainConfig):
    """`leakdet train`: a training, and the folds that measure it where recordings are few."""

    crossval: FoldsConfig = field(default_factory=FoldsConfig)

    def by_folds(self) -> "CrossvalConfig":
        """The cross-validation of this training."""
        plain = replace(self.plain(), resume=None, profile="off")
        settings = {f.name: getattr(plain, f.name) for f in fields(TrainConfig)}
        held_out = CrossvalSettings(group_by=self.crossval.group_by, folds=self.crossval.folds)
        return CrossvalConfig(**settings, crossval=held_out)


@dataclass
class CrossvalConfig(TrainConfig):
    """`leakdet crossval`: the training that every fold repeats, and how to divide."""

    crossval: CrossvalSettings = field(default_factory=CrossvalSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = (
            "null, since finished folds are kept: repeat the command with crossval.out=FOLDER, "
            "the folder of its folds, and they are not run again"
        )
        require(self.resume is None, "resume", self.resume, allowed)

    def training(self, seed: int) -> TrainConfig:
        """The settings of one fold's training."""
        return replace(self.plain(), seed=seed)
