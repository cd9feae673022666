"""Recordings that a report lists apart: kept out of its numbers, or undecided by predict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakdet.detection.spectral_reference import LIMITS
from leakdet.evaluation.unfamiliar import unfamiliar_sentence
from leakdet.reporting.wording import counted

# entries of metrics.json
KEPT_APART = ("met_in_training", "without_sound", "without_group", "unfamiliar")
MAX_IDS = 500


@dataclass(frozen=True)
class Apart:
    """Recordings of one reason: `ids` are listed, `more` are not."""

    heading: str
    sentence: str
    ids: Sequence[str]
    more: int


def kept_apart(metrics: Mapping[str, Any]) -> list[Apart]:
    """The recordings that the content of metrics.json keeps apart or says undecided, by reason."""
    return [
        Apart(heading, sentence, ids[:MAX_IDS], max(0, len(ids) - MAX_IDS))
        for heading, sentence, ids in _reasons(metrics)
    ]


def _reasons(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    met = metrics.get("met_in_training")
    if met and met["met"]:
        yield "Met in training", _met(met), met["ids"]
    silent = metrics.get("without_sound") or []
    if silent:
        sentence = (
            f"{counted(len(silent), 'recording')} without a window of sound: nothing to judge, as "
            "predict leaves such recordings undecided."
        )
        yield "Without sound", sentence, silent
    blank = metrics.get("without_group") or []
    if blank:
        columns = " and ".join(metrics["group_by"])
        sentence = f"{counted(len(blank), 'recording')} with a blank {columns} took no part."
        yield "Without a group", sentence, blank
    strange = metrics.get("unfamiliar")
    if strange and strange["undecided"]:
        limit = (
            f"Undecided is a familiarity above {LIMITS[strange['setting']]:g} "
            f"(decision.unfamiliar={strange['setting']}); the highest here is "
            f"{strange['max_familiarity']:.2f}."
        )
        yield "Unfamiliar", f"{unfamiliar_sentence(strange)} {limit}", strange["ids"]


def _met(met: Mapping[str, Any]) -> str:
    """The recordings that were met, their roles, and how the model does on them."""
    sentence = (
        f"{met['met']} of {counted(met['recordings'], 'recording')}: {met['train']} trained the "
        f"model, {met['val']} chose its weights or threshold. They are no evidence for it."
    )
    table = met["recording"]
    if table is None:
        return sentence
    return (
        f"{sentence} On these alone it found {table['tp']} of {counted(table['positives'], 'leak')}"
        f" and raised {counted(table['fp'], 'false alarm')} on "
        f"{counted(table['negatives'], 'recording')} without a leak."
    )
