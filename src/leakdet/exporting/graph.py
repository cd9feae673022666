"""Writes a detector as one `.onnx` file that holds everything from sound to verdict."""

import base64
import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

import leakdet
from leakdet.acoustics.measures import shortest_run
from leakdet.core.errors import InputError
from leakdet.core.files import KEY as SEAL_KEY
from leakdet.core.files import UNSEALED, sealed
from leakdet.detection.decision import LIMITS
from leakdet.detection.detector import MelDetector
from leakdet.detection.familiarity import PREFIX
from leakdet.detection.stored_scores import TEST
from leakdet.exporting.file import (
    FACTS_KEY,
    LICENCE_KEY,
    ONNX_FORMAT,
    TENSORS_KEY,
    UNSTATED,
    VECTORS_KEY,
    check_self_contained,
)
from leakdet.exporting.network import SoundModel, SoundOutputs
from leakdet.storage.model_card import CARD_KEY
from leakdet.storage.model_file import GROUPS_KEY, REFERENCE_KEY, SOURCES_KEY

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

DTYPES = {"float16": torch.float16}  # of a network; else float32
OPSET = 20
PIECE_S = 8.0  # of a long recording, scored at a time: half as fast where it is a minute
INNER = ("mel", "scored_prob", "scored_classes")  # values with a name, but no outputs
STATE = ("earlier_moments", "lead_windows")  # inputs for a recording that comes in pieces


class _Selected(nn.Module):
    """A `SoundModel` that gives the outputs of these names only."""

    def __init__(self, model: SoundModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, sound: Tensor, earlier: Tensor, lead: Tensor) -> tuple[Tensor, ...]:
        outputs = self.model(sound, earlier, lead)
        return tuple(getattr(outputs, name) for name in self.names)


def output_names(detector: MelDetector) -> list[str]:
    """The names of the outputs that a model has, then of the values inside that have names."""
    left_out = set()
    if detector.reference is None:
        left_out.add("familiarity")
    if not detector.labels.tells_classes:
        left_out |= {"class_prob", "scored_classes"}
    return [name for name in SoundOutputs._fields if name not in left_out]


def onnx_graph(detector: MelDetector, precision: str = "float32") -> "ModelProto":
    """The graph of a detector, without metadata; `precision` is that of the network."""
    signal, names = detector.signal, output_names(detector)
    assert signal is not None  # `export` refuses a model without one
    model = _Selected(SoundModel(detector, DTYPES.get(precision, torch.float32)).eval(), names)
    length = signal.window_samples + 2 * signal.window_hop_samples + 5
    state = (torch.zeros(3, signal.n_mels), torch.zeros(1, dtype=torch.int64))
    example = (0.1 * torch.randn(1, length), *state)
    with _quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                model,
                example,
                dynamo=True,
                external_data=False,
                opset_version=OPSET,
                input_names=["sound", *STATE],
                output_names=names,
                # a `Dim` with a name is refused where torch cannot prove that it may be any number
                dynamic_shapes=({1: torch.export.Dim.DYNAMIC}, None, None),
                verbose=False,
            )
        # of a network of one's own, whatever it does
        except Exception as error:
            raise InputError(
                f"torch cannot write the network {detector.card['network']['name']} as ONNX: "
                f"{_first_cause(error)}"
            ) from error
    assert program is not None  # only without dynamo
    return _tidied(program.model_proto, signal.n_mels)


def _first_cause(error: BaseException) -> str:
    """What went wrong first, in a line; torch wraps it in advice for its developers."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip().splitlines() or [repr(error)])[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the translator's remarks on other packages and on what it skips from the screen."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _tidied(model: "ModelProto", mels: int) -> "ModelProto":
    """Leave out paths and remarks of the machine; name what leakdet looks for."""
    import numpy as np
    from onnx import numpy_helper

    graph = model.graph
    graph.name, model.doc_string = "leakdet", ""
    model.producer_name, model.producer_version = "leakdet", leakdet.__version__
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for tensor in graph.initializer:
        tensor.ClearField("metadata_props")
        if tensor.name.endswith("reference.kept"):
            _rename(model, tensor.name, f"{PREFIX}kept")
    _name_length(graph)
    inner = [output for output in graph.output if output.name in INNER]
    for output in inner:
        graph.value_info.append(output)
        graph.output.remove(output)
    # inputs that have a value may be left out
    values = (np.zeros((3, mels), np.float32), np.zeros(1, np.int64))
    for name, value in zip(STATE, values, strict=True):
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def _name_length(graph: "GraphProto") -> None:
    """Call the length of the sound `samples`, in every shape that it is part of."""
    symbol = graph.input[0].type.tensor_type.shape.dim[1].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(rf"\b{symbol}\b", "samples", dim.dim_param)


def _rename(model: "ModelProto", old: str, new: str) -> None:
    for tensor in model.graph.initializer:
        tensor.name = new if tensor.name == old else tensor.name
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = new if name == old else name


def host_facts(detector: MelDetector) -> dict[str, Any]:
    """What a host must know, in plain values: rate, windows, rule, and the length of pieces."""
    signal, rule = detector.signal, detector.rule
    assert signal is not None  # `export` refuses a model without one
    model = SoundModel(replace(detector, reference=None))
    settling = max(shortest_run(signal.sample_rate_hz), model.settling_samples)
    hop = signal.window_hop_samples
    limit = LIMITS[rule.unfamiliar]
    known_hz = detector.sources.known_hz if detector.sources else None
    return {
        "sample_rate_hz": signal.sample_rate_hz,
        "channels": signal.channels,
        "window_samples": signal.window_samples,
        "window_hop_samples": hop,
        "lead_windows": ceil(settling / hop),
        "piece_windows": max(1, ceil(PIECE_S * signal.sample_rate_hz / hop)),
        "pooling": rule.pooling,
        "vote_fraction": rule.vote_fraction,
        "threshold": rule.threshold,
        "unfamiliar_above": None if limit == float("inf") else limit,
        "doubt_between": list(rule.doubt_limits) if rule.doubt else None,
        "known_source_rates_hz": known_hz if rule.source == "rate" else None,
        "labels": list(detector.labels.names),
    }


def onnx_content(
    graph: "ModelProto",
    detector: MelDetector,
    precision: str,
    *,
    vectors: Sequence[Mapping[str, Any]] = (),
    licence: str | None = None,
) -> bytes:
    """The bytes of the file: the graph with its description, sealed."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(graph)
    check_self_contained(Path("the graph"), model)
    tensors: dict[str, Tensor] = {}
    card = dict(detector.card) | {"decision_rule": detector.rule.to_json()}
    if detector.met is not None:
        tensors |= detector.met.tensors()
        card[GROUPS_KEY] = detector.met.groups
    if detector.validation is not None:
        tensors |= detector.validation.tensors()
    if detector.tested is not None:
        tensors |= detector.tested.tensors(TEST)
    if detector.reference is not None:
        tensors |= detector.reference.tensors()
        card[REFERENCE_KEY] = detector.reference.facts
        if any(tensor.name == f"{PREFIX}kept" for tensor in model.graph.initializer):
            del tensors[f"{PREFIX}kept"]
    if detector.sources is not None:
        card[SOURCES_KEY] = detector.sources.to_json()
    exported = {"from": detector.file_hash, "by": f"leakdet {leakdet.__version__}"}
    card |= {"onnx_format": ONNX_FORMAT, "precision": precision, "exported": exported}
    card[SEAL_KEY] = UNSEALED
    metadata = {
        CARD_KEY: json.dumps(card),
        FACTS_KEY: json.dumps(host_facts(detector)),
        LICENCE_KEY: licence or UNSTATED,
        VECTORS_KEY: json.dumps(list(vectors)),
        TENSORS_KEY: base64.b64encode(save(tensors)).decode(),
    }
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model)
    return sealed(model.SerializeToString(deterministic=True))
