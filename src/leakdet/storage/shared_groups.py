"""Sentences on group columns, such as pipe, of which train shares values with val or test."""

from collections.abc import Mapping, Sequence

from leakdet.storage.store import SPLITS, StoreSplit


def values_sentence(column: str, values: Mapping[str, set[str]]) -> str:
    """A sentence on the `values` of a column in each split, blank ones left out.

    Where train shares some, it says what that does to the scores, and what to do.
    """
    held_out = shared_with(values)
    if not held_out:
        counts = ", ".join(f"{len(found)} in {split}" for split, found in values.items() if found)
        return f"{column}: {counts or 'blank everywhere'}; none in train and in another split"
    shared = values["train"] & {value for split in held_out for value in values[split]}
    total = len(set.union(*values.values()))
    where = ", ".join(["train", *held_out[:-1]]) + f" and {held_out[-1]}"
    if len(shared) == total:
        known = {1: "its one value is", 2: "both values are"}.get(total, f"all {total} values are")
        text = f"{column}: {known} in {where}; scores say nothing about a new {column}."
    else:
        verb = "is" if len(shared) == 1 else "are"
        text = (
            f"{column}: {len(shared)} of {total} values {verb} in {where}; "
            f"scores are partly of a {column} known from training."
        )
    if total >= sum(bool(found) for found in values.values()):
        return f"{text} Keep them apart: build with split.group_by=[{column}]"
    if total == 1:
        return text
    return f"{text} Too few for a split each; crossval.group_by={column} holds out each in turn"


def shared_with(values: Mapping[str, set[str]]) -> list[str]:
    """The splits besides train that have some of its values."""
    return [
        split for split, found in values.items() if split != "train" and found & values["train"]
    ]


def group_values(splits: Sequence[StoreSplit]) -> dict[str, dict[str, set[str]]]:
    """Values of each group column in each split of a store, blank ones left out."""
    held = {split.name: split.groups for split in splits}
    columns = dict.fromkeys(column for groups in held.values() for column in groups)
    return {
        column: {name: set(held.get(name, {}).get(column, ())) - {""} for name in SPLITS}
        for column in columns
    }


def shared_sentences(splits: Sequence[StoreSplit]) -> list[str]:
    """A sentence for each group column of which train shares values with another of `splits`."""
    values = group_values(splits)
    return [values_sentence(column, of) for column, of in values.items() if shared_with(of)]
