"""Class names and which of them is the leak. The leak is always the positive class, wherever it stands in a vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass

from leakdet.errors import InputError

BINARY_NAMES = ("NO_LEAK", "LEAK")


@dataclass(frozen=True)
class LabelMap:
    """The network's classes in id order, and the index of the leak among them.

    `binary` has the classes NO_LEAK (0) and LEAK (1) whatever the store's vocabulary; `multiclass` has the store's classes.
    """

    mode: str
    names: tuple[str, ...]
    leak_index: int

    @classmethod
    def of_store(cls, label_names: Sequence[str], leak_label: str, mode: str) -> "LabelMap":
        if mode == "binary":
            return cls(mode, BINARY_NAMES, BINARY_NAMES.index("LEAK"))
        return cls(mode, tuple(label_names), list(label_names).index(leak_label))

    def class_ids(self, label_names: Sequence[str], leak_label: str, where: str) -> list[int]:
        """Class of the network for each label id of a store, matched by name without regard to case.

        Raises:
            InputError: a multiclass network meets a label it does not know.
        """
        if self.mode == "binary":
            return [int(name == leak_label) for name in label_names]
        lookup = {name.casefold(): index for index, name in enumerate(self.names)}
        lookup[leak_label.casefold()] = self.leak_index
        unknown = [name for name in label_names if name.casefold() not in lookup]
        if unknown:
            raise InputError(
                f"{where}: labels {unknown} are not among the network's classes {list(self.names)}."
            )
        return [lookup[name.casefold()] for name in label_names]


def leak_name(label_names: Sequence[str], wanted: str | None, where: str) -> str:
    """The vocabulary's own spelling of the leak class. `wanted` in any case; None is LEAK."""
    matches = [name for name in label_names if name.casefold() == (wanted or "LEAK").casefold()]
    if len(matches) != 1:
        raise InputError(
            f"{where}: the leak class {wanted or 'LEAK'!r} names {len(matches)} of the labels {list(label_names)}. "
            "Say which one is the leak with labels.leak=NAME."
        )
    return matches[0]
