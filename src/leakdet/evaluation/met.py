"""Recordings that a model has met, or that sound unlike its training: no evidence for it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from leakdet.core.errors import InputError, first_few
from leakdet.core.locations import absolute_file, parse_location
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector
from leakdet.detection.familiarity import FEWEST, MIN_GROUPS, SpectralReference
from leakdet.detection.met import ROLES, MetRecordings
from leakdet.detection.networks import FeatureSums
from leakdet.detection.source_rates import SourceRates
from leakdet.evaluation.metrics_json import recording_table
from leakdet.evaluation.recording_media import texts_or_none
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.evaluation.split_scores import (
    apply_rule,
    score_split,
    source_rates_hz,
    split_group_by,
    window_blocks,
)
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled

MAX_READ = 16_384  # recordings: of more, as many are drawn at random


def training_reference(
    store: Path, splits: Sequence[StoreSplit], seed: int = 0
) -> SpectralReference | None:
    """The reference of the pipe recordings of `splits`, opened with their labels.

    None where they are too few. Splits are train and, where nothing was chosen by it, val.
    """
    view = pooled(splits)
    rows = pipe_rows(view)
    if len(rows) > MAX_READ:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MAX_READ, replace=False))
    view = view.take(rows, splits[0].name)
    group = _units(view, columns := split_group_by(store))
    return SpectralReference.of(features_of(view), view.is_leak, group, "/".join(columns))


def training_rates(train: StoreSplit) -> SourceRates | None:
    """The source rates of the pipe recordings of `train`; None where none becomes known."""
    rows = pipe_rows(train)
    return SourceRates.of(source_rates_hz(train)[rows], train.is_leak[rows])


def pipe_rows(split: StoreSplit) -> Int[np.ndarray, " N"]:
    """Recordings of pipes, not negatives such as rain and taps, which make nothing familiar.

    Negatives have no leak, and less than half of the largest weight.
    """
    weight = split.numbers("weight", default=1.0)
    return np.flatnonzero(split.is_leak | (weight >= weight.max() / 2))


def features_of(split: StoreSplit) -> Float[np.ndarray, "R F"]:
    """Features of every recording of a split. Reads all of its windows."""
    sums = FeatureSums(split.recording_offsets, split.mel.shape[2])
    for block in window_blocks(split):
        sums.add(block)
    return sums.features()


def _units(split: StoreSplit, columns: list[str]) -> Shaped[np.ndarray, " R"] | None:
    """The group of each recording over these columns, as build divides them.

    A recording of which all are blank is a group of its own.
    """
    if not columns or any(column not in split.groups for column in columns):
        return None
    values = np.stack([split.groups[column].astype(str) for column in columns])
    joined = np.array(["/".join(of_recording) for of_recording in values.T.tolist()])
    return np.where((values == "").all(axis=0), split.recording_ids.astype(str), joined)


def reference_sentence(reference: SpectralReference | None) -> str:
    """A sentence on what the model will know of the sounds in training."""
    if reference is None:
        return (
            f"familiar fewer than {FEWEST} training recordings: too few to say what is familiar, "
            "so predict will decide any sound"
        )
    facts = reference.facts
    known = f"familiar {facts['recordings']} training recordings are the reference for new ones"
    if facts["left_out"] != "recording":
        one = f"one {facts['left_out']} of {facts['groups']}"
        return f"{known}; the limits come from leaving out {one} at a time"
    return (
        f"{known}; the store was split by fewer than {MIN_GROUPS} groups, so the limits come from "
        "leaving out single recordings: at a new place many may be undecided"
    )


def unfamiliar_account(scored: ScoredRecordings, rule: DecisionRule) -> dict[str, Any] | None:
    """The entry `unfamiliar` of metrics.json; None where the model cannot tell.

    `recordings` of the split, how many are `undecided` under `rule.unfamiliar` and their `ids`, how
    many of the others are decided wrongly, and the median and maximum of `familiarity`.
    """
    familiarity = scored.familiarity
    if familiarity is None:
        return None
    undecided = rule.is_unfamiliar(familiarity)
    return {
        "setting": rule.unfamiliar,
        "recordings": len(scored),
        "undecided": int(undecided.sum()),
        "decided_wrongly": int((scored.wrong & ~undecided).sum()),
        "median_familiarity": float(np.median(familiarity)),
        "max_familiarity": float(familiarity.max()),
        "ids": scored.recording_id[undecided].tolist(),
    }


def unfamiliar_sentence(account: Mapping[str, Any] | None) -> str:
    """A sentence on unfamiliar recordings; "" where there are none, or the model cannot tell.

    >>> unfamiliar_sentence({"recordings": 22, "undecided": 3, "decided_wrongly": 2})
    '3 of 22 recordings sound unlike those of training: predict leaves them undecided. The numbers
    above count them. Of the other 19, 2 would be decided wrongly.'
    """
    if account is None or not account["undecided"]:
        return ""
    count, others = account["undecided"], account["recordings"] - account["undecided"]
    sounds, them = ("sounds", "it") if count == 1 else ("sound", "them")
    rest = f" Of the other {others}, {account['decided_wrongly']} would be decided wrongly."
    return (
        f"{count} of {account['recordings']} recordings {sounds} unlike those of training: "
        f"predict leaves {them} undecided. The numbers above count {them}.{rest if others else ''}"
    )


def met_roles(met: MetRecordings | None, split: StoreSplit) -> Shaped[np.ndarray, " R"] | None:
    """The role in which each recording was met, blank for none; None where unknown."""
    if met is None or not split.has("content_sha256"):
        return None
    paths = texts_or_none(split, "path")
    files = [] if paths is None else map(absolute_file, map(parse_location, paths.tolist()))
    return np.array(met.roles_of(split.texts("content_sha256").tolist(), files), dtype=str)


def role_counts(roles: Shaped[np.ndarray, " R"]) -> dict[str, int]:
    """Recordings by the role in which they were met."""
    return {role: int((roles == role).sum()) for role in ROLES}


def judged_apart(
    detector: MelDetector, split: StoreSplit
) -> tuple[StoreSplit, dict[str, Any] | None]:
    """The recordings by which the model may be judged, and an account of those that it has met.

    The account is the entry `met_in_training` of metrics.json: `recordings` of the split, how many
    of them were `met`, how many in `train` and `val`, their `ids`, and the metrics of these alone.
    It is None where model or store do not tell. Where all were met, the whole split comes back.
    """
    roles = met_roles(detector.met, split)
    if roles is None:
        return split, None
    met, new = np.flatnonzero(roles != ""), np.flatnonzero(roles == "")
    account: dict[str, Any] = {
        "recordings": split.recordings,
        "met": len(met),
        **role_counts(roles),
        "ids": split.recording_ids[met].tolist(),
        "recording": None,
    }
    if not len(met):
        return split, account
    view = pooled([split])
    scored = apply_rule(score_split(detector, view.take(met, split.name)), detector.rule)
    account["recording"] = recording_table(scored, None, replicates=200)
    account["recording"]["intervals"]["unit"] = "recording"
    return (view.take(new, split.name) if len(new) else split), account


def all_met(account: Mapping[str, Any] | None) -> bool:
    """True where the model has met every recording, so that their metrics are no evidence."""
    return account is not None and 0 < account["recordings"] == account["met"]


def start_sentences(start: Mapping[str, Any] | None) -> list[str]:
    """Sentences on what the model that a training started from had met of val.

    >>> start_sentences({"model": "m", "val": {"recordings": 9, "train": 2, "val": 0}})[0]
    'The training started from a model that was trained on 2 of 9 validation recordings.'
    """
    if not start:
        return []
    began = "The training started from a model that"
    val = start["val"]
    if val is None:
        return [f"{began} does not say what trained it: it may have met these recordings."]
    if not val["train"]:
        return []
    return [f"{began} was trained on {val['train']} of {val['recordings']} validation recordings."]


def met_sentences(account: Mapping[str, Any] | None) -> list[str]:
    """Sentences on recordings that the model has met; [] where there are none.

    >>> met_sentences({"recordings": 22, "met": 21, "recording": {"tp": 9, "positives": 10}})
    ['21 of 22 recordings were met in training and are left out of the results.']
    """
    if account is None:
        return ["Whether the model has met these recordings is unknown: it does not say."]
    met, recordings = account["met"], account["recordings"]
    if not met:
        return []
    if all_met(account):
        told = f"all {recordings} recordings were met in training, so they are no evidence"
        return [f"Not judged: {told}."]
    return [
        f"{met} of {recordings} recordings were met in training and are left out of the results."
    ]


def new_to_both(
    a: ScoredRecordings,
    b: ScoredRecordings,
    account_a: Mapping[str, Any] | None,
    account_b: Mapping[str, Any] | None,
    names: tuple[str, str] = ("A", "B"),
) -> tuple[ScoredRecordings, ScoredRecordings, str]:
    """The verdicts of two models on recordings that neither has met, and what that leaves open.

    The accounts are those of `judged_apart`. Where one of them has met every recording that both
    were scored on, all come back, with a sentence on why they say nothing; so do they where an
    account is None. "": nothing is left open.
    """
    ids_a, ids_b = a.recording_id.tolist(), b.recording_id.tolist()
    accounts = [account for account in (account_a, account_b) if account is not None]
    met = {name for account in accounts for name in account["ids"]}
    new = set(ids_b) - met
    common = [name for name in ids_a if name in new]
    told = _met_counts(account_a, account_b, names)
    if not common and ids_a == ids_b:
        return a, b, f"{told}: they say nothing about which is better."
    if not common:
        raise InputError(
            f"{told}, and together they have met all of {a.name} ({first_few(sorted(met))}), so "
            "that none can tell which is better. Compare them on recordings that neither has met: "
            "another split (--split), or a store built of recordings made since. Given alone, "
            "each is judged on what it has not met."
        )
    rows_a, rows_b = (
        np.array([row_of[name] for name in common])
        for row_of in ({name: row for row, name in enumerate(ids)} for ids in (ids_a, ids_b))
    )
    unknown = "" if len(accounts) == 2 else f"{told}."
    return a.take(rows_a), b.take(rows_b), unknown


def _met_counts(
    a: Mapping[str, Any] | None, b: Mapping[str, Any] | None, names: tuple[str, str]
) -> str:
    """A clause on what two models have met, or on which of them that is not known.

    >>> _met_counts({"recordings": 22, "met": 22}, {"recordings": 22, "met": 0}, ("A", "B"))
    'A has met 22 of 22 recordings in training, B 0 of 22'
    """
    if a is None or b is None:
        which = " and ".join(
            name for name, account in zip(names, (a, b), strict=True) if account is None
        )
        return f"whether {which} met these recordings in training is unknown"
    told = [f"{account['met']} of {account['recordings']}" for account in (a, b)]
    return f"{names[0]} has met {told[0]} recordings in training, {names[1]} {told[1]}"
