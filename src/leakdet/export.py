"""`leakdet export MODEL`: writes a model as one ONNX file, from sound to verdict."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from leakdet.cli.arguments import Parser, add_decision, add_log, decision_of, run_verb
from leakdet.core.locations import parse_location
from leakdet.core.messages import LOG, log_result
from leakdet.core.process import DONE, EXPLAINED


def parser() -> argparse.ArgumentParser:
    about = "Write a model as one .onnx file that takes sound and gives a verdict, without torch "
    about += "or leakdet. It is compared with predict before it gets its name."
    command = Parser("leakdet export", description=about, epilog=EXPLAINED)
    add = command.add_argument
    add(
        "model",
        type=parse_location,
        help="a .safetensors file, a .ckpt file or the folder of a training",
    )
    add("--out", type=Path, help="the file (default: the model's name with .onnx, beside it)")
    add(
        "--precision",
        choices=("float32", "float16"),
        default="float32",
        help="of the network; the front end is always float32 (default: float32)",
    )
    audio = "recordings on which the file is compared with predict too: files, folders, globs"
    add("--check", nargs="+", default=[], metavar="AUDIO", help=audio)
    add("--licence", metavar="TEXT", help="the model's licence, for the file's metadata")
    add_decision(command)
    trusted, name = "a network of your own that it may load", "PACKAGE.MODULE:CLASS"
    add("--trust-network", action="append", default=[], metavar=name, help=trusted)
    add_log(command)
    return command


def export(arguments: argparse.Namespace) -> int:
    from leakdet.core.files import megabytes
    from leakdet.exporting.file import beside, check_places
    from leakdet.scoring.listing import check_headers
    from leakdet.storage.model_card import require_model, require_packages

    rule = decision_of(arguments)
    require_packages()
    model = require_model(arguments.model)
    out = arguments.out or beside(model)
    check_places(model, out)
    files = check_headers(arguments.check, "--check") if arguments.check else []
    LOG.info(f"model    {model}: loading torch")
    from leakdet.runs.export import export_model
    from leakdet.scoring.detector import load_detector

    detector = load_detector(model, "cpu", arguments.trust_network, **rule)
    if detector.decided_anew:
        LOG.info(f"note     {detector.decided_anew}")
    written = export_model(detector, out, arguments.precision, files, arguments.licence)
    LOG.info(f"compared {written.equality.sentence()}")
    log_result(f"written  {out} ({megabytes(written.size_bytes)}, {arguments.precision})")
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    return run_verb(export, parser().parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
