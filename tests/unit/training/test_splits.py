import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Planted, store_writer
from tests.unit.conftest import QUIET

from leakdet.config import StopConfig, TrainConfig
from leakdet.core.errors import InputError
from leakdet.runs.crossval import cross_validate
from leakdet.runs.training import FitResult, fit, train_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.splits import (
    StartedFrom,
    open_splits,
    parts_of_store,
    require_unmet,
    started_from,
)


@pytest.fixture
def store(stores: SimpleNamespace, tmp_path: Path) -> Path:
    for name in ("train", "val"):
        stores.write_split(tmp_path / f"{name}.h5", [3, 2], [0, 1])
    return tmp_path


def test_test_is_opened_where_there_is_one(stores: SimpleNamespace, store: Path) -> None:
    assert open_splits(store).test is None
    stores.write_split(store / "test.h5", [1, 1], [0, 1])
    splits = open_splits(store)
    assert [split.name for split in splits.all] == ["train", "val", "test"]
    assert splits.of_whole_store


def test_surrogates_of_an_earlier_version_are_left_out_and_named(
    store: Path, messages: pytest.LogCaptureFixture
) -> None:
    (store / "surrogates.h5").write_bytes((store / "train.h5").read_bytes())
    assert open_splits(store).train.recordings == 2
    assert f"{store}: its surrogates" in messages.text


def test_parts_are_taken_as_the_caller_divided_them(store: Path) -> None:
    """Of one split: no sound is kept apart, as their caller does that."""
    train = open_split(store, "train")
    splits = parts_of_store(store, train, train)
    assert not splits.of_whole_store
    assert [split.files for split in splits.all] == [train.files, train.files]
    assert splits.train.leak_labels == ["LEAK"]


@pytest.mark.parametrize("name", ["train", "val"])
def test_a_missing_split_is_named(store: Path, name: str) -> None:
    (store / f"{name}.h5").unlink()
    with pytest.raises(InputError, match=f"no {name} split"):
        open_splits(store)


Configured = Callable[..., TrainConfig]
SETTINGS = ("network=linear", "trainer.max_epochs=1", "stop.name=val")


@pytest.fixture
def store_of(write_store: Any) -> Callable[..., Path]:
    """`store_of(train=…, val=…, test=…)`: a store of the recordings with these numbers."""
    return writer_of(write_store)


def writer_of(write_store: Callable[..., Path]) -> Callable[..., Path]:
    def recording(number: int) -> Planted:
        loud = number % 2
        content = sha256(str(number).encode()).hexdigest()
        label = "leak" if loud else "other"
        return Planted(label, seed=number, bump_db=9.0 * loud, content=content)

    def make(**splits: range | list[int]) -> Path:
        return write_store(
            **{name: [recording(number) for number in numbers] for name, numbers in splits.items()}
        )

    return make


@pytest.fixture(scope="module")
def trained_once(compose: Any, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    folder = tmp_path_factory.mktemp("parent")
    store = writer_of(store_writer(folder))(train=range(12), val=range(12, 20))
    words = (*QUIET, *SETTINGS, f"data.store={store}")
    return fit(compose("train", *words), folder / "run")


@pytest.fixture
def parent(trained_once: FitResult, tmp_path: Path) -> FitResult:
    """A model that was trained on recordings 0 to 11 and chosen on 12 to 19."""
    folder = Path(copytree(trained_once.folder, tmp_path / "parent"))
    return replace(trained_once, folder=folder, model=folder / trained_once.model.name)


def test_a_training_tells_and_keeps_apart_what_its_start_has_met(
    parent: FitResult,
    store_of: Any,
    configured: Configured,
    tmp_path: Path,
    messages: Any,
    schema_errors: Any,
) -> None:
    store = store_of(
        train=range(20, 32), val=[0, 1, 2, 12, *range(40, 48)], test=[3, 4, 13, *range(50, 58)]
    )
    config = configured(*SETTINGS, f"data.store={store}", f"init_from={parent.model}")
    result = fit(config, tmp_path / "child")
    told = messages.text
    assert re.search(rf"start    from {re.escape(str(parent.model))}: .*12 validation .* 3\b", told)
    assert "trained on 3 of 12 validation recordings" in told
    assert "val measures its memory" in told
    assert "has met 3 of 11 test recordings" in told
    metrics = result.metrics
    assert schema_errors(metrics) == []
    assert metrics["started_from"] == {
        "model": str(parent.model),
        "val": {"recordings": 12, "train": 3, "val": 1},
        "test": {"recordings": 11, "train": 2, "val": 1},
    }
    assert metrics["test"]["recording"]["n"] == 8
    assert metrics["met_in_training"]["met"] == 3
    cautions = load_mel_detector(result.model).card["verdict"]["cautions"]
    assert any("was trained on 3 of 12 validation recordings" in said for said in cautions)
    # the new model has met what its start has met
    both = load_mel_detector(result.model).met
    assert both is not None
    contents = open_split(parent_store(parent), "train").texts("content_sha256").tolist()
    assert set(both.roles_of(contents)) == {"train"}


def parent_store(parent: FitResult) -> Path:
    return Path(load_mel_detector(parent.model).card["training"]["store"])


def test_without_a_test_split_memory_is_no_verdict(
    parent: FitResult, store_of: Any, configured: Configured, tmp_path: Path
) -> None:
    store = store_of(train=range(20, 32), val=[0, *range(40, 48)])
    config = configured(*SETTINGS, f"data.store={store}", f"init_from={parent.model}")
    result = fit(config, tmp_path / "child")
    verdict = load_mel_detector(result.model).card["verdict"]
    assert (verdict["grade"], verdict["label"]) == ("unknown", "Not judged")
    assert "trained on 1 of 9 validation recordings" in verdict["sentence"]


def test_a_start_that_was_trained_on_all_of_val_is_refused_unless_val_chooses_nothing(
    parent: FitResult, store_of: Any, configured: Configured, tmp_path: Path
) -> None:
    store = store_of(train=range(20, 32), val=range(8))
    config = configured(*SETTINGS, f"data.store={store}", f"init_from={parent.model}")
    with pytest.raises(InputError, match=r"trained on all 8 validation recordings .*split column"):
        train_in(tmp_path / "child", config)
    assert not (tmp_path / "child" / "checkpoints").exists()
    start = started_from(replace(config, stop=StopConfig("fixed")))
    assert start is not None
    (warning,) = start.warnings(store, open_splits(store), val_chooses=False)
    assert "8 of 8 validation recordings" in warning
    assert "hopefully" not in warning


def test_a_checkpoint_knows_by_the_model_file_of_its_run(
    parent: FitResult, configured: Configured, tmp_path: Path
) -> None:
    checkpoint = parent.folder / "checkpoints" / "last.ckpt"
    start = started_from(configured(*SETTINGS, f"init_from={checkpoint}"))
    assert start is not None
    assert start.met is not None
    alone = tmp_path / "alone" / "checkpoints" / "last.ckpt"
    alone.parent.mkdir(parents=True)
    alone.write_bytes(checkpoint.read_bytes())
    unknown = started_from(configured(*SETTINGS, f"init_from={alone}"))
    assert unknown is not None
    assert unknown.met is None
    splits = open_splits(parent_store(parent))
    assert "is unknown" in unknown.sentence(splits)
    assert unknown.account(splits)["val"] is None
    assert unknown.joined(start.met) is None
    with pytest.raises(InputError, match=r"unknown, .*model or store"):
        require_unmet(configured(f"init_from={alone}"), splits.val, "the test")


def test_a_checkpoint_of_the_new_run_keeps_what_its_start_has_met(
    parent: FitResult, configured: Configured
) -> None:
    start = started_from(configured(*SETTINGS, f"init_from={parent.model}"))
    assert start is not None
    store = parent_store(parent)
    plain = LeakDataModule(configured(), store)
    plain.setup("fit")
    assert plain.state_dict()["start"] is None
    data = LeakDataModule(configured(*SETTINGS, f"init_from={parent.model}"), store)
    data.setup("fit")
    again = LeakDataModule(configured(), store)
    again.load_state_dict(data.state_dict())
    assert isinstance(again.start, StartedFrom)
    splits = open_splits(store)
    assert again.start.account(splits) == start.account(splits)
    assert again.start.account(splits)["val"] == {"recordings": 8, "train": 0, "val": 8}


def test_held_out_recordings_that_it_has_met_are_refused(
    parent: FitResult, store_of: Any, compose: Any, tmp_path: Path
) -> None:
    store = store_of(train=[0, *range(20, 32)], val=range(40, 48))
    settings = (f"data.store={store}", f"init_from={parent.model}", "crossval.group_by=recording")
    config = compose("crossval", "experiment=smoke", "network=linear", *settings)
    with pytest.raises(InputError, match=r"has met 1 of 21 recordings .*the cross-validation"):
        cross_validate(config, store, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    require_unmet(config, open_split(store, "val"), "it")
    require_unmet(replace(config, init_from=None), open_split(store, "train"), "it")
