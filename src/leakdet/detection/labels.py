"""Class names, and which of them mean a leak: the positive class, whatever its id."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leakdet.detection.label_view import LabelView, same_label
from leakdet.errors import InputError

BINARY_NAMES = ("NO_LEAK", "LEAK")


@dataclass(frozen=True)
class LabelMap:
    """The network's classes in id order, and the ids of those that mean a leak.

    Mode `binary` has the classes NO_LEAK (0) and LEAK (1) whatever the store's vocabulary,
    `multiclass` those of the store. `leak_labels` and `name_of_label` tell of the labels that
    trained the network: which are leaks, and what became of each (None: left out). Both are empty
    where that is unknown, and no part of what makes two maps equal.
    """

    mode: str
    names: tuple[str, ...]
    leaks: tuple[int, ...]
    leak_labels: tuple[str, ...] = field(default=(), compare=False)
    name_of_label: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    @classmethod
    def of_view(cls, view: LabelView, mode: str) -> "LabelMap":
        """The classes of a network that is trained on recordings under a label view."""
        told = (view.leaks, view.name_of_label)
        if mode == "binary":
            return cls(mode, BINARY_NAMES, (BINARY_NAMES.index("LEAK"),), *told)
        leaks = tuple(i for i, name in enumerate(view.names) if name in view.leaks)
        return cls(mode, view.names, leaks, *told)

    @property
    def tells_classes(self) -> bool:
        """True if the network tells more than leak or no leak."""
        return self.mode == "multiclass"

    def known_class_ids(self, view: LabelView) -> list[int | None]:
        """The network's class of each label of a view, matched by name in any case; None: none.

        A label that is the only leak of the view may have another name than the network's only
        leak class.
        """
        if not self.tells_classes:
            return [int(name in view.leaks) for name in view.names]
        found = [self.class_id(name) for name in view.names]
        if len(view.leaks) == len(self.leaks) == 1:
            only = view.names.index(view.leaks[0])
            found[only] = self.leaks[0] if found[only] is None else found[only]
        return found

    def class_ids(self, view: LabelView, where: str) -> list[int]:
        """The network's class of each label of a view, as `known_class_ids`.

        Raises:
            InputError: a label is none of the classes of a multiclass network.
        """
        found = self.known_class_ids(view)
        ids = [index for index in found if index is not None]
        unknown = [name for name, index in zip(view.names, found, strict=True) if index is None]
        if unknown:
            raise InputError(
                f"{where}: labels {unknown} are not among the network's classes "
                f"{list(self.names)}. Give them the name of a class (labels.rename), or leave "
                "their recordings out (labels.ignore)."
            )
        return ids

    def class_id(self, name: str) -> int | None:
        """The class of this name in any case; None where there is none."""
        matches = [index for index, known in enumerate(self.names) if same_label(known, name)]
        return matches[0] if matches else None

    def to_json(self) -> dict[str, Any]:
        """A plain dict; `leak_index` is for readers that know of one leak class only."""
        one = {"leak_index": self.leaks[0]} if len(self.leaks) == 1 else {}
        return {
            "mode": self.mode,
            "names": list(self.names),
            **one,
            "leak_indices": list(self.leaks),
            "leak_labels": list(self.leak_labels),
            "name_of_label": dict(self.name_of_label),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LabelMap":
        """Rebuild a map. Raises `KeyError`, `TypeError` or `ValueError` where it is none."""
        indices = data["leak_indices"] if "leak_indices" in data else [data["leak_index"]]
        return cls(
            str(data["mode"]),
            tuple(map(str, data["names"])),
            tuple(map(int, indices)),
            tuple(data.get("leak_labels", ())),
            dict(data.get("name_of_label", {})),
        )
