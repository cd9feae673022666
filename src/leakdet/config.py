"""Every setting of leakdet: its type, default, unit and allowed range.

The doors compose these dataclasses with Hydra and hand plain objects down. Fields hold primitives only, so
`dataclasses.asdict` is at once the checkpoint's hyper-parameters, the model file's JSON and the report's appendix.
Range checks live in `__post_init__`, which runs when a composed configuration becomes an object, before any work.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from leakdet.errors import SettingsError

T = TypeVar("T")

MISSING: Any = (
    "???"  # OmegaConf's mark for "the user must give this"; spelt out so that this module needs no OmegaConf
)


def _require(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise SettingsError(f"{name}={value!r} is not allowed: it must be {allowed}.")


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    _require(value in allowed, name, value, "one of " + ", ".join(allowed))


def _share(name: str, value: int | float) -> None:
    _require(0.0 <= value <= 1.0, name, value, "between 0 and 1")


def _at_least(name: str, value: int | float, least: int | float) -> None:
    _require(math.isfinite(value) and value >= least, name, value, f"a number of at least {least:g}")


# ---------------------------------------------------------------------------------------------------- signal


@dataclass
class SignalConfig:
    """How audio becomes log-mel. Build, train, predict and export share one value of this, told apart by `hash`."""

    sample_rate_hz: int = 16000
    window_samples: int = 16000
    window_hop_samples: int = 8000
    segment_samples: int = 1024
    segment_hop_samples: int = 512
    n_fft: int = 0  # 0: the segment, hence one frame per segment
    frame_hop_samples: int = 0  # 0: half of n_fft; matters only where n_fft is shorter than the segment
    n_mels: int = 64
    fmin_hz: float = 300.0
    fmax_hz: int | float | str = (
        "auto"  # auto: the lowest Nyquist frequency among the sources, found by `build`
    )
    floor: float = 1e-5  # smallest magnitude, 1e-5 = -100 dB
    channels: str = "mean"  # mean | first
    detrend: str = "none"  # none | mean | linear, within each window
    highpass_hz: float = 0.0  # 0: off. Butterworth, causal, so that a recording can be streamed
    highpass_order: int = 4

    def __post_init__(self) -> None:
        for name in (
            "sample_rate_hz",
            "window_samples",
            "window_hop_samples",
            "segment_samples",
            "segment_hop_samples",
        ):
            _at_least(f"signal.{name}", getattr(self, name), 1)
        _require(
            self.segment_samples <= self.window_samples,
            "signal.segment_samples",
            self.segment_samples,
            f"at most window_samples={self.window_samples}",
        )
        _require(
            self.window_hop_samples <= self.window_samples,
            "signal.window_hop_samples",
            self.window_hop_samples,
            f"at most window_samples={self.window_samples}, or sound would be skipped",
        )
        _require(
            self.n_fft == 0 or 2 <= self.n_fft <= self.segment_samples,
            "signal.n_fft",
            self.n_fft,
            f"0 (the segment) or from 2 to segment_samples={self.segment_samples}",
        )
        _at_least("signal.frame_hop_samples", self.frame_hop_samples, 0)
        _at_least("signal.n_mels", self.n_mels, 1)
        _require(self.floor > 0, "signal.floor", self.floor, "above 0")
        nyquist_hz = self.sample_rate_hz / 2
        top_hz = nyquist_hz if self.fmax_hz == "auto" else self.fmax_hz
        ok = isinstance(top_hz, int | float) and 0 < top_hz <= nyquist_hz
        _require(
            ok, "signal.fmax_hz", self.fmax_hz, f"auto, or at most half the sample rate, {nyquist_hz:g} Hz"
        )
        self.fmax_hz = "auto" if self.fmax_hz == "auto" else float(top_hz)  # one spelling, one hash
        _require(
            0 <= self.fmin_hz < float(top_hz),
            "signal.fmin_hz",
            self.fmin_hz,
            f"from 0 to below {top_hz:g} Hz (fmax)",
        )
        _one_of("signal.channels", self.channels, ("mean", "first"))
        _one_of("signal.detrend", self.detrend, ("none", "mean", "linear"))
        _require(
            0 <= self.highpass_hz < nyquist_hz,
            "signal.highpass_hz",
            self.highpass_hz,
            f"from 0 to below {nyquist_hz:g} Hz",
        )
        _require(1 <= self.highpass_order <= 12, "signal.highpass_order", self.highpass_order, "from 1 to 12")

    @property
    def fft_samples(self) -> int:
        return self.n_fft or self.segment_samples

    @property
    def fft_hop_samples(self) -> int:
        return self.frame_hop_samples or max(1, self.fft_samples // 2)

    @property
    def top_hz(self) -> float:
        """fmax as a number: half the sample rate while it is `auto`."""
        return self.sample_rate_hz / 2 if isinstance(self.fmax_hz, str) else float(self.fmax_hz)

    @property
    def segments(self) -> int:
        """Segments in a window."""
        return 1 + (self.window_samples - self.segment_samples) // self.segment_hop_samples

    @property
    def frames(self) -> int:
        """Frames in a segment."""
        return 1 + (self.segment_samples - self.fft_samples) // self.fft_hop_samples

    @property
    def mel_shape(self) -> tuple[int, int, int]:
        """[segments, mels, frames] of one window."""
        return self.segments, self.n_mels, self.frames

    @property
    def window_s(self) -> float:
        return self.window_samples / self.sample_rate_hz

    @property
    def hash(self) -> str:
        """Twelve hex digits that differ whenever two settings could give different mels."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: "SignalConfig") -> list[str]:
        """`name: mine / theirs` of every field that differs."""
        mine, theirs = asdict(self), asdict(other)
        return [f"{name}: {mine[name]} / {theirs[name]}" for name in mine if mine[name] != theirs[name]]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> "SignalConfig":
        """Rebuild settings that were stored as JSON. Raises `SettingsError` on unknown or missing fields."""
        return from_dict(cls, values, where)


def from_dict(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """A settings dataclass from stored plain values, strictly: `where` names the file in the error."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown, missing = sorted(values.keys() - known), sorted(known - values.keys())
    if unknown or missing:
        raise SettingsError(
            f"{where}: its {kind.__name__} has unknown fields {unknown} and lacks {missing}; "
            "the file was written by another version of leakdet."
        )
    return kind(**values)


# ---------------------------------------------------------------------------------------------------- build


@dataclass
class DemoConfig:
    """The synthetic recordings of `source=demo` (docs/demo.md)."""

    sites: int = 24  # the demo is split by site
    recordings_per_site: int = 20
    leak_fraction: float = 0.5
    duration_s: float = 5.0  # mean; each recording's own is drawn within 20 % of it
    sample_rate_hz: int = 16000
    difficulty: float = 1.0  # scales the leak-to-noise ratio down: 0 easy, 2 hard
    seed: int = 0

    def __post_init__(self) -> None:
        _at_least("demo.sites", self.sites, 1)
        _at_least("demo.recordings_per_site", self.recordings_per_site, 1)
        _share("demo.leak_fraction", self.leak_fraction)
        _at_least("demo.duration_s", self.duration_s, 0.1)
        _at_least("demo.sample_rate_hz", self.sample_rate_hz, 1000)
        _at_least("demo.difficulty", self.difficulty, 0)
        _at_least("demo.seed", self.seed, 0)


@dataclass
class SplitConfig:
    """How recordings are divided into train, val and test. Splits that the source already has are kept."""

    ratios: list[float] = field(default_factory=lambda: [0.7, 0.2, 0.1])
    group_by: list[str] = field(
        default_factory=list
    )  # group columns; empty: every recording is its own group
    seed: int = 0

    def __post_init__(self) -> None:
        ok = (
            len(self.ratios) == 3
            and all(r >= 0 for r in self.ratios)
            and math.isclose(sum(self.ratios), 1, abs_tol=1e-6)
        )
        _require(ok, "split.ratios", self.ratios, "three shares (train, val, test) that add up to 1")
        _require(self.ratios[0] > 0, "split.ratios", self.ratios, "more than 0 for train")


@dataclass
class LabelsConfig:
    """Which class is the leak, and whether the network sees it against the rest or sees every class."""

    mode: str = "binary"  # binary | multiclass
    leak: str | None = None  # in any case; null: the store's own leak label, or the class called LEAK

    def __post_init__(self) -> None:
        _one_of("labels.mode", self.mode, ("binary", "multiclass"))


@dataclass
class BuildConfig:
    """`python -m leakdet.build`: from audio to a store."""

    source: str = MISSING  # label folders, split folders with label folders, a CSV manifest, or demo
    out: str = MISSING
    signal: SignalConfig = field(default_factory=SignalConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    demo: DemoConfig = field(default_factory=DemoConfig)
    verify: str = "sample"  # off | sample | full: recompute the mel from the audio and compare
    waveform: str = "none"  # none | int16 | float32: keep the sound in the store too
    compression: str = "none"  # none | gzip | lzf: smaller, but then it cannot be memory-mapped
    workers: int = 0  # 0: one per core
    shard: str = ""  # i/n: only the i-th of n parts, 0/n to n-1/n, on a machine each; merge: join them
    overwrite: bool = False

    def __post_init__(self) -> None:
        _one_of("verify", self.verify, ("off", "sample", "full"))
        _one_of("waveform", self.waveform, ("none", "int16", "float32"))
        _one_of("compression", self.compression, ("none", "gzip", "lzf"))
        _at_least("workers", self.workers, 0)
        part = self.shard_part
        ok = self.shard in ("", "merge") or (part is not None and 0 <= part[0] < part[1] <= 99_999)
        _require(ok, "shard", self.shard, "i/n with i from 0 to n-1, or merge")

    @property
    def shard_part(self) -> tuple[int, int] | None:
        """(i, n) of `shard=i/n`."""
        number, slash, count = self.shard.partition("/")
        return (int(number), int(count)) if slash and number.isdecimal() and count.isdecimal() else None


# ---------------------------------------------------------------------------------------------------- train


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
    workers: int = 0  # stream only: processes that read, beside the one that trains; 0: a thread reads ahead
    worker_start: str = "forkserver"  # fork | forkserver | spawn: how worker processes are started
    buffer_mb: float = 64.0  # stream only: windows that are shuffled together, in each reading process
    shuffle_labels: bool = (
        False  # null test: permute the training and validation labels over recordings; nothing can be learnt
    )

    def __post_init__(self) -> None:
        _one_of("data.unit", self.unit, ("window", "segment"))
        _one_of("data.sampling", self.sampling, ("natural", "balanced", "oversampled", "curriculum"))
        _at_least("data.batch_size", self.batch_size, 1)
        _one_of("data.residency", self.residency, ("auto", "device", "ram", "stream"))
        _one_of("data.worker_start", self.worker_start, ("fork", "forkserver", "spawn"))
        _at_least("data.workers", self.workers, 0)
        _at_least("data.buffer_mb", self.buffer_mb, 1)
        _at_least("data.curriculum_epochs", self.curriculum_epochs, 1)


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
        _one_of("network.name", self.name, ("paper", "dual_head", "linear", "compact"))
        _one_of("network.input_norm", self.input_norm, ("none", "level_free"))
        for name in ("time_pool", "conv_channels", "dense"):
            _at_least(f"network.{name}", getattr(self, name), 1)
        _require(0 <= self.dropout < 1, "network.dropout", self.dropout, "from 0 to below 1")


@dataclass
class LossConfig:
    """Class loss + aux_weight x leak loss."""

    name: str = "ce"  # ce | weighted_ce | focal
    aux_weight: float = 0.3  # weight of the auxiliary leak head; 0: the head is off
    leak_weight_boost: float = 1.0  # weighted_ce, binary: multiplies the weight of the leak class
    gamma: float = 2.0  # focal
    alpha: float = 0.75  # focal: weight of the leak class, 1 - alpha for the rest
    label_smoothing: float = 0.0  # share of the target that is spread evenly over the classes, in both losses
    pos_weight: float = 1.0  # of leaks in the auxiliary loss
    allow_several_balances: bool = (
        False  # class weights, boost, focal alpha and sampling multiply: one is allowed unless told
    )

    def __post_init__(self) -> None:
        _one_of("loss.name", self.name, ("ce", "weighted_ce", "focal"))
        _at_least("loss.aux_weight", self.aux_weight, 0)
        _require(self.leak_weight_boost > 0, "loss.leak_weight_boost", self.leak_weight_boost, "above 0")
        _at_least("loss.gamma", self.gamma, 0)
        _share("loss.alpha", self.alpha)
        _require(
            0 <= self.label_smoothing < 1, "loss.label_smoothing", self.label_smoothing, "from 0 to below 1"
        )
        _require(self.pos_weight > 0, "loss.pos_weight", self.pos_weight, "above 0")


@dataclass
class OptimizerConfig:
    """AdamW with a linear warm-up and a cosine, both stepped at every optimiser step."""

    lr: float = 1e-3
    weight_decay: float = 0.01
    warmup_epochs: float = 3.0
    min_lr: float = 1e-6

    def __post_init__(self) -> None:
        _at_least("optimizer.lr", self.lr, 0)
        _at_least("optimizer.weight_decay", self.weight_decay, 0)
        _at_least("optimizer.warmup_epochs", self.warmup_epochs, 0)
        _require(self.min_lr >= 0, "optimizer.min_lr", self.min_lr, "at least 0")


@dataclass
class AugmentConfig:
    """Changes to training samples, drawn anew for each sample on the device."""

    eq_db: float = 6.0  # smooth random EQ; 0: off
    eq_terms: int = 3
    gain_db: float = 0.0  # deviation of a random gain; without effect under input_norm=level_free; 0: off
    mask_mels: int = 0  # SpecAugment: widest mask along the mel axis, filled with the sample's mean; 0: off
    mask_columns: int = 0  # the same along time
    mixup_alpha: float = 0.0  # mixup of two samples, share drawn from Beta(alpha, alpha); 0: off
    interference: str | None = None  # folder of sounds to mix in (rain, taps, machines); null: off
    interference_prob: float = 0.5  # share of the samples that get one
    interference_db: list[float] = field(
        default_factory=lambda: [-20.0, 0.0]
    )  # its level against the sample's

    def __post_init__(self) -> None:
        _at_least("augment.eq_db", self.eq_db, 0)
        _at_least("augment.eq_terms", self.eq_terms, 1)
        for name in ("gain_db", "mask_mels", "mask_columns", "mixup_alpha"):
            _at_least(f"augment.{name}", getattr(self, name), 0)
        _share("augment.interference_prob", self.interference_prob)
        low_high = self.interference_db
        _require(
            len(low_high) == 2 and low_high[0] <= low_high[1],
            "augment.interference_db",
            low_high,
            "two levels in dB, the lower one first",
        )


@dataclass
class AveragingConfig:
    """Weights averaged over steps, in validation and in the model file; training itself goes on with its own."""

    name: str = "none"  # none | ema: exponential, over steps | swa: plain, over the ends of the later epochs
    ema_decay: float = 0.999
    swa_start: float = 0.75  # share of trainer.max_epochs after which swa begins

    def __post_init__(self) -> None:
        _one_of("averaging.name", self.name, ("none", "ema", "swa"))
        _require(0 < self.ema_decay < 1, "averaging.ema_decay", self.ema_decay, "between 0 and 1")
        _share("averaging.swa_start", self.swa_start)


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
    calibration: str = "none"  # none | platt | temperature: of the shown probability; verdicts use the score

    def __post_init__(self) -> None:
        _one_of("decision.pooling", self.pooling, ("mean", "vote", "logit_mean"))
        _require(
            0 < self.vote_fraction <= 1, "decision.vote_fraction", self.vote_fraction, "above 0 and at most 1"
        )
        _one_of("decision.policy", self.policy, ("max_f1", "max_fpr", "min_tpr", "min_cost", "fixed"))
        _one_of("decision.calibration", self.calibration, ("none", "platt", "temperature"))
        for name in ("cost_miss", "cost_false_dig"):
            _at_least(f"decision.{name}", getattr(self, name), 0)
        for name in ("threshold", "max_fpr", "min_tpr"):
            _share(f"decision.{name}", getattr(self, name))


INIT_PARTS = ("optimizer", "schedule", "best_score")


@dataclass
class TrainConfig:
    """`python -m leakdet.train`: from a store to a model file."""

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    signal: SignalConfig = field(default_factory=SignalConfig)  # of the demo; a store brings its own
    demo: DemoConfig = field(default_factory=DemoConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    decision: DecisionConfig = field(default_factory=DecisionConfig)
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    patience: int = 15  # validation checks without a better recording F1 before training stops
    loss_patience: int = (
        10  # validation checks with a risen loss and no better F1 before training stops; 0: off
    )
    resume: str | None = None  # auto | a run's folder | a .ckpt: go on exactly where that run was
    init_from: str | None = None  # a model file or checkpoint whose weights are the start of a new training
    init_reset: list[str] = field(default_factory=lambda: list(INIT_PARTS))  # what starts anew with init_from
    find_lr: bool = False  # range test before training; its choice replaces optimizer.lr
    find_batch_size: bool = False  # grow data.batch_size while it gets faster and fits the memory
    compile: bool = False
    threads: int = 0  # of torch on a CPU, 0: its own choice; another number changes sums in their last digits
    trainer: dict[str, Any] = field(default_factory=dict)  # handed to lightning.Trainer as it is
    logger: dict[str, Any] = field(default_factory=dict)  # logger name -> its own arguments

    def __post_init__(self) -> None:
        _at_least("seed", self.seed, 0)
        _at_least("patience", self.patience, 1)
        _at_least("loss_patience", self.loss_patience, 0)
        for part in self.init_reset:
            _one_of("init_reset", part, INIT_PARTS)
        _require(
            not (self.resume and self.init_from),
            "init_from",
            self.init_from,
            "null together with resume: resume goes on with a run, init_from begins a new one",
        )
        _at_least("threads", self.threads, 0)


# ---------------------------------------------------------------------------------------------------- crossval


@dataclass
class ProtocolConfig:
    """What one cross-validation holds out, and of which recordings."""

    group_by: Any = "recording"  # a group column, or several; recording: each recording is a group of its own
    where: Any = None  # column (or label) -> value or values: only these recordings
    folds: int | None = None  # 0: leave one group out; null: that for up to 20 groups, 10 folds beyond

    def __post_init__(self) -> None:
        self.group_by = _texts("crossval.group_by", self.group_by)
        where = {} if self.where is None else self.where
        _require(
            isinstance(where, dict),
            "crossval.where",
            where,
            "a group such as {pipe:[1,3],label:[leak,no_leak]}",
        )
        self.where = {str(name): _texts(f"crossval.where.{name}", values) for name, values in where.items()}
        ok = self.folds is None or self.folds == 0 or self.folds >= 2
        _require(ok, "crossval.folds", self.folds, "null, 0 (leave one group out), or at least 2")


@dataclass
class CrossvalSettings(ProtocolConfig):
    """How cross-validation goes. `protocols` runs several with one command; otherwise there is the one described here."""

    protocols: Any = None  # name -> group_by, where, folds
    repeats: int = 1  # over seeds: seed, seed + 1, ...; each divides and trains anew
    val_fraction: float = (
        0.25  # of what is not held out: early stopping and threshold use it, and nothing else
    )
    out: str | None = None  # null: the run's folder; a folder with finished folds is gone on with
    parts: int = 1  # jobs that share the folds: -m crossval.parts=4 crossval.part=0,1,2,3
    part: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least("crossval.repeats", self.repeats, 1)
        _require(0 < self.val_fraction < 1, "crossval.val_fraction", self.val_fraction, "between 0 and 1")
        _at_least("crossval.parts", self.parts, 1)
        _require(
            0 <= self.part < self.parts, "crossval.part", self.part, f"from 0 to below parts={self.parts}"
        )
        self.protocols = {} if self.protocols is None else self.protocols
        _require(
            isinstance(self.protocols, dict), "crossval.protocols", self.protocols, "a group of protocols"
        )
        for name, values in self.protocols.items():
            known = {f.name for f in fields(ProtocolConfig)}
            ok = isinstance(values, dict) and values.keys() <= known
            _require(ok, f"crossval.protocols.{name}", values, f"a group of {', '.join(sorted(known))}")

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
    _require(ok, name, value, "a name or a list of names")
    return [str(item) for item in values]


@dataclass
class CrossvalConfig(TrainConfig):
    """`python -m leakdet.crossval`: the settings of a training, which every fold repeats, and how to divide."""

    crossval: CrossvalSettings = field(default_factory=CrossvalSettings)

    def training(self, seed: int) -> TrainConfig:
        """The settings of one fold's training."""
        own = {f.name: getattr(self, f.name) for f in fields(TrainConfig)}
        return TrainConfig(**{**own, "seed": seed})


# ---------------------------------------------------------------------------------------------------- tune


@dataclass
class SearchParam:
    """One parameter of the search space. What it says is checked against the training settings before the first trial."""

    setting: str | None = None  # dotted training setting; null: a switch that only others depend on (`when`)
    kind: str = "float"  # float | int | categorical
    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    choices: list[Any] = field(default_factory=list)  # categorical
    when: dict[str, Any] = field(
        default_factory=dict
    )  # other parameter -> its values under which this exists
    otherwise: Any = None  # value of the setting where `when` does not hold; null: the configuration's own

    def __post_init__(self) -> None:
        _one_of("search.*.kind", self.kind, ("float", "int", "categorical"))


@dataclass
class TuneSettings:
    """The study, how it samples and prunes, and what becomes of its winner."""

    study: str = "default"  # its name; the same name goes on with the same study
    folder: str = "runs/tune/default"
    storage: str | None = (
        None  # null: a journal file in the folder; or sqlite:///..., postgresql://..., grpc://host:port
    )
    n_trials: int = 20  # of the study in total, whoever runs them
    workers: int = 1
    worker: int = 0  # which of them this process is; -m counts it
    objective: str = "recording_f1"  # recording_f1 | recording_auroc | loss: the best check on val
    direction: str = "auto"  # auto | maximize | minimize
    sampler: str = "tpe"  # tpe | gp | cmaes | random | grid
    seed: int = 0  # of the sampler; the seed of training is `seed`
    n_startup_trials: int = 8  # drawn at random before the sampler learns
    pruner: str = "median"  # median | percentile | hyperband | asha | wilcoxon | none
    n_warmup: int = 3  # checks before which nothing is pruned
    n_min_trials: int = 4  # with fewer trials at that check nothing is pruned
    percentile: float = 25.0  # percentile: the share of trials that are let through
    reduction_factor: int = 3  # hyperband, asha
    repeats: int = 1  # trainings of a trial, with seeds seed, seed+1, ...; its value is their mean
    skip_duplicates: bool = True  # parameters that a finished trial had are not trained again
    max_retries: int = 2  # of a trial whose process was killed or interrupted
    keep: str = "best"  # best | all | none: whose checkpoints stay
    finish: bool = True  # train the winner and the untuned configuration, compare them, write the page

    def __post_init__(self) -> None:
        name_ok = (
            self.study.strip() != "" and not set(self.study) & set("/\\") and self.study not in (".", "..")
        )
        _require(name_ok, "tune.study", self.study, "a name that can be a folder's")
        _one_of("tune.objective", self.objective, ("recording_f1", "recording_auroc", "loss"))
        _one_of("tune.direction", self.direction, ("auto", "maximize", "minimize"))
        _one_of("tune.sampler", self.sampler, ("tpe", "gp", "cmaes", "random", "grid"))
        _one_of("tune.pruner", self.pruner, ("median", "percentile", "hyperband", "asha", "wilcoxon", "none"))
        _one_of("tune.keep", self.keep, ("best", "all", "none"))
        for name in ("n_trials", "workers", "n_min_trials", "repeats"):
            _at_least(f"tune.{name}", getattr(self, name), 1)
        for name in ("worker", "seed", "n_startup_trials", "n_warmup", "max_retries"):
            _at_least(f"tune.{name}", getattr(self, name), 0)
        _require(0 < self.percentile < 100, "tune.percentile", self.percentile, "between 0 and 100")
        _at_least("tune.reduction_factor", self.reduction_factor, 2)
        ok = self.pruner != "wilcoxon" or self.repeats > 1
        _require(
            ok, "tune.pruner", self.pruner, "used with tune.repeats above 1: it compares repeats, not checks"
        )

    @property
    def maximises(self) -> bool:
        return self.objective != "loss" if self.direction == "auto" else self.direction == "maximize"


def _search_param(name: str, given: Any) -> SearchParam:
    """A parameter from plain values. Raises `SettingsError` on an unknown field or a value of the wrong type."""
    if isinstance(given, SearchParam):
        return given
    known = [f.name for f in fields(SearchParam)]
    _require(isinstance(given, dict), f"search.{name}", given, f"a group of {', '.join(known)}")
    for key, value in given.items():
        _require(key in known, f"search.{name}", key, f"one of {', '.join(known)}")
        if key in ("low", "high", "step") and value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            _require(number, f"search.{name}.{key}", value, "a number")
        if key in ("choices", "when"):
            wanted = list if key == "choices" else dict
            _require(isinstance(value, wanted), f"search.{name}.{key}", value, f"a {wanted.__name__}")
        if key in ("setting", "kind"):
            _require(value is None or isinstance(value, str), f"search.{name}.{key}", value, "a word")
        _require(key != "log" or isinstance(value, bool), f"search.{name}.log", value, "true or false")
    numbers = {k: float(v) for k, v in given.items() if k in ("low", "high", "step") and v is not None}
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
