"""The rows that a work list is made of, and the model that scored them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leakdet._messages import LOG
from leakdet.errors import InputError, first_few
from leakdet.parts.part_file import Columns
from leakdet.parts.part_rows import each_part
from leakdet.parts.parts_folder import FACTS
from leakdet.scoring.sidecar import sidecar_path
from leakdet.storage.json_file import read_json
from leakdet.storage.model_card import file_hash
from leakdet.storage.model_place import require_model


@dataclass(frozen=True)
class Sources:
    """Where the rows are, and what is known of the model that scored the newest of them."""

    places: Sequence[Path]
    model_hash: str
    model: Path | None  # where it lies, if it is still there
    threshold: float | None
    unfinished: Sequence[Path]  # folders in which predict has not come to its end

    def sentences(self) -> list[str]:
        """What is not whole, or not at hand."""
        sentences = []
        if self.unfinished:
            names = first_few([str(place) for place in self.unfinished], 3)
            sentences.append(
                f"Not all recordings are scored yet in {names}: predict has not come to its end."
            )
        if self.model is None:
            sentences.append(
                f"The model that scored the rows ({self.model_hash or 'unknown'}) is not at hand: "
                "there are no pictures, no sounds, and no chance of a leak."
            )
        return sentences

    def parts(self) -> Iterator[Columns]:
        """Columns of some rows at a time, of one place after the other."""
        for place in self.places:
            yield from each_part(place)


def find_sources(places: Sequence[Path], model: Path | None) -> Sources:
    """Look into folders of parts and tables; `model` is where their model lies, if it was moved.

    Raises:
        InputError: one holds no rows of predict, or the model is not the one that scored them.
    """
    told = [_told_of(place) for place in places]
    hashes = {one.hash for one in told}
    newest = told[0].hash if len(hashes) == 1 else _newest_model(places)
    paths = dict.fromkeys(one.path for one in told if one.path and one.hash == newest)
    lies_at = next((path for path in paths if path.is_file() and file_hash(path) == newest), None)
    if model is not None:
        lies_at = require_model(model)
        if (own := file_hash(lies_at)) != newest:
            raise InputError(
                f"--model {model}: this is {own}, and the rows were scored by {newest or 'none'}; "
                "give the model that scored them, or score them with this one."
            )
    elif lies_at is None:
        where = f"{next(iter(paths))}: it is no longer there" if paths else "its place is not told"
        LOG.warning(
            f"the model that scored the rows ({newest or 'unknown'}): {where}; name it with --model"
        )
    threshold = next((one.threshold for one in told if one.hash == newest), None)
    unfinished = [place for place, one in zip(places, told, strict=True) if not one.finished]
    return Sources(places, newest, lies_at, threshold, unfinished)


@dataclass(frozen=True)
class ToldModel:
    """The model of the rows in one place, as far as it is told; `finished`: all are there."""

    hash: str = ""
    path: Path | None = None
    threshold: float | None = None
    finished: bool = True


def _told_of(place: Path) -> ToldModel:
    """What the description beside the rows tells, or else their first row."""
    description = place / FACTS if place.is_dir() else sidecar_path(place)
    told = read_json(description, "a description of rows") if description.is_file() else {}
    finished = not place.is_dir() or not told or bool(told.get("outcome"))
    with suppress(KeyError, TypeError):
        path, threshold = Path(told["model"]["path"]), float(told["decision_rule"]["threshold"])
        return ToldModel(str(told["model"]["hash"]), path, threshold, finished)
    for part in each_part(place, ("path", "model", "threshold")):
        for name, threshold in zip(part.get("model", ()), part.get("threshold", ()), strict=False):
            return ToldModel(str(name), None, float(threshold), finished)
    return ToldModel(finished=finished)


def _newest_model(places: Sequence[Path]) -> str:
    """The model of the latest recording, where several scored the rows."""
    latest = ("", "")
    for place in places:
        for part in each_part(place, ("recorded_at", "model")):
            if "recorded_at" in part and len(part["model"]):
                at = int(part["recorded_at"].argmax())
                latest = max(latest, (str(part["recorded_at"][at]), str(part["model"][at])))
    return latest[1]
