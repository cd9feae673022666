"""Recordings that predict would leave undecided because they sound unlike those of training."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.scored_recordings import ScoredRecordings


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
