"""One evaluation: a model on a split of a store, to metrics and a report."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet.config import LabelsConfig
from leakdet.config.fields import Difference, differences
from leakdet.core.errors import InputError, first_few
from leakdet.core.files import from_here
from leakdet.core.messages import log_detail, log_result, log_results

if TYPE_CHECKING:
    from leakdet.evaluation.scored_recordings import ScoredRecordings
    from leakdet.scoring.detector import Detector


# settings that change no network: where things lie, what is printed
UNTOLD = ("data.store", "data.cache", "log", "demo", "resume", "init_from", "trust_network")


@dataclass(frozen=True)
class Evaluation:
    """A model's verdicts on the recordings of a split, and the content of metrics.json.

    `settings` trained the model; empty where its file does not keep them.
    """

    recordings: "ScoredRecordings"
    metrics: dict[str, Any]
    settings: Mapping[str, Any]


def evaluate_model(
    model: "str | os.PathLike[str] | Detector",
    store: str | os.PathLike[str],
    split: str = "test",
    *,
    leak: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    group_by: str | Sequence[str] | None = None,
    device: str = "auto",
    trust_network: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Metrics of a model on a split of a store, as `leakdet evaluate` writes to metrics.json.

    The model's decision rule is applied as it is. `leak` names the labels that mean a leak; None:
    those of the model's training or, of labels unknown there, of the store. Recordings labelled
    `ignore` are left out, labels are renamed by `rename` (docs/labels.md). Intervals resample
    whole groups of the columns `group_by`; None: of those that the store was split by. `device` and
    `trust_network` as for `load_detector`.

    >>> metrics = evaluate_model("model.safetensors", "store", split="val")
    >>> metrics["val"]["recording"]["n"]
    4

    Raises:
        InputError: no such model, store, split or group, or a store of another signal.
    """
    from leakdet.scoring.detector import Detector, load_detector

    if not isinstance(model, Detector):
        model = load_detector(model, device, trust_network or ())
    columns = None if group_by is None else _names(group_by)
    labels = LabelsConfig(leak=_names(leak), ignore=_names(ignore), rename=dict(rename or {}))
    return evaluated(model, Path(store), split, labels, columns).metrics


def _names(given: str | Sequence[str] | None) -> list[str]:
    """The names in an argument that may be a single one."""
    return [given] if isinstance(given, str) else list(given or ())


def evaluated(
    detector: "Detector",
    store: Path,
    split: str,
    labels: LabelsConfig | None = None,
    group_by: Sequence[str] | None = None,
) -> Evaluation:
    """`evaluate_model` with what it was computed from; its result is logged."""
    from leakdet.cli.tables import metrics_text
    from leakdet.detection.met import group_sentences
    from leakdet.evaluation.audit import audit
    from leakdet.evaluation.comparison import labels_for
    from leakdet.evaluation.met import (
        all_met,
        judged_apart,
        met_sentences,
        unfamiliar_account,
        unfamiliar_sentence,
    )
    from leakdet.evaluation.metrics_json import metrics_content, split_metrics
    from leakdet.evaluation.split_scores import apply_rule, is_synthetic, score_split
    from leakdet.storage.integrity import check_contents
    from leakdet.storage.opening import open_labelled, open_split, split_names
    from leakdet.storage.views import labelled, no_sound_sentence, view_of

    stored, rule = open_split(store, split), detector.mel_detector.rule
    labels = labels_for(detector.mel_detector.labels, stored, labels or LabelsConfig())
    stored = labelled(stored, labels)
    view = view_of(stored)
    lines = [f"labels   {view.sentence()}", *(f"note     {note}" for note in view.notes())]
    log_detail("\n".join(lines))
    check_contents(stored)
    judged, met = judged_apart(detector.mel_detector, stored)
    recordings = apply_rule(score_split(detector.mel_detector, judged), rule)
    columns = _group_columns(store, recordings, group_by)
    beside = split != "train" and "train" in split_names(store)
    trained_on = open_labelled(store, "train", labels) if beside else None
    audited = audit(trained_on, judged, recordings.score)
    tables = {split: split_metrics(recordings, group_by=columns)}
    for finding in audited["findings"]:
        log_detail(f"audit    {finding}")
    log_detail(metrics_text(tables, rule, all_met(met)))
    known = detector.mel_detector.met
    groups = known.groups_met(judged.groups) if known else {}
    for sentence in [*met_sentences(met), *group_sentences(groups)]:
        log_detail(f"trained  {sentence}")
    unfamiliar = unfamiliar_account(recordings, rule)
    if sentence := unfamiliar_sentence(unfamiliar):
        log_detail(f"unfamiliar  {sentence}")
    if silent := no_sound_sentence(stored):
        log_detail(f"left out {silent}")
    more: dict[str, Any] = {"met_in_training": met, "groups_met": groups, "unfamiliar": unfamiliar}
    more |= {"model": str(detector.path), "store": str(store.absolute()), "audit": audited}
    more |= {"without_sound": stored.without_sound, "synthetic": is_synthetic(store)}
    content = metrics_content(tables, rule, columns, **more)
    settings = detector.mel_detector.card.get("training", {}).get("settings") or {}
    return Evaluation(recordings, content, settings)


def _group_columns(
    store: Path, recordings: "ScoredRecordings", group_by: Sequence[str] | None
) -> list[str]:
    from leakdet.evaluation.split_scores import split_group_by

    if group_by is None:
        return split_group_by(store)
    unknown = [column for column in group_by if column not in recordings.groups]
    if unknown:
        raise InputError(
            f"{store}: has no group {', '.join(unknown)} to resample by; it has "
            f"{sorted(recordings.groups)}."
        )
    return list(group_by)


def compared(a: Evaluation, b: Evaluation) -> list[Evaluation]:
    """Two models on the recordings that neither has met, the comparison in the metrics of both."""
    from leakdet.cli.tables import comparison_text
    from leakdet.evaluation.comparison import compare
    from leakdet.evaluation.met import new_to_both

    models = (a.metrics["model"], b.metrics["model"])
    names = _names_of_two(a, b)
    accounts = (a.metrics["met_in_training"], b.metrics["met_in_training"])
    of_a, of_b, unsure = new_to_both(a.recordings, b.recordings, *accounts, names)
    comparison = compare(of_a, of_b, models, a.metrics["group_by"], names=names)
    if unsure:
        comparison["sentence"] = f"No conclusion: {unsure}"
    elif any(account["met"] for account in accounts):
        every = accounts[0]["recordings"]
        left = f"{every - len(of_a)} of {every} recordings were met in training by one of them"
        comparison["sentence"] += f" {left} and are left out."
    log_detail(comparison_text(comparison))
    return [replace(one, metrics={**one.metrics, "comparison": comparison}) for one in (a, b)]


def log_evaluations(evaluations: Sequence[Evaluation]) -> None:
    """Log the verdict on each model, and the numbers: of one, or how the second differs."""
    from leakdet.cli.tables import difference_lines
    from leakdet.reporting.conclusion import log_summary, own_verdict

    if len(evaluations) == 1:
        (only,) = evaluations
        log_summary(only.metrics)
        return
    comparison = evaluations[0].metrics["comparison"]
    for letter, name, evaluation in zip("AB", comparison["names"], evaluations, strict=True):
        verdict = own_verdict(evaluation.metrics)
        named = name if name != letter else evaluation.metrics["model"]
        log_result(f"{letter:<9}{named}: {verdict['label']}. {verdict['sentence']}")
    if len(differing := _differing_settings(*evaluations)) > 1:
        words = [f"{name} {stored} and {now}" for name, stored, now in differing]
        log_result(f"settings {first_few(words, 3)}")
    log_results(difference_lines(comparison))


def _differing_settings(a: Evaluation, b: Evaluation) -> list[Difference]:
    """The settings in which two models were trained otherwise; none where they are unknown."""
    if not (a.settings and b.settings):
        return []
    found = differences(a.settings, b.settings)
    return [difference for difference in found if not difference.name.startswith(UNTOLD)]


def _names_of_two(a: Evaluation, b: Evaluation) -> tuple[str, str]:
    """Names by the one setting in which two models differ, else by what differs in their paths."""
    from leakdet.evaluation.comparison import told_apart

    differing = _differing_settings(a, b)
    if len(differing) != 1:
        return told_apart(a.metrics["model"], b.metrics["model"])
    (only,) = differing
    name = only.name.removesuffix(".name")
    return f"{name}={only.stored}", f"{name}={only.now}"


def write_evaluations(evaluations: Sequence[Evaluation], out: Path) -> None:
    """Write report, metrics.json and recordings.csv to `out`.

    Of two models to its folders a and b, beside a page on both, comparison.json and, recording by
    recording, comparison.csv.
    """
    from leakdet.core.files import write_json
    from leakdet.evaluation.comparison import recording_rows
    from leakdet.reporting.comparison_page import ComparedModel, write_comparison
    from leakdet.reporting.report import ReportInput, write_results
    from leakdet.tables.write import write_csv

    folders = [out] if len(evaluations) == 1 else [out / "a", out / "b"]
    for evaluation, folder in zip(evaluations, folders, strict=True):
        recordings, metrics = evaluation.recordings, evaluation.metrics
        title = f"{Path(metrics['model']).name} on {Path(metrics['store']).name}"
        material = ReportInput(title, {recordings.name: recordings}, metrics)
        write_results(folder, material)
    log_result(f"report   {from_here(out / 'report.html')}")
    if len(evaluations) == 2:
        models = (
            ComparedModel(one.recordings, one.metrics, f"{folder.name}/report.html")
            for one, folder in zip(evaluations, folders, strict=True)
        )
        write_comparison(out / "report.html", *models)
        write_json(out / "comparison.json", evaluations[0].metrics["comparison"])
        rows = recording_rows(evaluations[0].recordings, evaluations[1].recordings)
        write_csv(out / "comparison.csv", rows)
