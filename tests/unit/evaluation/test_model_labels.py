"""What the model learnt as a leak is judged as one, unless someone says otherwise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from leakdet.config import LabelsConfig
from leakdet.detection.label_view import label_view
from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError
from leakdet.evaluation.model_labels import labels_for
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split
from leakdet.storage.store import StoreSplit


def model(*labels: str, **settings: Any) -> LabelMap:
    return LabelMap.of_view(label_view(labels, LabelsConfig(**settings), "x"), "binary")


@pytest.fixture
def split(write_store: Callable[..., Path], planted: Any) -> Callable[..., StoreSplit]:
    """A split of these labels, of which its store calls some leaks."""

    def make(*labels: str, leaks: list[str]) -> StoreSplit:
        store = write_store(test=[planted("other", seed) for seed in range(len(labels))])
        with h5py.File(store / "test.h5", "r+") as file:
            file.attrs["label_names"] = str(list(labels)).replace("'", '"')
            file.attrs["leak_labels"] = str(leaks).replace("'", '"')
            file["label_id"][:] = range(len(labels))
        seal_h5(store / "test.h5")
        return open_split(store, "test")

    return make


def test_a_model_that_knows_all_labels_says_which_are_leaks(split: Any) -> None:
    trained = model("leak", "drip", "ok", leak=["leak", "drip"])
    found = labels_for(trained, split("LEAK", "Drip", "ok", leaks=["LEAK"]), LabelsConfig())
    assert found.leak == ["LEAK", "Drip"]


def test_what_training_renamed_or_left_out_is_so_here(split: Any) -> None:
    trained = model("leak", "noise", "ok", "?", rename={"noise": "ok"}, ignore="?")
    found = labels_for(trained, split("leak", "Noise", "ok", "?", leaks=["leak"]), LabelsConfig())
    assert (found.rename, found.ignore) == ({"noise": "ok"}, ["?"])


@pytest.mark.parametrize("trained", [model("leak", "ok"), LabelMap("binary", ("a", "b"), (1,))])
def test_labels_unknown_to_the_model_are_the_stores(trained: LabelMap, split: Any) -> None:
    found = labels_for(trained, split("burst", "quiet", leaks=["burst"]), LabelsConfig())
    assert found.leak == ["burst"]


def test_a_dispute_is_refused_until_it_is_decided(split: Any) -> None:
    trained = model("leak", "drip", "ok", leak=["leak", "drip"])
    disputed = split("leak", "drip", "ok", "rain", leaks=["leak"])
    with pytest.raises(InputError, match=r"disagree on whether drip means a leak \(model: leak, d"):
        labels_for(trained, disputed, LabelsConfig())
    assert labels_for(trained, disputed, LabelsConfig(leak="leak")).leak == ["leak"]


def test_the_remedy_is_an_option_of_evaluate(split: Any) -> None:
    with pytest.raises(InputError, match=r"Add, for example, --leak burst$"):
        labels_for(model("leak", "ok"), split("burst", "ok", leaks=["leak"]), LabelsConfig())
