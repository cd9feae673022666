import json

import pytest

from leakdet.config import LabelsConfig
from leakdet.detection.label_view import LabelView, label_view
from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError

FIVE = ["BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED"]


def view(names: list[str], **settings: object) -> LabelView:
    return label_view(names, LabelsConfig(**settings), "x")


@pytest.mark.parametrize("names", [["LEAK", "NOLEAK"], ["no_leak", "leak"], FIVE])
def test_binary_makes_the_leak_class_1_wherever_it_stood(names: list[str]):
    labels = LabelMap.of_view(view(names), "binary")
    assert [labels.names[index] for index in labels.leaks] == ["LEAK"]
    assert labels.class_ids(view(names), "x") == [int(n.casefold() == "leak") for n in names]


def test_binary_makes_every_leak_label_class_1():
    several = view(["gasket-leak", "ok", "Drip"], leak=["gasket-leak", "drip"])
    labels = LabelMap.of_view(several, "binary")
    assert labels.class_ids(several, "x") == [1, 0, 1]
    assert labels.leak_labels == ("gasket-leak", "Drip")


def test_multiclass_keeps_the_classes():
    labels = LabelMap.of_view(view(FIVE), "multiclass")
    assert labels.leaks == (2,)
    assert labels.class_ids(view(FIVE), "x") == [0, 1, 2, 3, 4]
    assert labels.class_ids(view(["normal", "Leak", "crack"]), "x") == [3, 2, 1]
    several = LabelMap.of_view(view(FIVE, leak=["leak", "CRACK"]), "multiclass")
    assert several.leaks == (1, 2)


def test_multiclass_maps_a_leak_of_another_name_and_refuses_unknown_classes():
    labels = LabelMap.of_view(view(FIVE), "multiclass")
    assert labels.class_ids(view(["BURST", "NORMAL"], leak="BURST"), "x") == [2, 3]
    with pytest.raises(InputError, match=r"x: labels \['RAIN'\] are not among.*labels\.rename"):
        labels.class_ids(view(["LEAK", "RAIN"]), "x")
    assert labels.known_class_ids(view(["LEAK", "RAIN"])) == [2, None]
    assert labels.tells_classes
    assert not LabelMap.of_view(view(FIVE), "binary").tells_classes


@pytest.mark.parametrize("mode", ["binary", "multiclass"])
def test_a_map_survives_json(mode: str):
    of = view(["漏水", "Drip", "ok", "?"], leak=["漏水", "drip"], ignore="?", rename={"ok": "fine"})
    labels = LabelMap.of_view(of, mode)
    again = LabelMap.from_json(json.loads(json.dumps(labels.to_json())))
    assert again == labels
    assert again.leak_labels == ("漏水", "Drip")
    assert again.name_of_label == {"漏水": "漏水", "Drip": "Drip", "ok": "fine", "?": None}


def test_a_map_of_an_older_file_does_not_say_what_trained_it():
    old = LabelMap.from_json({"mode": "multiclass", "names": FIVE, "leak_index": 2})
    assert old == LabelMap("multiclass", tuple(FIVE), (2,))
    assert old.name_of_label == {}


def test_several_leak_classes_are_unreadable_to_whom_knows_of_one():
    """A reader of one `leak_index` must fail, not take the other leak classes for no leak."""
    several = LabelMap.of_view(view(FIVE, leak=["leak", "CRACK"]), "multiclass")
    assert "leak_index" not in several.to_json()
    assert LabelMap.of_view(view(FIVE), "multiclass").to_json()["leak_index"] == 2
