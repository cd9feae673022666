"""`leakdet VERB …`: runs the module of that name, as `python -m leakdet.VERB …` does."""

import runpy
import sys

import leakdet

VERBS = {
    "build": "make a store of log-mel from labelled recordings",
    "train": "train a detector on a store (by default on the demo) and write its model file",
    "tune": "search for the best training settings, and train with them",
    "crossval": "train and test in folds, to score a recipe on groups held out of training",
    "evaluate": "score a store's recordings with a model",
    "predict": "give each recording a verdict, leak or no leak",
}


def usage() -> str:
    verbs = "\n".join(f"  {verb:<10}{text}" for verb, text in VERBS.items())
    ending = "leakdet VERB --help says more; leakdet --version names the version."
    return f"usage: leakdet VERB …\n\n{verbs}\n\n{ending}"


def main() -> None:
    arguments = sys.argv[1:]
    match arguments:
        case [verb, *rest] if verb in VERBS:
            sys.argv = [f"leakdet {verb}", *rest]
            runpy.run_module(f"leakdet.{verb}", run_name="__main__", alter_sys=True)
        case ["--version"]:
            print(f"leakdet {leakdet.__version__}")
        case [] | ["-h" | "--help"]:
            print(usage())
        case _:
            print(f"error: there is no verb {arguments[0]!r}\n\n{usage()}", file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
