"""`python -m leakdet.train`: from a store (by default the demo) to a model file, with an honest score."""

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet._door import DONE, Run, open_door
from leakdet.config import TrainConfig

if TYPE_CHECKING:
    from leakdet.detection.detector import Detector
    from leakdet.training.datamodule import LeakDataModule


def train(config: TrainConfig, run: Run) -> int:
    from leakdet.storage.bundle import load_detector
    from leakdet.training.datamodule import LeakDataModule
    from leakdet.training.fitting import best_checkpoint, fit

    store = _store(config)
    data = LeakDataModule(config, store)
    print(_introduction(config, data), flush=True)
    trainer = fit(config, data, run.folder)
    if not trainer.is_global_zero:  # the other ranks have done their part
        return DONE
    best = load_detector(best_checkpoint(trainer))
    metrics = _evaluate(config, data, best, run.folder)
    _save(config, data, best, metrics, run.folder)
    return DONE


def _store(config: TrainConfig) -> Path:
    from leakdet.storage.demo import demo_store

    if config.data.store is not None:
        return Path(config.data.store)
    store = demo_store(config.demo, config.signal, Path(config.data.cache) if config.data.cache else None)
    print(f"No data.store was given: training on the demo, synthetic recordings in {store}")
    return store


def _introduction(config: TrainConfig, data: "LeakDataModule") -> str:
    """What is trained on what, and with which class balance: the first thing to look at when a run goes wrong."""
    mix = ", ".join(
        f"{name} {share:.0%}" for name, share in zip(data.labels.names, data.train_mix, strict=True)
    )
    train, val = data.train_split, data.val_split
    shape = " x ".join(map(str, data.sample_shape))
    lines = [
        f"store    {data.store}",
        f"train    {train.recordings} recordings, {train.windows} windows",
        f"val      {val.recordings} recordings, {val.windows} windows",
        f"classes  drawn as {mix} ({config.data.sampling} sampling, loss {config.loss.name}); leak is {data.leak_label}",
        f"network  {config.network.name} on {config.data.unit}s of {shape} (segments, mels, frames)",
    ]
    if train.signal_unknown:
        lines.append(
            f"note     {train.signal_unknown}: the model will score stores like this one, but no audio"
        )
    if not train.groups:
        lines.append(
            "note     the store names no sites or sensors, so whether the splits share them cannot be checked"
        )
    if config.data.shuffle_labels:
        lines.append("note     LABELS ARE SHUFFLED: this is a null test, its model is worth nothing")
    return "\n".join(lines)


def _evaluate(config: TrainConfig, data: "LeakDataModule", best: "Detector", folder: Path) -> dict[str, Any]:
    """Fit the rule on val with the best weights, then score val and, once, test."""
    from leakdet._screen import show_metrics
    from leakdet.detection.decision import fit_rule
    from leakdet.storage.auditing import audit
    from leakdet.storage.opening import open_any_split, splits_there
    from leakdet.storage.scoring import evaluation, recording_rows, score_split, write_rows
    from leakdet.training.module import decision_arguments

    val = score_split(best, data.val_split, data.leak_label)
    if config.data.shuffle_labels:
        val.is_leak = data.val_is_leak
    best.rule = fit_rule(
        val.window_prob,
        val.split.recording_offsets,
        val.is_leak,
        fitted_on="val",
        **decision_arguments(config),
    )
    scored = {"val": val}
    if "test" in splits_there(data.store):
        scored["test"] = score_split(best, open_any_split(data.store, "test"), data.leak_label)
    tables = {name: evaluation(scores, best.rule) for name, scores in scored.items()}
    show_metrics(tables, best.rule)
    write_rows(
        folder / "recordings.csv",
        [row for scores in scored.values() for row in recording_rows(scores, best.rule)],
    )
    judged = list(scored.values())[-1]
    audited = audit(
        data.train_split,
        judged.split,
        best.rule.score(judged.window_prob, judged.split.recording_offsets),
        is_leak=judged.is_leak,
        leak=data.leak_label,
        shuffled=config.data.shuffle_labels,
    )
    for sentence in audited["findings"]:
        print(f"audit    {sentence}")
    return {**tables, "decision_rule": best.rule.to_json(), "audit": audited}


def _save(
    config: TrainConfig, data: "LeakDataModule", best: "Detector", metrics: dict[str, Any], folder: Path
) -> None:
    from leakdet.storage.bundle import save_model

    training = {
        **best.card["training"],
        "store": str(data.store.absolute()),
        "store_signal_hash": data.train_split.signal.hash if data.train_split.signal else None,
        "recordings": {"train": data.train_split.recordings, "val": data.val_split.recordings},
        "versions": _versions(),
    }
    card = {**best.card, "decision_rule": best.rule.to_json(), "training": training, "metrics": metrics}
    model = folder / "model.safetensors"
    save_model(model, best.network.state_dict(), card)
    content = {
        **metrics,
        "best_epoch": best.card["training"]["epoch"],
        "settings": asdict(config),
        "model": model.name,
    }
    (folder / "metrics.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"model    {model}\nmetrics  {folder / 'metrics.json'}")


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("leakdet", "torch", "lightning")},
    }


def main() -> None:
    paths = ("data.store", "data.cache")
    open_door("train", TrainConfig, train, paths)


if __name__ == "__main__":
    main()
