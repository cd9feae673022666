import pytest

from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError

FIVE = ["BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED"]


@pytest.mark.parametrize(
    ("names", "leak"), [(["LEAK", "NOLEAK"], "LEAK"), (["no_leak", "leak"], "leak"), (FIVE, "LEAK")]
)
def test_binary_makes_the_leak_class_1_wherever_it_stood(names: list[str], leak: str):
    labels = LabelMap.of_store(names, leak, "binary")
    assert labels.names[labels.leak_index] == "LEAK"
    assert labels.class_ids(names, leak, "x") == [int(name == leak) for name in names]


def test_multiclass_keeps_the_classes():
    labels = LabelMap.of_store(FIVE, "LEAK", "multiclass")
    assert labels.leak_index == 2
    assert labels.class_ids(FIVE, "LEAK", "x") == [0, 1, 2, 3, 4]
    assert labels.class_ids(["normal", "Leak", "crack"], "Leak", "x") == [3, 2, 1]


def test_multiclass_maps_a_leak_of_another_name_and_refuses_unknown_classes():
    labels = LabelMap.of_store(FIVE, "LEAK", "multiclass")
    assert labels.class_ids(["BURST", "NORMAL"], "BURST", "x") == [2, 3]
    with pytest.raises(InputError, match=r"x: labels \['RAIN'\] are not among"):
        labels.class_ids(["LEAK", "RAIN"], "LEAK", "x")
