"""`leakdet predict MODEL SOURCE…`: gives a verdict on every recording, with its evidence."""

import argparse
import sys
from collections.abc import Sequence

from leakdet.cli.arguments import (
    Parser,
    add_decision,
    add_model_options,
    add_parts,
    add_rows,
    add_window_files,
    add_workers,
    run_verb,
)
from leakdet.core.locations import parse_location
from leakdet.core.process import EXPLAINED
from leakdet.runs.prediction import predict


def parser() -> argparse.ArgumentParser:
    about = "Give every recording a verdict, leak or no_leak, with its evidence."
    command = Parser("leakdet predict", description=about, epilog=EXPLAINED)
    add = command.add_argument
    add(
        "model",
        type=parse_location,
        help="a .safetensors, .onnx or .ckpt file, or the folder of a training",
    )
    paths = (
        "audio files, folders searched for audio, quoted globs, URLs of these (s3://BUCKET/NIGHT), "
        "or tables (.csv) with the column "
    )
    paths += "path, whose site, recorded_at and others go on into the rows; after -- any name"
    add("paths", nargs="+", metavar="SOURCE", help=paths)
    add_rows(command)
    add_parts(command)
    add_window_files(command)
    add_workers(command, "files scored at a time")
    add_decision(command)
    add_model_options(command)
    return command


def main(argv: Sequence[str] | None = None) -> int:
    return run_verb(predict, parser().parse_args(argv), all_to_stderr=True)


if __name__ == "__main__":
    sys.exit(main())
