"""The winner and the untuned configuration, trained in full and compared recording by recording."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leakdet._messages import LOG, log_result
from leakdet.config import LabelsConfig, TrainConfig, TuneConfig
from leakdet.errors import counted
from leakdet.evaluation.intervals import FEW_GROUPS
from leakdet.evaluation.model_comparison import compare
from leakdet.evaluation.split_scores import apply_rule, score_split, split_group_by
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled, split_names

TrainWhole = Callable[[Path, TrainConfig], Mapping[str, Any]]  # returns the metrics of the run


def final_models(
    config: TuneConfig, tuned: TrainConfig, value: float | None, train: TrainWhole
) -> dict[str, Any]:
    """Train both in `tune.folder`; the part of result.json that compares them.

    `value` is the winner's objective; training it again should reproduce it.
    """
    folder = Path(config.tune.folder)
    untuned = replace(config.training(), threads=tuned.threads)
    metrics: dict[str, Mapping[str, Any]] = {}
    for name, training in (("untuned", untuned), ("best", tuned)):
        LOG.info(f"\n{name}: training")
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        metrics[name] = train(folder / name, training)
    networks = (untuned.network.name, tuned.network.name)
    models = {name: folder / name / "model.safetensors" for name in metrics}
    comparison = compare_models(
        models["untuned"], models["best"], config.labels, trust_network=networks
    )
    sentence = tuning_sentence(comparison)
    log_result(f"\n{sentence}")
    result: dict[str, Any] = {
        "comparison": comparison,
        "verdict": sentence,
        "model": str(models["best"]),
    }
    if config.tune.objective == "recording_f1" and config.tune.trainings == 1:
        again = metrics["best"]["val"]["recording"]["f1"]
        result["reproduced"] = same_f1(again, value)
        if not result["reproduced"]:
            LOG.info(
                f"note     trained again, the winner has F1 {again} on val, not {value} "
                "(another device?)"
            )
    return result


def compare_models(
    untuned: Path,
    tuned: Path,
    labels: LabelsConfig | None = None,
    trust_network: Sequence[str] = (),
) -> dict[str, Any]:
    """Compare two model files on the same recordings of val and, where there is one, of test.

    Returns for each split {"recordings", "unit", "units", "f1", "auroc", "mcnemar"}; differences
    are tuned minus untuned. Their intervals resample `units` groups or recordings.
    """
    detectors = [load_mel_detector(path, trust_network=trust_network) for path in (untuned, tuned)]
    store = Path(detectors[1].card["training"]["store"])
    group_by = split_group_by(store)
    tables: dict[str, Any] = {}
    for name in [name for name in ("val", "test") if name in split_names(store)]:
        split = open_labelled(store, name, labels)
        a, b = (apply_rule(score_split(one, split), one.rule) for one in detectors)
        compared = compare(a, b, ("untuned", "tuned"), group_by)
        groups = a.resampling_units(group_by)  # None: single recordings, or one group only
        grouped = 1 if groups is None else len(np.unique(groups))
        tables[name] = {
            "recordings": compared["n"],
            "unit": "/".join(group_by) or "recording",
            "units": grouped if group_by else compared["n"],
            **{row["metric"]: row for row in compared["differences"]},
            "mcnemar": compared["mcnemar"],
        }
    return tables


def same_f1(evaluated: float | None, logged: float | None) -> bool:
    """True if two F1 are the same fraction: training logs it in single precision."""
    return None not in (evaluated, logged) and bool(np.float32(evaluated) == np.float32(logged))


def tuning_sentence(comparison: Mapping[str, Any]) -> str:
    """A sentence on whether tuning helped, which claims no more than the interval shows."""
    name = "test" if "test" in comparison else "val"
    table = comparison[name]
    f1, recordings = table["f1"], counted(table["recordings"], f"{name} recording")
    if f1["difference"] is None:
        return f"Whether tuning helped is unknown: {f1['note']} on the {recordings}."
    before, after = f1["a"], f1["b"]
    numbers = f"F1 {before:.3f} before, {after:.3f} after"
    if before == after:
        numbers = f"F1 {before:.2f} before and after"
    if f1["interval"] is None or table["units"] < FEW_GROUPS:
        if table["unit"] != "recording":
            recordings += f" from {counted(table['units'], 'group')} ({table['unit']})"
        return (
            f"Tuning made no measurable difference ({numbers}); {recordings} are too few to tell."
        )
    low, high = f1["interval"]
    if low > 0:
        sentence = "Tuning helped"
    elif high < 0:
        sentence = "Tuning made the detector worse; keep the untuned settings"
    else:
        sentence = "Tuning made no measurable difference"
    interval = f"95 % interval of the gain {low:+.3f} to {high:+.3f}"
    sentence = f"{sentence}: {numbers} on {recordings} ({interval})."
    if name == "val":
        sentence += " The trials were chosen on these recordings, which flatters the winner."
    return sentence
