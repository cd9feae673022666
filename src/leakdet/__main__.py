"""`leakdet VERB …`: runs the module of that name, as `python -m leakdet.VERB …` does."""

import runpy
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import leakdet
from leakdet.core.messages import prepare_streams

VERBS = {
    "build": "make a store of log-mel from labelled recordings",
    "train": "train a detector on a store (by default on the demo) and write its model file",
    "tune": "search for the best training settings, and train with them",
    "crossval": "train and test in folds, to score a recipe on groups held out of training",
    "learn": "make a better model from confirmed recordings, and compare both",
    "evaluate": "score a store's recordings with a model",
    "predict": "give each recording a verdict, leak or no leak",
    "worklist": "rank the sites of a network by what predict said over many nights",
    "serve": "open a local page to drop recordings on, and answer machines over HTTP",
    "export": "write a model as one ONNX file, from sound to verdict",
    "info": "describe a model, a store or a run: what, when, from what, how good",
    "settings": "list the settings or options of a verb, with their ranges, or those about a word",
}


def usage() -> str:
    verbs = "\n".join(f"  {verb:<10}{text}" for verb, text in VERBS.items())
    ending = (
        "leakdet VERB --help says more; leakdet --version names the version; leakdet completion "
        "says\nhow a shell completes verbs and settings with TAB."
    )
    return f"usage: leakdet VERB …\n\n{verbs}\n\n{ending}"


def complete(arguments: Sequence[str]) -> None:
    """Print the completion script of a shell, or what may follow further words."""
    from leakdet.cli.help import SCRIPTS, USAGE, candidates

    match arguments:
        case [shell] if shell in SCRIPTS:
            print(SCRIPTS[shell])
        case [shell, *words] if shell in SCRIPTS:
            for word, meaning in candidates(words, VERBS, _usage_of).items():
                print(f"{word}\t{meaning}" if meaning else word)
        case [] | ["-h" | "--help"]:
            print(USAGE)
        case _:
            print(
                f"error: there is no completion for {arguments[0]!r}.\n\n{USAGE}", file=sys.stderr
            )
            sys.exit(2)


def _usage_of(verb: str) -> str:
    """The usage of a verb with plain arguments."""
    return str(import_module(f"leakdet.{verb}").parser().format_usage())


def main() -> None:
    prepare_streams()
    arguments = sys.argv[1:]
    match arguments:
        case [verb, *rest] if verb in VERBS:
            sys.argv = [f"leakdet {verb}", *rest]
            runpy.run_module(f"leakdet.{verb}", run_name="__main__", alter_sys=True)
        case ["help", verb] if verb in VERBS:
            sys.argv = [f"leakdet {verb}", "--help"]
            runpy.run_module(f"leakdet.{verb}", run_name="__main__", alter_sys=True)
        case ["help", "completion"]:
            complete([])
        case ["completion", *rest]:
            complete(rest)
        case ["--version" | "-V" | "version"]:
            print(f"leakdet {leakdet.__version__}")
        case [] | ["-h" | "--help" | "help"]:
            print(usage())
        case _:
            word = arguments[-1] if arguments[0] == "help" else arguments[0]
            close = get_close_matches(
                word, [*VERBS, "completion", "help", "--help", "--version"], 1
            )
            hint = f" Did you mean {close[0]}?" if close else ""
            print(f"error: there is no verb {word!r}.{hint}\n\n{usage()}", file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
