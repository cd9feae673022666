"""A detector whose numbers come from an `.onnx` file, by onnxruntime."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Float32
from safetensors.torch import load
from torch import Tensor

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.files import as_input_error
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector, WindowScores
from leakdet.detection.familiarity import PREFIX, SpectralReference
from leakdet.detection.labels import LabelMap
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import Network
from leakdet.detection.source_rates import SourceRates
from leakdet.detection.stored_scores import TEST, ValidationScores
from leakdet.exporting.file import EXPORT_AGAIN, OnnxFile, read_onnx
from leakdet.exporting.network import LEVEL_DB
from leakdet.storage.model_card import TO_RUN, file_hash, require_packages
from leakdet.storage.model_file import GROUPS_KEY, REFERENCE_KEY, SOURCES_KEY

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


@dataclass
class OnnxDetector(MelDetector):
    """A `MelDetector` of an `.onnx` file, which scores sound too. It has no `network`."""

    network: Network = field(init=False, repr=False)
    file: OnnxFile | None = None

    @property
    def device(self) -> str:
        return "cpu"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What a host must know; see `onnx_writer.host_facts`."""
        return self._file.facts

    @property
    def lead_windows(self) -> int:
        """Windows before a piece of a long recording that the filter needs to settle."""
        return int(self.facts["lead_windows"])

    @property
    def piece_windows(self) -> int:
        """Windows that are scored at a time."""
        return int(self.facts["piece_windows"])

    def window_scores(self, mel: Float[Tensor, "W S M T"], alike: bool = False) -> WindowScores:
        """As that of the model file; by the part of the graph behind the log-mel."""
        outputs = ["scored_prob", "scored_classes"][: 1 + self.labels.tells_classes]
        if not len(mel):
            return WindowScores(torch.zeros(0), torch.zeros(0, len(self.labels.names)))
        scores = self._mel_session.run(outputs, {"mel": mel.float().cpu().numpy()})
        prob, *classes = map(torch.from_numpy, scores)
        return WindowScores(prob, classes[0] if classes else None)

    def embed(self, mel: Float[Tensor, "W S M T"]) -> Float[Tensor, "W F"]:
        raise InputError("an .onnx file gives no features; use the model file it was made from.")

    def sound_scores(self, sound: Float32[np.ndarray, " N"], lead: int = 0) -> dict[str, Any]:
        """The outputs of the graph by name, for sound at the signal's rate.

        The first `lead` windows were scored before: they are not pooled.
        """
        names = [output.name for output in self._session.get_outputs()]
        inputs = {"sound": sound[None], "lead_windows": np.array([lead], np.int64)}
        return dict(zip(names, self._session.run(names, inputs), strict=True))

    @property
    def _file(self) -> OnnxFile:
        assert self.file is not None  # set by `load_onnx_detector`
        return self.file

    @cached_property
    def _session(self) -> "InferenceSession":
        return _session(self._file.content)

    @cached_property
    def _mel_session(self) -> "InferenceSession":
        from onnx.utils import Extractor

        outputs = ["scored_prob", "scored_classes"][: 1 + self.labels.tells_classes]
        part = Extractor(self._file.model).extract_model(["mel"], outputs)
        return _session(part.SerializeToString())


def moments_of(state: Float32[np.ndarray, "3 M"]) -> Float[np.ndarray, "1 2 M"]:
    """The graph's moments as `window_moments` counts them, summed over live windows."""
    mean, square, count = state.astype(np.float64)
    shifted = square + 2.0 * LEVEL_DB * mean + LEVEL_DB**2 * count
    return np.stack([mean + LEVEL_DB * count, shifted])[None]


def load_onnx_detector(path: Path, device: str = "cpu") -> OnnxDetector:
    """The detector of an `.onnx` file, which runs on the CPU."""
    if device not in ("cpu", "auto"):
        raise InputError(f"{path}: .onnx files run on the CPU; device {device} cannot be used.")
    require_packages(TO_RUN)
    file = read_onnx(path)
    detector = _detector(path, file)
    with as_input_error(path, "a graph that this onnxruntime runs", EXPORT_AGAIN):
        _ = detector._session
    return detector


def _detector(path: Path, file: OnnxFile) -> OnnxDetector:
    card = file.card
    with as_input_error(path, "an .onnx file of leakdet export", EXPORT_AGAIN):
        tensors = load(file.tensors)
        tensors |= {f"{PREFIX}kept": kept for kept in _kept(file)}
        segments, mels, frames = map(int, card["mel_shape"])
        return OnnxDetector(
            labels=LabelMap.from_json(card["labels"]),
            mel_shape=(segments, mels, frames),
            unit=str(card["unit"]),
            blend=float(card["blend"]),
            rule=DecisionRule.from_json(card["decision_rule"]),
            signal=SignalConfig.from_dict(card["signal"], str(path)),
            card=card,
            file_hash=file_hash(path),
            met=MetRecordings.from_file(tensors, card.get(GROUPS_KEY, {})),
            validation=ValidationScores.from_file(tensors),
            tested=ValidationScores.from_file(tensors, TEST),
            reference=SpectralReference.from_file(tensors, card.get(REFERENCE_KEY)),
            sources=SourceRates.from_json(card.get(SOURCES_KEY)),
            file=file,
        )


def _kept(file: OnnxFile) -> list[Tensor]:
    """The features of training recordings, which the graph holds, or none."""
    from onnx import numpy_helper

    return [
        torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for tensor in file.model.graph.initializer
        if tensor.name == f"{PREFIX}kept"
    ]


def _session(content: bytes, threads: int = 1) -> Any:
    """A session that is quiet and leaves the other cores to other recordings."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
