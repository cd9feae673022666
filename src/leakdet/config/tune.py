"""Settings of `tune`: the study and its search space."""

from dataclasses import dataclass, field
from typing import Any

from leakdet.config.fields import check_ranges, doc, require
from leakdet.config.train import TrainConfig

# The signed-rank test of n pairs gives p >= 1 / 2**n, and the pruner asks for p < 0.1: four
# trainings at least, and a fifth that pruning can save.
WILCOXON_TRAININGS = 5


@dataclass
class SearchParam:
    """One parameter of the search space, checked against the training settings before any trial."""

    setting: str | None = doc(
        None, "Dotted training setting to vary; null: a switch that only others depend on (when)."
    )
    kind: str = doc("float", "Kind of values.", one_of=("float", "int", "categorical"))
    low: float | None = doc(None, "Lowest value of a float or int.")
    high: float | None = doc(None, "Highest value of a float or int.")
    log: bool = doc(False, "Draw on a logarithmic scale.")
    step: float | None = doc(None, "Distance of values; null: any float, or every int.")
    choices: list[Any] = doc([], "Values of a categorical.")
    when: dict[str, Any] = doc({}, "Other parameters and their values that bring this one in.")
    otherwise: Any = doc(
        None, "Value of the setting where when does not hold; null: as configured."
    )

    def __post_init__(self) -> None:
        check_ranges(self, "search.*.")


@dataclass
class TuneSettings:
    """The study, how it samples and prunes, and what becomes of its winner."""

    study: str = doc("default", "Name of the study; tune continues a study of this name.")
    folder: str = doc("runs/tune/default", "Folder of the study.")
    storage: str | None = doc(
        None, "sqlite:///... or postgresql://...; null: study.db in the folder."
    )
    n_trials: int = doc(20, "Number of trials of the study, of all processes.", at_least=1)
    workers: int = doc(1, "Number of processes that run trials.", at_least=1)
    worker: int = doc(0, "Number of this process, which -m counts up.", at_least=0)
    objective: str = doc(
        "recording_f1",
        "Score on val that decides, at its best validation check.",
        one_of=("recording_f1", "recording_auroc", "loss"),
    )
    direction: str = doc(
        "auto",
        "Whether a high or a low score is good; auto: low for loss.",
        one_of=("auto", "maximize", "minimize"),
    )
    sampler: str = doc(
        "tpe", "How to draw values.", one_of=("tpe", "gp", "cmaes", "random", "grid")
    )
    seed: int = doc(0, "Seed of the sampler; that of training is seed.", at_least=0)
    n_startup_trials: int = doc(8, "Trials drawn at random before the sampler learns.", at_least=0)
    pruner: str = doc(
        "asha",
        "How unpromising trials are found and stopped.",
        one_of=("median", "percentile", "hyperband", "asha", "wilcoxon", "none"),
    )
    n_warmup: int = doc(
        5, "Validation checks before any pruning: the longest warm-up of the space.", at_least=0
    )
    n_min_trials: int = doc(4, "Trials at a validation check before it prunes.", at_least=1)
    percentile: float = doc(
        25.0, "Share of trials in per cent that pruner=percentile lets through.", above=0, below=100
    )
    reduction_factor: int = doc(3, "Trials of which hyperband and asha keep one.", at_least=2)
    repeats: int = doc(1, "Trainings of a trial, averaged, from seed upwards.", at_least=1)
    folds: int = doc(1, "Folds of train and val in each repeat; 1: val itself.", at_least=1)
    skip_duplicates: bool = doc(True, "Do not train parameters again that a trial had.")
    max_retries: int = doc(2, "Retries of a trial whose process was killed.", at_least=0)
    keep: str = doc("best", "Whose checkpoints are kept.", one_of=("best", "all", "none"))
    finish: bool = doc(True, "Train winner and untuned configuration, and compare them.")

    def __post_init__(self) -> None:
        check_ranges(self, "tune.")
        separators = set(self.study) & set("/\\")
        name_ok = self.study.strip() not in ("", ".", "..") and not separators
        require(name_ok, "tune.study", self.study, "a name that can be a folder's")
        require(
            self.pruner != "wilcoxon" or self.trainings >= WILCOXON_TRAININGS,
            "tune.pruner",
            self.pruner,
            f"used with tune.repeats x tune.folds of at least {WILCOXON_TRAININGS}: it compares "
            "trainings, not validation checks, and its test needs that many",
        )

    @property
    def trainings(self) -> int:
        """Trainings of one trial."""
        return self.repeats * self.folds

    @property
    def maximises(self) -> bool:
        if self.direction == "auto":
            return self.objective != "loss"
        return self.direction == "maximize"


_FIELD_TYPES: dict[str, tuple[Any, str]] = {
    "setting": (str | None, "a word"),
    "kind": (str, "a word"),
    "low": (int | float | None, "a number"),
    "high": (int | float | None, "a number"),
    "step": (int | float | None, "a number"),
    "log": (bool, "true or false"),
    "choices": (list, "a list"),
    "when": (dict, "a dict"),
    "otherwise": (object, "any value"),
}


def _search_param(name: str, given: Any) -> SearchParam:
    """Build a parameter from plain values."""
    if isinstance(given, SearchParam):
        return given
    known = ", ".join(_FIELD_TYPES)
    require(isinstance(given, dict), f"search.{name}", given, f"a group of {known}")
    values = dict(given)
    for key, value in given.items():
        require(key in _FIELD_TYPES, f"search.{name}", key, f"one of {known}")
        kind, allowed = _FIELD_TYPES[key]
        ok = isinstance(value, kind) and not (allowed == "a number" and isinstance(value, bool))
        require(ok, f"search.{name}.{key}", value, allowed)
        if allowed == "a number" and value is not None:
            values[key] = float(value)
    return SearchParam(**values)


@dataclass
class TuneConfig(TrainConfig):
    """`leakdet tune`: the training configuration to search around, and the study."""

    tune: TuneSettings = field(default_factory=TuneSettings)
    search: dict[str, Any] = doc({}, "Parameters of the search space by name.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.search = {name: _search_param(name, param) for name, param in self.search.items()}

    def training(self) -> TrainConfig:
        """The configuration of one training, without the study."""
        return self.plain()
