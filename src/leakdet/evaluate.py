"""`leakdet evaluate MODEL [MODEL] STORE`: scores a model on a store, or compares two."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from leakdet.cli import arguments as options
from leakdet.cli.arguments import Parser, run_verb
from leakdet.cli.checks import check_models_and_store
from leakdet.core.files import require_folder
from leakdet.core.locations import parse_location
from leakdet.core.messages import LOG
from leakdet.core.process import DONE, EXPLAINED
from leakdet.storage.folder import check_columns


def parser() -> argparse.ArgumentParser:
    about = (
        "Score a store's recordings with a model; with two models, compare them on the same "
        "recordings. A model's threshold is applied as it is, never fitted again."
    )
    command = Parser("leakdet evaluate", description=about, epilog=EXPLAINED)
    add = command.add_argument
    add(
        "models",
        type=parse_location,
        nargs="+",
        metavar="MODEL",
        help="one or two model files (.safetensors, .onnx), checkpoints (.ckpt) or folders of runs",
    )
    add("store", type=Path, help="a store's folder, or an AILH folder of .H5 files")
    splits = ("train", "val", "test")
    add("--split", default="test", choices=splits, help="which recordings (default: test)")
    options.add_labels(command)
    groups = "intervals resample whole groups of this column (default: what the store was split by)"
    add("--group-by", action="append", metavar="COLUMN", help=groups)
    add(
        "--out",
        type=Path,
        help="write report.html, metrics.json and recordings.csv into this folder; of two models, "
        "a page on both, comparison.csv with both on each recording, and folders a and b of each",
    )
    options.add_undecided(command)
    options.add_model_options(command)
    return command


def evaluate(arguments: argparse.Namespace) -> int:
    rule = options.undecided_of(arguments)
    check_models_and_store(arguments.models, arguments.store)
    check_columns(arguments.store, arguments.group_by or (), "--group-by")
    if arguments.out is not None:
        require_folder(arguments.out, f"--out {arguments.out}")
    LOG.info(f"store    {arguments.store}: loading torch")
    from leakdet.runs.evaluation import compared, evaluated, log_evaluations, write_evaluations
    from leakdet.scoring.detector import load_detector

    evaluations = []
    for model in arguments.models:
        detector = load_detector(model, arguments.device, arguments.trust_network, **rule)
        where = (arguments.store, arguments.split, options.labels_of(arguments), arguments.group_by)
        evaluations.append(evaluated(detector, *where))
    if len(evaluations) == 2:
        evaluations = compared(*evaluations)
    log_evaluations(evaluations)
    if arguments.out is not None:
        write_evaluations(evaluations, arguments.out)
    elif len(evaluations) == 2:
        LOG.info("next     --out FOLDER writes a page on both, with recordings to hear")
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    return run_verb(evaluate, parser().parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
