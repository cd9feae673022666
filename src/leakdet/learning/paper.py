"""A reproduction of the paper: learning in rounds, by the rule of its six cases.

On recordings of a rig the confirmed recordings alone did better (docs/learning.md).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.config import LearnConfig
from leakdet.detection.detector import MelDetector
from leakdet.evaluation.metrics import binary_metrics
from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.learning.inputs import recorded_times
from leakdet.learning.training import Material, train_in_passing, train_on
from leakdet.storage.views import SplitView, keeping, pooled
from leakdet.training.callbacks.progress import EpochReport

CASES = (
    "verified leak, found",
    "verified leak, missed",
    "verified normal, false alarm",
    "verified normal",
    "unverified, predicted leak",
    "unverified, predicted normal",
)


def case_of(verified: bool | None, predicted: bool) -> str:
    """The case of a recording: verified leak or not (None: unverified), and the prediction.

    >>> case_of(False, True)
    'verified normal, false alarm'
    """
    if verified is None:
        return CASES[4] if predicted else CASES[5]
    if verified:
        return CASES[0] if predicted else CASES[1]
    return CASES[2] if predicted else CASES[3]


def trains_as_leak(verified: bool | None, predicted: bool) -> bool:
    """True if a recording of that case trains as a leak: a verification outranks a prediction."""
    return predicted if verified is None else verified


def window_mask(
    window_prob: Float[np.ndarray, " W"],
    recording_offsets: Int[np.ndarray, " offsets"],
    as_leak: Bool[np.ndarray, " R"],
    keep: float,
) -> Bool[np.ndarray, " W"]:
    """Mask of the share `keep` of each recording's windows, rounded up, at least one.

    Of a leak those of the highest leak probability, else those of the lowest: by rank alone, with
    no threshold. Of equal ones the earlier.
    """
    mask = np.zeros(len(window_prob), bool)
    for row, leak in enumerate(as_leak.tolist()):
        start, stop = recording_offsets[row : row + 2].tolist()
        count = max(1, math.ceil(keep * (stop - start) - 1e-9))
        prob = window_prob[start:stop]
        order = np.argsort(-prob if leak else prob, kind="stable")
        mask[start + order[:count]] = True
    return mask


def rounds_of(times: Shaped[np.ndarray, " R"], rounds: int) -> Int[np.ndarray, " R"]:
    """The round of each recording, from 0: parts of about equal size in the order of `times`.

    Recordings of one time are in one round. Empty rounds are left out.
    """
    _, rank, counts = np.unique(times, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    number = before * rounds // max(1, len(times))
    return np.asarray(np.unique(number[rank], return_inverse=True)[1])


Rounds = list[dict[str, Any]]


def learn_in_rounds(
    config: LearnConfig,
    old: MelDetector,
    material: Material,
    rows: Int[np.ndarray, " N"],
    unverified: SplitView | None,
    folder: Path,
    callbacks: Sequence[EpochReport] = (),
    judges: SplitView | None = None,
) -> tuple[MelDetector, Rounds]:
    """The model of the last round, and an account of each, with its rates on `judges`.

    Verified recordings are `rows` of the new ones. In a round the model so far predicts, half of
    the windows of each recording are kept by the rule of six cases, and a new model is trained on
    the old recordings and all that was kept so far.
    """
    verified = material.added.take(rows, "train")
    parts = [verified] if unverified is None else [verified, unverified]
    both = replace(pooled(parts), name="train")
    is_verified = np.arange(both.recordings) < verified.recordings
    round_of = rounds_of(_times(both).astype(np.int64), config.learn.rounds)
    last = int(round_of.max())
    model, accounts = old, Rounds()
    rounds: list[SplitView] = []
    for number in range(last + 1):
        chosen = np.flatnonzero(round_of == number)
        part, account = _round(model, both.take(chosen, "train"), is_verified[chosen], config)
        rounds.append(part)
        accounts.append({"round": number + 1, **account})
        learnt = replace(material, added=replace(pooled(rounds), name="train"))
        every = np.arange(learnt.added.recordings)
        if number == last:
            model = train_on(config, learnt, every, folder, callbacks)
        elif learnt.train is not None or len(set(learnt.added.is_leak.tolist())) == 2:
            passing = folder / f".round{number}"
            model = train_in_passing(config, learnt, every, passing, callbacks)
        if judges is not None:
            accounts[-1] |= rates_on(judges, model)
    return model, accounts


def rates_on(judges: SplitView, model: MelDetector) -> dict[str, Any]:
    """The rates of the paper, of recordings that did not train: accuracy, sensitivity, … ."""
    scored = apply_rule(score_split(model, judges), model.rule)
    table = binary_metrics(scored.score, scored.is_leak, model.rule.threshold)
    return {
        "judges": table["n"],
        "accuracy": table["accuracy"],
        "sensitivity": table["recall"],
        "specificity": table["specificity"],
        "fpr": table["fpr"],
        "fnr": 1.0 - table["recall"],
    }


def _times(split: SplitView) -> Shaped[np.ndarray, " R"]:
    return recorded_times(split.groups, split.recordings)


def _round(
    model: MelDetector,
    part: SplitView,
    is_verified: Bool[np.ndarray, " R"],
    config: LearnConfig,
) -> tuple[SplitView, dict[str, Any]]:
    """The recordings of a round with the windows that train, and counts of the six cases."""
    prob = score_split(model, part).window_prob
    predicted = model.rule.decide(model.rule.score(prob, part.recording_offsets))
    known = [
        leak if verified else None
        for leak, verified in zip(part.is_leak.tolist(), is_verified.tolist(), strict=True)
    ]
    pairs = list(zip(known, predicted.tolist(), strict=True))
    as_leak = np.array([trains_as_leak(*pair) for pair in pairs], bool)
    names = part.label_names
    leak_id = names.index(part.leak_labels[0])
    other_id = next(i for i, name in enumerate(names) if name not in part.leak_labels)
    by_case = np.where(as_leak, leak_id, other_id)
    label_id = np.where(is_verified, part.label_id, by_case)
    mask = window_mask(prob, part.recording_offsets, as_leak, config.learn.keep)
    counts = Counter(case_of(*pair) for pair in pairs)
    times = _times(part)
    known_times = times[~np.isnat(times)].astype(str).tolist()
    account = {
        "from_time": min(known_times, default=""),
        "to_time": max(known_times, default=""),
        **{case: counts[case] for case in CASES},
        "windows_kept": int(mask.sum()),
        "windows": part.windows,
    }
    return keeping(replace(part, label_id=label_id), mask), account
