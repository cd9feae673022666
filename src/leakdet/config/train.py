"""Settings of `train`."""

from dataclasses import dataclass, field, fields
from typing import Any

from leakdet.config.build import LOGS, DemoConfig, LabelsConfig
from leakdet.config.callbacks import CallbacksConfig
from leakdet.config.data import DataConfig
from leakdet.config.model import DecisionConfig, LossConfig, NetworkConfig
from leakdet.config.range_checks import check_ranges, doc, require
from leakdet.config.signal import SignalConfig


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
    find_batch_size: bool = doc(False, "Grow data.batch_size first while it gets faster and fits.")
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
        "What is printed; quiet: results, warnings, errors; json: an object a line.",
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
