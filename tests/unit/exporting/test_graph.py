import numpy as np
import pytest

from leakdet.config import NetworkConfig
from leakdet.core.errors import InputError
from leakdet.detection.networks import Linear
from leakdet.exporting.graph import host_facts, onnx_graph, output_names


class Foreign(Linear):
    """A network that asks NumPy, which no graph can."""

    def features(self, x):
        return x.new_tensor(np.asarray(x.detach().mean(-1).flatten(1).numpy()))


def test_a_model_has_the_outputs_that_it_can_fill(detector, classes_detector, made) -> None:
    names = output_names(made(reference=False).mel_detector)
    assert "familiarity" not in names
    assert "class_prob" not in names
    assert "familiarity" in output_names(detector.mel_detector)
    assert "class_prob" in output_names(classes_detector.mel_detector)


def test_a_host_learns_rate_rule_and_pieces(classes_detector) -> None:
    facts = host_facts(classes_detector.mel_detector)
    assert facts["sample_rate_hz"] == 4000
    assert facts["piece_windows"] * facts["window_hop_samples"] >= 8 * 4000
    assert facts["lead_windows"] >= 1
    assert facts["threshold"] == 0.615
    assert facts["unfamiliar_above"] > 0


def test_a_network_that_cannot_be_written_is_named(detector) -> None:
    inner = detector.mel_detector
    inner.network = Foreign(NetworkConfig("linear"), 12, 4, 2)
    inner.card = {"network": {"name": "my.nets:Foreign"}}
    with pytest.raises(InputError, match=r"network my\.nets:Foreign"):
        onnx_graph(inner)
