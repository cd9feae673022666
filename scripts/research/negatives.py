"""Measure made-up negatives on real sounds and at new places; write their part of docs/results.md.

Models of each sensor of the rig and of both train without and with `data.negatives=synthetic`, and are
asked about clips of rain, engines and machines. The clips are divided by kind: the made-up sounds were
designed on the first half (`--half first` looks at it alone), the second half was asked once. Then
places are left out as results.py does. Recordings are looked for as foreign_sound.py does.

    PYTHONPATH=scripts python scripts/research/negatives.py
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
import torch

from benchmarks import kept
from foreign_sound import (
    CLIPS,
    FORCED,
    SENSORS,
    WEIGHTS,
    Answer,
    Row,
    Rule,
    answers,
    is_pipe,
    kinds,
    names,
    path,
    read_table,
    share,
    store_of,
)
from leakdet.evaluation.metrics import auroc
from results import HARD4, arrays
from rig import PROTOCOLS, RIG, build, cross_validate, parser, table, write_part

SEEDS = 5
REPLICATES = 1000
FIRST = ("rain", "engine", "pouring_water", "washing_machine", "wind")
HALVES = ("first", "second")
MADE_UP = "noise and hum"
FAMILIAR = Rule(doubt=0.0, source=False)
RULES_SHOWN = {"unfamiliar normal": FAMILIAR, "unfamiliar off": FORCED}

TEXT = """\
## Made-up negatives

`data.negatives=synthetic` against none, {seeds} seeds (`experiment=field`), by the weight of these sounds
(`data.negatives_weight`). Called a leak by models of each sensor and of both, on real clips (ESC-50,
CC0), none of them trained on: with what is unfamiliar left undecided, and with nothing undecided (both
with `doubt=0` and `source=off`, so that the sounds themselves are told apart). The
made-up sounds were designed on the first half of the clips ({first}); the second has other kinds and
was asked once, after that. White noise, pink noise and silence with hum are {noise} sounds. Shares are
of clips and models; intervals are 95 %, over clips.

{alarms}

At new places, the mean of {hard4} (23 and 36 recordings), each place left out of training: the mean over
seeds, and the difference from none with its 95 % interval over recordings.

{places}

They are on by default if false alarms on the second half fall by half, with what is unfamiliar left
undecided, and the mean
AUROC at new places by at most {most:.2f}: {verdict}.
"""
MOST_LOST, MOST_LEFT = 0.02, 0.5


def main() -> None:
    command = parser(__doc__, "negatives")
    command.add_argument("--half", choices=HALVES, help="print this half's alarms, write nothing")
    command.add_argument("--seeds", type=int, default=SEEDS)
    options = command.parse_args()
    work = options.work.absolute()
    torch.set_num_threads(1)
    asked = list(alarms(work, [options.half] if options.half else HALVES, options.seeds))
    print(alarm_table(asked))
    if not options.half:
        scores = {weight: places(work, weight, options.seeds) for weight in WEIGHTS}
        write_part("negatives", part(asked, scores, options.seeds), options.dry_run)


def part(asked: Sequence[Answer], scores: Mapping[float, Sequence[Row]], seeds: int) -> str:
    """The part of the page."""
    return TEXT.format(
        seeds=seeds,
        first=", ".join(kind.replace("_", " ") for kind in FIRST),
        noise=len(names(asked, MADE_UP)),
        hard4=", ".join(HARD4),
        alarms=alarm_table(asked),
        places=place_table(scores),
        most=MOST_LOST,
        verdict=verdict(asked, scores),
    )


def alarms(work: Path, halves: Sequence[str], seeds: int) -> Iterator[Answer]:
    """The answers of the models of one or both sensors to the clips of these halves, and noise."""
    rig = read_table(RIG / "recordings.csv")
    sounds = {half: {str(clip): False for clip in clips(half)} for half in halves}
    sounds[MADE_UP] = {str(file): False for file in plain_sounds(work / "noise")}
    sounds["taps and ambient of the rig"] = {
        path(row): False for row in rig if row["label"] in ("interference", "ambient")
    }
    for trained_on, sensors in SENSORS.items():
        own = [row for row in rig if is_pipe(row) and row["sensor"] in sensors]
        store = store_of(work / f"store-{trained_on}", own)
        for seed in range(seeds):
            for weight in WEIGHTS:
                run = work / f"{'-'.join(halves)}-{trained_on}-{seed}-{100 * weight:.0f}"
                asked = answers(run, store, seed, settings(work, weight), sounds)
                told = kept(run.with_suffix(".json"), partial(list, asked))
                yield from (Answer(trained_on, weight, *answer) for answer in told)


def settings(work: Path, weight: float) -> list[str]:
    if not weight:
        return ["data.negatives=none"]
    made_up = ["data.negatives=synthetic", f"data.negatives_weight={weight}"]
    return [*made_up, f"data.cache={work / 'cache'}"]


def clips(half: str) -> list[Path]:
    """The clips of the kinds of one half."""
    rows = read_table(CLIPS / "labels.csv")
    return [CLIPS / row["file"] for row in rows if (row["class"] in FIRST) == (half == "first")]


def plain_sounds(folder: Path) -> list[Path]:
    """White noise, pink noise and silence with hum, three of each, 8 s at 48 kHz."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, rate_hz, samples = np.random.default_rng(0), 48_000, 8 * 48_000
    time_s = np.arange(samples) / rate_hz
    for number in range(3):
        spectrum = np.fft.rfft(rng.standard_normal(samples))
        pink = np.fft.irfft(spectrum / np.sqrt(np.arange(1.0, len(spectrum) + 1)))
        tones = (np.sin(2 * np.pi * k * (50, 60, 50)[number] * time_s) / k for k in range(1, 20))
        hum = sum(tones) + 0.003 * rng.standard_normal(samples)
        sounds = {"white": rng.standard_normal(samples), "pink": pink, "hum": hum}
        for name, sound in sounds.items():
            level = (0.01, 0.03, 0.1)[number] / np.sqrt(np.mean(sound**2))
            soundfile.write(folder / f"{name}-{number}.wav", level * sound, rate_hz)
    return sorted(folder.glob("*.wav"))


def alarm_table(asked: Sequence[Answer]) -> str:
    """A row for each kind of model and of sound, and one for all models."""
    heads = [f"{name}, weight {weight:g}" for name in RULES_SHOWN for weight in WEIGHTS]
    rows = []
    for trained_on in [*SENSORS, ""]:
        for kind in kinds(asked):
            of = [a for a in asked if a.kind == kind and trained_on in ("", a.trained_on)]
            cells = [
                share([a for a in of if a.weight == weight], Answer.wrong, rule)[1]
                for rule in RULES_SHOWN.values()
                for weight in WEIGHTS
            ]
            rows.append((trained_on or "**all three**", kind, len(names(of, kind)), *cells))
    return table(("trained on", "asked about", "sounds", *heads), rows)


def places(work: Path, weight: float, seeds: int) -> list[Row]:
    """The rows of predictions.csv with places left out."""
    store, folds = build(work / "store-rig"), work / f"folds-{100 * weight:.0f}"
    protocols = {name: PROTOCOLS[name] for name in HARD4}
    cross_validate(store, folds, 1, protocols, seeds, *settings(work, weight))
    return read_table(folds / "predictions.csv")


Folds = dict[tuple[str, str], dict[str, np.ndarray]]  # by protocol and seed
Measure = Callable[[np.ndarray, np.ndarray, np.ndarray], float | None]  # scores, threshold, leaks


def place_table(scores: Mapping[float, Sequence[Row]]) -> str:
    """Mean AUROC and balanced accuracy by weight, and their differences from none."""
    folds = {weight: by_protocol_and_seed(rows) for weight, rows in scores.items()}
    plain, rows = folds[0.0], []
    for weight, of_weight in folds.items():
        cells: list[object] = [f"{weight:g}"]
        for measure in (area, balanced_accuracy):
            value, base = (hard4_of_seeds(of, measure) for of in (of_weight, plain))
            cells.append(f"{value.mean():.3f} ({', '.join(f'{v:.2f}' for v in value)})")
            if not weight:
                cells.append("-")
                continue
            low, high = difference_interval(of_weight, plain, measure)
            cells.append(f"{(value - base).mean():+.3f} ({low:+.3f} to {high:+.3f})")
        rows.append(cells)
    heads = ("weight", "AUROC (of each seed)", "difference", "balanced accuracy", "difference")
    return table(heads, rows)


def by_protocol_and_seed(rows: Sequence[Row]) -> Folds:
    seeds = sorted({row["seed"] for row in rows})
    return {
        (name, seed): arrays(row for row in rows if (row["protocol"], row["seed"]) == (name, seed))
        for name in HARD4
        for seed in seeds
    }


def verdict(asked: Sequence[Answer], scores: Mapping[float, Sequence[Row]]) -> str:
    """For each weight, whether made-up negatives should be on by default, and by what numbers."""
    second = [answer for answer in asked if answer.kind == "second"]
    means = {
        weight: hard4_of_seeds(by_protocol_and_seed(rows), area).mean()
        for weight, rows in scores.items()
    }
    alarms_of = {
        weight: sum(a.wrong(FAMILIAR) for a in second if a.weight == weight) for weight in scores
    }
    texts = []
    for weight in [weight for weight in scores if weight]:
        left, lost = alarms_of[weight] / alarms_of[0.0], means[0.0] - means[weight]
        on = left <= MOST_LEFT and lost <= MOST_LOST
        texts.append(
            f"at {weight:g}, {1 - left:.0%} fewer and {lost:.3f} lost, so {'on' if on else 'off'}"
        )
    return "; ".join(texts)


def area(score: np.ndarray, threshold: np.ndarray, is_leak: np.ndarray) -> float | None:
    return auroc(score, is_leak)


def balanced_accuracy(
    score: np.ndarray, threshold: np.ndarray, is_leak: np.ndarray
) -> float | None:
    right = (score >= threshold) == is_leak
    if is_leak.all() or not is_leak.any():
        return None
    return float(right[is_leak].mean() + right[~is_leak].mean()) / 2


def hard4_of_seeds(
    folds: Folds, measure: Measure, times: Mapping[str, int] | None = None
) -> np.ndarray:
    """The mean of the four protocols for each seed; a recording counts `times`, None: once."""
    values: dict[str, list[float]] = {}
    for (_, seed), of in folds.items():
        ids = of["recording_id"].tolist()
        drawn = np.repeat(np.arange(len(ids)), [times[name] if times else 1 for name in ids])
        value = measure(of["score"][drawn], of["threshold"][drawn], of["is_leak"][drawn])
        values.setdefault(seed, []).append(np.nan if value is None else value)
    return np.array([np.nanmean(of_seed) for of_seed in values.values()])


def difference_interval(folds: Folds, plain: Folds, measure: Measure) -> tuple[float, float]:
    """Bootstrap of the difference of two means: recordings are drawn, the same ones for both."""
    ids = sorted({name for of in plain.values() for name in of["recording_id"].tolist()})
    rng, differences = np.random.default_rng(0), []
    for _ in range(REPLICATES):
        counts = np.bincount(rng.integers(0, len(ids), len(ids)), minlength=len(ids))
        times = dict(zip(ids, counts.tolist(), strict=True))
        means = [hard4_of_seeds(of, measure, times).mean() for of in (folds, plain)]
        differences.append(means[0] - means[1])
    low, high = np.quantile(differences, [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
