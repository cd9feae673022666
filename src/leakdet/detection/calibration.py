"""Turning a recording's score into a probability that means what it says, without changing any verdict.

`probability = sigmoid(slope * logit(score) + offset)` with slope > 0: Platt scaling [Platt 1999], or
temperature scaling [Guo et al. 2017] with offset 0 and slope 1 / temperature. It is true at the leak share of
the recordings it was fitted on.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Bool, Float

from leakdet.detection.ranking import checked_scores
from leakdet.errors import InputError, SettingsError

KINDS = ("platt", "temperature")
CALIBRATIONS = ("none", *KINDS)

# Half a float32 step below 1: network probabilities saturate there, and a logit must stay finite (here within
# 17.3).
SATURATION = 2.0**-25
# A falling or flat curve would contradict the verdicts; a slope this small already says "the score tells next
# to nothing".
MIN_SLOPE = 0.01


def logit(prob: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Log-odds in float64, those of probabilities 0 and 1 cut off at ±17.3 (`SATURATION`)."""
    inside = np.clip(prob.astype(np.float64, copy=False), SATURATION, 1.0 - SATURATION)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def sigmoid(log_odds: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Probability of log-odds; never overflows."""
    small = np.exp(-np.abs(log_odds))
    return np.asarray(np.where(log_odds >= 0.0, 1.0, small) / (1.0 + small))


@dataclass(frozen=True)
class Calibration:
    """A fitted map from score to probability; rises strictly within the float32 range of scores."""

    kind: str
    slope: float
    offset: float

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingsError(
                f"calibration.kind is {self.kind!r}; allowed are {', '.join(KINDS)}."
            )
        if not (math.isfinite(self.offset) and math.isfinite(self.slope) and self.slope > 0.0):
            raise SettingsError(
                f"calibration.slope={self.slope}, offset={self.offset}: both must be finite and the slope "
                "above 0, or it would turn verdicts round."
            )

    def apply(self, scores: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
        """Calibrated leak probabilities of scores in 0..1."""
        return sigmoid(self.slope * logit(checked_scores(scores)) + self.offset)

    def to_json(self) -> dict[str, str | float]:
        """`{"kind", "slope", "offset"}`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> "Calibration":
        """The inverse of `to_json`. Raises `InputError` where the keys or their types differ."""
        match data:
            case {
                "kind": str(kind),
                "slope": int() | float() as slope,
                "offset": int() | float() as offset,
                **rest,
            } if not rest:
                return cls(kind, float(slope), float(offset))
        raise InputError(
            f"calibration must be an object of kind, slope and offset, text and two numbers; found {data!r}."
        )


@dataclass(frozen=True)
class CalibrationFit:
    """A calibration, None where none was asked for or could be fitted, and what a reader has to know."""

    calibration: Calibration | None
    note: str | None


def fit_calibration(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], kind: str
) -> CalibrationFit:
    """Fit by maximum likelihood on scores in 0..1 of validation recordings; `kind` is one of `CALIBRATIONS`.

    Targets are those of [Platt 1999], (P + 1) / (P + 2) for leaks and 1 / (N + 2) for the rest, which keep
    the fit finite when the scores separate the labels perfectly. One class only gives no calibration. Raises
    `SettingsError` on an unknown kind, `InputError` on NaN and on scores outside [0, 1].
    """
    if kind not in CALIBRATIONS:
        raise SettingsError(f"The calibration is {kind!r}; allowed are {', '.join(CALIBRATIONS)}.")
    checked = checked_scores(scores)
    if kind == "none":
        return CalibrationFit(None, None)
    positives, negatives = int(is_leak.sum()), int((~is_leak).sum())
    if positives == 0 or negatives == 0:
        return CalibrationFit(
            None, f"not calibrated: {positives} leaks and {negatives} others, both are needed"
        )
    target = np.where(is_leak, (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0))
    evidence, ones = logit(checked), np.ones(len(checked))
    columns = np.stack([evidence, ones] if kind == "platt" else [evidence], axis=1)
    slope, offset = (*_logistic_fit(columns, target, np.zeros_like(evidence)), 0.0)[:2]
    if slope >= MIN_SLOPE:
        return CalibrationFit(Calibration(kind, float(slope), float(offset)), None)
    if kind == "platt":
        (offset,) = _logistic_fit(ones[:, None], target, MIN_SLOPE * evidence)
    note = f"scores rank leaks no higher than the rest: the slope of the calibration was held at {MIN_SLOPE}"
    return CalibrationFit(Calibration(kind, MIN_SLOPE, float(offset)), note)


def _logistic_fit(
    columns: Float[np.ndarray, "R K"],
    target: Float[np.ndarray, " R"],
    base: Float[np.ndarray, " R"],
) -> Float[np.ndarray, " K"]:
    """Coefficients of `sigmoid(base + columns @ coef)` of least cross-entropy, by damped Newton steps."""

    def loss(coef: np.ndarray) -> float:
        value = base + columns @ coef
        return float(np.mean(np.logaddexp(0.0, value) - target * value))

    coef = np.zeros(columns.shape[1])
    for _ in range(100):
        prob = sigmoid(base + columns @ coef)
        gradient = columns.T @ (prob - target) / len(target)
        curvature = (columns * (prob * (1.0 - prob))[:, None]).T @ columns / len(target)
        # The ridge of [Lin, Lin and Weng 2007]: equal scores leave slope and offset indistinguishable.
        step = np.linalg.solve(curvature + 1e-12 * np.eye(len(coef)), gradient)
        before, scale = loss(coef), 1.0
        while scale > 1e-6 and loss(coef - scale * step) > before:
            scale /= 2.0
        coef = coef - scale * step
        if np.max(np.abs(scale * step)) < 1e-10:
            break
    return coef
