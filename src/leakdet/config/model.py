"""Settings of a model: its network, its loss, and how probabilities become a verdict."""

from dataclasses import dataclass
from typing import Any

from leakdet.config.fields import check_ranges, doc, is_own, require

NETWORKS = ("paper", "dual_head", "linear", "compact")
LOSSES = ("ce", "weighted_ce", "focal")


@dataclass
class NetworkConfig:
    """A network and its input layer, which is saved with the weights."""

    name: str = doc(
        "paper",
        "Which network.",
        one_of=NETWORKS,
        or_own="Class",
    )
    input_norm: str = doc(
        "level_free",
        "Whether each sample's mean level in dB is subtracted.",
        one_of=("none", "level_free"),
    )
    standardise: bool = doc(True, "Scale each mel band by its mean and deviation over train.")
    time_pool: int = doc(4, "Columns averaged to one before the network; 1: off.", at_least=1)
    # as good on the rig (docs/results.md) as 32 filters, 128 units, at a sixteenth of the weights
    conv_channels: int = doc(8, "Filters of each convolution of paper and compact.", at_least=1)
    dense: int = doc(32, "Width of the fully connected layer of paper and compact.", at_least=1)
    dropout: float = doc(0.25, "Share of activations set to 0 in training.", at_least=0, below=1)
    extra: dict[str, Any] = doc({}, "Settings of a network of your own, by keyword.")

    def __post_init__(self) -> None:
        check_ranges(self, "network.")
        check_extra(self, "network.")


@dataclass
class LossConfig:
    """Class loss + aux_weight x leak loss."""

    name: str = doc("ce", "Class loss.", one_of=LOSSES, or_own="function")
    aux_weight: float = doc(0.3, "Weight of the auxiliary leak loss; 0: no such head.", at_least=0)
    leak_weight_boost: float = doc(
        1.0, "Factor on the class weight of each leak label under weighted_ce.", above=0
    )
    gamma: float = doc(2.0, "Exponent of focal: larger ignores easy samples more.", at_least=0)
    alpha: float = doc(0.75, "Leak's weight under focal; others: 1 - alpha.", at_least=0, at_most=1)
    label_smoothing: float = doc(
        0.0, "Share of the target spread evenly over the classes.", at_least=0, below=1
    )
    pos_weight: float = doc(1.0, "Weight of leaks in the auxiliary loss.", above=0)
    allow_several_balances: bool = doc(
        False,
        "Allow more than one of class weights, leak_weight_boost, alpha and data.sampling, "
        "whose effects multiply.",
    )
    extra: dict[str, Any] = doc({}, "Settings of a loss of your own, by keyword.")

    def __post_init__(self) -> None:
        check_ranges(self, "loss.")
        check_extra(self, "loss.")


DOUBT = 0.2  # at new places it halves what is decided wrongly (docs/verdicts.md)
BUDGET_POLICIES = ("max_fpr", "min_tpr", "min_cost")


@dataclass
class DecisionConfig:
    """From window probabilities to a verdict per recording; `policy` fits the threshold on val."""

    pooling: str = doc(
        "mean",
        "How window probabilities become one score: their mean, the share of windows at or above "
        "the threshold, or the mean of their logits.",
        one_of=("mean", "vote", "logit_mean"),
    )
    vote_fraction: float = doc(
        0.5, "Share of windows that makes a leak under pooling=vote.", above=0, at_most=1
    )
    policy: str = doc(
        "auto",
        "What the threshold aims at; auto: max_f1, or fixed at 0.5 where stop.name=fixed.",
        one_of=("auto", "max_f1", "max_fpr", "min_tpr", "min_cost", "fixed"),
    )
    threshold: float = doc(0.5, "Threshold under policy=fixed.", at_least=0, at_most=1)
    max_fpr: float = doc(
        0.01,
        "Largest false positive rate for max_fpr, and for select=tpr_at_fpr.",
        at_least=0,
        at_most=1,
    )
    min_tpr: float = doc(
        0.95,
        "Smallest true positive rate for min_tpr, and for select=fpr_at_tpr.",
        at_least=0,
        at_most=1,
    )
    cost_miss: float = doc(10.0, "Cost of a missed leak for min_cost, in any unit.", at_least=0)
    cost_false_dig: float = doc(
        1.0, "Cost of a needless dig, in the unit of cost_miss.", at_least=0
    )
    unfamiliar: str = doc(
        "normal",
        "Leave recordings undecided that sound unlike those of training: not at all, far from "
        "them, or already at a smaller distance.",
        one_of=("off", "normal", "strict"),
    )
    doubt: float | None = doc(
        None,
        "Leave recordings undecided so near the threshold, in odds: at one of 0.5 from 0.5 - doubt "
        "to 0.5 + doubt; null: 0.2, or 0 where policy is max_fpr, min_tpr or min_cost.",
        at_least=0,
        below=0.5,
    )
    source: str = doc(
        "rate",
        "Leave recordings undecided whose files have a sample rate that no training recording had, "
        "as another logger's have; off: decide them.",
        one_of=("rate", "off"),
    )
    calibration: str = doc(
        "none",
        "Calibration of the shown probability; verdicts rest on the score.",
        one_of=("none", "platt", "temperature"),
    )

    def __post_init__(self) -> None:
        check_ranges(self, "decision.")

    @property
    def doubt_used(self) -> float:
        """`doubt`, or its default: none where a person chose what misses and false alarms cost."""
        if self.doubt is not None:
            return self.doubt
        return 0.0 if self.policy in BUDGET_POLICIES else DOUBT


def check_extra(settings: NetworkConfig | LossConfig, prefix: str) -> None:
    """Raise `SettingsError` where `extra` is given to what is built in: nothing would read it."""
    name, extra = settings.name, settings.extra
    require(not extra or is_own(name), f"{prefix}extra", extra, f"empty for {prefix}name={name}")
