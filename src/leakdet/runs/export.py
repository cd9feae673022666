"""One export: the graph, its description, the comparison with predict, and the file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakdet.core.errors import InputError
from leakdet.core.files import whole_file
from leakdet.core.locations import Location
from leakdet.core.messages import LOG
from leakdet.exporting.detector import OnnxDetector, load_onnx_detector
from leakdet.exporting.equality import Equality, compare, reference_verdicts
from leakdet.exporting.graph import onnx_content, onnx_graph
from leakdet.scoring.detector import Detector


@dataclass(frozen=True)
class Export:
    """What was written: bytes of the file, and how it compares with predict."""

    size_bytes: int
    equality: Equality


def export_model(
    detector: Detector,
    out: Path,
    precision: str = "float32",
    check: Sequence[Location] = (),
    licence: str | None = None,
) -> Export:
    """Write `out`, an `.onnx` file, if it gives what predict gives.

    `check` are recordings on which both are compared, besides generated sounds.
    """
    inner = detector.mel_detector
    if isinstance(inner, OnnxDetector):
        raise InputError(f"{detector.path}: this is an .onnx file already.")
    if inner.signal is None:
        raise InputError(
            f"{detector.path}: it was trained on a store that does not say how its mel was made; "
            "it cannot take sound."
        )
    parameters = sum(parameter.numel() for parameter in inner.network.parameters())
    LOG.info(f"network  {parameters:,} parameters")
    LOG.info("graph    torch writes it, which takes some seconds")
    graph, vectors = onnx_graph(inner, precision), reference_verdicts(detector)
    content = onnx_content(graph, inner, precision, vectors=vectors, licence=licence)
    with whole_file(out) as partial:
        partial.write_bytes(content)
        exported = Detector(load_onnx_detector(partial), partial)
        equality = compare(detector, exported, precision, check)
        if not equality.holds:
            raise InputError(
                f"The file would not give what predict gives ({equality.sentence()}; most in "
                f"{equality.where}); nothing was written. {_remedy(precision, equality)}"
            )
    return Export(len(content), equality)


def _remedy(precision: str, equality: Equality) -> str:
    if precision == "float32" and equality.narrow and not equality.flipped:
        return (
            "That recording is narrow_band: its upper bands are empty, and both sides fill them "
            "with rounding (docs/export.md, Measured). Leave such recordings out of --check, and "
            "compare the verdicts on them: leakdet predict with either file."
        )
    if precision == "float32":
        return "Please report this with the model's settings (leakdet info)."
    return "Use --precision float32, which has all digits."
