"""The wording of what each verb prints is in tests/wording/VERB.txt; `make wording` rewrites it."""

import csv
import difflib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import DoorResult, healthy_check, lines_told, noise

WORDING = Path(__file__).parent / "wording"
REWRITES = "LEAKDET_REWRITES_WORDING" in os.environ  # set by `make wording`

QUICK = "data.store=store network=linear trainer.max_epochs=1 logger=none stop.name=val "
QUICK += "data.batch_size=8 callbacks=none trainer.enable_progress_bar=false"

# Each list is run in one folder from top to bottom: a later command may use what an earlier one wrote.
SCREENS: dict[str, list[str]] = {
    "build": [
        "build --help",
        "build",
        "build source=audio",
        "build source=nowhere out=built",
        "build source=empty out=built",
        "build source=audio out=store",
        "build source=audio out=built sourse=x",
        "build source=audio out=built split.ratios=[0.5,0.6,0]",
        "build source=audio out=built split.group_by=site",
        "build source=audio out=built labels.leak=burst",
        "build source=audio out=built signal.window_samples=0",
        "build source=audio out=built workers=-1",
        "build source=twice.csv out=built",
        "build source=no_label.csv out=built",
        "build source=audio out=built signal.sample_rate_hz=4000 signal.fmax_hz=2000 workers=1",
        "build source=audio out=built",
        "build source=audio add_to=built out=more",
    ],
    "train": [
        "train --help",
        "train optimiser.lr=1",
        "train optimizer.lrr=1",
        "train optimizer.lr=-1",
        "train optimizer.lr=abc",
        "train patience=1.5",
        "train network=lineer",
        "train network.name=my_nets:Missing data.store=store",
        "train experiment=nothing",
        "train find_batch_size=true",
        "train surrogates=1",
        "train optimizer.lr",
        "train data.store=nowhere",
        "train data.store=empty",
        "train data.store=store labels.leak=burst",
        "train data.store=store init_from=nowhere.safetensors",
        "train resume=nowhere",
        "train data.store=store data.unit=windows",
        "train -m optimizer.lr=1e-3,abc",
        f"train {QUICK} hydra.run.dir=run",
        f"train {QUICK} hydra.run.dir=run",
        "info run",
    ],
    "tune": [
        "tune --help",
        "tune data.store=nowhere",
        "tune tune.n_trials=0",
        "tune tune.sampler=tpee",
        "tune tune.workers=2",
        "tune trainer.devices=2",
        "tune +search.x={setting:optimizer.lrr,low:0.1,high:2}",
        "tune -m optimizer.weight_decay=.1,.01",
        "tune resume=run",
    ],
    "crossval": [
        "crossval --help",
        "crossval data.store=nowhere",
        "crossval data.store=store crossval.group_by=site",
        "crossval data.store=store crossval.folds=1",
        "crossval data.store=store crossval.group_by=pipe resume=run",
        "crossval data.store=store crossval.part=3 crossval.parts=2",
        f"crossval {QUICK} crossval.group_by=pipe crossval.folds=2 crossval.out=folds",
    ],
    "learn": [
        "learn --help",
        "learn",
        "learn model=model.safetensors",
        "learn model=model.safetensors data.store=store",
        "learn model=nowhere.safetensors data.store=store learn.new=confirmed.csv",
        "learn model=model.safetensors data.store=nowhere learn.new=confirmed.csv",
        "learn model=model.safetensors data.store=store learn.new=none.csv",
        "learn model=model.safetensors data.store=store learn.new=confirmed.csv",
        "learn model=model.safetensors data.store=store learn.new=unfilled.csv",
        "learn model=model.safetensors data.store=store learn.from=head",
    ],
    "predict": [
        "predict",
        "predict model.safetensors",
        "predict model.safetensors recording.wav --thresold 1",
        "predict nowhere.safetensors recording.wav",
        "predict notes.txt recording.wav",
        "predict model.safetensors nowhere.wav --device cpu",
        "predict model.safetensors empty",
        "predict model.safetensors notes.txt --device cpu",
        "predict model.safetensors no_path.csv",
        "predict model.safetensors recording.wav --policy max_fpr=0.01 --device cpu",
        "predict model.safetensors recording.wav --policy often=1",
        "predict model.safetensors recording.wav --threshold 1.5",
        "predict model.safetensors recording.wav --out notes.pdf",
        "predict model.safetensors recording.wav --new-only",
        "predict model.safetensors recording.wav --parts parts --suggest 5",
        "predict model.safetensors recording.wav --parts parts --cluster nowhere",
        "predict model.safetensors recording.wav --clips audio",
        "predict model.safetensors recording.wav --device cpu",
        "predict model.safetensors recording.wav audio/broken.wav --out rows.csv --device cpu",
        "predict model.safetensors recording.wav --out rows.csv --device cpu",
        "predict model.safetensors recording.wav --parts parts --device cpu",
        "predict model.safetensors recording.wav --parts parts --device cpu",
        "predict model.safetensors nowhere.wav --log json --device cpu",
    ],
    "evaluate": [
        "evaluate model.safetensors",
        "evaluate model.safetensors nowhere",
        "evaluate nowhere.safetensors store",
        "evaluate notes.txt store",
        "evaluate a b c store",
        "evaluate store model.safetensors",
        "evaluate model.safetensors store --group-by site --device cpu",
        "evaluate model.safetensors store --out notes.txt",
        "evaluate model.safetensors store --leak burst --device cpu",
        "evaluate model.safetensors store --doubt 0.5",
        "evaluate model.safetensors store --device cpu",
        "evaluate model.safetensors model.safetensors store --device cpu",
    ],
    "worklist": [
        "worklist",
        "worklist nowhere",
        "worklist notes.txt",
        "worklist empty",
        "worklist night.csv",
        "worklist rows.csv --out list.pdf",
        "worklist rows.csv --alarms 5",
        "worklist rows.csv --rules nowhere.yaml",
        "worklist rows.csv --rules notes.txt",
        "worklist rows.csv --rules misspelt.yaml",
        "worklist rows.csv --rules text.yaml",
        "worklist rows.csv --rules five.yaml",
        "worklist rows.csv --dig-cost -1",
        "worklist rows.csv --top 201",
        "worklist rows.csv --digcost 1",
        "worklist rows.csv --model nowhere.safetensors",
        "worklist rows.csv --out list.csv",
        "worklist rows.csv --out list.csv --dig-cost 2000 --leak-cost 15000",
        "worklist rows.csv --out list.html --top 0",
    ],
    "serve": [
        "serve nowhere",
        "serve notes.txt",
        "serve model.safetensors --folder nowhere",
        "serve model.safetensors --work notes.txt",
        "serve model.safetensors --port 65536",
        "serve model.safetensors --host 203.0.113.7",
        "serve model.safetensors --works here",
    ],
    "export": [
        "export",
        "export nowhere.safetensors",
        "export notes.txt",
        "export empty",
        "export model.safetensors --out model.safetensors",
        "export model.safetensors --out model.txt",
        "export model.safetensors --golden dir",
        "export model.safetensors --precision int8-network",
        "export model.safetensors --check nowhere.wav",
    ],
    "info": [
        "info",
        "info nowhere",
        "info notes.txt",
        "info empty",
        "info broken.safetensors",
        "info store --markdown",
        "info model.safetensors --json --markdown",
        "info --jsno store",
        "info model.safetensors",
        "info store",
        "info store/train.h5",
        "info model.safetensors --markdown",
    ],
    "settings": [
        "settings",
        "settings trian",
        "settings info",
        "settings train specaugment",
        "settings train optimizr.lr",
        "settings train nothing-like-it",
        "settings crossval crossval",
        "settings predict quite",
        "settings export licence",
    ],
}
# Numbers of these are measured by a network: they differ between machines in their last digits.
MEASURED = {"train", "crossval", "learn", "predict", "evaluate", "export", "info"}


@pytest.mark.parametrize("verb", SCREENS)
def test_a_verb_prints_what_its_file_says(
    verb: str, folder: Path, door: Callable[..., DoorResult]
) -> None:
    compare(verb, "\n".join(screen(command, folder, door) for command in SCREENS[verb]))


def compare(name: str, text: str) -> None:
    """Fail with the difference from the file `name`, or write it anew."""
    path = WORDING / f"{name}.txt"
    if REWRITES:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = (before.splitlines(), text.splitlines())
    difference = list(difflib.unified_diff(*lines, f"tests/wording/{name}.txt", "printed"))
    if difference:
        pytest.fail(
            "\n".join([*difference, "", "If these words are meant: make wording"]), pytrace=False
        )


def screen(command: str, folder: Path, door: Callable[..., DoorResult]) -> str:
    """A command as it is typed, and below it what it prints and its exit code."""
    verb, *words = command.split()
    result = door(verb, *words, cwd=folder)
    printed = result.stdout + result.stderr
    for pattern, name in VARYING:
        printed = re.sub(pattern, name, printed.replace(str(folder), "FOLDER"), flags=re.MULTILINE)
    if verb in MEASURED and result.returncode != 2:
        printed = re.sub(r"\d+[.]\d+(e[-+]\d+)?", "N", printed)
    return f"$ leakdet {command}\n{printed}(exit code {result.returncode})\n"


# What differs between machines, days, and versions of Python and libraries.
VARYING = (
    (r"^.*\d+/\d+ \w+, .* left.*\n", ""),  # progress
    (r"^usage: (leakdet \w+) \[-h\](?:.|\n)*?(?=^\1: error)", r"usage: \1 …\n"),
    (r"\d{4}-\d\d-\d\d[T _]\d\d[:-]\d\d([:-]\d\d)?([.]\d+)?(Z|[+]\d\d:\d\d)?", "TIME"),
    (r"\b[0-9a-f]{12,64}\b", "HASH"),
    (r"\b\d+[.]\d+[.]\d+([+]\w+)?\b", "VERSION"),
    (r"\b[\d.]+ (s|ms|MB|GB)\b", r"N \1"),
    (r" in \d+(?=, | of \d+ replicates)", " in N"),
    (r"\(Error while deserializing header: .*?\)", "(REASON)"),  # of safetensors
    (r"([━─])\1+|(?<=[│┃]) +| +(?=[│┃])", r"\1"),  # the width of tables
    (r"\n {9}(?=\S)", " "),  # lines of a card that break where a path ends
    (r"^from +", "from     "),  # alone on its line where the path is long
    (r"[ \t]+$", ""),
)


@pytest.fixture
def folder(tmp_path: Path, example_files: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the commands name: a model, stores, sound, tables, and what is none of these."""
    monkeypatch.setenv("COLUMNS", "100")
    made = tmp_path / "wording"
    shutil.copytree(example_files.folder, made)
    (made / "empty").mkdir()
    (made / "notes.txt").write_text("no sound, no model\n")
    (made / "broken.safetensors").write_bytes(b"no model")
    for name, line in {"misspelt": "alarm: 2", "text": "alarms: few", "five": "alarms: 5"}.items():
        (made / f"{name}.yaml").write_text(f"{line}\n")
    write_sounds(made)
    table(made / "no_path.csv", [["site"], ["A"]])
    table(made / "no_label.csv", [["path"], ["audio/LEAK/0.wav"]])
    table(made / "twice.csv", [["path", "label"], *[["audio/LEAK/0.wav", "LEAK"]] * 2])
    table(made / "night.csv", [["path", "site"], ["recording.wav", "A"]])
    table(made / "rows.csv", night_rows())
    filled = [["path", "label", "decision"], ["none.wav", "leak", "leak"]]
    table(made / "confirmed.csv", filled)
    table(made / "unfilled.csv", [["path", "label"], ["recording.wav", ""]])
    return made


def write_sounds(folder: Path) -> None:
    import soundfile

    for number in range(24):
        path = folder / "audio" / ("LEAK", "NORMAL")[number % 2] / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(2.0, 4000, seed=number), 4000)
    (folder / "audio" / "broken.wav").write_bytes(b"RIFF nothing")


def table(path: Path, rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def night_rows() -> list[list[object]]:
    """Rows of predict: sites A to C in eight nights, of which B has an alarm in the last three."""
    verdict = ("decision", "leak_prob", "threshold", "quiet_level_dbfs", "model", "error")
    rows: list[list[object]] = [["path", "site", "recorded_at", *verdict]]
    for night in range(8):
        at = (datetime.fromisoformat("2026-11-21T03:00") + timedelta(days=night)).isoformat()
        for site in "ABC":
            leak = site == "B" and night > 4
            said = ["leak", 0.9, 0.5] if leak else ["no_leak", 0.1, 0.5]
            rows.append([f"{site}{night}.wav", site, at, *said, -60.0 + 9 * leak, "abc", ""])
    return rows


def test_a_judge_of_training_warns_as_its_file_says() -> None:
    from leakdet.training import log_names as names
    from leakdet.training.callbacks import diagnostics as judges

    loss, rate = names.TRAIN_LOSS, names.VAL_TPR_LEAST_FPR
    falling = [{loss: 0.5 - n / 10, rate: tpr} for n, tpr in enumerate((0.8, 0.7, 0.0))]
    flat = [{"epoch": float(n), "step": 20.0 * n, names.TRAIN_CLASS_LOSS: 0.693} for n in range(30)]
    config, unscaled = train_config(), network(standardise=False, input_norm="none")
    findings = [
        *(found for result in faulty() for found in judges.collapse(result, config)),
        judges.off_chance(3.4, 0.693, 7.0, 20.0, unscaled),
        judges.off_chance(3.4, 0.693, 7.0, 20.0, network()),
        judges.off_chance(3.4, 0.693, 7.0, 1.1, network()),
        judges.bad_gradients(np.array([1.0, np.nan]), None, half=True),
        judges.bad_gradients(np.array([1e6, 1e5]), 1.0),
        judges.bad_gradients(np.array([1e-9, 0.0]), 1.0),
        judges.low_rate(9e-7, 0.5),
        judges.flat_loss(flat, 0.693, config),
        judges.overfit(falling, leaks=400),
    ]
    assert None not in findings
    compare("judges", "".join(f"{found.kind}: {found.text}\n" for found in findings if found))


def train_config() -> Any:
    from leakdet.config import LossConfig, TrainConfig

    return TrainConfig(loss=LossConfig(aux_weight=1.0))


def network(**settings: Any) -> Any:
    from leakdet.config import NetworkConfig

    return NetworkConfig(**settings)


def faulty() -> list[Any]:
    """Validation results with one fault each, as `collapse` tells them."""
    from dataclasses import replace

    from leakdet.training.validation import SampleSummary

    result = healthy_check()
    return [
        replace(result, samples=SampleSummary(100, 0.5, 0.001, 1.0, None, (0,) * 10)),
        replace(result, auroc=0.1, f1=0.67),
        replace(result, val_loss=(1.0, 0.5, 1.6)),
        replace(result, samples=SampleSummary(100, 0.2, 0.1, 0.0, 0.9, (0,) * 10), f1=0.05),
        replace(result, f1=0.05),
        replace(result, scores=np.repeat([0.0, 1.0], [18, 22])),
        replace(result, samples=SampleSummary(100, 0.5, 0.3, 0.5, 0.2, (10,) * 10)),
    ]


@pytest.mark.parametrize(
    ("verb", "line", "most"),
    [("train", "hydra.run.dir=run", 12), ("crossval", "", 8), ("evaluate", "", 12)],
)
def test_a_screen_has_few_lines(verb: str, line: str, most: int) -> None:
    """Beside the progress, of commands that end well."""
    screens = (WORDING / f"{verb}.txt").read_text(encoding="utf-8").split("\n$ ")
    ends = [
        s for s in screens if s.startswith(f"leakdet {verb}") and "verdict  " in s and line in s
    ]
    assert ends
    for screen in ends:
        assert len(lines_told(screen.partition("\n")[2])) <= most, screen
