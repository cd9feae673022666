"""Settings of `build`: sources, splits, labels, and the demo."""

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from leakdet.config.fields import MISSING, check_ranges, doc, require
from leakdet.config.signal import SignalConfig
from leakdet.core.errors import SettingsError


@dataclass
class DemoConfig:
    """The synthetic recordings of `source=demo` (docs/demo.md)."""

    sites: int = doc(24, "Number of sites; the demo is split by site.", at_least=1)
    recordings_per_site: int = doc(20, "Number of recordings at each site.", at_least=1)
    leak_fraction: float = doc(0.5, "Share of recordings with a leak.", at_least=0, at_most=1)
    duration_s: float = doc(
        5.0, "Mean length of a recording in seconds; lengths vary by up to 20 %.", at_least=0.1
    )
    sample_rate_hz: int = doc(16000, "Sample rate of the recordings in Hz.", at_least=1000)
    difficulty: float = doc(
        1.0, "How far leaks sink into the noise: 0 is easy, 2 is hard, 10 dB a step.", at_least=0
    )
    seed: int = doc(0, "Seed of everything that is synthesised.", at_least=0)

    def __post_init__(self) -> None:
        check_ranges(self, "demo.")


@dataclass
class SplitConfig:
    """The division of recordings into train, val and test; splits given by the source are kept."""

    ratios: list[float] = doc(
        [0.7, 0.2, 0.1], "Shares of train, val and test, which add up to 1; 0 leaves a split out."
    )
    group_by: list[str] = doc(
        [], "Group columns: recordings of equal values share a split; empty: each stands alone."
    )
    seed: int = doc(0, "Seed of the division.", at_least=0)

    def __post_init__(self) -> None:
        check_ranges(self, "split.")
        ok = (
            len(self.ratios) == 3
            and all(r >= 0 for r in self.ratios)
            and math.isclose(sum(self.ratios), 1, abs_tol=1e-6)
        )
        require(ok, "split.ratios", self.ratios, "three shares (train, val, test) that add up to 1")
        require(self.ratios[0] > 0, "split.ratios", self.ratios, "more than 0 for train")


@dataclass
class LabelsConfig:
    """Meaning of the labels; names in any case. First renamed, then left out, then leak or not."""

    mode: str = doc(
        "binary",
        "Classes of the network: leak against the rest, or every label of the store.",
        one_of=("binary", "multiclass"),
    )
    leak: Any = doc(
        [],
        "Labels that mean a leak; none given: the store's own, or the one called leak.",
        names=list,
    )
    ignore: Any = doc([], "Labels whose recordings are left out.", names=list)
    rename: Any = doc(
        None,
        "Labels that get another name, or that of another label: {old: new}; null: none.",
        names=dict,
    )

    def __post_init__(self) -> None:
        check_ranges(self, "labels.")
        self.leak = names_given("labels.leak", self.leak)
        self.ignore = names_given("labels.ignore", self.ignore)
        self.rename = _renames(self.rename)
        both = {name.casefold() for name in self.leak} & {n.casefold() for n in self.ignore}
        require(not both, "labels.ignore", self.ignore, "no label that labels.leak names too")


def names_given(setting: str, value: object) -> list[str]:
    """One name or a list of names as texts; [] for null."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    ok = all(isinstance(item, str | int | float) and str(item).strip() for item in values)
    require(ok, setting, value, "a name or a list of names")
    return [str(item) for item in values]


def _renames(value: object) -> dict[str, str]:
    """Old to new names, from a mapping or, as the command line passes it on, its JSON."""
    with suppress(ValueError):
        value = json.loads(value) if isinstance(value, str) else value
    value = {} if value is None else value
    ok = isinstance(value, dict) and all(
        isinstance(part, str | int | float) and str(part).strip()
        for pair in value.items()
        for part in pair
    )
    require(ok, "labels.rename", value, "a mapping such as {old: new}")
    assert isinstance(value, dict)
    return {str(old): str(new) for old, new in value.items()}


LOGS = ("normal", "full", "quiet", "json")


@dataclass
class BuildConfig:
    """`leakdet build`: from audio to a store."""

    source: str = doc(
        MISSING,
        "Folder of label folders, folder of split folders with these, CSV manifest, or demo.",
    )
    out: str = doc(MISSING, "Folder in which the store appears when it is complete.")
    signal: SignalConfig = field(default_factory=SignalConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    demo: DemoConfig = field(default_factory=DemoConfig)
    verify: str = doc(
        "sample",
        "For which recordings the stored mel is recomputed from the audio and compared.",
        one_of=("off", "sample", "full"),
    )
    waveform: str = doc(
        "none",
        "Number format in which the store keeps the sound beside its mel.",
        one_of=("none", "int16", "float32"),
    )
    compression: str = doc(
        "none",
        "Compression of the mel; a compressed store is smaller but cannot be memory-mapped.",
        one_of=("none", "gzip", "lzf"),
    )
    workers: int = doc(0, "Threads that read recordings; 0: one per core.", at_least=0)
    add_to: str = doc(
        "", "Store to which the recordings are added, to train or, by a column split, to val."
    )
    like: str = doc("", "Model or store whose signal the recordings get.")
    log: str = doc(
        "normal",
        "What is printed; full: details too; quiet: results, warnings, errors; json: an object a "
        "line.",
        one_of=LOGS,
    )
    overwrite: bool = doc(False, "Replace a store that exists under this name.")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.add_to and self.out not in ("", MISSING):
            raise SettingsError(
                f"out={self.out} makes a store, add_to={self.add_to} adds to one: give one of them"
            )
