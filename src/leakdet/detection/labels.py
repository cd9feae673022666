"""Class names, which of them mean a leak, and views that rename, merge or leave out labels.

Names are compared in Unicode normal form and without regard to case. The order is: rename, merge
spellings, leave out, name the leaks.
"""

import json
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError, counted

# leak in the languages of those who send recordings, unless a negation stands before or after it
LEAK_WORD = re.compile(r"leak|(?<!f)leck|fuite|fuga|lekk|\blek\b|漏")
NO_LEAK_WORD = re.compile(
    r"(\b|_)(no|non|not|un|without|kein|keine|ohne|nicht|sans|pas|sin|sem|geen|zonder)[\W_]*"
    r"(a[\W_]+|de[\W_]+)?(leak|leck|fuite|fuga|lekk)"
    r"|(leak|leck|fuite|fuga|lekk)\w*[\W_]*(free|less|frei|los)|(无|不|未|非|没有)漏"
)

SPECIAL = re.compile(r"[,\[\]{}'\"]")  # what a list on the command line is made of


def label_key(name: str) -> str:
    """Common form of all spellings of a label: composed letters, without case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name.strip()).casefold())


def same_label(one: str, other: str) -> bool:
    """True for two spellings of one label."""
    return label_key(one) == label_key(other)


def sounds_like_leak(name: str) -> bool:
    """True for a label that people would take for a leak.

    >>> [sounds_like_leak(name) for name in ("gasket-leak", "no_leak", "leak-free", "Leck (groß)")]
    [True, False, False, True]
    """
    key = label_key(name)
    return bool(LEAK_WORD.search(key)) and not NO_LEAK_WORD.search(key)


@dataclass(frozen=True)
class LabelView:
    """The vocabulary that training sees, and how the labels that were found turn into it.

    `leaks` are those of `names` that mean a leak; `name_of_label` has every label as it was found,
    None where its recordings are left out; `left_out` counts these recordings by label.
    """

    names: tuple[str, ...]
    leaks: tuple[str, ...]
    name_of_label: Mapping[str, str | None]
    left_out: Mapping[str, int] = field(default_factory=dict)

    def ids(self, labels: Sequence[str]) -> list[int]:
        """For each label as it was found its place in `names`; -1 where it is left out."""
        found = [self.name_of_label[label] for label in labels]
        return [-1 if name is None else self.names.index(name) for name in found]

    def counting(self, labels: Iterable[str]) -> "LabelView":
        """This view with the number of recordings that are left out of those with these labels."""
        counts = Counter(label for label in labels if self.name_of_label[label] is None)
        return replace(self, left_out=dict(sorted(counts.items())))

    def sentence(self) -> str:
        """Meaning of the labels, as every build and training says it once.

        >>> LabelView(("ok", "drip"), ("drip",), {"ok": "ok", "drip": "drip", "?": None}).sentence()
        'leak: drip; no leak: ok'
        """
        rest = [name for name in self.names if name not in self.leaks]
        text = f"leak: {', '.join(self.leaks)}; no leak: {', '.join(rest)}"
        out = [f"{label} ({counted(n, 'recording')})" for label, n in self.left_out.items()]
        return f"{text}; left out: {', '.join(out)}" if out else text

    def notes(self) -> list[str]:
        """Sentences on renamed and merged labels, and on names that do not fit their meaning."""
        kept = {label: name for label, name in self.name_of_label.items() if name is not None}
        notes = []
        for name in self.names:
            of_it = [label for label, target in kept.items() if target == name]
            spellings = [label for label in of_it if same_label(label, name)]
            renamed = [label for label in of_it if not same_label(label, name)]
            if len(spellings) > 1:
                notes.append(f"{_listed(spellings)} are spellings of one label and count as {name}")
            if renamed:
                notes.append(f"{_listed(renamed)} {_is(renamed)} renamed to {name}")
        doubtful = [n for n in self.names if n not in self.leaks and sounds_like_leak(n)]
        if doubtful:
            notes.append(
                f"{_listed(doubtful)} {_sounds(doubtful)} like a leak but counts as no leak; to "
                f"change that: {_typed([*self.leaks, *doubtful])}"
            )
        return notes


def label_view(
    labels: Sequence[str],
    settings: LabelsConfig,
    where: str,
    stored_leaks: Sequence[str] = (),
    flags: bool = False,
) -> LabelView:
    """The view of a vocabulary; of several spellings the first in `labels` is kept.

    `stored_leaks` are the leak labels that the store names. Leaks are those of `settings`, else of
    the store, else the label called leak. `flags`: a remedy is written as --leak NAME.
    """
    name_of_label = renamed(labels, settings, where)
    names = list(dict.fromkeys(name for name in name_of_label.values() if name is not None))
    rename = {label_key(old): new for old, new in settings.rename.items()}
    stored = {label_key(rename.get(label_key(name), name)) for name in stored_leaks}
    stored_names = [name for name in names if label_key(name) in stored]
    leaks = _leaks(names, settings.leak, stored_names, where, flags)
    return LabelView(tuple(names), tuple(leaks), name_of_label)


def renamed(labels: Sequence[str], settings: LabelsConfig, where: str) -> dict[str, str | None]:
    """The name of each label after renaming and merging; None where it is left out."""
    rename = {label_key(old): new for old, new in settings.rename.items()}
    _check_known("labels.rename", list(settings.rename), labels, where)
    name_of_key: dict[str, str] = {}
    name_of_label: dict[str, str] = {}
    for label in labels:
        target = rename.get(label_key(label), label)
        name_of_label[label] = name_of_key.setdefault(label_key(target), target)
    _check_known("labels.ignore", settings.ignore, list(name_of_key.values()), where)
    ignored = {label_key(name) for name in settings.ignore}
    return {
        label: None if label_key(name) in ignored else name for label, name in name_of_label.items()
    }


def joined(views: Sequence[LabelView]) -> LabelView | None:
    """The view of several splits of a store, with what is left out of all; None of none."""
    if not views:
        return None
    left_out: Counter[str] = Counter()
    for view in views:
        left_out.update(view.left_out)
    return replace(views[0], left_out=dict(sorted(left_out.items())))


def _leaks(
    names: Sequence[str], wanted: Sequence[str], stored: Sequence[str], where: str, flags: bool
) -> list[str]:
    """Those of `names` that mean a leak; `stored` are names of which the store says so."""
    given = wanted or stored or ["leak"]
    leaks = [name for name in names if any(same_label(name, leak) for leak in given)]
    absent = [name for name in given if not any(same_label(name, leak) for leak in leaks)]
    likely = [name for name in names if sounds_like_leak(name)]
    # any other name may as well be the label of what does not leak
    examples = [name for name in names if label_key(name) in ("1", "true", "yes")] or ["NAME"]
    if absent:
        called = " or ".join(f'"{name}"' for name in absent)
        example = _typed(likely or examples, flags)
        raise InputError(
            f"{where}: no label is called {called} (found: {', '.join(names)}). "
            f"Which one means a leak? Add, for example, {example}"
        )
    if len(leaks) == len(names):
        some = likely if 0 < len(likely) < len(names) else examples
        raise InputError(
            f"{where}: every label means a leak ({', '.join(names)}); recordings without a leak "
            f"are needed too. Name the leaks alone, for example {_typed(some, flags)}"
        )
    unnamed = [name for name in likely if name not in leaks]
    if unnamed and not wanted and not stored:
        raise InputError(
            f"{where}: {_listed(unnamed)} {_sounds(unnamed)} like a leak, but only "
            f"{_listed(leaks)} would count as one. Say which labels are leaks: "
            f"{_typed([*leaks, *unnamed], flags)}, or {_typed(leaks, flags)} if "
            f"{_listed(unnamed)} {_is(unnamed)} none."
        )
    return leaks


def _check_known(setting: str, wanted: Sequence[str], labels: Sequence[str], where: str) -> None:
    """Refuse names that no label has: a misspelt one would change nothing, in silence."""
    known = {label_key(label) for label in labels}
    if absent := [name for name in wanted if label_key(name) not in known]:
        raise InputError(
            f"{where}: {setting} names {_listed(absent)}, but no label is called so "
            f"(found: {', '.join(labels)})."
        )


def _typed(names: Sequence[str], flags: bool = False) -> str:
    """`labels.leak=…` or `--leak …` as a person would type it in a shell."""
    if flags:
        return " ".join(f"--leak {shlex.quote(name)}" for name in names)
    written = [json.dumps(n, ensure_ascii=False) if SPECIAL.search(n) else n for n in names]
    value = written[0] if len(written) == 1 else f"[{','.join(written)}]"
    return shlex.quote(f"labels.leak={value}")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _sounds(names: Sequence[str]) -> str:
    return "sounds" if len(names) == 1 else "sound"


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
        """The network's class of each label of a view, as `known_class_ids`."""
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
        """A plain dict."""
        return {
            "mode": self.mode,
            "names": list(self.names),
            "leak_indices": list(self.leaks),
            "leak_labels": list(self.leak_labels),
            "name_of_label": dict(self.name_of_label),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LabelMap":
        """Rebuild a map. Raises `KeyError`, `TypeError` or `ValueError` where it is none."""
        return cls(
            str(data["mode"]),
            tuple(map(str, data["names"])),
            tuple(map(int, data["leak_indices"])),
            tuple(data["leak_labels"]),
            dict(data["name_of_label"]),
        )
