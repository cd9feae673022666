"""Settings of a model: its network, its loss, and how probabilities become a verdict."""

from dataclasses import dataclass
from typing import Any

from leakdet.config.range_checks import check_ranges, documented, is_own, require


@dataclass
class NetworkConfig:
    """A network and its input layer, which is saved with the weights."""

    name: str = documented(
        "paper",
        "Which network.",
        one_of=("paper", "dual_head", "linear", "compact"),
        or_own="Class",
    )
    input_norm: str = documented(
        "level_free",
        "Whether each sample's mean level in dB is subtracted.",
        one_of=("none", "level_free"),
    )
    standardise: bool = documented(
        True, "Scale each mel band by its mean and deviation over the training split."
    )
    time_pool: int = documented(
        4, "Neighbouring columns averaged to one before the network; 1: off.", at_least=1
    )
    conv_channels: int = documented(
        32, "Filters of each convolution of paper and compact.", at_least=1
    )
    dense: int = documented(
        128, "Width of the fully connected layer of paper and compact.", at_least=1
    )
    dropout: float = documented(
        0.25, "Share of activations that dropout sets to 0 in training.", at_least=0, below=1
    )
    extra: dict[str, Any] = documented({}, "Settings of a network of your own, by keyword.")

    def __post_init__(self) -> None:
        check_ranges(self, "network.")
        check_extra(self, "network.")


@dataclass
class LossConfig:
    """Class loss + aux_weight x leak loss."""

    name: str = documented(
        "ce", "Which class loss.", one_of=("ce", "weighted_ce", "focal"), or_own="function"
    )
    aux_weight: float = documented(
        0.3, "Weight of the loss of the auxiliary leak head; 0: no such head.", at_least=0
    )
    leak_weight_boost: float = documented(
        1.0, "Factor on the leak's class weight under weighted_ce with two classes.", above=0
    )
    gamma: float = documented(
        2.0, "Exponent of focal: larger ignores easy samples more.", at_least=0
    )
    alpha: float = documented(
        0.75, "Weight of the leak under focal; the rest gets 1 - alpha.", at_least=0, at_most=1
    )
    label_smoothing: float = documented(
        0.0, "Share of the target spread evenly over the classes.", at_least=0, below=1
    )
    pos_weight: float = documented(1.0, "Weight of leaks in the auxiliary loss.", above=0)
    allow_several_balances: bool = documented(
        False,
        "Allow more than one of class weights, leak_weight_boost, alpha and data.sampling, "
        "whose effects multiply.",
    )
    extra: dict[str, Any] = documented({}, "Settings of a loss of your own, by keyword.")

    def __post_init__(self) -> None:
        check_ranges(self, "loss.")
        check_extra(self, "loss.")


@dataclass
class DecisionConfig:
    """From window probabilities to a verdict per recording; `policy` fits the threshold on val."""

    pooling: str = documented(
        "mean",
        "How window probabilities become one score: their mean, the share of windows at or above "
        "the threshold, or the mean of their logits.",
        one_of=("mean", "vote", "logit_mean"),
    )
    vote_fraction: float = documented(
        0.5, "Share of windows that makes a leak under pooling=vote.", above=0, at_most=1
    )
    policy: str = documented(
        "max_f1",
        "What the threshold aims at.",
        one_of=("max_f1", "max_fpr", "min_tpr", "min_cost", "fixed"),
    )
    threshold: float = documented(0.5, "Threshold under policy=fixed.", at_least=0, at_most=1)
    max_fpr: float = documented(
        0.01, "Largest false positive rate under policy=max_fpr.", at_least=0, at_most=1
    )
    min_tpr: float = documented(
        0.95, "Smallest true positive rate under policy=min_tpr.", at_least=0, at_most=1
    )
    cost_miss: float = documented(
        10.0, "Cost of a missed leak under policy=min_cost, in any unit.", at_least=0
    )
    cost_false_dig: float = documented(
        1.0, "Cost of a dig that finds no leak, in the unit of cost_miss.", at_least=0
    )
    calibration: str = documented(
        "none",
        "Calibration of the shown probability; verdicts rest on the score.",
        one_of=("none", "platt", "temperature"),
    )

    def __post_init__(self) -> None:
        check_ranges(self, "decision.")


def check_extra(settings: NetworkConfig | LossConfig, prefix: str) -> None:
    """Raise `SettingsError` where `extra` is given to what is built in: nothing would read it."""
    name, extra = settings.name, settings.extra
    require(not extra or is_own(name), f"{prefix}extra", extra, f"empty for {prefix}name={name}")
