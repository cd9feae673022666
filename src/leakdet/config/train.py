"""Settings of `train`: the data, the callbacks, the flags of Lightning's trainer, and the rest."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from leakdet.config.build import LOGS, DemoConfig, LabelsConfig
from leakdet.config.fields import check_ranges, doc, is_own, require
from leakdet.config.model import DecisionConfig, LossConfig, NetworkConfig
from leakdet.config.signal import SignalConfig

SYNTHETIC = "synthetic"  # data.negatives that are made up


@dataclass
class DataConfig:
    """The data that the network is trained on, and the way they reach it."""

    store: str | None = doc(None, "Folder or URL of the store; null: the demo, synthesised once.")
    stores: list[str] = doc([], "Several stores that train as one, in place of data.store.")
    cache: str | None = doc(
        None,
        "Folder of demo, joined and copied stores, and made-up sounds; null: the user's cache.",
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
        "Samples in a batch, of all processes together; 0: on a GPU grown first while steps get "
        "faster and fit, on several by their memory, on a CPU the default.",
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
        "Sounds without a leak that train beside the recordings: synthetic (made-up rain, engines, "
        "taps, wind), none, or a folder of such sounds; null: none; a folder called synthetic: "
        "./synthetic.",
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
        self.negatives = None if self.negatives == "none" else self.negatives  # one spelling
        check_ranges(self, "data.")
        alone = self.store is None or not self.stores
        require(alone, "data.stores", self.stores, "none beside data.store; name all of them here")

    @property
    def is_demo(self) -> bool:
        """True if no store is named."""
        return self.store is None and not self.stores


@dataclass
class CallbacksConfig:
    """One switch per built-in callback, and the user's own callbacks.

    Numbers that a callback works with stay where they are: `patience`, `loss_patience`,
    `averaging`, `trainer.enable_progress_bar`. Checkpoints and history.csv are always written.
    """

    early_stopping: bool = doc(True, "Stop after patience checks without a better one.")
    loss_stop: bool = doc(True, "Stop after loss_patience checks with a risen loss.")
    learning_rate_monitor: bool = doc(True, "Log the learning rate.")
    loader_wait: bool = doc(True, "Log the time spent waiting for data; warn if it is long.")
    step_times: bool = doc(True, "Log samples/s; warn of slow callbacks and slow checks.")
    first_batch: bool = doc(True, "Warn if the input is badly scaled.")
    gradient_monitor: bool = doc(True, "Log gradient norms; warn if they explode or vanish.")
    rate_watch: bool = doc(True, "Warn if nothing is learnt: too low a rate, a flat loss.")
    collapse: bool = doc(True, "Warn of constant, inverted or single-class predictions.")
    overfit: bool = doc(True, "Warn if the training loss falls while fewer leaks are found.")
    system_use: bool = doc(
        True, "Log use of CPU, memory and GPU; warn of an idle GPU, full memory."
    )
    extra: list[str] = doc(
        [], "package.module:Class of each of your own, made without arguments after the others."
    )

    def __post_init__(self) -> None:
        for name in self.extra:
            require(is_own(name), "callbacks.extra", name, "package.module:Class")


ACCELERATORS = ("auto", "cpu", "gpu", "cuda", "mps", "tpu")
PRECISIONS = (
    "32-true", "bf16-mixed", "16-mixed", "64-true", "bf16-true", "16-true", "transformer-engine",
    "transformer-engine-float16", "32", "64", "16", "bf16",
)  # fmt: skip


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _share(value: Any) -> bool:
    return _whole(value, 0) or (isinstance(value, float) and 0 <= value <= 1)


def _number(value: Any) -> bool:
    return (_whole(value, 0) or isinstance(value, float)) and value >= 0


def _devices(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_whole(number, 0) for number in value)
    return bool(re.fullmatch(r"auto|-1|[1-9]\d*|\d+(,\d*)+", str(value)))


# what is allowed, in words, and the test of it
LIMIT = ("a whole number of at least 1, or -1 for no limit", lambda v: _whole(v, 1) or v == -1)
COUNT = ("a whole number of at least 1", lambda value: _whole(value, 1))
COUNT_OR_NONE = ("a whole number of at least 0", lambda value: _whole(value, 0))
SHARE = ("a number of batches, or a share from 0.0 to 1.0", _share)
SWITCH = ("true or false", lambda value: isinstance(value, bool))
ALLOWED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "accelerator": (f"one of {', '.join(ACCELERATORS)}", lambda value: value in ACCELERATORS),
    "precision": (f"one of {', '.join(PRECISIONS)}", lambda value: str(value) in PRECISIONS),
    "devices": (
        "a number of devices from 1, a list of device numbers, auto, or -1 for all",
        _devices,
    ),
    "max_epochs": LIMIT,
    "max_steps": LIMIT,
    "min_epochs": COUNT_OR_NONE,
    "min_steps": COUNT_OR_NONE,
    "num_nodes": COUNT,
    "check_val_every_n_epoch": COUNT,
    "accumulate_grad_batches": COUNT,
    "log_every_n_steps": COUNT_OR_NONE,
    "num_sanity_val_steps": ("a number of batches, or -1 for all", lambda v: _whole(v, -1)),
    "limit_train_batches": SHARE,
    "limit_val_batches": SHARE,
    "overfit_batches": SHARE,
    "val_check_interval": SHARE,
    "gradient_clip_val": ("a number of at least 0", _number),
    "benchmark": SWITCH,
    "detect_anomaly": SWITCH,
    "enable_progress_bar": SWITCH,
    "enable_model_summary": SWITCH,
    "deterministic": ("true, false or warn", lambda value: value in (True, False, "warn")),
}


@dataclass(frozen=True)
class TrainerFlags:
    """Each flag as given under `trainer`, or Lightning's own default where it is absent or null."""

    accelerator: str = "auto"
    devices: Any = "auto"  # a number, a list of device numbers, such a list as text, or auto
    strategy: str = "auto"
    num_nodes: int = 1
    max_epochs: int = 1000  # -1: no limit
    max_steps: int = -1  # -1: no limit
    check_val_every_n_epoch: int = 1
    val_check_interval: float | int = 1.0  # float: share of an epoch; int: batches
    limit_train_batches: float | int = 1.0  # float: share of the batches; int: batches
    limit_val_batches: float | int = 1.0  # float: share of the batches; int: batches
    overfit_batches: float | int = 0.0
    fast_dev_run: bool | int = False
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = None
    enable_progress_bar: bool = True

    @classmethod
    def of(cls, trainer: Mapping[str, Any]) -> "TrainerFlags":
        """Read the flags from the settings under `trainer`."""
        given = {name: value for name, value in trainer.items() if value is not None}
        for name, (allowed, fits) in ALLOWED.items():
            if name in given:
                require(fits(given[name]), f"trainer.{name}", given[name], allowed)
        names = (field.name for field in fields(cls))
        return cls(**{name: given[name] for name in names if name in given})

    @property
    def one_device(self) -> bool:
        """True if a training takes a single device, so that its process is the only one."""
        devices = self.devices
        if not isinstance(devices, list):
            text = "1" if (self.accelerator, devices) == ("cpu", "auto") else str(devices)
            devices = text.rstrip(",").split(",") if "," in text else ["0"] * (text == "1")
        return len(devices) == 1 and self.num_nodes == 1

    def span(self, checks: int) -> str:
        """A number of validation checks in words: as epochs, where the flags count in epochs."""
        if not isinstance(self.val_check_interval, float):
            return _counted(checks, "validation check")
        return _counted(checks * self.check_val_every_n_epoch * self.val_check_interval, "epoch")


def _counted(number: int | float, noun: str) -> str:
    return f"{number:g} {noun}" + ("" if number == 1 else "s")


@dataclass
class OptimizerConfig:
    """Optimiser; its learning rate warms up linearly, then follows a cosine, step by step."""

    lr: float = doc(1e-3, "Highest learning rate.", at_least=0)
    weight_decay: float = doc(0.01, "Weight decay; of biases and norms it is 0.", at_least=0)
    warmup_epochs: float = doc(3.0, "Length of the warm-up in epochs.", at_least=0)
    min_lr: float = doc(1e-6, "Learning rate at the end.", at_least=0)
    name: str = doc(
        "adamw",
        "Optimiser; adam adds the weight decay to the gradients, adamw takes it off the weights.",
        one_of=("adamw", "adam"),
    )

    def __post_init__(self) -> None:
        check_ranges(self, "optimizer.")


@dataclass
class AugmentConfig:
    """Changes to training samples, drawn anew for each sample on its device."""

    eq_db: float = doc(6.0, "Strength of a smooth random equaliser in dB; 0: off.", at_least=0)
    eq_terms: int = doc(3, "Number of cosines that the equaliser sums.", at_least=1)
    gain_db: float = doc(
        0.0,
        "Standard deviation of a random gain in dB, which level_free takes out again; 0: off.",
        at_least=0,
    )
    mask_mels: int = doc(
        0,
        "Widest SpecAugment mask in mel bands, filled with the sample's mean; 0: off.",
        at_least=0,
    )
    mask_columns: int = doc(0, "Widest mask in columns of time, likewise; 0: off.", at_least=0)
    mixup_alpha: float = doc(
        0.0, "Mixup of pairs of samples with shares from Beta(alpha, alpha); 0: off.", at_least=0
    )
    interference: str | None = doc(
        None, "Folder of sounds to mix in, such as rain or taps; null: off."
    )
    interference_prob: float = doc(0.5, "Share of samples that get a sound.", at_least=0, at_most=1)
    interference_db: list[float] = doc(
        [-20.0, 0.0], "Lowest and highest level of the sound in dB above the sample's own."
    )

    def __post_init__(self) -> None:
        check_ranges(self, "augment.")
        levels = self.interference_db
        ok = len(levels) == 2 and levels[0] <= levels[1]
        require(ok, "augment.interference_db", levels, "two levels in dB, the lower one first")


@dataclass
class AveragingConfig:
    """Weights averaged over training, which validation and the model file use."""

    name: str = doc(
        "none",
        "Average: none, exponential over steps, or plain over the ends of the later epochs.",
        one_of=("none", "ema", "swa"),
    )
    ema_decay: float = doc(0.999, "Decay of ema for each step.", above=0, below=1)
    swa_start: float = doc(0.75, "Share of all epochs before swa begins.", at_least=0, at_most=1)

    def __post_init__(self) -> None:
        check_ranges(self, "averaging.")


@dataclass
class StopConfig:
    """The end of a training, and the choice of the weights that are its result."""

    name: str = doc(
        "auto",
        "Result of the training: the best check on val, after which patience ends it; fixed: the "
        "weights after `passes`; auto: fixed for fewer than 20 validation recordings, else val.",
        one_of=("auto", "val", "fixed"),
    )
    passes: int = doc(
        10,
        "Passes over train under fixed; trainer.max_epochs may end it earlier.",
        at_least=1,
    )
    batches: int = doc(
        10,
        "Batches that a pass has at least under fixed, smaller than data.batch_size if need be.",
        at_least=1,
    )

    def __post_init__(self) -> None:
        check_ranges(self, "stop.")


LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")
PROFILES = ("off", "phases", "trace", "nvtx")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")
INIT_PARTS = ("optimizer", "schedule", "best_score")


@dataclass
class TrainConfig:
    """`leakdet train`: from a store to a model file."""

    seed: int = doc(0, "Seed of weights, shuffling, dropout and augmentation.", at_least=0)
    data: DataConfig = field(default_factory=DataConfig)
    signal: SignalConfig = field(default_factory=SignalConfig)  # the demo's; a store has its own
    demo: DemoConfig = field(default_factory=DemoConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    decision: DecisionConfig = field(default_factory=DecisionConfig)
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    callbacks: CallbacksConfig = field(default_factory=CallbacksConfig)
    stop: StopConfig = field(default_factory=StopConfig)
    select: str = doc(
        "f1",
        "What the best validation check and patience go by, ties by loss; the rates are those at "
        "decision.max_fpr and decision.min_tpr.",
        one_of=("f1", "auroc", "tpr_at_fpr", "fpr_at_tpr", "loss"),
    )
    patience: int = doc(
        15,
        "Validation checks without a better one, by select, to stop after.",
        at_least=1,
    )
    loss_patience: int = doc(
        10,
        "Validation checks of risen loss and none better by select to stop after; 0: off.",
        at_least=0,
    )
    resume: str | None = doc(
        None,
        "Run to continue exactly: its folder or .ckpt file, or latest, the newest run; auto: "
        "the latest one with these settings, or a new run; null: a new run.",
    )
    init_from: str | None = doc(
        None,
        "Model file, checkpoint or run's folder whose weights a new training starts from; null: "
        "random ones.",
    )
    init_reset: list[str] = doc(
        list(INIT_PARTS), "What init_from does not take over: optimizer, schedule, best_score."
    )
    trust_network: list[str] = doc(
        [],
        "Networks, losses and callbacks of one's own, package.module:Name, that a resumed run or a "
        "file of settings may import.",
    )
    find_lr: bool = doc(False, "Run a range test first; its choice replaces optimizer.lr.")
    compile: bool = doc(
        False, "Compile training steps of the network with torch.compile, where that works."
    )
    compile_mode: str = doc(
        "default",
        "What the compiler aims at: short compiling, less work of the CPU in each step (CUDA "
        "graphs), or the fastest kernels, which it searches for minutes.",
        one_of=COMPILE_MODES,
    )
    compile_fullgraph: bool = doc(
        False, "Train without compiling unless the whole network makes one graph."
    )
    profile: str = doc(
        "off",
        "Where the time goes: phases of a step, a trace of operators, nvtx ranges (for nsys).",
        one_of=PROFILES,
    )
    profile_steps: int = doc(
        50, "Training steps that a trace and nvtx record, after the first ten.", at_least=1
    )
    threads: int = doc(
        0,
        "CPU threads of torch; 0: its own choice; another number changes the last digits of sums.",
        at_least=0,
    )
    log: str = doc(
        "normal",
        "What is printed; full: details too; quiet: results, warnings, errors; json: an object a "
        "line.",
        one_of=LOGS,
    )
    trainer: dict[str, Any] = doc({}, "Arguments of lightning.Trainer.")
    logger: dict[str, Any] = doc({}, "Loggers by name, each with its own arguments.")

    def __post_init__(self) -> None:
        check_ranges(self)
        for part in self.init_reset:
            require(part in INIT_PARTS, "init_reset", part, f"one of {', '.join(INIT_PARTS)}")
        allowed = "null together with resume: resume continues a run, init_from begins a new one"
        require(not (self.resume and self.init_from), "init_from", self.init_from, allowed)

    def plain(self) -> "TrainConfig":
        """These settings without what a subclass adds."""
        return TrainConfig(**{f.name: getattr(self, f.name) for f in fields(TrainConfig)})
