"""The recordings and groups that a model has met: those that trained, chose or tuned it."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped, UInt8
from torch import Tensor

from leakdet.core.errors import counted
from leakdet.core.locations import SOURCE_FILE

HASH_BYTES = 16
ROLES = ("train", "val")  # val: chose the checkpoint and fitted the threshold
HASHES, ROLE = "met.hashes", "met.roles"  # tensors of the model file
MAX_GROUPS = 10_000  # values of a group column that a model keeps


@dataclass(frozen=True)
class MetRecordings:
    """Content hashes [N, 16] with the role of each [N], and group values by column and role.

    16 bytes of SHA-256 tell any number of recordings apart: two of 10^9 agree by chance with a
    probability of 10^-21.
    """

    hashes: UInt8[np.ndarray, "N 16"]
    roles: UInt8[np.ndarray, " N"]
    groups: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        contents: Mapping[str, Iterable[str]],
        groups: Mapping[str, Mapping[str, Shaped[np.ndarray, " R"]]],
    ) -> "MetRecordings":
        """From SHA-256 in hexadecimal and group columns, each by role.

        A column with more than 10,000 values is left out, so that a model file stays small.
        """
        texts = {role: list(contents[role]) for role in ROLES if role in contents}
        joined = b"".join(_digest(text) for role in texts for text in texts[role])
        counts = [len(texts[role]) for role in texts]
        roles = np.repeat([ROLES.index(role) for role in texts], counts).astype(np.uint8)
        hashes = np.frombuffer(joined, np.uint8).reshape(-1, HASH_BYTES)
        columns = sorted({column for of_role in groups.values() for column in of_role})
        kept: dict[str, dict[str, list[str]]] = {}
        for column in columns:
            values = {
                role: sorted(set(groups[role][column].tolist()) - {""})
                for role in groups
                if column in groups[role]
            }
            if max(map(len, values.values())) <= MAX_GROUPS:
                kept[column] = values
        return cls(hashes, roles, kept)

    def joined(self, other: "MetRecordings") -> "MetRecordings":
        """Union of both, each content once; of group columns those that both know, and files."""
        hashes = np.concatenate([self.hashes, other.hashes])
        roles = np.concatenate([self.roles, other.roles])
        order = np.argsort(roles, kind="stable")  # train first, so that it wins over val
        _, first = np.unique(hashes[order], axis=0, return_index=True)
        kept = order[np.sort(first)]
        groups = {
            column: {
                role: sorted({*mine.get(role, ()), *theirs.get(role, ())})
                for role in ROLES
                if role in mine or role in theirs
            }
            for column in {**self.groups, **other.groups}
            if column in self.groups.keys() & other.groups.keys() | {SOURCE_FILE}
            for mine, theirs in [(self.groups.get(column, {}), other.groups.get(column, {}))]
        }
        return MetRecordings(hashes[kept], roles[kept], groups)

    def roles_of(self, contents: Iterable[str], files: Iterable[str] = ()) -> list[str]:
        """The role in which the model has met each content, "" where it has not.

        A content met in two roles has the first one, train. `files` are the absolute paths of the
        recordings, where they are known: of a file that was met in part, all is met.
        """
        known, known_files = self._role_of, self._role_of_file
        return [
            known.get(_digest(content)) or known_files.get(file, "")
            for content, file in zip_longest(contents, files, fillvalue="")
        ]

    @cached_property
    def _role_of_file(self) -> dict[str, str]:
        files = self.groups.get(SOURCE_FILE, {})
        return {file: role for role in reversed(ROLES) for file in files.get(role, ())}

    @cached_property
    def _role_of(self) -> dict[bytes, str]:
        pairs = zip(self.hashes[::-1], self.roles[::-1].tolist(), strict=True)
        return {bytes(digest): ROLES[role] for digest, role in pairs}

    def groups_met(
        self, groups: Mapping[str, Shaped[np.ndarray, " R"]]
    ) -> dict[str, dict[str, int]]:
        """Counts by column: values, those that were in training, and recordings that have these.

        Blank values count as no group. Columns that the model does not know are left out.
        """
        counts = {}
        for column, values in groups.items():
            if column not in self.groups:
                continue
            known = {value for of_role in self.groups[column].values() for value in of_role}
            named = values[values != ""]
            distinct = set(named.tolist())
            counts[column] = {
                "values": len(distinct),
                "met": len(distinct & known),
                "recordings": int(np.isin(named, list(known)).sum()),
            }
        return counts

    def tensors(self) -> dict[str, Tensor]:
        """The hashes and roles as tensors of a model file."""
        return {HASHES: torch.tensor(self.hashes), ROLE: torch.tensor(self.roles)}

    @classmethod
    def from_file(
        cls, tensors: Mapping[str, Tensor], groups: Mapping[str, Any]
    ) -> "MetRecordings | None":
        """Back from a model file; None where it has no hashes."""
        if HASHES not in tensors or ROLE not in tensors:
            return None
        hashes, roles = tensors[HASHES].numpy(), tensors[ROLE].numpy()
        ok = hashes.dtype == roles.dtype == np.uint8 and hashes.shape == (len(roles), HASH_BYTES)
        if not ok or (len(roles) and roles.max() >= len(ROLES)):
            raise ValueError(f"{HASHES} and {ROLE} do not fit together")
        return cls(hashes, roles, {column: dict(values) for column, values in groups.items()})


def _digest(content: str) -> bytes:
    """16 bytes of a SHA-256 in hexadecimal; any other text is hashed."""
    try:
        return bytes.fromhex(content)[:HASH_BYTES].ljust(HASH_BYTES, b"\0")
    except ValueError:
        return hashlib.sha256(content.encode()).digest()[:HASH_BYTES]


def group_sentences(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A sentence for each group column on the judged groups that were in training.

    >>> group_sentences({"pipe": {"values": 3, "met": 3, "recordings": 12}})
    ['pipe: all 3 values were in training; scores say nothing about a new pipe.']
    """
    sentences = []
    for column, count in counts.items():
        values, met = count["values"], count["met"]
        if not values:
            continue
        share = {1: "its only value", 2: "both values"}.get(values, f"all {values} values")
        if met == values:
            were = "were" if values > 1 else "was"
            sentences.append(
                f"{column}: {share} {were} in training; scores say nothing about a new {column}."
            )
        elif met:
            number = count["recordings"]
            recordings = counted(number, "recording")
            sentences.append(
                f"{column}: {met} of {values} values {'was' if met == 1 else 'were'} in training "
                f"({recordings})."
            )
        else:
            sentences.append(f"{column}: no value was in training.")
    return sentences
