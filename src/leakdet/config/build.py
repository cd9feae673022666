"""Settings of `build`: sources, splits, labels, and the demo."""

import math
from dataclasses import dataclass, field

from leakdet.config.range_checks import MISSING, at_least, one_of, require, share
from leakdet.config.signal import SignalConfig


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
        at_least("demo.sites", self.sites, 1)
        at_least("demo.recordings_per_site", self.recordings_per_site, 1)
        share("demo.leak_fraction", self.leak_fraction)
        at_least("demo.duration_s", self.duration_s, 0.1)
        at_least("demo.sample_rate_hz", self.sample_rate_hz, 1000)
        at_least("demo.difficulty", self.difficulty, 0)
        at_least("demo.seed", self.seed, 0)


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
        require(ok, "split.ratios", self.ratios, "three shares (train, val, test) that add up to 1")
        require(self.ratios[0] > 0, "split.ratios", self.ratios, "more than 0 for train")


@dataclass
class LabelsConfig:
    """Which class is the leak, and whether the network sees it against the rest or sees every class."""

    mode: str = "binary"  # binary | multiclass
    # in any case; null: the store's own leak label, or the class called LEAK
    leak: str | None = None

    def __post_init__(self) -> None:
        one_of("labels.mode", self.mode, ("binary", "multiclass"))


@dataclass
class BuildConfig:
    """`python -m leakdet.build`: from audio to a store."""

    # label folders, split folders with label folders, a CSV manifest, or demo
    source: str = MISSING
    out: str = MISSING
    signal: SignalConfig = field(default_factory=SignalConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    demo: DemoConfig = field(default_factory=DemoConfig)
    verify: str = "sample"  # off | sample | full: recompute the mel from the audio and compare
    waveform: str = "none"  # none | int16 | float32: keep the sound in the store too
    # IAAFT surrogates of each leak recording of train, which training alone reads
    surrogates: int = 0
    compression: str = "none"  # none | gzip | lzf: smaller, but then it cannot be memory-mapped
    workers: int = 0  # 0: one per core
    # i/n: only the i-th of n parts, 0/n to n-1/n, on a machine each; merge: join them
    shard: str = ""
    overwrite: bool = False

    def __post_init__(self) -> None:
        one_of("verify", self.verify, ("off", "sample", "full"))
        one_of("waveform", self.waveform, ("none", "int16", "float32"))
        one_of("compression", self.compression, ("none", "gzip", "lzf"))
        at_least("surrogates", self.surrogates, 0)
        at_least("workers", self.workers, 0)
        part = self.shard_part
        ok = self.shard in ("", "merge") or (part is not None and 0 <= part[0] < part[1] <= 99_999)
        require(ok, "shard", self.shard, "i/n with i from 0 to n-1, or merge")

    @property
    def shard_part(self) -> tuple[int, int] | None:
        """(i, n) of `shard=i/n`."""
        number, slash, count = self.shard.partition("/")
        return (
            (int(number), int(count))
            if slash and number.isdecimal() and count.isdecimal()
            else None
        )
