"""Test models on sounds that they never met and write the table of foreign sound.

Trains on each sensor of the rig and on both, with and without negatives, and asks each model, as
`leakdet predict` would, about rain, taps, ambient, hydrophones and the other sensor; then about places
that were left out of training. hydrophone/ and interference/ lie beside the rig's recordings.
"""

import csv
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import leakdet
from benchmarks import kept
from leakdet.config.model import DOUBT
from leakdet.detection.decision import LIMITS, doubt_limits
from leakdet.evaluation.intervals import wilson
from rig import RIG, build, cell, parser, table, write_part

TEXT = """\
## Foreign sound

Models of each sensor and of both (`experiment=field`, four fifths of the recordings trained, five
seeds) about sound that is none of their pipes, as predict decides by default (`unfamiliar=normal`,
`doubt={doubt:g}`, `source=rate`). *Decided* is a recording that is not left undecided, *wrong* one that is
decided and not what it is; shares are of all recordings where nothing else is said. Intervals are 95 %,
over recordings, each with the answers of all its models. Five hydrophone recordings and seven of taps
and ambient show little.

{goals}

{misses}

Source `rate` is the recordings as they are; `off` is what their verdict would be had they been converted
to a rate that trained (one row where no rate is unknown). Negatives: `data.negatives` with four fifths of
{clips} clips of rain, taps, toilets, engines and the like (ESC-50, CC0), tested on the other fifth, five
times in turn; a weight of 0 is a training without them, of which all but the last two columns are.

{foreign}

Negatives do not change what is familiar, since they are no part of it.

### New places

One pipe, day or position left out of training, one model for each; then asked about it. Every
recording counts once for each way in which it is new. No negatives. The rig has too few places to
leave whole ones out for the limits of familiarity, so single recordings were (docs/verdicts.md). One
leak of the analogue sensor was recorded on the neighbouring pipe.

{places}

A place that sounds different as a whole is decided wrongly and without doubt: of what is decided at new
places, models of both sensors decide {wrong_places} wrongly, with four fifths of the training recordings
and one seed. That is no rate to be expected at other places.

### Error against share decided

New places, by `doubt`, under `unfamiliar=normal`: decided, wrong of the decided and wrong of all.

{doubt_curve}

### Limit of familiarity

Models of both sensors, by the familiarity from which on nothing is decided: 1 is `normal`, 0.8
`strict`, none `off`; with `doubt=0` and `source=off`. A limit that decides less foreign sound decides
less at new places.

{curve}
"""
INTERFERENCE, HYDROPHONE_KIND = "rain, taps, machines", "hydrophone"
OTHER_SENSOR = "the other sensor"
CURVE = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, np.inf)
DOUBTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
REASONS = ("other_source", "unfamiliar", "doubt")


@dataclass(frozen=True)
class Rule:
    """What is left undecided; by default as predict does."""

    familiarity: float = LIMITS["normal"]
    doubt: float = DOUBT
    source: bool = True


DEFAULT, CONVERTED = Rule(), Rule(source=False)
FORCED = Rule(np.inf, 0.0, source=False)


@dataclass(frozen=True)
class Answer:
    """What one model said of one recording; `leak_prob` is None where it has too little sound."""

    trained_on: str
    weight: float  # of negatives, 0: none
    kind: str
    name: str
    is_leak: bool
    leak_prob: float | None
    threshold: float
    familiarity: float | None
    other_source: bool

    def reason(self, rule: Rule) -> str:
        """Why the recording is undecided, "" where it is decided."""
        if self.leak_prob is None:
            return "no sound"
        if rule.source and self.other_source:
            return "other_source"
        if self.familiarity is not None and self.familiarity > rule.familiarity:
            return "unfamiliar"
        lower, upper = doubt_limits(self.threshold, rule.doubt)
        return "doubt" if lower < self.leak_prob < upper else ""

    def decided(self, rule: Rule) -> bool:
        return not self.reason(rule)

    def wrong(self, rule: Rule) -> bool:
        called = self.leak_prob is not None and self.leak_prob >= self.threshold
        return self.decided(rule) and called != self.is_leak


def share(
    answers: Iterable[Answer], true: Callable[[Answer, Rule], bool], rule: Rule
) -> tuple[float, str]:
    """The share of the answers of which `true` holds under a rule, and a cell with its interval.

    Recordings are drawn with all of their answers; where all are alike the interval is Wilson's.
    Without answers the share is NaN.
    """
    of_recording: dict[str, list[bool]] = {}
    for answer in answers:
        of_recording.setdefault(answer.name, []).append(true(answer, rule))
    hits = np.array([sum(values) for values in of_recording.values()])
    counts = np.array([len(values) for values in of_recording.values()])
    if not len(counts):
        return np.nan, "-"
    value = float(hits.sum() / counts.sum())
    if value in (0.0, 1.0):
        interval = wilson(int(value) * len(counts), len(counts))
    else:
        drawn = np.random.default_rng(0).integers(0, len(counts), (2000, len(counts)))
        shares = hits[drawn].sum(1) / counts[drawn].sum(1)
        interval = [float(end) for end in np.quantile(shares, [0.025, 0.975])]
    return value, cell(value, interval)


def undecided_for(reason: str, answer: Answer, rule: Rule) -> bool:
    return answer.reason(rule) == reason


def account(asked: Sequence[Answer], rule: Rule, reasons: Sequence[str]) -> list[str]:
    """Cells: undecided by reason, decided, wrong of the decided."""
    decided = [answer for answer in asked if answer.decided(rule)]
    cells = [share(asked, partial(undecided_for, reason), rule)[1] for reason in reasons]
    return [*cells, share(asked, Answer.decided, rule)[1], share(decided, Answer.wrong, rule)[1]]


def part(foreign: Sequence[Answer], places: Sequence[Answer]) -> str:
    """The part of the page."""
    goals = list(goal_rows(foreign, places))
    decided = [a for a in places if a.trained_on == "both" and a.decided(DEFAULT)]
    missed = [name for name, _, _, met in goals if not met]
    clips = {answer.name for answer in foreign if answer.kind == INTERFERENCE}
    return TEXT.format(
        clips=len(clips),
        doubt=DOUBT,
        goals=table(
            ("as predict decides by default", "reached", "goal", ""),
            ((name, got, goal, "met" if met else "**missed**") for name, got, goal, met in goals),
        ),
        wrong_places=share(decided, Answer.wrong, DEFAULT)[1],
        misses=f"Missed: {'; '.join(missed)}." if missed else "All goals are met.",
        foreign=table(
            ("trained on", "tested on", "recordings", "source", *REASONS, "decided",
             "wrong of decided", *(f"wrong, weight {weight:g}" for weight in weights(foreign))),
            foreign_rows(foreign),
        ),
        places=table(
            ("trained on", "left out", "recordings", *REASONS[1:], "decided", "wrong of decided",
             "wrong", "wrong, doubt 0", "wrong, nothing undecided"),
            place_rows(places),
        ),
        doubt_curve=table(("doubt", *SENSORS), doubt_rows(places)),
        curve=table(
            ("limit", "undecided at new places", "wrong at new places",
             *(f"wrong, {INTERFERENCE}, weight {weight:g}" for weight in weights(foreign)),
             "wrong, hydrophone"),
            curve_rows(foreign, places),
        ),
    )  # fmt: skip


def kinds(answers: Iterable[Answer]) -> list[str]:
    return list(dict.fromkeys(answer.kind for answer in answers))


def weights(answers: Iterable[Answer]) -> list[float]:
    return sorted({answer.weight for answer in answers})


def names(answers: Iterable[Answer], kind: str) -> set[str]:
    return {answer.name for answer in answers if answer.kind == kind}


def goal_rows(
    foreign: Sequence[Answer], places: Sequence[Answer]
) -> Iterator[tuple[str, str, str, bool]]:
    """What was to be reached: name, value, goal, and whether it is met."""
    for kind, most, least in (
        ("recorder", 0.10, 0.55),
        ("analog", 0.15, 0.55),
        ("both", 0.15, 0.5),
    ):
        new = [answer for answer in places if answer.trained_on == kind]
        value, text = share(new, Answer.wrong, DEFAULT)
        yield f"new places, {kind}: wrong of all", text, f"≤ {most:.2f}", value <= most
        value, text = share(new, Answer.decided, DEFAULT)
        yield f"new places, {kind}: decided", text, f"≥ {least:.2f}", value >= least
    plain = [answer for answer in foreign if answer.weight == 0]
    for name, kind, rule, most in (
        ("another sensor as recorded: wrong", OTHER_SENSOR, DEFAULT, 0.02),
        ("interference as recorded: wrong", INTERFERENCE, DEFAULT, 0.02),
        ("interference at a rate that trained: wrong", INTERFERENCE, CONVERTED, 0.05),
        ("hydrophone: wrong", HYDROPHONE_KIND, DEFAULT, 0.0),
    ):
        value, text = share([a for a in plain if a.kind == kind], Answer.wrong, rule)
        yield name, text, f"≤ {most:.2f}", value <= most


def foreign_rows(foreign: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """A row for each model and kind of sound, as recorded and converted."""
    for trained_on in dict.fromkeys(answer.trained_on for answer in foreign):
        for kind in kinds(foreign):
            asked = [a for a in foreign if (a.trained_on, a.kind) == (trained_on, kind)]
            plain = [answer for answer in asked if answer.weight == 0]
            for rule in (DEFAULT, CONVERTED):
                if not any(answer.other_source or rule.source for answer in asked):
                    continue
                wrong = [
                    share((a for a in asked if a.weight == w), Answer.wrong, rule)[1]
                    for w in weights(foreign)
                ]
                source = "rate" if rule.source else "off"
                cells = account(plain, rule, REASONS)
                yield trained_on, kind, len(names(asked, kind)), source, *cells, *wrong


def place_rows(places: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """A row for each model and each kind of new place, and one for all of them together."""
    for trained_on in dict.fromkeys(answer.trained_on for answer in places):
        of_model = [answer for answer in places if answer.trained_on == trained_on]
        for kind in [*kinds(of_model), ""]:
            asked = [answer for answer in of_model if kind in ("", answer.kind)]
            rules = (DEFAULT, Rule(doubt=0.0), FORCED)
            wrong = [share(asked, Answer.wrong, rule)[1] for rule in rules]
            count = len({answer.name for answer in asked})
            cells = account(asked, DEFAULT, REASONS[1:])
            yield trained_on, kind or "**any of these**", count, *cells, *wrong


def doubt_rows(places: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """Decided, wrong of the decided and wrong of all, by how near the threshold is undecided."""
    for doubt in DOUBTS:
        rule, cells = Rule(doubt=doubt), []
        for kind in SENSORS:
            asked = [answer for answer in places if answer.trained_on == kind]
            decided = [answer for answer in asked if answer.decided(rule)]
            shares = [len(decided) / len(asked)]
            shares += [share(of, Answer.wrong, rule)[0] for of in (decided, asked)]
            cells.append(" / ".join(f"{value:.2f}" for value in shares))
        yield f"{doubt:g}", *cells


def curve_rows(foreign: Sequence[Answer], places: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """What a limit of familiarity costs and saves, with models of both sensors."""
    both = [answer for answer in foreign if answer.trained_on == "both"]
    new = [answer for answer in places if answer.trained_on == "both"]
    sounds = [
        [a for a in both if a.kind == INTERFERENCE and a.weight == weight]
        for weight in weights(foreign)
    ]
    sounds.append([answer for answer in both if answer.kind == HYDROPHONE_KIND])
    for limit in CURVE:
        rule = Rule(limit, 0.0, source=False)
        undecided = 1.0 - share(new, Answer.decided, rule)[0]
        wrong = [share(asked, Answer.wrong, rule)[0] for asked in [new, *sounds]]
        cells = [f"{value:.2f}" for value in [undecided, *wrong]]
        yield "none" if limit == np.inf else f"{limit:g}", *cells


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
    options = parser(__doc__, "foreign").parse_args()
    work = options.work.absolute()
    torch.set_num_threads(1)
    rig = read_table(RIG / "recordings.csv")
    foreign = [answer for kind in SENSORS for answer in on_foreign_sound(kind, rig, work)]
    places = [answer for kind in SENSORS for answer in at_new_places(kind, rig, work)]
    write_part("foreign_sound", part(foreign, places), options.dry_run)


def on_foreign_sound(kind: str, rig: Sequence[Row], work: Path) -> Iterable[Answer]:
    """The answers of the models of one or both sensors to sounds that are not from their pipes."""
    own: list[Row] = []
    other: list[Row] = []
    for row in rig:
        if is_pipe(row):
            (own if row["sensor"] in SENSORS[kind] else other).append(row)
    store = store_of(work / f"store-{kind}", own)
    always = {
        "taps and toilet of the rig": {path(r): False for r in rig if r["label"] == "interference"},
        "ambient of the rig": {path(r): False for r in rig if r["label"] == "ambient"},
        "hydrophone": {str(p): p.stem != "no-leak" for p in sorted(HYDROPHONE.glob("*.wav"))},
        OTHER_SENSOR: {path(row): row["label"] == "leak" for row in other},
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
            told = kept(run.with_suffix(".json"), partial(list, asked))
            yield from (Answer(kind, weight, *answer) for answer in told)


def at_new_places(kind: str, rig: Sequence[Row], work: Path) -> Iterable[Answer]:
    """The answers about places that were left out of training, one model for each place."""
    own = [row for row in rig if is_pipe(row) and row["sensor"] in SENSORS[kind]]
    for column, value in PLACES:
        new = {path(row): row["label"] == "leak" for row in own if row[column] == value}
        if not new:
            continue
        name = f"{kind}-without-{column}-{value}"
        store = store_of(work / f"store-{name}", [row for row in own if row[column] != value])
        asked = answers(work / name, store, 0, [], {f"a new {column}": new})
        told = kept(work / f"{name}.json", partial(list, asked))
        yield from (Answer(kind, 0.0, *answer) for answer in told)


def answers(
    run: Path, store: Path, seed: int, settings: Sequence[str], sounds: dict[str, dict[str, bool]]
) -> Iterator[Sequence[Any]]:
    """The fields of an `Answer` from `kind` on, of each sound. The model trains by default."""
    common = [f"data.store={store}", f"seed={seed}", "logger=none", "threads=1"]
    shutil.rmtree(run, ignore_errors=True)
    result = leakdet.fit(leakdet.compose("train", [*common, *settings]), run)
    detector = leakdet.load_detector(result.model, unfamiliar="off", doubt=0.0, source="rate")
    for kind, truth in sounds.items():
        for verdict in detector.predict(list(truth)):
            sound = (kind, Path(str(verdict.path)).name, truth[str(verdict.path)])
            other_source = verdict.reason == "other_source"
            scored = verdict.decision != "undecided" or other_source
            score = (verdict.leak_prob if scored else None, verdict.threshold)
            yield (*sound, *score, verdict.familiarity, other_source)
    shutil.rmtree(run)


def store_of(store: Path, rows: Sequence[Row]) -> Path:
    """A store of these recordings, a fifth of them for validation."""
    manifest = store.with_suffix(".csv")
    manifest.parent.mkdir(parents=True, exist_ok=True)
    with manifest.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "path": path(row)} for row in rows)
    return build(store, "split.ratios=[0.8,0.2,0]", "log=quiet", source=manifest)


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
