"""Detectors of small networks with random weights, for any signal and rule; one as a file."""

# ruff: noqa: E402

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import made_once

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="the extra `export` is not installed")

from leakdet.config import NetworkConfig, SignalConfig
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector, sample_shape
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.labels import BINARY_NAMES, LabelMap
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import band_features, make_network
from leakdet.detection.source_rates import SourceRates
from leakdet.runs.export import export_model
from leakdet.scoring.detector import Detector
from leakdet.storage.model_file import make_card

SMALL = SignalConfig(
    sample_rate_hz=4000,
    window_samples=1024,
    window_hop_samples=512,
    segment_samples=256,
    segment_hop_samples=128,
    n_mels=12,
    fmin_hz=100.0,
    fmax_hz=2000.0,
)


def make_detector(
    signal: SignalConfig = SMALL,
    network: NetworkConfig | None = None,
    rule: DecisionRule | None = None,
    unit: str = "window",
    classes: tuple[str, ...] = (),
    reference: bool = True,
) -> Detector:
    """A detector with random weights whose probabilities differ from window to window."""
    torch.manual_seed(7)
    labels = LabelMap("binary", BINARY_NAMES, (1,))
    if classes:
        labels = LabelMap("multiclass", classes, (1, 2))
    network = network or NetworkConfig(conv_channels=4, dense=8, time_pool=2)
    shape = sample_shape(signal.mel_shape, unit)
    made = make_network(network, shape, len(labels.names)).eval()
    made.input.band_deviation.fill_(3.0)
    made.input.band_mean.fill_(-40.0 if network.input_norm == "none" else 0.0)
    spoken = None
    if reference:
        rng = np.random.default_rng(1)
        level = rng.normal(-50.0, 2.0, (12, 1, signal.n_mels))
        moments = np.concatenate([level, level**2 + 4.0], axis=1)
        spoken = SpectralReference.of(band_features(moments), np.arange(12) % 2 == 0)
    rule = rule or DecisionRule(unfamiliar="off")
    told = {"labels": labels, "mel_shape": signal.mel_shape, "unit": unit, "blend": 0.5}
    card = make_card(signal=signal, network=network, rule=rule, training={}, **told)
    detector = MelDetector(made, rule=rule, signal=signal, card=card, reference=spoken, **told)
    return Detector(detector, Path("model.safetensors"))


def with_rule(detector: Detector, **changes: object) -> Detector:
    """The same detector with other parts of its rule."""
    inner = detector.mel_detector
    return Detector(replace(inner, rule=replace(inner.rule, **changes)), detector.path)


@pytest.fixture
def small_signal() -> SignalConfig:
    return SMALL


@pytest.fixture
def detector() -> Detector:
    return make_detector()


@pytest.fixture
def made() -> Callable[..., Detector]:
    return make_detector


@pytest.fixture
def ruled() -> Callable[..., Detector]:
    return with_rule


@pytest.fixture(scope="session")
def classes_detector() -> Detector:
    """Of three classes, with a high-pass, and a rule that leaves undecided for every reason."""
    signal = replace(SMALL, highpass_hz=150.0)
    rule = DecisionRule(threshold=0.615, doubt=0.0005, unfamiliar="normal")
    detector = make_detector(signal, classes=("NORMAL", "LEAK", "CRACK"), rule=rule)
    more = {
        "met": MetRecordings.of({"train": ["ab" * 32]}, {}),
        "sources": SourceRates(dict.fromkeys((4000, 8000, 96000), (4, 4))),
        "file_hash": "0123456789ab",
    }
    return Detector(replace(detector.mel_detector, **more), detector.path)


@pytest.fixture(scope="session")
def exported(classes_detector: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `.onnx` file of `classes_detector`, which takes seconds to make."""

    def export(folder: Path) -> None:
        export_model(classes_detector, folder / "model.onnx", licence="for tests")

    return made_once(tmp_path_factory, "exported", export) / "model.onnx"
