"""Measure `predict --parts`: rate, memory, what parts and a cluster cost, and a network's night.

With `--files N` (default 100,000) it is tried at another size, and only prints.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench_model_file import write_model
from benchmarks import Row, Section, excess, in_turn, measure, measured, parser, time_s
from leakdet.core.parallel import cluster
from leakdet.scoring.parts import ModelOptions, Scores, by_cluster, by_threads
from leakdet.storage.model_card import file_hash
from leakdet.tables.parts_db import BATCH_FILES, FileBatch, ListingRecord, RecordingsDb
from leakdet.tables.read import read_rows
from leakdet.tables.schema import InputRecording
from stores import write_sounds

FILES, SOUNDS, SECONDS, RATE_HZ = 100_000, 300, 1.0, 16000
NIGHT_FILES, NIGHT_S, NIGHT_SAMPLE = 20_000, 10, 512
WORKERS, ROUNDS, BATCHES = 2, 5, 6  # of a round of the comparison of engines
PREDICT = "import sys\nfrom leakdet.predict import main\nsys.exit(main(sys.argv[1:]))"
NOTE = (
    f"Links to {SOUNDS} sounds of {SECONDS} s, scored by the default network with {WORKERS} threads. "
    "`files/s` counts from the start of the process to its end; the peak of memory is of the whole "
    "process, with torch."
)
ENGINES_TITLE = "A cluster of one machine beside threads"
ENGINES_NOTE = (
    f"Files of {SECONDS} s in batches of {BATCH_FILES}, by {WORKERS} threads and by as many Dask "
    f"workers of this machine, which had loaded the model; {ROUNDS} rounds of {BATCHES} batches in "
    "turn. `overhead`: median of the paired ratios less 1, and their quartiles."
)
NIGHT_NOTE = (
    f"{NIGHT_FILES:,} loggers with {NIGHT_S} s each at {RATE_HZ / 1000:g} kHz, measured on "
    f"{NIGHT_SAMPLE} files and extrapolated; the start of the process is counted once."
)


def link(sounds: Sequence[Path], folder: Path, count: int) -> Path:
    """A folder of so many links, a thousand in each of its folders."""
    for number in range(count):
        path = folder / f"{number // 1000:04}" / f"{number:07}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(sounds[number % len(sounds)])
    return folder


def run(words: Sequence[str | Path]) -> tuple[float, float]:
    """Seconds and peak memory in MiB of `leakdet predict WORDS`."""
    took = measured(PREDICT, [*words, "--quiet"])
    return took.seconds, took.peak_mib


def row_of(what: str, files: int, seconds: float, peak_mib: float | str = "") -> Row:
    rate = files / seconds
    return {"what": what, "files": files, "s": seconds, "files/s": rate, "peak MiB": peak_mib}


def scale(model: Path, sounds: Sequence[Path], work: Path, files: int) -> Iterator[Row]:
    """Rate and memory of parts at a tenth of the files and at all, beside one CSV of a tenth."""
    few, many = (link(sounds, work / str(count), count) for count in (files // 10, files))
    workers = ("--workers", str(WORKERS))
    for what, count, words in (
        ("one CSV", files // 10, (few, "--out", work / "rows.csv")),
        ("parts", files // 10, (few, "--parts", work / "few")),
        ("parts", files, (many, "--parts", work / "many")),
        ("parts, all of them scored before", files, (many, "--parts", work / "many")),
    ):
        yield row_of(what, count, *run([model, *words, *workers]))
    began = time.perf_counter()
    count = len(read_rows(work / "many")["path"])
    yield row_of("rows read again", files, time.perf_counter() - began)
    if count != files:
        sys.exit(f"{count} rows of {files} files")
    yield row_of("names listed, in random order", files, listing(work, files))


def listing(work: Path, files: int) -> float:
    """The seconds that the list takes for names in any order, sorted outside memory."""
    order = np.random.default_rng(0).permutation(files)
    names = (f"/data/nights/2026-11-28/logger{number:09}.wav" for number in order)
    database = RecordingsDb(work / "list.sqlite")
    began = time.perf_counter()
    first, count, _ = database.add(InputRecording(Path(name)) for name in names)
    database.commit(ListingRecord(first, count, "", [], [], [], True))
    seconds = time.perf_counter() - began
    database.close()
    return seconds


def engines(model: Path, sounds: Sequence[Path], rounds: int) -> Iterator[Row]:
    """Time batches by threads and by a cluster of this machine, in turn."""
    options = ModelOptions(model, file_hash(model))
    names = [str(sounds[number % len(sounds)]) for number in range(BATCH_FILES)]
    recordings = tuple(InputRecording(Path(name)) for name in names)
    batches = [FileBatch(number, recordings, tuple(names)) for number in range(BATCHES)]

    def score(scores: Scores) -> None:
        if len(list(scores(batches, lambda _: None))) != BATCHES:
            sys.exit("a batch was lost")

    with cluster(f"local:{WORKERS}") as engine:
        works = {
            "threads": partial(time_s, partial(score, by_threads(options.load(), WORKERS))),
            "cluster": partial(time_s, partial(score, by_cluster(engine, options))),
        }
        times = in_turn(works, rounds, warm=1)  # which loads what is loaded once
    rates = {name: BATCHES * BATCH_FILES / float(np.median(of)) for name, of in times.items()}
    low, middle, high = excess(times["cluster"], times["threads"])
    yield {"engine": "threads", "files/s": rates["threads"], "overhead": ""}
    overhead = f"{middle:+.1%} ({low:+.1%} to {high:+.1%})"
    engine_name = f"--cluster local:{WORKERS}"
    yield {"engine": engine_name, "files/s": rates["cluster"], "overhead": overhead}


def night(model: Path, work: Path, files: int) -> Iterator[Row]:
    """Minutes that a network's night takes."""
    folder = work / "night"
    sounds = write_sounds(folder, [NIGHT_S] * files, RATE_HZ)
    started, _ = run([model, sounds[0], "--parts", work / "start", "--workers", str(WORKERS)])
    seconds, mib = run([model, folder, "--parts", work / "sample", "--workers", str(WORKERS)])
    each = (seconds - started) / (files - 1)
    row = {
        "loggers": NIGHT_FILES,
        "seconds each": NIGHT_S,
        "threads": WORKERS,
        "ms each": each * 1e3,
    }
    yield row | {"minutes": (started + NIGHT_FILES * each) / 60, "peak MiB": mib}


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--files", type=int, default=FILES)
    given = command.parse_args()
    files, share = given.files, given.files / FILES
    with tempfile.TemporaryDirectory() as folder:
        work, model = Path(folder), Path(folder) / "model.safetensors"
        write_model(model, 1000)
        sounds = write_sounds(work / "sounds", [SECONDS] * SOUNDS, RATE_HZ)
        at_scale = scale(model, sounds, work, files)
        by_engine = engines(model, sounds, max(2, round(share * ROUNDS)))
        of_night = night(model, work, max(32, round(min(1, share) * NIGHT_SAMPLE)))
        for section in (
            Section("parts", "Any number of files in parts", at_scale, NOTE),
            Section("parts engines", ENGINES_TITLE, by_engine, ENGINES_NOTE),
            Section("parts night", "A network's night", of_night, NIGHT_NOTE),
        ):
            measure(section, given.dry_run or files != FILES)


if __name__ == "__main__":
    main()
