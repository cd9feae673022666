"""Measure a model file of a million training recordings, and the cost of familiarity in predict.

Contents, scores and spectra are random, as many as such a training leaves; the
rest is the default network, untrained.
"""

import hashlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from benchmarks import Row, Section, excess, in_turn, median_s, run, time_s
from leakdet.config import NetworkConfig, SignalConfig
from leakdet.detection.decision import DecisionRule
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.labels import LabelMap
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import make_network, window_moments
from leakdet.detection.stored_scores import ValidationScores
from leakdet.evaluation.met import MAX_READ
from leakdet.scoring import score_recording
from leakdet.scoring.detector import Detector, load_detector
from leakdet.scoring.listing import list_files
from leakdet.scoring.prediction import write_verdicts
from leakdet.storage.model_card import file_hash
from leakdet.storage.model_file import load_mel_detector, make_card, save_model
from stores import write_sounds

FEW, MANY, SITES = 1_000, 1_000_000, 10_000  # recordings; four fifths trained, one fifth validated
FILES, SECONDS, ROUNDS = 20, 10, 24
RUNS = 5
SIGNAL = SignalConfig(fmax_hz=8000)
SIZE_NOTE = (
    f"A model file keeps 16 bytes of hash of every recording that it has met, up to {SITES:,} "
    "values of each group column (here two), the scores of up to 100,000 validation recordings and "
    "the spectra of training recordings that cover the rest. `load`: the whole file from the page "
    f"cache, as predict does; `hash`: its SHA-256, which is part of that. Medians of {RUNS}."
)
COST_NOTE = (
    "How much longer predict takes because it measures the bands of a recording and how familiar "
    f"they are: processor time of one worker with that and without, in turn, on {FILES} files of {SECONDS} s, from files to "
    f"rows; median of the paired ratios of {ROUNDS} rounds and their quartiles. The model was "
    f"trained on {MANY:,} recordings, so that its reference is as large as it gets."
)


def write_model(path: Path, recordings: int) -> None:
    """A model file as a training on so many recordings leaves it."""
    rng, config = np.random.default_rng(0), NetworkConfig()
    network = make_network(config, SIGNAL.mel_shape, 2)
    card = make_card(
        signal=SIGNAL,
        labels=LabelMap("binary", ("NO_LEAK", "LEAK"), (1,)),
        network=config,
        mel_shape=SIGNAL.mel_shape,
        unit="window",
        blend=0.5,
        rule=DecisionRule(threshold=0.5, policy="fixed"),
        training={},
    )
    contents = [hashlib.sha256(str(row).encode()).hexdigest() for row in range(recordings)]
    fifth = recordings // 5
    groups = {
        "site": np.array([f"site-{row % SITES:05}" for row in range(recordings)]),
        "sensor": np.array([f"logger {row % SITES}" for row in range(recordings)]),
    }
    met = MetRecordings.of(
        {"train": contents[fifth:], "val": contents[:fifth]},
        {"train": {name: values[fifth:] for name, values in groups.items()}},
    )
    is_leak = rng.random(recordings) < 0.05
    validation = ValidationScores.of(rng.random(fifth), is_leak[:fifth])
    rows = min(MAX_READ, recordings - fifth)
    spectra = rng.normal(0.0, 3.0, (rows, 2 * SIGNAL.n_mels))
    reference = SpectralReference.of(spectra, is_leak[fifth : fifth + rows])
    save_model(path, network.state_dict(), card, met, validation, reference)


def size() -> Iterator[Row]:
    """Size and loading time of the model files of a small and a large training."""
    with tempfile.TemporaryDirectory() as name:
        for recordings in (FEW, MANY):
            path = Path(name, f"{recordings}.safetensors")
            write_model(path, recordings)
            row = {"recordings met": recordings, "size [MB]": path.stat().st_size / 1e6}
            row |= {"load [ms]": 1000 * median_s(partial(load_mel_detector, path), RUNS)}
            yield row | {"hash [ms]": 1000 * median_s(partial(file_hash, path), RUNS)}


def familiarity() -> Iterator[Row]:
    """Processor time of predict with familiarity against that without."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "model.safetensors")
        write_model(path, MANY)
        detector = load_detector(path, "cpu")
        for rate_hz, kind in ((16_000, "wav"), (48_000, "wav"), (48_000, "flac")):
            yield cost_row(detector, Path(name), rate_hz, kind)


def no_moments(mel: torch.Tensor) -> np.ndarray:
    """What stands in for the moments of the bands where they are not measured."""
    return np.zeros((len(mel), 2, mel.shape[2]))


def cost_row(known: Detector, folder: Path, rate_hz: int, kind: str) -> Row:
    """Median and quartiles of the share that familiarity adds, on files of this rate and kind."""
    sounds = folder / f"{rate_hz}-{kind}"
    write_sounds(sounds, [SECONDS] * FILES, rate_hz, kind)
    listed = list_files([str(sounds)])
    plain = Detector(replace(known.mel_detector, reference=None), known.path)

    def seconds(detector: Detector) -> float:
        of_bands = window_moments if detector is known else no_moments
        write = partial(write_verdicts, detector, [str(sounds)], listed, folder / "rows.csv")
        with patch.object(score_recording, "window_moments", of_bands):
            return time_s(partial(write, workers=1), time.process_time)  # whatever else runs

    works = {"with": partial(seconds, known), "without": partial(seconds, plain)}
    times = in_turn(works, ROUNDS, warm=1)
    low, middle, high = (100 * share for share in excess(times["with"], times["without"]))
    return {
        "file": f"{SECONDS} s, {rate_hz // 1000} kHz {kind.upper()}",
        "without [ms]": 1000 * float(np.median(times["without"])) / FILES,
        "familiarity adds [%]": round(middle, 1),
        "quartiles [%]": f"{low:.1f} to {high:.1f}",
    }


if __name__ == "__main__":
    run(
        __doc__,
        Section("model_file", "The model file of a large training", size(), SIZE_NOTE),
        Section("familiarity", "What familiarity takes of predict", familiarity(), COST_NOTE),
    )
