"""One learning: confirmed recordings to a new model beside the old one, compared and published."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from leakdet.building.cached_stores import store_or_demo
from leakdet.building.sources import LeftOut
from leakdet.config import LearnConfig
from leakdet.core.files import from_here
from leakdet.core.messages import LOG, log_detail, log_result, log_results
from leakdet.core.progress import ProgressCounter
from leakdet.detection.detector import MelDetector
from leakdet.detection.stored_scores import ValidationScores
from leakdet.evaluation.metrics_json import for_model_file, metrics_content, split_metrics
from leakdet.evaluation.split_scores import is_synthetic
from leakdet.learning.gate import (
    HELD_OUT,
    TEST,
    WORSE,
    Outcome,
    fold_count,
    judge_group,
    judge_old_test,
    judge_out_of_fold,
)
from leakdet.learning.inputs import contents
from leakdet.learning.lineage import LINEAGE, check_link, extended, publish, round_rows
from leakdet.learning.paper import Rounds, learn_in_rounds
from leakdet.learning.preparation import ADDED, LearningInputs, prepare
from leakdet.learning.training import JOINT, train_on
from leakdet.reporting.conclusion import log_summary, own_verdict
from leakdet.reporting.report import ReportInput, write_results
from leakdet.storage.model_card import file_hash, missing_sounds, model_in
from leakdet.storage.model_file import load_mel_detector, save_model
from leakdet.tables.write import write_csv
from leakdet.training import log_names
from leakdet.training.callbacks.progress import EpochReport

MODEL, ROUNDS, FOLD = "model.safetensors", "rounds.csv", ".fold"


@dataclass(frozen=True)
class LearnResult:
    """The result of a learning: its model file, the verdict, and what could not be used."""

    model: Path
    outcome: Outcome
    left_out: Sequence[LeftOut]


def publish_only(config: LearnConfig) -> None:
    """Point `learn.publish` to a model that is there, such as the parent of a later one."""
    link, model = Path(config.learn.published_alone()), model_in(Path(config.model))
    check_link(link)
    load_mel_detector(model, trust_network=config.network.name)
    _publish(model, link)


def learn_in(folder: Path, config: LearnConfig) -> LearnResult:
    """Learn in `folder`; the new model lies there, and the old one stays where and as it is."""
    if config.learn.publish is not None:
        check_link(Path(config.learn.publish))
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / ADDED).is_dir():  # a learning was stopped here
        for remains in ("checkpoints", FOLD):
            shutil.rmtree(folder / remains, ignore_errors=True)
    config = _one_store(config)
    inputs = prepare(config, folder)
    log_detail(inputs.introduction())
    if inputs.approach.doubt:
        log_result(f"note     {inputs.approach.doubt}")
    for item in inputs.added.left_out:
        log_result(f"left out {item.path}: {item.reason}")
    folds = 0
    if inputs.held_out is None:
        folds = fold_count(inputs.added.split, config.learn.folds, config.seed)
    with ProgressCounter("learning", 1 + folds, "trainings", closing=False) as progress:
        new, rounds = _trained(config, inputs, inputs.rows, folder, progress)
        outcome = _outcome(config, inputs, new, folder, progress)
    model = _save(folder, config, inputs, new, outcome, rounds)
    if config.learn.publish is not None:
        _publish_unless_worse(Path(config.learn.publish), model, inputs.parent, outcome)
    return LearnResult(model, outcome, inputs.added.left_out)


def _one_store(config: LearnConfig) -> LearnConfig:
    """The settings with the store that joins all of `data.stores`, where these are given."""
    if not config.data.stores:
        return config
    store = store_or_demo(config.data, config.demo, config.signal)
    return replace(config, data=replace(config.data, store=str(store), stores=[]))


def _trained(
    config: LearnConfig,
    inputs: LearningInputs,
    rows: Int[np.ndarray, " N"],
    folder: Path,
    progress: ProgressCounter,
) -> tuple[MelDetector, Rounds]:
    """The new model, and an account of its rounds where unverified recordings are learnt."""
    material, epochs = inputs.material, EpochReport(lambda e: progress.retitle(f"{e}, learning"))
    if config.learn.unverified:
        parts = (inputs.old, material, rows, inputs.unverified)
        model, rounds = learn_in_rounds(config, *parts, folder, [epochs], inputs.judges)
    else:
        model, rounds = train_on(config, material, rows, folder, [epochs]), []
    progress.step()
    return model, rounds


def _trained_in_passing(
    config: LearnConfig,
    inputs: LearningInputs,
    rows: Int[np.ndarray, " N"],
    folder: Path,
    progress: ProgressCounter,
) -> MelDetector:
    """As `_trained`, for a fold that judges the rows left out, in a folder that is removed."""
    try:
        return _trained(config, inputs.for_fold(rows), rows, folder, progress)[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(
    config: LearnConfig,
    inputs: LearningInputs,
    new: MelDetector,
    folder: Path,
    progress: ProgressCounter,
) -> Outcome:
    """Compare both models on new recordings that trained neither, and on the old test set."""
    old, added = inputs.old, inputs.added.split
    if inputs.held_out is not None:
        judged = judge_group(old, new, added, inputs.held_out)
    else:
        judged = judge_out_of_fold(
            old,
            lambda rows: _trained_in_passing(config, inputs, rows, folder / FOLD, progress),
            added,
            config.learn.folds,
            config.seed,
            new.sources,
        )
    test = inputs.splits.get("test")
    on_test = judge_old_test(old, new, test, contents(added).tolist()) if test else None
    return Outcome(inputs.approach.name, judged, on_test)


def _save(
    folder: Path,
    config: LearnConfig,
    inputs: LearningInputs,
    new: MelDetector,
    outcome: Outcome,
    rounds: Rounds,
) -> Path:
    """Write model file, metrics.json, rounds.csv and report; the model file last of its content."""
    recordings = {HELD_OUT: outcome.judged.new}
    if outcome.on_test is not None:
        recordings = {TEST: outcome.on_test.new, **recordings}
    tables = {name: split_metrics(scored) for name, scored in recordings.items()}
    steps = extended(
        inputs.old.card,
        inputs.parent,
        inputs.old.file_hash,
        **_step(config, inputs, outcome),
        rounds=rounds,
    )
    learnt = outcome.content() | {"from": inputs.approach.name, "why": inputs.approach.reason}
    extra: dict[str, Any] = {
        "settings": asdict(config),
        "synthetic": is_synthetic(inputs.material.store),
    }
    extra |= {"learn": learnt | {LINEAGE: steps}, "model": MODEL}
    content = metrics_content(tables, new.rule, [], **extra)
    card = {**new.card, "decision_rule": new.rule.to_json(), LINEAGE: steps}
    card |= {"metrics": for_model_file(tables), "verdict": own_verdict(content)}
    model = folder / MODEL
    beside = (new.met, new.validation, new.reference, unmet_test_scores(inputs, outcome))
    save_model(model, new.network.state_dict(), card, *beside, new.sources)
    write_csv(folder / ROUNDS, round_rows(steps))
    log_detail(f"model    {model}")
    title = f"learning from {Path(str(config.learn.new)).name}"
    log_result(f"learnt   {outcome.sentence}")
    if new.sources and new.rule.source == "rate":
        log_results([f"source   {line}" for line in new.sources.unknown_sentences()])
    if line := missing_sounds(card):
        log_detail(line)
    following = f"leakdet predict {from_here(model)} RECORDINGS"
    history = folder / log_names.HISTORY
    write_results(folder, ReportInput(title, recordings, content, history))
    log_summary(content, folder, following, brief=True)
    return model


def unmet_test_scores(inputs: LearningInputs, outcome: Outcome) -> ValidationScores | None:
    """Scores of the old test recordings that the new model is known not to have met.

    None where that is unknown, and for a model of the new place alone: they are not of it.
    """
    known = inputs.approach.name == JOINT and inputs.old.met is not None
    if outcome.on_test is None or not known:
        return None
    return ValidationScores.of(outcome.on_test.new.score, outcome.on_test.new.is_leak)


def _step(config: LearnConfig, inputs: LearningInputs, outcome: Outcome) -> dict[str, Any]:
    """What this learning adds to the lineage."""
    ids = inputs.added.split.recording_ids[inputs.rows].tolist()
    unverified = inputs.unverified
    return {
        "from": inputs.approach.name,
        "new": str(Path(str(config.learn.new)).absolute()),
        "store": str(Path(config.data.store).absolute()) if config.data.store else None,
        **inputs.counts(),
        "unverified": unverified.recordings if unverified is not None else 0,
        "recordings": ids[:1000],
        "verdict": outcome.verdict,
        "sentence": outcome.sentence,
        "differences": outcome.judged.differences,
        "judged": len(outcome.judged.new),
    }


def _publish_unless_worse(link: Path, model: Path, parent: Path, outcome: Outcome) -> None:
    if outcome.verdict == WORSE:
        LOG.warning(
            f"{link} was not moved, since the new model is worse. To publish it all the same: "
            f"leakdet learn model={model} learn.publish={link}"
        )
        return
    _publish(model, link)
    back = from_here(parent.resolve())
    log_result(f"go back  leakdet learn {back} learn.publish={link}")


def _publish(model: Path, link: Path) -> None:
    before = publish(model, link)
    was = f", before {before}" if before else ""
    log_result(f"in use   {link} is now {model} ({file_hash(model)}){was}")
