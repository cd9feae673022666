"""Log-odds, and the calibration of a score to a probability, which leaves every verdict as it is.

`probability = sigmoid(slope * logit(score) + offset)` with slope > 0: Platt scaling [Platt 1999],
or temperature scaling [Guo et al. 2017] with offset 0 and slope 1 / temperature. It holds at the
leak share of the recordings it was fitted on.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Bool, Float

from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.thresholds import checked_scores

# Half a float32 step below 1: network probabilities saturate there. Log-odds stay within 17.3.
SATURATION = 2.0**-25
# keeps the fit unique where columns are proportional to each other [Lin, Lin and Weng 2007]
MIN_PENALTY = 1e-12


def logit(prob: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Log-odds in float64; probabilities 0 and 1 give ±17.3."""
    inside = np.clip(prob.astype(np.float64, copy=False), SATURATION, 1.0 - SATURATION)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def sigmoid(log_odds: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Probability of log-odds; never overflows."""
    small = np.exp(-np.abs(log_odds))
    return np.asarray(np.where(log_odds >= 0.0, 1.0, small) / (1.0 + small))


def fit_coefficients(
    columns: Float[np.ndarray, "N K"],
    target: Float[np.ndarray, " N"],
    *,
    base: Float[np.ndarray, " N"] | float = 0.0,
    penalty: Float[np.ndarray, " K"] | float = 0.0,
) -> Float[np.ndarray, " K"]:
    """Coefficients of `sigmoid(base + columns @ coef)` that fit targets in [0, 1] best.

    They minimise the mean cross-entropy plus `penalty @ coef**2 / 2`.
    """
    from scipy.optimize import minimize  # slow to import, and scoring never fits

    rows, count = columns.shape
    ridge = np.broadcast_to(penalty, count) + MIN_PENALTY

    def loss(coef: np.ndarray) -> float:
        value = base + columns @ coef
        return float(np.mean(np.logaddexp(0.0, value) - target * value) + 0.5 * ridge @ coef**2)

    def gradient(coef: np.ndarray) -> np.ndarray:
        slope = columns.T @ (sigmoid(base + columns @ coef) - target) / rows
        return np.asarray(slope + ridge * coef)

    def hessian(coef: np.ndarray) -> np.ndarray:
        prob = sigmoid(base + columns @ coef)
        return np.asarray((columns.T * (prob * (1.0 - prob))) @ columns / rows + np.diag(ridge))

    # ends with "bad approximation" where floating point resolves no better minimum
    fit = minimize(
        loss,
        np.zeros(count),
        jac=gradient,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-10},
    )
    return np.asarray(fit.x)


KINDS = ("platt", "temperature")
CALIBRATIONS = ("none", *KINDS)

# A flat or falling curve would contradict the verdicts; this slope says that scores carry hardly
# any information.
MIN_SLOPE = 0.01


@dataclass(frozen=True)
class Calibration:
    """A fitted map from score to probability, strictly rising."""

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
                f"calibration.slope={self.slope}, offset={self.offset}: both must be finite and "
                "the slope above 0, so that a higher score is a higher probability."
            )

    def apply(self, scores: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
        """Calibrated leak probabilities of scores in 0..1."""
        return sigmoid(self.slope * logit(checked_scores(scores)) + self.offset)

    def to_json(self) -> dict[str, str | float]:
        """`{"kind", "slope", "offset"}`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> "Calibration":
        """Rebuild from `to_json`. Raises `InputError` on other keys or types."""
        match data:
            case {
                "kind": str(kind),
                "slope": int() | float() as slope,
                "offset": int() | float() as offset,
                **rest,
            } if not rest:
                return cls(kind, float(slope), float(offset))
        raise InputError(
            "calibration must be an object of kind (text), slope and offset (numbers); found "
            f"{data!r}."
        )


@dataclass(frozen=True)
class CalibrationFit:
    """A calibration, None where none was asked for or possible, and a note on what limits it."""

    calibration: Calibration | None
    note: str | None


def fit_calibration(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], kind: str
) -> CalibrationFit:
    """Fit by maximum likelihood on scores in 0..1 of validation recordings.

    Targets are (P + 1) / (P + 2) for leaks and 1 / (N + 2) for the rest [Platt 1999], which keep
    the fit finite where scores separate the classes. One class alone gives no calibration.
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
    log_odds, ones = logit(checked), np.ones(len(checked))
    columns = np.stack([log_odds, ones] if kind == "platt" else [log_odds], axis=1)
    slope, offset = (*fit_coefficients(columns, target), 0.0)[:2]
    if slope >= MIN_SLOPE:
        return CalibrationFit(Calibration(kind, float(slope), float(offset)), None)
    if kind == "platt":
        (offset,) = fit_coefficients(ones[:, None], target, base=MIN_SLOPE * log_odds)
    note = (
        "scores rank leaks no higher than the rest: the slope of the calibration was held at "
        f"{MIN_SLOPE}"
    )
    return CalibrationFit(Calibration(kind, MIN_SLOPE, float(offset)), note)
