"""The network in integers, in the graph of the session's exported file."""

import onnx
import pytest
import torch

from leakdet.core.errors import InputError
from leakdet.exporting.detector import load_onnx_detector
from leakdet.exporting.equality import compare
from leakdet.exporting.graph import onnx_content
from leakdet.exporting.int8_network import calibration_mel, int8_network
from leakdet.scoring.detector import Detector


def test_the_network_alone_becomes_integers(exported, classes_detector, tmp_path) -> None:
    graph = onnx.load_model_from_string(exported.read_bytes())
    graph.ClearField("metadata_props")
    mel = (torch.randn(200, 7, 12, 1) * 6 - 55).half().numpy()
    integers = int8_network(graph, mel)
    rounded = [t.name for t in integers.graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert any("cls_head" in name for name in rounded)
    assert not any("front_end" in name for name in rounded)
    path = tmp_path / "int8.onnx"
    path.write_bytes(onnx_content(integers, classes_detector.mel_detector, "int8-network"))
    equality = compare(classes_detector, Detector(load_onnx_detector(path), path), "int8-network")
    assert equality.holds
    assert 1e-4 < equality.largest_window < 0.1


def test_the_store_must_be_one_of_the_models_signal(detector, site_store) -> None:
    with pytest.raises(InputError, match="made by other settings than the model's"):
        calibration_mel(site_store, detector.mel_detector.signal)
    with pytest.raises(InputError, match="nowhere"):
        calibration_mel(site_store / "nowhere", detector.mel_detector.signal)


def test_windows_are_spread_over_the_training_split(made, site_store) -> None:
    from leakdet.storage.opening import open_split

    split = open_split(site_store, "train")
    mel = calibration_mel(site_store, split.signal)
    assert len(mel) == split.windows == 48
    assert (mel[-1] == split.mel.gather(torch.tensor([47]).numpy())[0]).all()
