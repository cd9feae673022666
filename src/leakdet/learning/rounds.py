"""Learning in rounds: each part of the new recordings, by the verdicts of the model before it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from leakdet.config import LearnConfig
from leakdet.detection.detector import MelDetector
from leakdet.evaluation.split_scores import score_split
from leakdet.learning.recorded_times import recorded_times
from leakdet.learning.six_cases import CASES, case_of, kept_windows, rounds_of, trains_as_leak
from leakdet.learning.trainings import Material, train_in_passing, train_on
from leakdet.storage.kept_windows import keeping
from leakdet.storage.views import SplitView, pooled

Rounds = list[dict[str, Any]]


def learn_in_rounds(
    config: LearnConfig,
    old: MelDetector,
    material: Material,
    rows: Int[np.ndarray, " N"],
    unverified: SplitView | None,
    folder: Path,
) -> tuple[MelDetector, Rounds]:
    """The model of the last round, and an account of each.

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
    kept: list[SplitView] = []
    for number in range(last + 1):
        chosen = np.flatnonzero(round_of == number)
        part, account = _round(model, both.take(chosen, "train"), is_verified[chosen], config)
        kept.append(part)
        accounts.append({"round": number + 1, **account})
        learnt = replace(material, added=replace(pooled(kept), name="train"))
        every = np.arange(learnt.added.recordings)
        if number == last:
            model = train_on(config, learnt, every, folder)
        elif learnt.train is not None or len(set(learnt.added.is_leak.tolist())) == 2:
            model = train_in_passing(config, learnt, every, folder / f".round{number}")
    return model, accounts


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
    told = np.where(as_leak, leak_id, other_id)
    label_id = np.where(is_verified, part.label_id, told)
    mask = kept_windows(prob, part.recording_offsets, as_leak, config.learn.keep)
    counts = Counter(case_of(*pair) for pair in pairs)
    times = _times(part)
    told = times[~np.isnat(times)].astype(str).tolist()
    account = {
        "from_time": min(told, default=""),
        "to_time": max(told, default=""),
        **{case: counts[case] for case in CASES},
        "windows_kept": int(mask.sum()),
        "windows": part.windows,
    }
    return keeping(replace(part, label_id=label_id), mask), account
