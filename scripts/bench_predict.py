"""Measure predict beside a plain script: the same network and mel, without checks, facts and rows.

Both read the same files in one process, in turn; what counts is processor time.
"""

import csv
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch

from bench_model_file import write_model
from benchmarks import Row, Section, in_turn, run, time_s
from leakdet.acoustics.mel import LogMel
from leakdet.scoring.detector import Detector, load_detector
from leakdet.scoring.listing import list_files
from leakdet.scoring.prediction import write_verdicts
from stores import write_sounds

# seconds, rate in Hz, kind and number of files
FILES = (
    (1, 16000, "wav", 400),
    (10, 16000, "wav", 60),
    (10, 48000, "flac", 30),
    (120, 48000, "flac", 3),
)
ROUNDS, BATCH_WINDOWS = 15, 64
NOTE = (
    "Speed over that of a plain script: whole files by soundfile, resampled by soxr, windows cut from "
    f"the whole, one FFT of each segment of each window, the network in batches of {BATCH_WINDOWS} "
    "windows of several files, a CSV of mean probabilities; it checks, measures and flags nothing. "
    "Processor time of one worker, in one process on one core, in turn; medians of the paired ratios of "
    f"{ROUNDS} rounds and their quartiles. `2 workers` is the speed by the clock over one worker's."
)


def plain_script(detector: Detector, folder: Path, out: Path) -> None:
    """What one would write oneself."""
    model = detector.mel_detector
    signal, network = model.signal, model.network.eval()
    assert signal is not None
    mel = LogMel(signal)
    rows: list[tuple[str, float]] = []
    names: list[str] = []
    pending: list[torch.Tensor] = []

    @torch.inference_mode()
    def flush() -> None:
        segments = torch.cat(pending).unfold(-1, signal.segment_samples, signal.segment_hop_samples)
        levels = torch.fft.rfft(segments * mel.hann).abs() @ mel.filters
        output = network((20 * levels.clamp(min=signal.floor).log10())[..., None])
        prob = 0.5 * (output.class_logits.softmax(-1)[:, 1] + output.leak_logit.sigmoid())
        rows.extend(zip(names, prob.tolist(), strict=True))
        names.clear()
        pending.clear()

    for path in sorted(folder.rglob("*.*")):
        sound, rate_hz = soundfile.read(path, dtype="float32")
        if rate_hz != signal.sample_rate_hz:
            sound = soxr.resample(sound, rate_hz, signal.sample_rate_hz)
        windows = torch.from_numpy(sound).unfold(
            0, signal.window_samples, signal.window_hop_samples
        )
        pending.append(windows)
        names.extend([path.name] * len(windows))
        if len(names) >= BATCH_WINDOWS:
            flush()
    if names:
        flush()
    probs: dict[str, list[float]] = {}
    for name, value in rows:
        probs.setdefault(name, []).append(value)
    with out.open("w", newline="") as file:
        csv.writer(file).writerows((name, np.mean(values)) for name, values in probs.items())


def predict(detector: Detector, folder: Path, out: Path, workers: int = 1) -> None:
    """What `leakdet predict FOLDER --out OUT` does once the model is loaded."""
    write_verdicts(detector, [str(folder)], list_files([str(folder)]), out, workers=workers)


def compared(work: Path) -> Iterator[Row]:
    torch.set_num_threads(1)
    cores = os.sched_getaffinity(0)
    model = work / "model.safetensors"
    write_model(model, 1000)
    detector = load_detector(model, "cpu")
    for seconds, rate_hz, kind, files in FILES:
        folder = work / f"{seconds}{kind}"
        write_sounds(folder, [seconds] * files, rate_hz, kind)

        def cpu_s(task: Callable[..., None], folder: Path = folder, **options: int) -> float:
            out = work / "rows.csv"
            return time_s(partial(task, detector, folder, out, **options), time.process_time)

        works = {"plain": partial(cpu_s, plain_script), "ours": partial(cpu_s, predict)}
        os.sched_setaffinity(0, {max(cores)})
        times = in_turn(works, ROUNDS, warm=1)
        os.sched_setaffinity(0, cores)
        by_clock = {
            str(workers): partial(
                time_s, partial(predict, detector, folder, work / "rows.csv", workers=workers)
            )
            for workers in (1, 2)
        }
        clock = in_turn(by_clock, ROUNDS)
        low, speed, high = np.quantile(times["plain"] / times["ours"], (0.25, 0.5, 0.75))
        yield {
            "files": f"{seconds} s, {rate_hz // 1000} kHz {kind.upper()}",
            "plain [ms]": 1e3 * float(np.median(times["plain"])) / files,
            "predict [ms]": 1e3 * float(np.median(times["ours"])) / files,
            "speed": round(float(speed), 2),
            "quartiles": f"{low:.2f} to {high:.2f}",
            "2 workers": round(float(np.median(clock["1"] / clock["2"])), 2),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        section = Section("predict", "predict beside a plain script", compared(Path(name)), NOTE)
        run(__doc__, section)
