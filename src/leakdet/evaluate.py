"""`python -m leakdet.evaluate MODEL [MODEL] STORE`: how good a model is on labelled recordings, or which of two."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet._arguments import add_device, add_trust_network, chosen_device
from leakdet._exit_codes import DONE, EXPLAINED, guarded
from leakdet.errors import InputError

if TYPE_CHECKING:
    from leakdet.detection.decision import DecisionRule
    from leakdet.evaluation.scored_recordings import ScoredRecordings


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="leakdet evaluate",
        description="Score a store's recordings with a model; with two models, compare them on the same recordings. "
        "A model's decision rule is applied as it is, never fitted again.",
        epilog=EXPLAINED,
    )
    made.add_argument(
        "models",
        type=Path,
        nargs="+",
        metavar="MODEL",
        help="one or two model files (.safetensors) or training checkpoints (.ckpt)",
    )
    made.add_argument(
        "store", type=Path, help="a store's directory, or a predecessor's directory of .H5 files"
    )
    made.add_argument(
        "--split",
        default="test",
        choices=("train", "val", "test"),
        help="which recordings (default: test)",
    )
    made.add_argument(
        "--leak",
        default=None,
        help="the store's leak class, where the store does not say it (default: LEAK)",
    )
    made.add_argument(
        "--group-by",
        action="append",
        default=None,
        metavar="COLUMN",
        help="intervals resample whole groups of this column; may be repeated (default: what the store was split by)",
    )
    made.add_argument(
        "--out",
        type=Path,
        default=None,
        help="write report.html, metrics.json and recordings.csv into this directory; of two models, into its a and b",
    )
    add_device(made)
    add_trust_network(made)
    return made


def evaluate(arguments: argparse.Namespace) -> int:
    from leakdet._screen import comparison_text
    from leakdet.evaluation.model_comparison import compare

    if len(arguments.models) > 2:
        raise InputError(
            f"{len(arguments.models)} models were given; allowed are one, or two to be compared, and then the store."
        )
    results = [_scored(arguments, model) for model in arguments.models]
    audits = [_audited(arguments, recordings) for recordings, _ in results]
    group_by = _group_by(arguments, results[0][0])
    tables = [_shown(recordings, rule, group_by) for recordings, rule in results]
    comparison = None
    if len(results) == 2:
        names = (str(arguments.models[0]), str(arguments.models[1]))
        comparison = compare(results[0][0], results[1][0], names, group_by)
        print(comparison_text(comparison))
    if arguments.out is not None:
        for index, ((recordings, rule), table) in enumerate(zip(results, tables, strict=True)):
            folder = arguments.out if comparison is None else arguments.out / "ab"[index]
            more: dict[str, Any] = {
                "model": str(arguments.models[index]),
                "store": str(arguments.store.absolute()),
                "audit": audits[index],
            }
            if comparison is not None:
                more["comparison"] = comparison
            _write(folder, recordings, rule, table, group_by, more)
        if comparison is not None:
            text = json.dumps(comparison, indent=2, allow_nan=False) + "\n"
            (arguments.out / "comparison.json").write_text(text, encoding="utf-8")
    return DONE


def _scored(
    arguments: argparse.Namespace, model: Path
) -> tuple["ScoredRecordings", "DecisionRule"]:
    from leakdet.evaluation.split_scores import apply_rule, score_split
    from leakdet.storage.model_file import load_mel_detector
    from leakdet.storage.opening import open_any_split, splits_there

    detector = load_mel_detector(model, chosen_device(arguments.device), arguments.trust_network)
    if arguments.store.is_dir() and arguments.split not in splits_there(arguments.store):
        raise InputError(
            f"{arguments.store}: there is no {arguments.split} split; it has {splits_there(arguments.store)}."
        )
    split = open_any_split(arguments.store, arguments.split)
    return apply_rule(score_split(detector, split, arguments.leak), detector.rule), detector.rule


def _audited(arguments: argparse.Namespace, recordings: "ScoredRecordings") -> dict[str, Any]:
    """What trivial traits achieve on the same recordings; fitted on the store's train split where that is another one."""
    from leakdet.evaluation.audit import audit
    from leakdet.storage.opening import open_any_split, splits_there

    fitted_on_train = arguments.split != "train" and "train" in splits_there(arguments.store)
    reference = open_any_split(arguments.store, "train") if fitted_on_train else None
    split = open_any_split(arguments.store, arguments.split)
    found = audit(reference, split, recordings.score, leak=arguments.leak)
    for finding in found["findings"]:
        print(f"audit    {finding}")
    return found


def _group_by(arguments: argparse.Namespace, recordings: "ScoredRecordings") -> list[str]:
    from leakdet.evaluation.split_scores import split_group_by

    if arguments.group_by is None:
        return split_group_by(arguments.store)
    unknown = [column for column in arguments.group_by if column not in recordings.groups]
    if unknown:
        raise InputError(
            f"--group-by {' '.join(unknown)}: {arguments.store} has no such group; it has {sorted(recordings.groups)}."
        )
    return list(arguments.group_by)


def _shown(
    recordings: "ScoredRecordings", rule: "DecisionRule", group_by: Sequence[str]
) -> dict[str, Any]:
    from leakdet._screen import metrics_text
    from leakdet.evaluation.metrics_json import split_metrics

    tables = {recordings.name: split_metrics(recordings, group_by=group_by)}
    print(metrics_text(tables, rule))
    return tables


def _write(
    folder: Path,
    recordings: "ScoredRecordings",
    rule: "DecisionRule",
    tables: dict[str, Any],
    group_by: Sequence[str],
    more: dict[str, Any],
) -> None:
    from leakdet.evaluation.metrics_json import metrics_content
    from leakdet.reporting.report import write_results
    from leakdet.reporting.report_input import ReportInput

    content = metrics_content(tables, rule, group_by, **more)
    title = f"{Path(more['model']).name} on {Path(more['store']).name}"
    write_results(folder, ReportInput(title, {recordings.name: recordings}, content))


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    return guarded(lambda: evaluate(arguments))


if __name__ == "__main__":
    sys.exit(main())
