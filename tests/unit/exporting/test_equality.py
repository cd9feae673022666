import re
from dataclasses import replace

import numpy as np
import pytest

from leakdet.exporting.detector import load_onnx_detector
from leakdet.exporting.equality import Equality, compare, seeded_sounds
from leakdet.scoring.detector import Detector
from leakdet.tables.schema import Verdict, Window

OWN = Verdict("a.wav", "leak", 0.7, 0.5, [Window(0.0, 1.0, 0.8), Window(0.5, 1.5, 0.6)], 2)


def test_differences_and_verdicts_are_counted() -> None:
    equality = Equality(limit=1e-4)
    equality.compare("a", OWN, OWN)
    assert equality.holds
    moved = [OWN.windows[0], OWN.windows[1]._replace(leak_prob=0.6005)]
    equality.compare("b", OWN, replace(OWN, windows=moved, leak_prob=0.70005))
    assert equality.holds
    assert equality.largest == pytest.approx(5e-5)
    assert equality.largest_window == pytest.approx(5e-4)
    assert equality.where == "b"
    equality.compare("c", OWN, replace(OWN, leak_prob=0.7002))
    assert not equality.holds
    assert re.search(r"3 recordings: .*2\.0e-04", equality.sentence())


def test_windows_are_held_to_ten_times_the_limit() -> None:
    equality = Equality(limit=1e-4)
    moved = [OWN.windows[0], OWN.windows[1]._replace(leak_prob=0.602)]
    equality.compare("a", OWN, replace(OWN, windows=moved))
    assert not equality.holds


def test_a_verdict_changes_only_beside_the_threshold() -> None:
    near = replace(OWN, threshold=0.70005)
    equality = Equality(limit=1e-4)
    equality.compare("near", near, replace(near, decision="no_leak"))
    assert (equality.flipped, equality.near, equality.holds) == (0, 1, True)
    equality.compare("far", OWN, replace(OWN, decision="no_leak"))
    assert (equality.flipped, equality.holds) == (1, False)


def test_a_verdict_changes_at_either_end_of_the_doubt_too() -> None:
    doubtful = {"decision": "undecided", "reason": "doubt"}
    edge = replace(OWN, leak_prob=0.70005)
    equality = Equality(limit=1e-4, doubt=0.2)
    equality.compare("near", edge, replace(edge, leak_prob=0.69998, **doubtful))
    assert (equality.flipped, equality.near, equality.holds) == (0, 1, True)
    equality.compare("far", replace(OWN, leak_prob=0.6), replace(OWN, leak_prob=0.6, **doubtful))
    assert (equality.flipped, equality.holds) == (1, False)


@pytest.mark.parametrize(
    "changes", [{"reason": "short"}, {"flags": ["clipped"]}, {"windows": OWN.windows[:1]}]
)
def test_other_reasons_flags_or_windows_are_no_equality(changes) -> None:
    equality = Equality(limit=1e-4)
    equality.compare("a", OWN, replace(OWN, **changes))
    assert not equality.holds


def test_the_recording_of_the_largest_difference_may_be_narrow() -> None:
    equality, narrow = Equality(limit=1e-4), replace(OWN, flags=["narrow_band"])
    equality.compare("8 kHz", narrow, replace(narrow, leak_prob=0.7004))
    equality.compare("16 kHz", OWN, replace(OWN, leak_prob=0.7002))
    assert (equality.where, equality.narrow) == ("8 kHz", True)
    equality.compare("16 kHz", OWN, replace(OWN, leak_prob=0.7008))
    assert (equality.where, equality.narrow) == ("16 kHz", False)


def test_the_generated_sounds_are_the_same_every_time(small_signal) -> None:
    first, second = seeded_sounds(small_signal), seeded_sounds(small_signal)
    assert first.keys() == second.keys()
    assert all((first[name] == second[name]).all() for name in first)


def test_a_nan_is_no_equality() -> None:
    equality = Equality(limit=1e-4)
    outputs = {"leak_prob": np.array(np.nan), "decision": np.array(1)}
    equality.graph("a", OWN, outputs)
    equality.compare("b", OWN, OWN)
    assert equality.largest == np.inf
    assert not equality.holds


def test_a_file_of_another_model_is_found_out(exported, classes_detector) -> None:
    other = Detector(load_onnx_detector(exported), exported)
    assert compare(classes_detector, other, "float32").holds
    inner = classes_detector.mel_detector
    blended = Detector(replace(inner, blend=0.2), classes_detector.path)
    equality = compare(blended, other, "float32")
    assert equality.largest > 1e-4
    assert not equality.holds
