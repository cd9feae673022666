"""`leakdet settings VERB [WORD]`: the settings or options of a verb, or those about a word."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from leakdet.cli.arguments import Parser
from leakdet.core.errors import SettingsError
from leakdet.core.process import DONE, EXPLAINED, guarded

VERBS = ("build", "train", "tune", "crossval", "learn")  # take settings, name=value
PLAIN = ("predict", "evaluate", "worklist", "export")  # take options


def parser() -> argparse.ArgumentParser:
    command = Parser(
        prog="leakdet settings",
        description="List the settings or options of a verb with default, meaning and range.",
        epilog=EXPLAINED,
    )
    command.add_argument("verb", help=" or ".join((*VERBS, *PLAIN)), metavar="VERB")
    command.add_argument("word", nargs="?", metavar="WORD", help="only what is about this word")
    command.add_argument(
        "--all", action="store_true", help="every setting of a verb, not the most used alone"
    )
    return command


def settings(arguments: argparse.Namespace) -> int:
    from leakdet.cli.help import options_text, settings_text, shelf_text

    verb, word = arguments.verb, arguments.word
    if verb in PLAIN:
        print(options_text(import_module(f"leakdet.{verb}").parser(), word))
        return DONE
    if verb not in VERBS:
        close = get_close_matches(verb, (*VERBS, *PLAIN), 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise SettingsError(f"{verb}: allowed are {', '.join((*VERBS, *PLAIN))}.{hint}")
    from leakdet.cli.compose import default_values
    from leakdet.cli.settings import known_settings

    known, values = known_settings(verb).settings, default_values(verb)
    if word or arguments.all:
        print(settings_text(known.values(), values, word))
    else:
        print(shelf_text(verb, known, values))
        print(f"\nOf {len(known)}, the most used; all: leakdet settings {verb} --all")
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: settings(arguments))


if __name__ == "__main__":
    sys.exit(main())
