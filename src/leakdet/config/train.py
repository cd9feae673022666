"""Settings of `train`."""

from dataclasses import dataclass, field
from typing import Any

from leakdet.config.build import DemoConfig, LabelsConfig
from leakdet.config.callbacks import CallbacksConfig
from leakdet.config.range_checks import at_least, one_of, require, share
from leakdet.config.signal import SignalConfig


@dataclass
class DataConfig:
    """What the network is fed with."""

    store: str | None = None  # a store's directory; null: the demo, synthesised once and cached
    cache: str | None = None  # where demo stores are kept; null: the user's cache directory
    unit: str = "window"  # window | segment: what one sample of the network is
    sampling: str = "natural"  # natural | balanced | oversampled | curriculum
    curriculum_epochs: int = 10  # curriculum: epochs from a balanced draw to the natural mix
    batch_size: int = 512  # of all processes together
    residency: str = "auto"  # auto | device | ram | stream: where the windows are during training
    # stream only: processes that read, beside the one that trains; 0: a thread reads ahead
    workers: int = 0
    worker_start: str = "forkserver"  # fork | forkserver | spawn: how worker processes are started
    # stream only: windows that are shuffled together, in each reading process
    buffer_mb: float = 64.0
    # null test: permute the training and validation labels over recordings; nothing can be learnt
    shuffle_labels: bool = False

    def __post_init__(self) -> None:
        one_of("data.unit", self.unit, ("window", "segment"))
        one_of("data.sampling", self.sampling, ("natural", "balanced", "oversampled", "curriculum"))
        at_least("data.batch_size", self.batch_size, 1)
        one_of("data.residency", self.residency, ("auto", "device", "ram", "stream"))
        one_of("data.worker_start", self.worker_start, ("fork", "forkserver", "spawn"))
        at_least("data.workers", self.workers, 0)
        at_least("data.buffer_mb", self.buffer_mb, 1)
        at_least("data.curriculum_epochs", self.curriculum_epochs, 1)


@dataclass
class NetworkConfig:
    """A network and the input layer that belongs to it (saved in its weights)."""

    name: str = "paper"  # paper | dual_head | linear | compact
    input_norm: str = "level_free"  # none | level_free: subtract each sample's mean level
    standardise: bool = True  # per-band mean and deviation of the training split
    time_pool: int = 4  # average so many columns before the network; 1: off
    conv_channels: int = 32  # `paper`, `compact`: filters of their convolution
    dense: int = 128  # `paper`, `compact`: width of their fully connected layer
    dropout: float = 0.25

    def __post_init__(self) -> None:
        one_of("network.name", self.name, ("paper", "dual_head", "linear", "compact"))
        one_of("network.input_norm", self.input_norm, ("none", "level_free"))
        for name in ("time_pool", "conv_channels", "dense"):
            at_least(f"network.{name}", getattr(self, name), 1)
        require(0 <= self.dropout < 1, "network.dropout", self.dropout, "from 0 to below 1")


@dataclass
class LossConfig:
    """Class loss + aux_weight x leak loss."""

    name: str = "ce"  # ce | weighted_ce | focal
    aux_weight: float = 0.3  # weight of the auxiliary leak head; 0: the head is off
    leak_weight_boost: float = 1.0  # weighted_ce, binary: multiplies the weight of the leak class
    gamma: float = 2.0  # focal
    alpha: float = 0.75  # focal: weight of the leak class, 1 - alpha for the rest
    # share of the target that is spread evenly over the classes, in both losses
    label_smoothing: float = 0.0
    pos_weight: float = 1.0  # of leaks in the auxiliary loss
    # class weights, boost, focal alpha and sampling multiply: one is allowed unless told
    allow_several_balances: bool = False

    def __post_init__(self) -> None:
        one_of("loss.name", self.name, ("ce", "weighted_ce", "focal"))
        at_least("loss.aux_weight", self.aux_weight, 0)
        require(
            self.leak_weight_boost > 0, "loss.leak_weight_boost", self.leak_weight_boost, "above 0"
        )
        at_least("loss.gamma", self.gamma, 0)
        share("loss.alpha", self.alpha)
        require(
            0 <= self.label_smoothing < 1,
            "loss.label_smoothing",
            self.label_smoothing,
            "from 0 to below 1",
        )
        require(self.pos_weight > 0, "loss.pos_weight", self.pos_weight, "above 0")


@dataclass
class OptimizerConfig:
    """AdamW with a linear warm-up and a cosine, both stepped at every optimiser step."""

    lr: float = 1e-3
    weight_decay: float = 0.01
    warmup_epochs: float = 3.0
    min_lr: float = 1e-6

    def __post_init__(self) -> None:
        at_least("optimizer.lr", self.lr, 0)
        at_least("optimizer.weight_decay", self.weight_decay, 0)
        at_least("optimizer.warmup_epochs", self.warmup_epochs, 0)
        require(self.min_lr >= 0, "optimizer.min_lr", self.min_lr, "at least 0")


@dataclass
class AugmentConfig:
    """Changes to training samples, drawn anew for each sample on the device."""

    eq_db: float = 6.0  # smooth random EQ; 0: off
    eq_terms: int = 3
    # deviation of a random gain; without effect under input_norm=level_free; 0: off
    gain_db: float = 0.0
    # SpecAugment: widest mask along the mel axis, filled with the sample's mean; 0: off
    mask_mels: int = 0
    mask_columns: int = 0  # the same along time
    mixup_alpha: float = 0.0  # mixup of two samples, share drawn from Beta(alpha, alpha); 0: off
    interference: str | None = None  # folder of sounds to mix in (rain, taps, machines); null: off
    interference_prob: float = 0.5  # share of the samples that get one
    interference_db: list[float] = field(
        default_factory=lambda: [-20.0, 0.0]
    )  # its level against the sample's

    def __post_init__(self) -> None:
        at_least("augment.eq_db", self.eq_db, 0)
        at_least("augment.eq_terms", self.eq_terms, 1)
        for name in ("gain_db", "mask_mels", "mask_columns", "mixup_alpha"):
            at_least(f"augment.{name}", getattr(self, name), 0)
        share("augment.interference_prob", self.interference_prob)
        low_high = self.interference_db
        require(
            len(low_high) == 2 and low_high[0] <= low_high[1],
            "augment.interference_db",
            low_high,
            "two levels in dB, the lower one first",
        )


@dataclass
class AveragingConfig:
    """Weights averaged over steps, in validation and in the model file; training itself goes on with its own."""

    # none | ema: exponential, over steps | swa: plain, over the ends of the later epochs
    name: str = "none"
    ema_decay: float = 0.999
    swa_start: float = 0.75  # share of trainer.max_epochs after which swa begins

    def __post_init__(self) -> None:
        one_of("averaging.name", self.name, ("none", "ema", "swa"))
        require(0 < self.ema_decay < 1, "averaging.ema_decay", self.ema_decay, "between 0 and 1")
        share("averaging.swa_start", self.swa_start)


@dataclass
class DecisionConfig:
    """From window probabilities to a verdict per recording; the threshold is fitted on val by `policy`, once."""

    pooling: str = "mean"  # mean | vote | logit_mean
    vote_fraction: float = 0.5
    policy: str = "max_f1"  # max_f1 | max_fpr | min_tpr | min_cost | fixed
    threshold: float = 0.5  # fixed
    max_fpr: float = 0.01
    min_tpr: float = 0.95
    cost_miss: float = 10.0  # min_cost: of a leak that is missed, in units of
    cost_false_dig: float = 1.0  # a dig that finds none
    # none | platt | temperature: of the shown probability; verdicts use the score
    calibration: str = "none"

    def __post_init__(self) -> None:
        one_of("decision.pooling", self.pooling, ("mean", "vote", "logit_mean"))
        require(
            0 < self.vote_fraction <= 1,
            "decision.vote_fraction",
            self.vote_fraction,
            "above 0 and at most 1",
        )
        one_of(
            "decision.policy", self.policy, ("max_f1", "max_fpr", "min_tpr", "min_cost", "fixed")
        )
        one_of("decision.calibration", self.calibration, ("none", "platt", "temperature"))
        for name in ("cost_miss", "cost_false_dig"):
            at_least(f"decision.{name}", getattr(self, name), 0)
        for name in ("threshold", "max_fpr", "min_tpr"):
            share(f"decision.{name}", getattr(self, name))


INIT_PARTS = ("optimizer", "schedule", "best_score")


@dataclass
class TrainConfig:
    """`python -m leakdet.train`: from a store to a model file."""

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    # of the demo; a store brings its own
    signal: SignalConfig = field(default_factory=SignalConfig)
    demo: DemoConfig = field(default_factory=DemoConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    decision: DecisionConfig = field(default_factory=DecisionConfig)
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    callbacks: CallbacksConfig = field(default_factory=CallbacksConfig)
    # validation checks without a better recording F1, ties broken by the loss, before training stops
    patience: int = 15
    # validation checks with a risen loss and no better F1 before training stops; 0: off
    loss_patience: int = 10
    resume: str | None = None  # auto | a run's folder | a .ckpt: go on exactly where that run was
    # a model file or checkpoint whose weights are the start of a new training
    init_from: str | None = None
    # what starts anew with init_from
    init_reset: list[str] = field(default_factory=lambda: list(INIT_PARTS))
    find_lr: bool = False  # range test before training; its choice replaces optimizer.lr
    find_batch_size: bool = False  # grow data.batch_size while it gets faster and fits the memory
    compile: bool = False
    # of torch on a CPU, 0: its own choice; another number changes sums in their last digits
    threads: int = 0
    trainer: dict[str, Any] = field(default_factory=dict)  # handed to lightning.Trainer as it is
    logger: dict[str, Any] = field(default_factory=dict)  # logger name -> its own arguments

    def __post_init__(self) -> None:
        at_least("seed", self.seed, 0)
        at_least("patience", self.patience, 1)
        at_least("loss_patience", self.loss_patience, 0)
        for part in self.init_reset:
            one_of("init_reset", part, INIT_PARTS)
        require(
            not (self.resume and self.init_from),
            "init_from",
            self.init_from,
            "null together with resume: resume goes on with a run, init_from begins a new one",
        )
        at_least("threads", self.threads, 0)
