"""Labels of confirmed recordings in the words of the store."""

import pytest

from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError
from leakdet.learning.vocabulary import Vocabulary

STORE = Vocabulary(("ok", "drip"), ("drip",), ("noise",))


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("leak", "drip"),
        ("LEAK", "drip"),
        ("Drip", "drip"),
        ("no_leak", "ok"),
        ("No leak", "ok"),
        ("dry_hole", "ok"),
        ("dry hole", "ok"),
        ("ok", "ok"),
        ("noise", None),
    ],
)
def test_words_of_the_crew_mean_labels_of_the_store(label: str, name: str | None) -> None:
    assert STORE.name_of(label, "here") == name


def test_an_unknown_label_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(InputError, match=r"c.csv, a.wav: the label 'maybe' is none of leak, no_l"):
        STORE.name_of("maybe", "c.csv, a.wav")


def test_of_several_classes_the_word_leak_does_not_say_which() -> None:
    several = Vocabulary(("gasket", "orifice", "ok"), ("gasket", "orifice"))
    with pytest.raises(InputError, match="may be any of gasket, orifice"):
        several.name_of("leak", "here")
    assert several.name_of("dry_hole", "here") == "ok"


def test_a_model_that_does_not_say_its_labels_has_the_usual_ones() -> None:
    unknown = LabelMap("binary", ("NO_LEAK", "LEAK"), (1,))
    assert Vocabulary.of_model(unknown) == Vocabulary(("leak", "no_leak"), ("leak",))
    told = LabelMap(
        "binary", ("NO_LEAK", "LEAK"), (1,), ("drip",), {"drip": "drip", "ok": "ok", "x": None}
    )
    assert Vocabulary.of_model(told) == Vocabulary(("drip", "ok"), ("drip",), ("x",))
