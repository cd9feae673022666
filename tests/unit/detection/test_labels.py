import pytest

from leakdet.detection.labels import LabelMap, find_leak_label
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


@pytest.mark.parametrize(
    "names", [["LEAK", "NOLEAK"], ["no_leak", "leak"], ["BACKGROUND", "Leak", "NORMAL"]]
)
def test_the_leak_label_is_found_in_any_case_and_place(names: list[str]):
    assert find_leak_label(names, None, "x").casefold() == "leak"


def test_another_leak_label_is_found_by_its_name():
    assert find_leak_label(["burst", "quiet"], "BURST", "x") == "burst"


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        (
            ["burst", "quiet"],
            None,
            r'no label is called "leak" \(found: burst, quiet\)\. Which one means a leak\? .*=burst$',
        ),
        (["noleaks", "leaks"], "LEAK", r"labels\.leak=leaks$"),
        (["burst", "quiet"], "rain", 'no label is called "rain"'),
        (["LEAK", "Leak"], None, "LEAK and Leak differ in upper and lower case only"),
    ],
)
def test_a_missing_or_ambiguous_leak_label_is_told(names: list[str], wanted: str, message: str):
    with pytest.raises(InputError, match=f"^store: .*{message}"):
        find_leak_label(names, wanted, "store")
