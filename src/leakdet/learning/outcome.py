"""The outcome of a learning in one sentence: better, worse, or too few to tell."""

from dataclasses import dataclass
from typing import Any

from leakdet.learning.approach import TARGET
from leakdet.learning.before_after import BETTER, LOWER, WORSE
from leakdet.learning.guard import Judged
from leakdet.learning.held_out import FEWEST_TO_DECIDE


@dataclass(frozen=True)
class Outcome:
    """What the new recordings say of both models, and what the old test recordings say."""

    approach: str
    judged: Judged
    on_test: Judged | None

    @property
    def verdict(self) -> str:
        """Of the new recordings; a joint model that forgot the old ones is worse too."""
        forgot = self.on_test is not None and self.on_test.verdict == WORSE
        return WORSE if forgot and self.approach != TARGET else self.judged.verdict

    @property
    def sentence(self) -> str:
        """The verdict, what it rests on, and what became worse."""
        return " ".join([self._first(), self.judged.sentence(), *self._of_test()])

    def _first(self) -> str:
        if self.verdict == BETTER:
            return "The new model is better."
        if self.verdict == WORSE:
            return "The new model is worse."
        if not self.judged.differences:
            return "Too few to tell."
        count = len(self.judged.new)
        if count < FEWEST_TO_DECIDE:
            return (
                f"Too few to tell: {count} confirmed recordings judge, and fewer than "
                f"{FEWEST_TO_DECIDE} pick the wrong model too often."
            )
        return "Too few to tell: no difference is larger than its uncertainty."

    def _of_test(self) -> list[str]:
        if self.on_test is None:
            return []
        if self.on_test.verdict == WORSE:
            advice = (
                " It knows the new place only: keep the old model for the old ones."
                if self.approach == TARGET
                else ""
            )
            return [f"A regression: {_lowered(self.on_test.sentence())}{advice}"]
        lower = " That is lower, by no more than its uncertainty."
        return [self.on_test.sentence() + lower * (self.on_test.verdict == LOWER)]

    def content(self) -> dict[str, Any]:
        """Plain values for metrics.json and the report."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "new_recordings": self.judged.content(),
            "old_test": self.on_test.content() if self.on_test else None,
        }


def _lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
