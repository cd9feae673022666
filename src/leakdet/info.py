"""`leakdet info MODEL|STORE|RUN`: a card of what lies there: what, when, from what, how good."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from leakdet.cli.arguments import Parser
from leakdet.core.locations import Location, parse_location
from leakdet.core.process import DONE, EXPLAINED, guarded


def parser() -> argparse.ArgumentParser:
    command = Parser(
        prog="leakdet info",
        description="Describe a model, a store or a run: what it is, when and from what it was "
        "made, how good it was in its own evaluation, and its settings. Nothing is changed.",
        epilog=EXPLAINED,
    )
    command.add_argument(
        "path",
        type=parse_location,
        nargs="+",
        metavar="PATH",
        help="a model file, an .onnx file, a checkpoint (also a URL of these), a store (its folder "
        "or an .h5 file), or the folder of a training, of several trainings, of a search, a "
        "cross-validation or an evaluation",
    )
    command.add_argument(
        "--markdown",
        action="store_true",
        help="of a model: the card that model hubs show, Markdown behind a head of YAML",
    )
    return command


def info(arguments: argparse.Namespace) -> int:
    from leakdet.cli.cards import hub_card
    from leakdet.cli.describe import info_text

    show = hub_card if arguments.markdown else info_text
    print("\n\n".join(_shown(path, show) for path in arguments.path))
    return DONE


def _shown(path: Location, show: Callable[[Path], str]) -> str:
    """What `show` tells of a path; behind a URL, of the model there."""
    if isinstance(path, Path):
        return show(path)
    from leakdet.core.locations import errors_naming, local_copy
    from leakdet.storage.model_card import model_in

    model = model_in(path)
    copy = local_copy(model)
    with errors_naming(model, copy):
        return show(copy).replace(str(copy), str(model))


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: info(arguments))


if __name__ == "__main__":
    sys.exit(main())
