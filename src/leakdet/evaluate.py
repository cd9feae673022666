"""`python -m leakdet.evaluate MODEL STORE`: how good a model is on recordings whose labels are known."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakdet._arguments import DONE, EXIT_CODES, add_device, chosen_device, run
from leakdet.errors import InputError


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="leakdet evaluate",
        description="Score a store's recordings with a model. Its decision rule is applied as it is, never fitted again.",
        epilog=EXIT_CODES,
    )
    made.add_argument("model", type=Path, help="a model file (.safetensors) or a training checkpoint (.ckpt)")
    made.add_argument(
        "store", type=Path, help="a store's directory, or a predecessor's directory of .H5 files"
    )
    made.add_argument(
        "--split", default="test", choices=("train", "val", "test"), help="which recordings (default: test)"
    )
    made.add_argument(
        "--leak", default=None, help="the store's leak class, where the store does not say it (default: LEAK)"
    )
    made.add_argument(
        "--out", type=Path, default=None, help="write metrics.json and recordings.csv into this directory"
    )
    add_device(made)
    return made


def evaluate(arguments: argparse.Namespace) -> int:
    from leakdet._screen import show_metrics
    from leakdet.storage.bundle import load_detector
    from leakdet.storage.opening import open_any_split, splits_there
    from leakdet.storage.scoring import evaluation, recording_rows, score_split, write_rows

    detector = load_detector(arguments.model, chosen_device(arguments.device))
    if arguments.store.is_dir() and arguments.split not in splits_there(arguments.store):
        raise InputError(
            f"{arguments.store}: there is no {arguments.split} split; it has {splits_there(arguments.store)}."
        )
    split = open_any_split(arguments.store, arguments.split)
    scores = score_split(detector, split, arguments.leak)
    tables = {arguments.split: evaluation(scores, detector.rule)}
    show_metrics(tables, detector.rule)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_rows(arguments.out / "recordings.csv", recording_rows(scores, detector.rule))
        content: dict[str, Any] = {
            **tables,
            "decision_rule": detector.rule.to_json(),
            "model": str(arguments.model),
        }
        (arguments.out / "metrics.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        print(f"metrics  {arguments.out / 'metrics.json'}")
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return run(lambda: evaluate(arguments))


if __name__ == "__main__":
    sys.exit(main())
