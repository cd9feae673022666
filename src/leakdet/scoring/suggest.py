"""Which recordings to confirm next: near the threshold, unfamiliar, and unlike each other.

Every recording has a weight. Its uncertainty is 1 at the threshold and falls to 0 at the leak
probabilities 0 and 1; its novelty is its familiarity, at most 1, or 1 where its source rate is
unknown. The weight is 1 minus the product of what either lacks to 1, and at least 0.05. The first
choice has the largest weight; each next one has the largest weight times distance to the nearest
chosen (farthest-point choice), where the distance is the root mean square difference of
`band_features` in dB. Ties go to the earlier one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from leakdet.detection.decision import LIMITS
from leakdet.tables.schema import Verdict

MAX_KEPT = 20_000  # recordings; of more, those of the largest weights are kept
LEAST_WEIGHT = 0.05
NEAR = 0.1  # of the threshold
DISTINCT_DB = 0.1  # nearer recordings are the same sound


@dataclass(frozen=True)
class Suggestion:
    """A verdict whose truth would teach most, without its windows, and the reason."""

    verdict: Verdict
    why: str


class Suggester:
    """Takes verdicts one by one, in bounded memory, and then suggests `most` of them at most."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.passed_over: Counter[str] = Counter()  # why recordings are none to suggest
        self._verdicts: list[Verdict] = []

    def add(self, verdict: Verdict) -> None:
        """Take the next recording of those to choose from."""
        why_not = _why_not(verdict)
        if why_not or verdict.features is None:
            self.passed_over[why_not or "without sound"] += 1
            return
        self._verdicts.append(replace(verdict, windows=[]))
        if len(self._verdicts) >= 2 * MAX_KEPT:
            self._thin()

    def _thin(self) -> None:
        heaviest = np.sort(np.argsort(-self._weights(), kind="stable")[:MAX_KEPT]).tolist()
        self.passed_over["more certain than all that were compared"] += (
            len(self._verdicts) - MAX_KEPT
        )
        self._verdicts = [self._verdicts[row] for row in heaviest]

    def _weights(self) -> Float[np.ndarray, " R"]:
        return np.array([weight(verdict) for verdict in self._verdicts])

    def choose(self) -> list[Suggestion]:
        """The recordings to confirm, the most telling first."""
        if not self._verdicts:
            return []
        features = np.array([verdict.features for verdict in self._verdicts], np.float32)
        chosen = spread_choice(features, self._weights(), self.most)
        return [
            Suggestion(verdict := self._verdicts[row], _why(verdict, distance_db))
            for row, distance_db in chosen
        ]

    def sentence(self, suggested: int) -> str:
        """What was chosen from, and what was not."""
        text = f"{suggested} of {len(self._verdicts) + self.passed_over.total()} recordings"
        if suggested < min(self.most, len(self._verdicts)):
            text += "; all others are copies of these, or sound the same"
        if self.passed_over:
            counts = (f"{count} {why}" for why, count in self.passed_over.most_common())
            text += f" (not suggested: {', '.join(counts)})"
        return text


def weight(verdict: Verdict) -> float:
    """How much the truth about this recording would teach, 0.05 to 1."""
    if verdict.leak_prob is None:
        return LEAST_WEIGHT
    above = verdict.leak_prob >= verdict.threshold
    room = 1.0 - verdict.threshold if above else verdict.threshold
    certainty = min(1.0, abs(verdict.leak_prob - verdict.threshold) / max(room, 1e-9))
    known = 1.0 - min(1.0, verdict.familiarity or 0.0)
    known *= verdict.reason != "other_source"
    return max(LEAST_WEIGHT, 1.0 - certainty * known)


def spread_choice(
    features: Float[np.ndarray, "R F"], weights: Float[np.ndarray, " R"], most: int
) -> list[tuple[int, float]]:
    """At most `most` rows, each with its distance in dB to those before it (infinite: the first).

    It ends early where all that is left is nearer than 0.1 dB to a chosen one.
    """
    chosen = [(int(weights.argmax()), np.inf)]
    nearest = np.full(len(features), np.inf)
    while len(chosen) < most:
        difference = features - features[chosen[-1][0]]
        nearest = np.minimum(nearest, np.sqrt(np.square(difference).mean(1)))
        gain = np.where(nearest >= DISTINCT_DB, weights * nearest, 0.0)
        row = int(gain.argmax())
        if gain[row] <= 0:
            break
        chosen.append((row, float(nearest[row])))
    return chosen


def _why_not(verdict: Verdict) -> str:
    """Why a recording is none to suggest; "" where it is one."""
    if verdict.error or verdict.path is None:
        return "unreadable"
    if verdict.leak_prob is None:
        return "without sound"
    if verdict.reason == "short":
        return "short"
    if "met_in_training" in verdict.flags:
        return "known from training"
    if any("\ud800" <= letter <= "\udfff" for letter in verdict.path):  # bytes that are no UTF-8
        return "with names that no table can hold"
    return ""


def _why(verdict: Verdict, distance_db: float) -> str:
    reasons: Sequence[str] = [
        text
        for text, holds in (
            ("near the threshold", abs((verdict.leak_prob or 0.0) - verdict.threshold) < NEAR),
            ("of another source", verdict.reason == "other_source"),
            ("unlike the training recordings", (verdict.familiarity or 0.0) > LIMITS["strict"]),
        )
        if holds
    ]
    if np.isfinite(distance_db):
        reasons = [*reasons, f"unlike those above ({distance_db:.1f} dB)"]
    return "; ".join(reasons) or "the least certain"
