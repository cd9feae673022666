"""The source rates that a model knows: those that enough of its training recordings had.

The sample rate of a file tells loggers apart: one that no training recording had is another
logger's, for which the model's probabilities say nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from leakdet.core.errors import counted

FEWEST = 8  # training recordings, with and without a leak among them, that make a rate known


@dataclass(frozen=True)
class SourceRates:
    """Training recordings by the sample rate of their file in Hz: with a leak, and without one."""

    counts: dict[int, tuple[int, int]]

    @classmethod
    def of(
        cls, rate_hz: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
    ) -> "SourceRates | None":
        """The rates of training recordings, NaN: unknown; None where not one becomes known."""
        known = rate_hz > 0
        leaks, others = (Counter(rate_hz[known & kind].tolist()) for kind in (is_leak, ~is_leak))
        rates = cls({int(rate): (leaks[rate], others[rate]) for rate in sorted(leaks + others)})
        return rates if rates.known_hz else None

    @property
    def known_hz(self) -> list[int]:
        """The rates that a recording may have, in Hz."""
        return [
            rate for rate, counts in self.counts.items() if sum(counts) >= FEWEST and min(counts)
        ]

    def standing_for(self, whole: "SourceRates | None") -> "SourceRates":
        """The rates by which a model of a part, as of a fold, stands for one of the `whole`.

        They are known as the whole's are, where the part has recordings with and without a leak.

        >>> part = SourceRates({40000: (4, 3), 48000: (9, 9)})
        >>> part.known_hz, part.standing_for(SourceRates({40000: (4, 4), 48000: (9, 9)})).known_hz
        ([48000], [40000, 48000])
        """
        counts = whole.counts if whole else {}
        return SourceRates(
            {hz: counts.get(hz, n) if min(n) else n for hz, n in self.counts.items()}
        )

    def is_other(self, rate_hz: Float[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """True of recordings of a rate that the model does not know; not of NaN, no known rate."""
        return np.asarray((rate_hz > 0) & ~np.isin(rate_hz, self.known_hz))

    @property
    def known_text(self) -> str:
        """The known rates in words: `40000 and 48000 Hz`."""
        *first, last = map(str, self.known_hz)
        return f"{', '.join(first)} and {last} Hz" if first else f"{last} Hz"

    def sentence(self, rate_hz: int, recordings: int, decided: bool = False) -> str:
        """A sentence on so many recordings of a rate that is not known, and what to do about them.

        `decided`: they were decided all the same.

        >>> SourceRates({40000: (9, 9), 48000: (5, 5)}).sentence(8000, 12)
        "12 recordings have 8000 Hz, training had 40000 and 48000: another logger? Not decided. ..."
        """
        have = "has" if recordings == 1 else "have"
        text = f"{counted(recordings, 'recording')} {have} {rate_hz} Hz, training had "
        text += self.known_text.removesuffix(" Hz")
        if rate_hz in self.counts:
            text += f", and too few of {rate_hz} ({self._counts_text(rate_hz)})"
        if decided:
            return (
                f"{text}: decided all the same, and the model's evaluation does not hold for them."
            )
        return (
            f"{text}: another logger? Not decided. The same logger's, converted: --source off; "
            f"else learn from at least {FEWEST} of them, with and without a leak (--suggest 20 "
            "names them)."
        )

    def _counts_text(self, rate_hz: int) -> str:
        leaks, others = self.counts[rate_hz]
        return f"{leaks} with a leak and {others} without"

    def unknown_sentences(self) -> list[str]:
        """A sentence on each rate of the training recordings that stays unknown."""
        return [
            f"{rate} Hz stays unknown, and its files undecided: {self._counts_text(rate)} trained, "
            f"and at least {FEWEST} with both kinds make it known"
            for rate in self.counts
            if rate not in self.known_hz
        ]

    def to_json(self) -> dict[str, list[int]]:
        """`{"40000": [with a leak, without], ...}`."""
        return {str(rate): list(counts) for rate, counts in self.counts.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> "SourceRates | None":
        """Back from a model file; None where it has none."""
        if data is None:
            return None
        return cls({int(rate): (int(of[0]), int(of[1])) for rate, of in data.items()})
