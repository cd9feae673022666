"""The text and the tables of scripts/foreign_sound.py in docs/results.md."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leakdet.detection.decision import LIMITS
from leakdet.evaluation.intervals import wilson
from results_page import cell, table_row

TEXT = """\
## Foreign sound

Models of each sensor and of both (`experiment=field`, four fifths of the recordings trained, five
seeds) about sound that is none of their pipes. Negatives: `data.negatives` with four fifths of {clips}
clips of rain, taps, toilets, engines and the like (ESC-50, CC0), tested on the other fifth, five times
in turn; a weight of 0 is a training without them. *Decided* is a recording that is not left undecided,
*wrong* one that is decided and not what it is, both shares of all recordings. Intervals are 95 %, over
recordings, each with the answers of all its models. Five hydrophone recordings and seven of taps and
ambient show little.

{goals}

{misses}

{foreign}

Negatives do not change what is decided, since they are no part of what is familiar.

### New places

One pipe, day or position left out of training, one model for each; then asked about it. Every
recording counts once for each way in which it is new. No negatives. The rig has too few places to
leave whole ones out for the limits of familiarity, so single recordings were (docs/verdicts.md). One
leak of the analogue sensor was recorded on the neighbouring pipe.

{places}

What sounds familiar is not decided rightly for that: at new places models of both sensors decide
{wrong_places} of the recordings wrongly, with four fifths of the training recordings and one seed.

### Trade-off

Models of both sensors, by the familiarity from which on nothing is decided: 1 is `normal`, 0.8
`strict`, none `off`. A limit that decides less foreign sound decides less at new places.

{curve}
"""
INTERFERENCE, HYDROPHONE = "rain, taps, machines", "hydrophone"
CURVE = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, np.inf)


@dataclass(frozen=True)
class Answer:
    """What one model said of one recording; `called` is None where no decision was possible."""

    trained_on: str
    weight: float  # of negatives, 0: none
    kind: str
    name: str
    is_leak: bool
    called: bool | None
    familiarity: float | None

    def decided(self, limit: float) -> bool:
        known = self.familiarity is None or self.familiarity <= limit
        return self.called is not None and known

    def undecided(self, limit: float) -> bool:
        return not self.decided(limit)

    def wrong(self, limit: float) -> bool:
        return self.decided(limit) and self.called != self.is_leak


def share(
    answers: Iterable[Answer], true: Callable[[Answer, float], bool], limit: float
) -> tuple[float, str]:
    """The share of the answers of which `true` holds at a limit, and a cell with its interval.

    Recordings are drawn with all of their answers; where all are alike the interval is Wilson's.
    """
    of_recording: dict[str, list[bool]] = {}
    for answer in answers:
        of_recording.setdefault(answer.name, []).append(true(answer, limit))
    hits = np.array([sum(values) for values in of_recording.values()])
    counts = np.array([len(values) for values in of_recording.values()])
    value = float(hits.sum() / counts.sum())
    if value in (0.0, 1.0):
        interval = wilson(int(value) * len(counts), len(counts))
    else:
        drawn = np.random.default_rng(0).integers(0, len(counts), (2000, len(counts)))
        shares = hits[drawn].sum(1) / counts[drawn].sum(1)
        interval = [float(end) for end in np.quantile(shares, [0.025, 0.975])]
    return value, cell({"auroc": value, "interval": interval})


def part(foreign: Sequence[Answer], places: Sequence[Answer]) -> str:
    """The part of the page."""
    goals = list(goal_rows(foreign, places))
    both = [answer for answer in places if answer.trained_on == "both"]
    missed = [name for name, _, _, met in goals if not met]
    clips = {answer.name for answer in foreign if answer.kind == INTERFERENCE}
    return TEXT.format(
        clips=len(clips),
        goals=table(
            ("with both sensors, at `normal`", "reached", "goal", ""),
            ((name, got, goal, "met" if met else "**missed**") for name, got, goal, met in goals),
        ),
        wrong_places=share(both, Answer.wrong, LIMITS["normal"])[1],
        misses=f"Missed: {'; '.join(missed)}." if missed else "All goals are met.",
        foreign=table(
            ("trained on", "tested on", "recordings", "unfamiliar", "decided",
             *(f"wrong, weight {weight:g}" for weight in weights(foreign))),
            foreign_rows(foreign),
        ),
        places=table(
            ("trained on", "left out", "recordings", "undecided, normal", "undecided, strict",
             "wrong, normal", "wrong, strict", "wrong, off"),
            place_rows(places),
        ),
        curve=table(
            ("limit", "undecided at new places", "wrong at new places",
             *(f"wrong, {INTERFERENCE}, weight {weight:g}" for weight in weights(foreign)),
             "wrong, hydrophone"),
            curve_rows(foreign, places),
        ),
    )  # fmt: skip


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join([table_row(*heads), "|---" * len(heads) + "|", *(table_row(*r) for r in rows)])


def kinds(answers: Iterable[Answer]) -> list[str]:
    return list(dict.fromkeys(answer.kind for answer in answers))


def weights(answers: Iterable[Answer]) -> list[float]:
    return sorted({answer.weight for answer in answers})


def names(answers: Iterable[Answer], kind: str) -> set[str]:
    return {answer.name for answer in answers if answer.kind == kind}


def goal_rows(
    foreign: Sequence[Answer], places: Sequence[Answer]
) -> Iterator[tuple[str, str, str, bool]]:
    """What was to be reached with both sensors: name, value, goal, and whether it is met."""
    both = [answer for answer in foreign if answer.trained_on == "both"]
    for kind, weight, most in (
        (INTERFERENCE, 0.1, 0.10),
        (INTERFERENCE, 0.3, 0.07),
        (HYDROPHONE, 0.1, 0.0),
    ):
        asked = [a for a in both if a.kind == kind and a.weight == weight]
        value, text = share(asked, Answer.wrong, LIMITS["normal"])
        yield f"{kind}, decided wrongly, weight {weight:g}", text, f"≤ {most:.2f}", value <= most
    new = [answer for answer in places if answer.trained_on == "both"]
    value, text = share(new, Answer.undecided, LIMITS["normal"])
    yield "new places, undecided", text, "≤ 0.05", value <= 0.05


def foreign_rows(foreign: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """A row for each model, kind of sound and strictness."""
    for trained_on in dict.fromkeys(answer.trained_on for answer in foreign):
        for kind in kinds(foreign):
            asked = [a for a in foreign if (a.trained_on, a.kind) == (trained_on, kind)]
            for strictness in ("normal", "strict") if asked else ():
                limit = LIMITS[strictness]
                wrong = [
                    share((a for a in asked if a.weight == w), Answer.wrong, limit)[1]
                    for w in weights(foreign)
                ]
                decided = share(asked, Answer.decided, limit)[1]
                count = len(names(asked, kind))
                yield trained_on, kind, count, strictness, decided, *wrong


def place_rows(places: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """A row for each model and each kind of new place, and one for all of them together."""
    for trained_on in dict.fromkeys(answer.trained_on for answer in places):
        of_model = [answer for answer in places if answer.trained_on == trained_on]
        for kind in [*kinds(of_model), ""]:
            asked = [answer for answer in of_model if kind in ("", answer.kind)]
            undecided = [
                share(asked, Answer.undecided, LIMITS[name])[1] for name in ("normal", "strict")
            ]
            wrong = [
                share(asked, Answer.wrong, LIMITS[name])[1] for name in ("normal", "strict", "off")
            ]
            count = len({answer.name for answer in asked})
            yield trained_on, kind or "**any of these**", count, *undecided, *wrong


def curve_rows(foreign: Sequence[Answer], places: Sequence[Answer]) -> Iterator[Sequence[object]]:
    """What a limit of familiarity costs and saves, with models of both sensors."""
    both = [answer for answer in foreign if answer.trained_on == "both"]
    new = [answer for answer in places if answer.trained_on == "both"]
    sounds = [
        [a for a in both if a.kind == INTERFERENCE and a.weight == weight]
        for weight in weights(foreign)
    ]
    sounds.append([answer for answer in both if answer.kind == HYDROPHONE])
    for limit in CURVE:
        undecided = share(new, Answer.undecided, limit)[0]
        wrong = [share(asked, Answer.wrong, limit)[0] for asked in [new, *sounds]]
        cells = [f"{value:.2f}" for value in [undecided, *wrong]]
        yield "none" if limit == np.inf else f"{limit:g}", *cells
