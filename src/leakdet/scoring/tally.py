"""A count with its first examples, for a sentence about any number of things."""

from dataclasses import dataclass, field

SHOWN = 5


@dataclass
class Tally:
    """How many there were, and the first of them.

    >>> tally = Tally()
    >>> for name in ("a", "b"): tally.add(name)
    >>> tally.count, str(tally)
    (2, 'a, b')
    """

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Count one more; the first few different ones are kept."""
        self.count += 1
        if len(self.first) < SHOWN and text not in self.first:
            self.first.append(text)

    def __str__(self) -> str:
        return ", ".join(self.first) + (" …" if self.count > len(self.first) else "")
