"""An `.onnx` file of leakdet: read and checked before anything in it is believed or run."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet.core.errors import InputError
from leakdet.core.files import as_input_error, is_sealed, require_readable
from leakdet.core.locations import Location, RemoteFile
from leakdet.storage.model_card import (
    CARD_KEY,
    check_card,
    model_kind,
    parse_card,
    require_packages,
)

if TYPE_CHECKING:
    from onnx import ModelProto

ONNX_FORMAT = 1  # of the graph's inputs, outputs and facts
FACTS_KEY, TENSORS_KEY = "leakdet_host", "leakdet_tensors"
LICENCE_KEY, VECTORS_KEY = "licence", "test_vectors"
UNSTATED = "not stated by whoever exported the model"
EXPORT_AGAIN = "Copy it again from an undamaged one, or export it again: leakdet export MODEL"


@dataclass(frozen=True)
class OnnxFile:
    """A file whose seal, card and operators have been checked.

    `facts` is what a host needs, in plain values: rate, windows, rule, length of pieces.
    """

    content: bytes
    model: "ModelProto"
    card: dict[str, Any]
    metadata: dict[str, str]

    @property
    def facts(self) -> dict[str, Any]:
        return dict(json.loads(self.metadata[FACTS_KEY]))

    @property
    def tensors(self) -> bytes:
        """A safetensors of what the model has met and was validated on."""
        return base64.b64decode(self.metadata[TENSORS_KEY])


def beside(model: Location) -> Path:
    """The file that an export of a model is written to: beside it; of a URL, in this folder."""
    return (
        Path(f"{model.stem}.onnx") if isinstance(model, RemoteFile) else model.with_suffix(".onnx")
    )


def check_places(model: Location, out: Path) -> None:
    """Check before any work where an export will write."""
    if model_kind(out) != ".onnx" or out.is_dir():
        raise InputError(f"--out {out}: name a file that ends in .onnx.")
    if model_kind(model) == ".onnx":
        raise InputError(f"{model}: this is an .onnx file already.")
    folder = Path(os.path.abspath(out)).parent  # noqa: PTH100  no link is followed
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InputError(f"--out {out}: {folder} is no folder that may be written; make it first.")


def read_onnx(path: Path) -> OnnxFile:
    """Read an `.onnx` file that `leakdet export` wrote. Nothing in it is run."""
    require_readable(path, "model file")
    require_packages(("onnx",))
    import onnx

    content = path.read_bytes()
    has_seal = is_sealed(path, content, EXPORT_AGAIN)
    with as_input_error(path, "a whole .onnx file", EXPORT_AGAIN):
        model = onnx.load_model_from_string(content)
        onnx.checker.check_model(model)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if CARD_KEY not in metadata:
        raise InputError(
            f"{path}: an .onnx file, but not a model of leakdet, which writes them by leakdet "
            "export."
        )
    card = parse_card(path, metadata[CARD_KEY])
    _check_format(path, card)
    check_card(path, card)
    if not has_seal:
        raise InputError(f"{path}: it has no seal: it was changed. {EXPORT_AGAIN}")
    check_self_contained(path, model)
    with as_input_error(path, "an .onnx file of leakdet export", EXPORT_AGAIN):
        file = OnnxFile(content, model, card, metadata)
        _ = file.facts["lead_windows"], file.tensors
    return file


def _check_format(path: Path, card: Mapping[str, Any]) -> None:
    version = card.get("onnx_format")
    if not isinstance(version, int) or version < 1:
        raise InputError(f"{path}: its description lacks the format of the graph. {EXPORT_AGAIN}")
    if version > ONNX_FORMAT:
        raise InputError(
            f"{path}: its graph has format {version}, this leakdet reads up to {ONNX_FORMAT}. "
            "Install a newer leakdet."
        )


def check_self_contained(path: Path, model: "ModelProto") -> None:
    """Raise `InputError` for custom operators, functions, subgraphs and data in other files."""
    standard = ("", "ai.onnx")
    custom = {node.domain for node in model.graph.node} | {o.domain for o in model.opset_import}
    if foreign := sorted(custom - set(standard)):
        raise InputError(f"{path}: it needs operators of {foreign}, which no plain runtime has.")
    inner = [a.name for node in model.graph.node for a in node.attribute if a.HasField("g")]
    if model.functions or inner:
        raise InputError(f"{path}: its graph holds other graphs, which leakdet never writes.")
    outside = [
        tensor.name for tensor in _tensors(model) if tensor.data_location or tensor.external_data
    ]
    if outside:
        raise InputError(
            f"{path}: its weights {outside[0]} lie in another file, which is never opened."
        )


def _tensors(model: "ModelProto") -> Iterator[Any]:
    yield from model.graph.initializer
    for node in model.graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))
