"""The choice between learning from the new recordings alone and beside the store's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Shaped

from leakdet.detection.met_recordings import MetRecordings
from leakdet.detection.spectral_reference import LIMITS, SpectralReference
from leakdet.errors import first_few
from leakdet.evaluation.training_reference import features_of
from leakdet.storage.store import StoreSplit

SENSORS = ("sensor", "logger", "device", "recorder", "hydrophone", "microphone")
PLACES = ("site", "place", "location", "station", "network", "zone")
TARGET, JOINT = "target", "joint"


@dataclass(frozen=True)
class Approach:
    """What is learnt from, `target` or `joint`, and the reason as a sentence."""

    name: str
    reason: str


def chosen_approach(
    wanted: str,
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    met: MetRecordings | None,
    split_by: list[str],
    has_store: bool,
) -> Approach:
    """The approach that is asked for, or the one that the groups of the new recordings suggest.

    A sensor decides before a place; `split_by` are the columns by which the store was split, which
    count as places. Without a store, only the new recordings are there.
    """
    if wanted != "auto":
        return Approach(wanted, f"learn.from={wanted}")
    if not has_store:
        return Approach(TARGET, "no data.store was given, so only the new recordings are there")
    known = {} if met is None else {name: _values(of) for name, of in met.groups.items()}
    for column in (*SENSORS, *PLACES, *split_by):
        values = set(groups[column].tolist()) - {""} if column in groups else set()
        if not values or not known.get(column):
            continue
        if new := sorted(values - known[column]):
            if len(new) == len(values):
                return Approach(TARGET, f"{column} {first_few(new)} is new to the model")
            seen = first_few(sorted(values & known[column]))
            return Approach(
                JOINT, f"{column} {seen} is known to the model, {first_few(new)} is not"
            )
        return Approach(JOINT, f"{column} {first_few(sorted(values))} is known to the model")
    return Approach(
        JOINT,
        "no column for sensor or site is known to both the model and the new recordings, so it is "
        "unknown whether they are new to it. If they are of a new sensor: learn.from=target",
    )


def with_doubt(
    approach: Approach, reference: SpectralReference | None, new: StoreSplit
) -> Approach:
    """The approach; its reason says where joint was chosen though most of the sound is unfamiliar.

    That few are unfamiliar says nothing: a new sensor may sound alike.
    """
    if approach.name != JOINT or reference is None:
        return approach
    strange = int((reference.familiarity(features_of(new)) > LIMITS["normal"]).sum())
    if 2 * strange <= new.recordings:
        return approach
    doubt = (
        f"{strange} of the {new.recordings} new recordings are unfamiliar to the model, as at a "
        "new sensor or place: learn.from=target may be the better choice"
    )
    return replace(approach, reason=f"{approach.reason}. {doubt}")


def _values(of_role: Mapping[str, list[str]]) -> set[str]:
    return {value for values in of_role.values() for value in values}
