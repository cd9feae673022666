"""Class names, and which of them is the leak: the positive class, whatever its id."""

from collections.abc import Sequence
from dataclasses import dataclass

from leakdet.errors import InputError

BINARY_NAMES = ("NO_LEAK", "LEAK")


@dataclass(frozen=True)
class LabelMap:
    """The network's classes in id order, and the index of the leak among them.

    Mode `binary` has the classes NO_LEAK (0) and LEAK (1) whatever the store's vocabulary,
    `multiclass` those of the store.
    """

    mode: str
    names: tuple[str, ...]
    leak_index: int

    @classmethod
    def of_store(cls, label_names: Sequence[str], leak_label: str, mode: str) -> "LabelMap":
        """The classes of a network that is trained on a store."""
        if mode == "binary":
            return cls(mode, BINARY_NAMES, BINARY_NAMES.index("LEAK"))
        return cls(mode, tuple(label_names), list(label_names).index(leak_label))

    def class_ids(self, label_names: Sequence[str], leak_label: str, where: str) -> list[int]:
        """The network's class of each label id of a store, matched by name in any case.

        Raises:
            InputError: a label is none of the classes of a multiclass network.
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


def find_leak_label(label_names: Sequence[str], wanted: str | None, where: str) -> str:
    """The label that equals `wanted` (None: "leak"), ignoring case.

    Raises:
        InputError: no label does, or several do; `where` names the store or source.
    """
    leak = wanted or "leak"
    matches = [name for name in label_names if name.casefold() == leak.casefold()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(
            f"{where}: labels {' and '.join(matches)} differ in upper and lower case only. "
            "Give one of them another name."
        )
    likely = [name for name in label_names if name.casefold().startswith("leak")]
    example = [*likely, *label_names, "NAME"][0]
    raise InputError(
        f'{where}: no label is called "{leak}" (found: {", ".join(label_names)}). '
        f"Which one means a leak? Add, for example, labels.leak={example}"
    )
