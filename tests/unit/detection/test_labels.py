import json
import re
import unicodedata

import pytest

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError
from leakdet.detection.labels import LabelMap, LabelView, joined, label_view, sounds_like_leak


def view_of_labels(*names: str, stored: tuple[str, ...] = (), **settings: object) -> LabelView:
    return label_view(names, LabelsConfig(**settings), "store", stored)


@pytest.mark.parametrize(
    "names", [("LEAK", "NOLEAK"), ("no_leak", "leak"), ("BACKGROUND", "Leak", "NORMAL")]
)
def test_the_leak_label_is_found_in_any_case_and_place(names: tuple[str, ...]):
    (leak,) = view_of_labels(*names).leaks
    assert leak.casefold() == "leak"


@pytest.mark.parametrize(
    ("wanted", "leaks"),
    [
        ("BURST", ("burst",)),
        (["drip", "Burst"], ("burst", "drip")),
        ("漏水", ("漏水",)),
        ("leck (GROSS)", ("Leck (groß)",)),
        ("a=b", ("a=b",)),
    ],
)
def test_leaks_are_those_named(wanted: object, leaks: tuple[str, ...]):
    assert (
        view_of_labels("burst", "quiet", "drip", "漏水", "Leck (groß)", "a=b", leak=wanted).leaks
        == leaks
    )


def test_spellings_are_one_label_and_the_first_is_kept():
    composed, decomposed = "Fuß", unicodedata.normalize("NFD", "Geräusch")
    found = view_of_labels("LEAK", "Leak", "leak", decomposed, "Geräusch", composed)
    assert found.names == ("LEAK", decomposed, composed)
    assert found.ids(["leak", "Geräusch", "Fuß"]) == [0, 1, 2]
    assert re.search("^LEAK, Leak and leak .* LEAK$", found.notes()[0])


def test_renaming_comes_before_leaving_out_and_naming_the_leaks():
    found = view_of_labels(
        "Tropf", "Riss", "ok", "fein", "unklar",
        rename={"tropf": "drip", "fein": "OK"}, ignore=["unklar"], leak=["drip", "RISS"],
    )  # fmt: skip
    assert found.names == ("drip", "Riss", "ok")
    assert found.leaks == ("drip", "Riss")
    assert found.ids(["Tropf", "Riss", "ok", "fein", "unklar"]) == [0, 1, 2, 2, -1]
    told = found.counting(["unklar", "ok", "unklar"])
    assert told.sentence() == "leak: drip, Riss; no leak: ok; left out: unklar (2 recordings)"
    assert told.notes() == ["Tropf is renamed to drip", "fein is renamed to ok"]


def test_names_may_be_exchanged():
    found = view_of_labels("leak", "ok", rename={"leak": "ok", "ok": "leak"})
    assert found.name_of_label == {"leak": "ok", "ok": "leak"}
    assert found.leaks == ("leak",)


def test_leaks_of_the_store_count_where_the_settings_name_none():
    assert view_of_labels("a", "b", "c", stored=("a", "b")).leaks == ("a", "b")
    assert view_of_labels("a", "b", "c", stored=("a",), rename={"a": "x"}).leaks == ("x",)
    assert view_of_labels("a", "b", "c", stored=("a", "b"), ignore="a").leaks == ("b",)
    assert view_of_labels("a", "b", "c", stored=("a", "b"), leak="c").leaks == ("c",)


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        (
            ("burst", "quiet"),
            {},
            r'no label .*"leak" \(found: burst, quiet\).*=NAME$',
        ),
        (("noleaks", "leaks"), {"leak": "LEAK"}, r"labels\.leak=leaks$"),
        (("0", "1"), {}, r"labels\.leak=1$"),
        (("False", "True"), {"leak": ["false", "true"]}, r"labels\.leak=True$"),
        (("normal", "dry"), {}, r"labels\.leak=NAME$"),
        (("a-leak", "b leak", "ok"), {}, r"'labels\.leak=\[a-leak,b leak\]'$"),
        (("burst", "quiet"), {"leak": ["burst", "rain"]}, 'no label .*"rain"'),
        (("leak", "leak2"), {"leak": ["leak", "leak2"]}, "every label"),
        (
            ("ok", "drip", "a leak"),
            {"leak": ["ok", "drip", "a leak"]},
            r"example .labels\.leak=a leak.$",
        ),
        (("leak", "ok"), {"ignore": "noise"}, r"labels\.ignore names noise, but no label"),
        (("leak", "ok"), {"rename": {"o": "x"}}, r"labels\.rename names o, but no label"),
        (
            ("leak", "gasket-leak", "ok"),
            {},
            r"gasket-leak .*only leak .*"
            r"'labels\.leak=\[leak,gasket-leak\]', or labels\.leak=leak if",
        ),
    ],
)
def test_what_is_missing_or_doubtful_is_refused_with_the_remedy(
    names: tuple[str, ...], settings: dict[str, object], message: str
):
    with pytest.raises(InputError, match=rf"^store: .*{message}"):
        view_of_labels(*names, **settings)


def test_a_remedy_can_be_an_option():
    with pytest.raises(InputError, match="--leak leak --leak gasket-leak, or --leak leak if"):
        label_view(["leak", "gasket-leak", "ok"], LabelsConfig(), "store", flags=True)


@pytest.mark.parametrize("stored", [(), ("leak",)])
def test_a_label_that_sounds_like_a_leak_and_is_none_by_choice_is_told(stored: tuple[str, ...]):
    found = view_of_labels("leak", "valve_leak", "ok", stored=stored, leak=[] if stored else "leak")
    (note,) = found.notes()
    assert note.startswith("valve_leak ")
    assert note.endswith("'labels.leak=[leak,valve_leak]'")


@pytest.mark.parametrize(
    ("name", "like"),
    [
        *((name, True) for name in ("LEAK", "gasket-leak", "Leckage", "Rohrleck", "漏水", "fuite")),
        *((name, False) for name in ("NOLEAK", "no_leak", "non-leak", "kein Leck", "leak-free")),
        *((name, False) for name in ("without a leak", "pas de fuite", "Fleck", "不漏", "normal")),
        ("casino leak", True),
    ],
)
def test_what_people_would_take_for_a_leak(name: str, like: bool):
    assert sounds_like_leak(name) == like


def test_the_view_of_several_splits_counts_all_that_is_left_out():
    one = view_of_labels("leak", "ok", "?", ignore="?")
    views = [one.counting(["?", "ok"]), one.counting(["ok"]), one.counting(["?", "?"])]
    assert joined(views).left_out == {"?": 3}


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
