"""Settings of `crossval`."""

from dataclasses import dataclass, field, fields
from typing import Any

from leakdet.config.range_checks import at_least, require
from leakdet.config.train import TrainConfig


@dataclass
class ProtocolConfig:
    """What one cross-validation holds out, and of which recordings."""

    # a group column, or several; recording: each recording is a group of its own
    group_by: Any = "recording"
    where: Any = None  # column (or label) -> value or values: only these recordings
    # 0: leave one group out; null: that for up to 20 groups, 10 folds beyond
    folds: int | None = None

    def __post_init__(self) -> None:
        self.group_by = _texts("crossval.group_by", self.group_by)
        where = {} if self.where is None else self.where
        require(
            isinstance(where, dict),
            "crossval.where",
            where,
            "a group such as {pipe:[1,3],label:[leak,no_leak]}",
        )
        self.where = {
            str(name): _texts(f"crossval.where.{name}", values) for name, values in where.items()
        }
        ok = self.folds is None or self.folds == 0 or self.folds >= 2
        require(ok, "crossval.folds", self.folds, "null, 0 (leave one group out), or at least 2")


@dataclass
class CrossvalSettings(ProtocolConfig):
    """How cross-validation goes. `protocols` runs several with one command; otherwise there is the one described here."""

    protocols: Any = None  # name -> group_by, where, folds
    repeats: int = 1  # over seeds: seed, seed + 1, ...; each divides and trains anew
    # of what is not held out: early stopping and threshold use it, and nothing else
    val_fraction: float = 0.25
    out: str | None = None  # null: the run's folder; a folder with finished folds is gone on with
    parts: int = 1  # jobs that share the folds: -m crossval.parts=4 crossval.part=0,1,2,3
    part: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("crossval.repeats", self.repeats, 1)
        require(
            0 < self.val_fraction < 1, "crossval.val_fraction", self.val_fraction, "between 0 and 1"
        )
        at_least("crossval.parts", self.parts, 1)
        require(
            0 <= self.part < self.parts,
            "crossval.part",
            self.part,
            f"from 0 to below parts={self.parts}",
        )
        self.protocols = {} if self.protocols is None else self.protocols
        require(
            isinstance(self.protocols, dict),
            "crossval.protocols",
            self.protocols,
            "a group of protocols",
        )
        for name, values in self.protocols.items():
            known = {f.name for f in fields(ProtocolConfig)}
            ok = isinstance(values, dict) and values.keys() <= known
            require(
                ok, f"crossval.protocols.{name}", values, f"a group of {', '.join(sorted(known))}"
            )

    def by_name(self) -> dict[str, ProtocolConfig]:
        """Every protocol that is asked for."""
        if self.protocols:
            return {str(name): ProtocolConfig(**values) for name, values in self.protocols.items()}
        only = ProtocolConfig(self.group_by, self.where, self.folds)
        return {"leave-out-" + "-".join(self.group_by): only}


def _texts(name: str, value: object) -> list[str]:
    """One value or a list of them as texts: pipe=[1, 3] and pipe=1 mean the names of pipes."""
    values = value if isinstance(value, list) else [value]
    ok = bool(values) and all(isinstance(item, str | int | float) for item in values)
    require(ok, name, value, "a name or a list of names")
    return [str(item) for item in values]


@dataclass
class CrossvalConfig(TrainConfig):
    """`python -m leakdet.crossval`: the settings of a training, which every fold repeats, and how to divide."""

    crossval: CrossvalSettings = field(default_factory=CrossvalSettings)

    def training(self, seed: int) -> TrainConfig:
        """The settings of one fold's training."""
        own = {f.name: getattr(self, f.name) for f in fields(TrainConfig)}
        return TrainConfig(**{**own, "seed": seed})
