"""What the label of a confirmed recording means in the words of the model and its store."""

import re
from dataclasses import dataclass

from leakdet.detection.label_view import LabelView, label_key, same_label
from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError

# as a crew writes it after a dig, in place of the store's own label without a leak
NO_LEAK_WORDS = ("no_leak", "dry_hole")
LEAK_WORD = "leak"


@dataclass(frozen=True)
class Vocabulary:
    """The labels `names` of a store, those of them that mean a leak, and those left out."""

    names: tuple[str, ...]
    leaks: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    @classmethod
    def of_view(cls, view: LabelView) -> "Vocabulary":
        """The vocabulary of an opened store."""
        ignored = [label for label, name in view.name_of_label.items() if name is None]
        return cls(view.names, view.leaks, tuple(ignored))

    @classmethod
    def of_model(cls, labels: LabelMap) -> "Vocabulary":
        """The vocabulary that trained a model; leak and no_leak where the file does not say."""
        known = [name for name in dict.fromkeys(labels.name_of_label.values()) if name is not None]
        leaks = tuple(name for name in known if name in labels.leak_labels)
        if not 0 < len(leaks) < len(known):
            return cls((LEAK_WORD, NO_LEAK_WORDS[0]), (LEAK_WORD,))
        ignored = [label for label, name in labels.name_of_label.items() if name is None]
        return cls(tuple(known), leaks, tuple(ignored))

    @property
    def others(self) -> tuple[str, ...]:
        """The labels that mean no leak."""
        return tuple(name for name in self.names if name not in self.leaks)

    def name_of(self, label: str, where: str) -> str | None:
        """The store's label for a confirmed one; None where training leaves it out.

        Raises:
            InputError: the label means nothing here, or one of several classes.
        """
        for name in self.names:
            if same_label(name, label):
                return name
        if any(same_label(name, label) for name in self.ignored):
            return None
        word = re.sub(r"[\s_-]+", "_", label_key(label))
        if word == LEAK_WORD:
            return self._only(self.leaks, label, where)
        if word in NO_LEAK_WORDS:
            called_so = [name for name in self.others if label_key(name) in NO_LEAK_WORDS]
            return called_so[0] if called_so else self._only(self.others, label, where)
        allowed = dict.fromkeys([LEAK_WORD, *NO_LEAK_WORDS, *self.names])
        raise InputError(
            f"{where}: the label {label!r} is none of {', '.join(allowed)}. Correct it, or leave "
            "it empty where nothing was confirmed."
        )

    def _only(self, names: tuple[str, ...], label: str, where: str) -> str:
        if len(names) == 1:
            return names[0]
        raise InputError(
            f"{where}: the label {label!r} may be any of {', '.join(names)}. Write which."
        )
