"""`leakdet worklist DIR…`: ranks sites by what predict said of them over many nights."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from leakdet.cli.arguments import (
    MAX_SHOWN,
    Parser,
    add_model_options,
    add_rules,
    between,
    run_verb,
)
from leakdet.core.messages import LOG
from leakdet.core.process import DONE, EXPLAINED
from leakdet.sites.rules import WorklistRules

OPTIONS = ("night_ends_h", "old_odds", "dig_cost", "leak_cost")  # the rest is read from --rules


def parser() -> argparse.ArgumentParser:
    about = (
        "Rank the sites of a network by the expected worth of a dig, from the rows that predict "
        "wrote over its nights, with their columns site and recorded_at."
    )
    command = Parser("leakdet worklist", description=about, epilog=EXPLAINED)
    add = command.add_argument
    places = "folders of predict --parts, and tables of predict --out (.csv, .parquet)"
    add("places", type=Path, nargs="+", metavar="DIR", help=places)
    add(
        "--out",
        type=Path,
        default=Path("worklist.html"),
        help="NAME.html: a page, and beside it NAME.csv, NAME.geojson where sites have "
        "coordinates, and NAME.confirm.csv to fill in; NAME.csv, .xlsx or .geojson: that table "
        "alone (default: worklist.html)",
    )
    top = f"sites to hear, 0 to {MAX_SHOWN} (default: 30)"
    add("--top", type=between(0, MAX_SHOWN), default=30, metavar="N", help=top)
    model = "where the model lies that scored the rows (default: where it was then)"
    add("--model", type=Path, help=model)
    add_model_options(command)
    add_rules(command, WorklistRules, OPTIONS)
    return command


def worklist(arguments: argparse.Namespace) -> int:
    given = {name: getattr(arguments, name) for name in OPTIONS}
    values = {name: value for name, value in given.items() if value is not None}
    if arguments.rules is not None:
        from leakdet.cli.compose import read_rules

        values = {**read_rules(arguments.rules, WorklistRules), **values}
    rules = WorklistRules(**values)
    from leakdet.runs.worklist import WorklistFiles, find_sources, write_worklist

    files = WorklistFiles.named(arguments.out)
    files.check()
    sources = find_sources(arguments.places, arguments.model)
    detector = None
    if sources.model and (files.page or sources.model.suffix != ".safetensors"):
        LOG.info(f"model    {sources.model}: loading torch")
        from leakdet.scoring.detector import load_detector

        detector = load_detector(sources.model, arguments.device, arguments.trust_network)
    write_worklist(sources, files, rules, arguments.top, detector)
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    return run_verb(worklist, parser().parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
