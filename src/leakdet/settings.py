"""`leakdet settings VERB [WORD]`: every setting of a verb, or those about a word."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from leakdet.cli.arguments import Parser
from leakdet.core.errors import SettingsError
from leakdet.core.process import DONE, EXPLAINED, guarded

VERBS = ("build", "train", "tune", "crossval", "learn")


def parser() -> argparse.ArgumentParser:
    command = Parser(
        prog="leakdet settings",
        description="List the settings of a verb with default, meaning and range.",
        epilog=EXPLAINED,
    )
    command.add_argument("verb", help=" or ".join(VERBS), metavar="VERB")
    command.add_argument("word", nargs="?", metavar="WORD", help="only settings about this word")
    return command


def settings(arguments: argparse.Namespace) -> int:
    from leakdet.cli.catalogue import known_settings
    from leakdet.cli.compose import default_values
    from leakdet.cli.help import settings_text

    if arguments.verb not in VERBS:
        close = get_close_matches(arguments.verb, VERBS, 1)
        hint = f" Did you mean {close[0]}?" if close else " --help of the others lists arguments."
        raise SettingsError(
            f"{arguments.verb}: settings are those of {', '.join(VERBS[:-1])} or {VERBS[-1]}.{hint}"
        )
    known = known_settings(arguments.verb)
    values = default_values(arguments.verb)
    print(settings_text(known.settings.values(), values, arguments.word))
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: settings(arguments))


if __name__ == "__main__":
    sys.exit(main())
