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
        "cross-validation, an evaluation or of parts",
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument(
        "--markdown",
        action="store_true",
        help="of a model: the card that model hubs show, Markdown behind a head of YAML",
    )
    form.add_argument("--json", action="store_true", help="an object of JSON a line for each path")
    return command


def info(arguments: argparse.Namespace) -> int:
    from leakdet.cli.cards import card_json, card_markdown, card_text
    from leakdet.cli.describe import describe, describe_model
    from leakdet.storage.model_card import model_in

    def shown(path: Path) -> str:
        if arguments.markdown:
            return card_markdown(describe_model(model_in(path)))
        return (card_json if arguments.json else card_text)(describe(path))

    between = "\n" if arguments.json else "\n\n"
    print(between.join(_of_copy(path, shown) for path in arguments.path))
    return DONE


def _of_copy(path: Location, shown: Callable[[Path], str]) -> str:
    """What is shown of a path; behind a URL, of the model there."""
    if isinstance(path, Path):
        return shown(path)
    from leakdet.core.locations import errors_naming, local_copy
    from leakdet.storage.model_card import model_in

    model = model_in(path)
    copy = local_copy(model)
    with errors_naming(model, copy):
        return shown(copy).replace(str(copy), str(model))


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: info(arguments))


if __name__ == "__main__":
    sys.exit(main())
