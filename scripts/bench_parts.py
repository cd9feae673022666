"""Measure `predict --parts`: rate, memory, what parts and a cluster cost, and a network's night.

`python scripts/bench_parts.py`; writes its sections of docs/benchmarks.md. With `--files N` (default
100,000) it is tried at another size, and only prints.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from bench_model_file import write_model
from benchmarks import measured, write_section
from leakdet.core.parallel import cluster
from leakdet.scoring.parts import ModelOptions, Scores, by_cluster, by_threads
from leakdet.storage.model_card import file_hash
from leakdet.tables.parts_db import BATCH_FILES, FileBatch, ListingRecord, RecordingsDb
from leakdet.tables.read import read_rows
from leakdet.tables.schema import InputRecording

FILES, SOUNDS, SECONDS, RATE_HZ = 100_000, 300, 1.0, 16000
NIGHT_FILES, NIGHT_S, NIGHT_SAMPLE = 20_000, 10, 512
WORKERS, ROUNDS, BATCHES = 2, 5, 6  # of a round of the comparison of engines
PREDICT = "import sys\nfrom leakdet.predict import main\nsys.exit(main(sys.argv[1:]))"
NOTE = (
    f"Links to {SOUNDS} sounds of {SECONDS} s, scored by the default network with {WORKERS} threads. "
    "`files/s` counts from the start of the process to its end; the peak of memory is of the whole "
    "process, with torch."
)
ENGINES_NOTE = (
    f"Files of {SECONDS} s in batches of {BATCH_FILES}, by {WORKERS} threads and by as many Dask "
    f"workers of this machine, which had loaded the model; {ROUNDS} rounds of {BATCHES} batches in "
    "turn. `overhead`: median of the paired ratios less 1, and their quartiles."
)
NIGHT_NOTE = (
    f"{NIGHT_FILES:,} loggers with {NIGHT_S} s each at {RATE_HZ / 1000:g} kHz, measured on "
    f"{NIGHT_SAMPLE} files and extrapolated; the start of the process is counted once."
)


def write_sounds(folder: Path, count: int, seconds: float) -> list[Path]:
    """Mono 16-bit WAV files of noise."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        sound = 0.1 * rng.standard_normal(int(RATE_HZ * seconds))
        soundfile.write(folder / f"{number:04}.wav", sound, RATE_HZ, subtype="PCM_16")
    return sorted(folder.iterdir())


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


def scale(model: Path, sounds: Sequence[Path], work: Path, files: int) -> list[dict[str, Any]]:
    """Rate and memory of parts at a tenth of the files and at all, beside one CSV of a tenth."""
    few, many = (link(sounds, work / str(count), count) for count in (files // 10, files))
    workers = ("--workers", str(WORKERS))
    rows = []
    for what, count, words in (
        ("one CSV", files // 10, (few, "--out", work / "rows.csv")),
        ("parts", files // 10, (few, "--parts", work / "few")),
        ("parts", files, (many, "--parts", work / "many")),
        ("parts, all of them scored before", files, (many, "--parts", work / "many")),
    ):
        seconds, mib = run([model, *words, *workers])
        rows.append({"what": what, "files": count, "s": seconds, "files/s": count / seconds,
                     "peak MiB": mib})  # fmt: skip
    began = time.perf_counter()
    count = len(read_rows(work / "many")["path"])
    seconds = time.perf_counter() - began
    rows.append({"what": "rows read again", "files": count, "s": seconds,
                 "files/s": count / seconds, "peak MiB": ""})  # fmt: skip
    if count != files:
        sys.exit(f"{count} rows of {files} files")
    return rows


def listing(work: Path, files: int) -> list[dict[str, Any]]:
    """The time that the list takes for names in any order, sorted outside memory."""
    order = np.random.default_rng(0).permutation(files)
    names = (f"/data/nights/2026-11-28/logger{number:09}.wav" for number in order)
    database = RecordingsDb(work / "list.sqlite")
    began = time.perf_counter()
    first, count, _ = database.add(InputRecording(Path(name)) for name in names)
    database.commit(ListingRecord(first, count, "", [], [], [], True))
    seconds = time.perf_counter() - began
    database.close()
    return [{"what": "names listed, in random order", "files": count, "s": seconds,
             "files/s": count / seconds, "peak MiB": ""}]  # fmt: skip


def engines(options: ModelOptions, sounds: Sequence[Path], rounds: int) -> list[dict[str, Any]]:
    """Time batches by threads and by a cluster of this machine, in turn."""
    names = [str(sounds[number % len(sounds)]) for number in range(BATCH_FILES)]
    recordings = tuple(InputRecording(Path(name)) for name in names)
    batches = [FileBatch(number, recordings, tuple(names)) for number in range(BATCHES)]

    def seconds(scores: Scores) -> float:
        began = time.perf_counter()
        if len(list(scores(batches, lambda _: None))) != BATCHES:
            sys.exit("a batch was lost")
        return time.perf_counter() - began

    with cluster(f"local:{WORKERS}") as engine:
        threads = by_threads(options.load(), WORKERS)
        workers = by_cluster(engine, options)
        for scores in (threads, workers):  # which loads what is loaded once
            seconds(scores)
        times = [(seconds(threads), seconds(workers)) for _ in range(rounds)]
    ratios = [ours / plain - 1 for plain, ours in times]
    low, middle, high = statistics.quantiles(ratios, n=4)
    files = BATCHES * BATCH_FILES
    of_threads, of_workers = (statistics.median(column) for column in zip(*times, strict=True))
    return [
        {"engine": "threads", "files/s": files / of_threads, "overhead": ""},
        {"engine": f"--cluster local:{WORKERS}", "files/s": files / of_workers,
         "overhead": f"{middle:+.1%} ({low:+.1%} to {high:+.1%})"},
    ]  # fmt: skip


def night(model: Path, work: Path, files: int) -> list[dict[str, Any]]:
    """Minutes that a network's night takes."""
    folder = work / "night"
    sounds = write_sounds(folder, files, NIGHT_S)
    started, _ = run([model, sounds[0], "--parts", work / "start", "--workers", str(WORKERS)])
    seconds, mib = run([model, folder, "--parts", work / "sample", "--workers", str(WORKERS)])
    each = (seconds - started) / (files - 1)
    minutes = (started + NIGHT_FILES * each) / 60
    return [{"loggers": NIGHT_FILES, "seconds each": NIGHT_S, "threads": WORKERS, "ms each": each * 1e3,
             "minutes": minutes, "peak MiB": mib}]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=FILES)
    files = parser.parse_args().files
    share = files / FILES
    with tempfile.TemporaryDirectory() as folder:
        work, model = Path(folder), Path(folder) / "model.safetensors"
        write_model(model, 1000)
        sounds = write_sounds(work / "sounds", SOUNDS, SECONDS)
        sections = (
            ("parts", "Any number of files in parts", NOTE,
             [*scale(model, sounds, work, files), *listing(work, files)]),
            ("parts engines", "A cluster of one machine beside threads", ENGINES_NOTE,
             engines(ModelOptions(model, file_hash(model)), sounds, max(2, round(share * ROUNDS)))),
            ("parts night", "A network's night", NIGHT_NOTE,
             night(model, work, max(32, round(min(1, share) * NIGHT_SAMPLE)))),
        )  # fmt: skip
    for name, title, note, rows in sections:
        for row in rows:
            print(name, row)
        if files == FILES:
            write_section(name, title, rows, note)


if __name__ == "__main__":
    main()
