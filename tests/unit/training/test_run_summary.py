import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.config import TrainConfig
from leakdet.storage.opening import open_labelled, open_split
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.run_summary import (
    _shares,
    introduction,
    met_by_training,
    stops_when,
    summary,
    training_facts,
)

Configured = Callable[..., TrainConfig]


def test_facts_name_the_store_and_count_its_recordings(
    configured: Configured, opened: Any, demo_store: Path
) -> None:
    facts = training_facts(opened(configured()))
    assert facts["store"] == str(demo_store)
    counts = {name: open_split(demo_store, name).recordings for name in ("train", "val")}
    assert facts["recordings"] == counts
    assert set(facts["versions"]) == {"python", "leakdet", "torch", "lightning"}


def test_every_recording_of_train_and_val_was_met_and_none_of_test(
    configured: Configured, opened: Any, demo_store: Path
) -> None:
    met = met_by_training(opened(configured()), open_labelled(demo_store, "train"))
    assert met is not None
    roles = {
        name: set(met.roles_of(open_split(demo_store, name).texts("content_sha256").tolist()))
        for name in ("train", "val", "test")
    }
    assert roles == {"train": {"train"}, "val": {"val"}, "test": {""}}
    assert set(met.groups["site"]) == {"train", "val"}


def test_a_store_without_content_hashes_does_not_tell(
    configured: Configured, opened: Any, demo_store: Path, monkeypatch: Any
) -> None:
    data = opened(configured())
    monkeypatch.setattr(data.splits.val, "has", lambda _: False)
    assert met_by_training(data, open_labelled(demo_store, "train")) is None


Opened = Callable[[TrainConfig], LeakDataModule]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), "at epoch 200, after 15 epochs without a better F1, or after 10 epochs of rising loss"),
        (("trainer.check_val_every_n_epoch=10", "patience=3"), "after 30 epochs without a better F1"),
        (("+trainer.val_check_interval=0.25", "patience=3"), "after 0.75 epochs without"),
        (("+trainer.val_check_interval=100", "patience=3"), "after 3 validation checks without"),
        (("loss_patience=0",), "at epoch 200 or after 15 epochs without a better F1"),
        (("callbacks=none",), "at epoch 200"),
        (("callbacks=none", "+trainer.max_steps=9"), "at epoch 200 or at optimiser step 9"),
        (("callbacks=none", "trainer.max_epochs=-1"), "when it is interrupted"),
    ],
)  # fmt: skip
def test_a_run_tells_in_epochs_when_it_will_stop(
    overrides: tuple[str, ...], expected: str, configured: Configured
) -> None:
    config = configured("trainer.max_epochs=200", *overrides)
    told = stops_when(config, config)
    assert (expected in told) if "without" in expected else told == expected


def test_what_a_fixed_number_of_passes_lowers_is_told(
    configured: Configured, opened: Opened
) -> None:
    given = ("stop.name=fixed", "trainer.max_epochs=50", "data.batch_size=900")
    data = opened(configured(*given))
    size = data.config.data.batch_size
    assert stops_when(data.config, data.given) == (
        "after 10 epochs (stop.passes=10, fewer than trainer.max_epochs=50) in batches of at most "
        f"{size} windows (for stop.batches=10, fewer than data.batch_size=900), whatever val says "
        "(stop.name=fixed)"
    )
    assert stops_when(data.config, data.config).startswith("after 10 epochs in batches of")


def lines_of(data: LeakDataModule) -> dict[str, str]:
    lines = introduction(data).splitlines()
    return {line[:9].strip(): line[9:] for line in lines}


def test_the_numbers_are_those_of_the_store(
    configured: Configured, opened: Opened, demo_store: Path
) -> None:
    config = configured()
    data = opened(config)
    lines = lines_of(data)
    train = data.splits.train
    assert lines["store"] == str(demo_store)
    assert lines["train"] == f"{train.recordings} recordings, {train.windows} windows"
    assert lines["labels"] == "leak: LEAK; no leak: NOLEAK"
    assert lines["batches"] == "half leak, half no leak (data.sampling=balanced)"
    assert lines["data"].startswith("0.00 GB, kept in memory (")
    assert "loss" not in lines
    assert lines["groups"].startswith("sensor: ")
    assert "partly of a sensor" in lines["groups"]
    assert config.network.name in lines["network"]
    assert "note" not in lines


@pytest.mark.parametrize(
    ("overrides", "batches", "loss"),
    [
        (("loss=focal",), "half leak", "75% leak, 25% no leak (loss.name=focal)"),
        (
            ("data.sampling=curriculum", "data.curriculum_epochs=5"),
            "half leak, half no leak at first; half leak, half no leak from epoch 6",
            None,
        ),
    ],
)
def test_the_balance_of_the_loss_is_told_where_it_is_another(
    overrides: tuple[str, ...],
    batches: str,
    loss: str | None,
    configured: Configured,
    opened: Opened,
) -> None:
    config = configured(*overrides)
    lines = lines_of(opened(config))
    assert lines["batches"].startswith(batches)
    assert lines.get("loss") == loss


def test_several_classes_are_told_by_their_names(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = opened(configured("labels=multiclass"))
    data.labels = replace(data.labels, names=("RAIN", "BURST", "PUMP", "DRIP"), leaks=(1, 3))
    assert _shares(data, np.array([0.4, 0.05, 0.5, 0.05])) == (
        "5% BURST, 5% DRIP, 40% RAIN, half PUMP"
    )


def test_a_null_test_is_told(configured: Configured, opened: Opened) -> None:
    config = configured("data.shuffle_labels=true")
    trains, note = summary(opened(config)).splitlines()
    assert trains.startswith("trains   ")
    assert note.startswith("note     LABELS ARE SHUFFLED")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ((), None),
        (("select=auroc",), "the best AUROC on val (select=auroc)"),
        (("select=tpr_at_fpr", "decision.max_fpr=0.5"), "FPR 0.5 on val (select=tpr_at_fpr)"),
        (("select=tpr_at_fpr", "decision.max_fpr=0.05"), "so it is that of all windows, {} without"),
        (("select=tpr_at_fpr", "decision.max_fpr=1e-6"), "it is the TPR without a false alarm"),
    ],
)  # fmt: skip
def test_another_selection_is_told_with_what_it_is_measured_on(
    overrides: tuple[str, ...], says: str | None, configured: Configured, opened: Opened
) -> None:
    config = configured(*overrides)
    data = opened(config)
    line = lines_of(data).get("selects")
    if says is None:
        assert line is None
    else:
        windows = data.splits.val.windows_per_recording[~data.val_is_leak].sum()
        assert says.format(windows) in str(line)


def test_recordings_shorter_than_a_window_do_not_train_in_silence(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured()
    data = opened(config)
    train, val = data.splits.train, data.splits.val
    for split, rows in ((train, [0, 2]), (val, [1])):
        flags = np.full(split.recordings, "clipped", dtype=object)
        flags[rows] = "clipped,short"
        stored = {"flags": flags, "recording_id": split.recording_ids}
        stored |= {f"group/{column}": values for column, values in split.groups.items()}
        monkeypatch.setattr(split, "texts", stored.__getitem__)
    notes = [line for line in introduction(data).splitlines() if line.startswith("note")]
    assert len(notes) == 2
    assert f"2 of {train.recordings} recordings (train; " in notes[0]
    assert re.search("shorter than a window: .*train .*undecided", notes[0])
    assert str(train.recording_ids[2]) in notes[0]
    assert f"1 of {val.recordings} recordings (val; " in notes[1]
    assert re.search("shorter than a window: .*judged", notes[1])


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [("binary", "data.sampling=balanced"), ("multiclass", "decision.policy=max_f1")],
)
def test_a_fixed_threshold_that_does_not_suit_the_loss_is_told(
    mode: str, remedy: str, configured: Configured, opened: Opened
) -> None:
    fixed = ("stop.name=fixed", "decision.policy=fixed", "decision.threshold=0.5")
    config = configured("loss=focal", f"labels={mode}", *fixed)
    note = f"75% of the loss .*; {remedy}"
    assert re.search(note, introduction(opened(config)))
