"""`leakdet VERB …`: the same doors as `python -m leakdet.VERB …`."""

import runpy
import sys

import leakdet

VERBS = {
    "build": "make a store of log-mel from labelled recordings",
    "train": "train a detector on a store (by default on the demo) and write its model file",
    "tune": "search for the training settings that do best, and train with them",
    "crossval": "train and test in folds: how good a recipe is on groups that it never heard",
    "evaluate": "score a store's recordings with a model",
    "predict": "give each recording a verdict",
}


def usage() -> str:
    lines = [f"  {verb:<10}{text}" for verb, text in VERBS.items()]
    return "\n".join(
        [
            "usage: leakdet VERB …",
            "",
            *lines,
            "",
            "leakdet VERB --help says more; leakdet --version names the version.",
        ]
    )


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
