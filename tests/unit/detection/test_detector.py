import pytest
import torch

from leakdet.config import NetworkConfig
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector, as_samples, sample_shape, window_mean
from leakdet.detection.labels import LabelMap
from leakdet.detection.networks import leak_probability, make_network

SHAPE = (3, 8, 1)


def detector(unit: str, classes: int = 2) -> MelDetector:
    config = NetworkConfig("linear", time_pool=1)
    network = make_network(config, sample_shape(SHAPE, unit), classes)
    labels = LabelMap("binary", ("NO_LEAK", "LEAK"), (1,))
    return MelDetector(network.eval(), labels, SHAPE, unit, 0.5, DecisionRule(), None, {})


@pytest.mark.parametrize(
    ("unit", "samples"), [("window", (5, 3, 8, 1)), ("segment", (15, 1, 8, 1))]
)
def test_windows_become_samples_and_their_probabilities_a_mean(unit: str, samples: tuple[int, ...]):
    model, mel = detector(unit), torch.randn(5, *SHAPE) * 9 - 50
    assert as_samples(mel, unit).shape == samples
    assert sample_shape(SHAPE, unit) == samples[1:]
    with torch.no_grad():
        prob = leak_probability(model.network(as_samples(mel, unit)), (1,), 0.5)
    torch.testing.assert_close(model.window_prob(mel), prob.view(5, -1).mean(1))
    assert model.embed(mel).shape == (5, 8)


def test_no_windows_have_no_probability():
    assert window_mean(torch.zeros(0), 0).shape == (0,)
    assert window_mean(torch.zeros(6, 0), 3).shape == (3, 0)  # of a network without classes


@pytest.mark.parametrize("unit", ["window", "segment"])
def test_a_multiclass_network_tells_the_classes_of_windows(unit: str) -> None:
    model, mel = detector(unit, classes=4), torch.randn(5, *SHAPE) * 9 - 50
    model.labels = LabelMap("multiclass", ("a", "b", "c", "d"), (1, 3))
    leak_prob, class_prob = model.window_scores(mel)
    assert torch.equal(leak_prob, model.window_prob(mel))
    with torch.no_grad():
        logits = model.network(as_samples(mel, unit)).class_logits
    torch.testing.assert_close(class_prob, logits.softmax(1).view(5, -1, 4).mean(1))


def test_a_binary_network_tells_no_classes() -> None:
    assert detector("window").window_scores(torch.randn(2, *SHAPE)).class_prob is None
