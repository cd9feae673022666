"""An `.onnx` file in predict: the rows of the model that it was made from."""

import numpy as np
import pytest
import soundfile

from leakdet.core.errors import InputError
from leakdet.exporting.detector import load_onnx_detector, moments_of
from leakdet.exporting.network import LEVEL_DB
from leakdet.scoring.detector import Detector, load_detector

SECONDS = (0.05, 0.2, 0.256, 0.4, 3.0, 70.0)


@pytest.fixture(scope="module")
def onnx_detector(exported) -> Detector:
    return load_detector(exported)


@pytest.mark.parametrize("rate_hz", [4000, 8000, 96000])
@pytest.mark.parametrize("seconds", SECONDS)
def test_rows_are_those_of_the_model(
    classes_detector, onnx_detector, tmp_path, rate_hz: int, seconds: float
) -> None:
    rng = np.random.default_rng(int(seconds * 100))
    sound = 0.1 * rng.standard_normal(int(seconds * rate_hz))
    if seconds > 2:
        sound[rate_hz : rate_hz + rate_hz // 2] = 0.25
    if seconds > 60 and rate_hz > 8000:
        sound = sound[: 8 * rate_hz]
    path = tmp_path / "sound.wav"
    soundfile.write(path, sound, rate_hz)
    own, other = classes_detector.predict(path), onnx_detector.predict(path)
    assert not own.error
    assert other.model != own.model
    for name in ("decision", "reason", "flags", "leak_windows", "duration_s", "source_rate_hz"):
        assert getattr(other, name) == getattr(own, name)
    level_and_hum = (own.quiet_level_dbfs, own.mains_hum_db)
    assert (other.quiet_level_dbfs, other.mains_hum_db) == level_and_hum
    assert None not in level_and_hum or seconds < 1
    assert other.p10_prob == pytest.approx(own.p10_prob, abs=1e-3)
    assert other.leak_prob == pytest.approx(own.leak_prob, abs=1e-4)
    assert other.class_prob == pytest.approx(own.class_prob, abs=1e-4)
    assert other.familiarity == pytest.approx(own.familiarity, abs=2e-3)
    np.testing.assert_allclose(other.features, own.features, atol=0.02)
    np.testing.assert_allclose(np.array(other.windows), np.array(own.windows), atol=1e-3)


def test_log_mel_is_scored_as_by_the_model(classes_detector, onnx_detector) -> None:
    import torch

    mel = torch.randn(5, 7, 12, 1).half() * 5 - 50
    own = classes_detector.mel_detector.window_scores(mel)
    other = onnx_detector.mel_detector.window_scores(mel)
    torch.testing.assert_close(other.leak_prob, own.leak_prob, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(other.class_prob, own.class_prob, atol=1e-5, rtol=0.0)
    assert onnx_detector.mel_detector.window_scores(mel[:0]).leak_prob.shape == (0,)


def test_what_the_model_knows_of_its_training_is_kept(classes_detector, onnx_detector) -> None:
    own, other = classes_detector.mel_detector, onnx_detector.mel_detector
    assert other.met.hashes.tolist() == own.met.hashes.tolist()
    np.testing.assert_allclose(other.reference.kept, own.reference.kept, rtol=1e-6)
    assert (other.rule, other.labels, other.signal) == (own.rule, own.labels, own.signal)
    assert other.device == "cpu"
    assert "onnx_detector" not in repr(onnx_detector)


def test_moments_are_counted_from_zero_again() -> None:
    mean, square = np.array([-60.0, -45.0]), np.array([3610.0, 2030.0])
    shifted = square - 2 * LEVEL_DB * mean + LEVEL_DB**2
    state = 4 * np.stack([mean - LEVEL_DB, shifted, np.ones(2)]).astype(np.float32)
    np.testing.assert_allclose(moments_of(state)[0], 4 * np.stack([mean, square]))


def test_another_device_and_features_are_refused(exported, onnx_detector) -> None:
    with pytest.raises(InputError, match=r"CPU.* device cuda "):
        load_onnx_detector(exported, "cuda")
    with pytest.raises(InputError, match="gives no features"):
        onnx_detector.embed((np.zeros(4000, np.float32), 4000))
