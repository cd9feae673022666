"""Test models on sounds that they never met and write the table of foreign sound.

Trains on each sensor of the rig and on both, with and without negatives, and asks each model, as
`leakdet predict` would, about rain, taps, ambient, hydrophones and the other sensor; then about places
that were left out of training. Recordings are looked for as scripts/results.py does, with hydrophone/
and interference/ beside the rig. Finished models are kept, so the script can be stopped and started.

    python scripts/foreign_sound.py --work runs/foreign
"""

import argparse
import csv
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

import leakdet
from foreign_tables import Answer, part
from results import RIG, start
from results_page import write_part

CLIPS = RIG.parent / "interference"
HYDROPHONE = RIG.parent / "hydrophone"
SENSORS = {"recorder": ["recorder_48k"], "analog": ["analog_40k"]}
SENSORS["both"] = [*SENSORS["recorder"], *SENSORS["analog"]]
WEIGHTS = (0.0, 0.1, 0.3)  # of negatives
FOLDS = (1, 2, 3, 4, 5)  # of the clips: models train on four and are tested on the fifth
# what is left out to be a new place; a pipe is left out of all sensors at once
PLACES = (
    *(("pipe", value) for value in ("1", "3")),
    *(("session", value) for value in ("2017Nov02", "2017Nov10")),
    *(("position", value) for value in ("front", "mid", "end")),
)
Row = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("runs/foreign"), help="stores and models")
    options = parser.parse_args()
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rig = read_table(RIG / "recordings.csv")
    foreign = [answer for kind in SENSORS for answer in on_foreign_sound(kind, rig, work)]
    places = [answer for kind in SENSORS for answer in at_new_places(kind, rig, work)]
    print(write_part("foreign_sound", part(foreign, places)))


def on_foreign_sound(kind: str, rig: Sequence[Row], work: Path) -> Iterable[Answer]:
    """The answers of the models of one or both sensors to sounds that are not from their pipes."""
    own: list[Row] = []
    other: list[Row] = []
    for row in rig:
        if is_pipe(row):
            (own if row["sensor"] in SENSORS[kind] else other).append(row)
    store = build(work / f"store-{kind}", own)
    always = {
        "taps and toilet of the rig": {path(r): False for r in rig if r["label"] == "interference"},
        "ambient of the rig": {path(r): False for r in rig if r["label"] == "ambient"},
        "hydrophone": {str(p): p.stem != "no-leak" for p in sorted(HYDROPHONE.glob("*.wav"))},
        "the other sensor": {path(row): row["label"] == "leak" for row in other},
    }
    clips = {row["file"]: int(row["esc_fold"]) for row in read_table(CLIPS / "labels.csv")}
    for fold in FOLDS:
        negatives = clip_folder(work / f"negatives-{fold}", [c for c in clips if clips[c] != fold])
        tested = {
            "rain, taps, machines": {str(CLIPS / c): False for c in clips if clips[c] == fold}
        }
        for weight in WEIGHTS:
            settings = [f"data.negatives={negatives}", f"data.negatives_weight={weight}"]
            run = work / f"{kind}-{fold}-{100 * weight:.0f}"
            asked = answers(run, store, fold, settings if weight else [], tested | always)
            yield from (Answer(kind, weight, *answer) for answer in asked)


def at_new_places(kind: str, rig: Sequence[Row], work: Path) -> Iterable[Answer]:
    """The answers about places that were left out of training, one model for each place."""
    own = [row for row in rig if is_pipe(row) and row["sensor"] in SENSORS[kind]]
    for column, value in PLACES:
        new = {path(row): row["label"] == "leak" for row in own if row[column] == value}
        if not new:
            continue
        name = f"{kind}-without-{column}-{value}"
        store = build(work / f"store-{name}", [row for row in own if row[column] != value])
        asked = answers(work / name, store, 0, [], {f"a new {column}": new})
        yield from (Answer(kind, 0.0, *answer) for answer in asked)


def answers(
    run: Path, store: Path, seed: int, settings: Sequence[str], sounds: dict[str, dict[str, bool]]
) -> list[tuple[str, str, bool, bool | None, float]]:
    """Kind, name and truth of each sound, the decision (None: none) and its familiarity.

    The model trains by the default recipe; decisions are those without regard to familiarity.
    """
    done = run.with_suffix(".json")
    if not done.exists():
        shutil.rmtree(run, ignore_errors=True)
        common = [f"data.store={store}", f"seed={seed}", "logger=none", "threads=1"]
        result = leakdet.fit(leakdet.compose("train", [*common, *settings]), run)
        detector = leakdet.load_detector(result.model, unfamiliar="off")
        asked: list[tuple[Any, ...]] = []
        for kind, truth in sounds.items():
            for verdict in detector.predict(list(truth)):
                called = {"leak": True, "no_leak": False}.get(str(verdict.decision))
                sound = (kind, Path(str(verdict.path)).name, truth[str(verdict.path)])
                asked.append((*sound, called, verdict.familiarity))
        done.write_text(json.dumps(asked), encoding="utf-8")
        shutil.rmtree(run)
        print(run.name, flush=True)
    return [tuple(answer) for answer in json.loads(done.read_text(encoding="utf-8"))]


def build(store: Path, rows: Sequence[Row]) -> Path:
    """A store of these recordings, a fifth of them for validation."""
    if not store.exists():
        manifest = store.with_suffix(".csv")
        with manifest.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "path": path(row)} for row in rows)
        arguments = [f"source={manifest}", f"out={store}", "split.ratios=[0.8,0.2,0]", "log=quiet"]
        if start("build", *arguments).wait():
            raise SystemExit(f"building {store} failed")
    return store


def clip_folder(folder: Path, names: Iterable[str]) -> Path:
    """A folder of copies of these clips, as data.negatives takes it."""
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for name in names:
            shutil.copy(CLIPS / name, partial)
        os.replace(partial, folder)
    return folder


def is_pipe(row: Row) -> bool:
    return row["label"] in ("leak", "no_leak") and row["pipe"] in ("1", "3")


def path(row: Row) -> str:
    return str(RIG / row["path"])


def read_table(file: Path) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


if __name__ == "__main__":
    main()
