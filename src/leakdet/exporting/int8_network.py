"""The network of an exported graph in 8-bit integers; front end, pooling and rule stay float32.

Weights are rounded channel by channel, activations by ranges that windows of training give.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float16

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.storage.opening import open_split

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

CALIBRATION_WINDOWS = 1024


def calibration_mel(store: Path, signal: SignalConfig) -> Float16[np.ndarray, "W S M T"]:
    """Log-mel of up to 1,024 windows, spread evenly over a store's training split."""
    split = open_split(store, "train")
    if split.signal is None or split.signal.hash != signal.hash:
        raise InputError(
            f"--calibrate {store}: its log-mel was made by other settings than the model's; name "
            "the store that trained the model."
        )
    count = min(CALIBRATION_WINDOWS, split.windows)
    rows = np.unique(np.linspace(0, split.windows - 1, count).astype(np.int64))
    return split.mel.gather(rows)


class _Windows:
    """Windows for onnxruntime's calibration, some at a time."""

    def __init__(self, mel: np.ndarray) -> None:
        self._batches: Iterator[np.ndarray] = iter(np.array_split(mel, max(1, len(mel) // 64)))

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"mel": batch.astype(np.float32)}


def int8_network(graph: "ModelProto", mel: Float16[np.ndarray, "W S M T"]) -> "ModelProto":
    """The graph with its convolutions and dense layers behind the log-mel in 8-bit integers."""
    import onnx
    from onnx.utils import Extractor
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    names = {output for node in graph.graph.node for output in node.output}
    ends = [name for name in ("scored_prob", "scored_classes") if name in names]
    part = Extractor(graph).extract_model(["mel"], ends)
    with TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(part, before)
        with _without_advice():
            quantize_static(
                before,
                after,
                _Windows(mel),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=["Conv", "Gemm", "MatMul"],
                per_channel=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
            )
        quantised = onnx.load(after)
    return _joined(graph, part, quantised)


@contextmanager
def _without_advice() -> Iterator[None]:
    """Keep onnxruntime's advice to optimise the graph first, as the writer has, from the screen."""
    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addHandler(nowhere)  # else its first remark would make a handler that prints ours too
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        root.removeHandler(nowhere)


def _joined(graph: "ModelProto", part: "ModelProto", other: "ModelProto") -> "ModelProto":
    """The graph in which the nodes of `part` are replaced by those of `other`."""
    import onnx

    joined = onnx.ModelProto()
    joined.CopyFrom(graph)
    replaced = {output for node in part.graph.node for output in node.output}
    kept = [node for node in graph.graph.node if not replaced & set(node.output)]
    nodes = _in_order([*kept, *other.graph.node])
    used = {name for node in nodes for name in node.input}
    weights = {
        tensor.name: tensor for tensor in [*graph.graph.initializer, *other.graph.initializer]
    }
    used |= {value.name for value in graph.graph.input}
    used -= {output for node in nodes for output in node.output}
    for field in ("node", "initializer"):
        joined.graph.ClearField(field)
    joined.graph.node.extend(nodes)
    joined.graph.initializer.extend(tensor for name, tensor in weights.items() if name in used)
    return joined


def _in_order(nodes: "list[NodeProto]") -> "list[NodeProto]":
    """The nodes so that each comes behind those whose outputs it reads."""
    made = {output for node in nodes for output in node.output}
    ordered: list[NodeProto] = []
    while nodes:
        ready = [node for node in nodes if not made & set(node.input)]
        made -= {output for node in ready for output in node.output}
        nodes = [node for node in nodes if made & set(node.output)]
        ordered += ready
    return ordered
