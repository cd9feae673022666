"""Settings of `tune`: the study and its search space."""

from dataclasses import dataclass, field, fields
from typing import Any

from leakdet.config.range_checks import at_least, one_of, require
from leakdet.config.train import TrainConfig

# The signed-rank test of n pairs cannot fall below p = 1 / 2**n, and prunes below 0.1: after four, so that a fifth is saved.
WILCOXON_TRAININGS = 5


@dataclass
class SearchParam:
    """One parameter of the search space. What it says is checked against the training settings before the first trial."""

    # dotted training setting; null: a switch that only others depend on (`when`)
    setting: str | None = None
    kind: str = "float"  # float | int | categorical
    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    choices: list[Any] = field(default_factory=list)  # categorical
    when: dict[str, Any] = field(
        default_factory=dict
    )  # other parameter -> its values under which this exists
    # value of the setting where `when` does not hold; null: the configuration's own
    otherwise: Any = None

    def __post_init__(self) -> None:
        one_of("search.*.kind", self.kind, ("float", "int", "categorical"))


@dataclass
class TuneSettings:
    """The study, how it samples and prunes, and what becomes of its winner."""

    study: str = "default"  # its name; the same name goes on with the same study
    folder: str = "runs/tune/default"
    # null: a journal file in the folder; or sqlite:///..., postgresql://..., grpc://host:port
    storage: str | None = None
    n_trials: int = 20  # of the study in total, whoever runs them
    workers: int = 1
    worker: int = 0  # which of them this process is; -m counts it
    objective: str = "recording_f1"  # recording_f1 | recording_auroc | loss: the best check on val
    direction: str = "auto"  # auto | maximize | minimize
    sampler: str = "tpe"  # tpe | gp | cmaes | random | grid
    seed: int = 0  # of the sampler; the seed of training is `seed`
    n_startup_trials: int = 8  # drawn at random before the sampler learns
    pruner: str = "asha"  # asha | median | percentile | hyperband | wilcoxon | none
    # checks before which nothing is pruned; the space's longest warm-up of the rate
    n_warmup: int = 5
    n_min_trials: int = 4  # with fewer trials at that check nothing is pruned
    percentile: float = 25.0  # percentile: the share of trials that are let through
    reduction_factor: int = 3  # hyperband, asha
    repeats: int = 1  # trainings of a trial, with seeds seed, seed+1, ...; its value is their mean
    # of train and val together, each validated once in each repeat; 1: val as the store has it
    folds: int = 1
    skip_duplicates: bool = True  # parameters that a finished trial had are not trained again
    max_retries: int = 2  # of a trial whose process was killed or interrupted
    keep: str = "best"  # best | all | none: whose checkpoints stay
    # train the winner and the untuned configuration, compare them, write the page
    finish: bool = True

    def __post_init__(self) -> None:
        name_ok = (
            self.study.strip() != ""
            and not set(self.study) & set("/\\")
            and self.study not in (".", "..")
        )
        require(name_ok, "tune.study", self.study, "a name that can be a folder's")
        one_of("tune.objective", self.objective, ("recording_f1", "recording_auroc", "loss"))
        one_of("tune.direction", self.direction, ("auto", "maximize", "minimize"))
        one_of("tune.sampler", self.sampler, ("tpe", "gp", "cmaes", "random", "grid"))
        one_of(
            "tune.pruner",
            self.pruner,
            ("median", "percentile", "hyperband", "asha", "wilcoxon", "none"),
        )
        one_of("tune.keep", self.keep, ("best", "all", "none"))
        for name in ("n_trials", "workers", "n_min_trials", "repeats", "folds"):
            at_least(f"tune.{name}", getattr(self, name), 1)
        for name in ("worker", "seed", "n_startup_trials", "n_warmup", "max_retries"):
            at_least(f"tune.{name}", getattr(self, name), 0)
        require(0 < self.percentile < 100, "tune.percentile", self.percentile, "between 0 and 100")
        at_least("tune.reduction_factor", self.reduction_factor, 2)
        require(
            self.pruner != "wilcoxon" or self.trainings >= WILCOXON_TRAININGS,
            "tune.pruner",
            self.pruner,
            f"used with tune.repeats x tune.folds of at least {WILCOXON_TRAININGS}: it compares trainings, not checks, "
            "and of fewer than four its test tells nothing",
        )

    @property
    def trainings(self) -> int:
        """Of one trial."""
        return self.repeats * self.folds

    @property
    def maximises(self) -> bool:
        return (
            self.objective != "loss" if self.direction == "auto" else self.direction == "maximize"
        )


def _search_param(name: str, given: Any) -> SearchParam:
    """A parameter from plain values. Raises `SettingsError` on an unknown field or a value of the wrong type."""
    if isinstance(given, SearchParam):
        return given
    known = [f.name for f in fields(SearchParam)]
    require(isinstance(given, dict), f"search.{name}", given, f"a group of {', '.join(known)}")
    for key, value in given.items():
        require(key in known, f"search.{name}", key, f"one of {', '.join(known)}")
        if key in ("low", "high", "step") and value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            require(number, f"search.{name}.{key}", value, "a number")
        if key in ("choices", "when"):
            wanted = list if key == "choices" else dict
            require(
                isinstance(value, wanted), f"search.{name}.{key}", value, f"a {wanted.__name__}"
            )
        if key in ("setting", "kind"):
            require(
                value is None or isinstance(value, str), f"search.{name}.{key}", value, "a word"
            )
        require(
            key != "log" or isinstance(value, bool), f"search.{name}.log", value, "true or false"
        )
    numbers = {
        k: float(v) for k, v in given.items() if k in ("low", "high", "step") and v is not None
    }
    return SearchParam(**{**given, **numbers})


@dataclass
class TuneConfig(TrainConfig):
    """`python -m leakdet.tune`: the training configuration that is searched around, and the study."""

    tune: TuneSettings = field(default_factory=TuneSettings)
    search: dict[str, Any] = field(
        default_factory=dict
    )  # name -> SearchParam, or its fields as YAML gives them

    def __post_init__(self) -> None:
        super().__post_init__()
        self.search = {name: _search_param(name, param) for name, param in self.search.items()}

    def training(self) -> TrainConfig:
        """The configuration of one training, without the study."""
        return TrainConfig(**{f.name: getattr(self, f.name) for f in fields(TrainConfig)})
