"""predict says how good the model is, and counts its verdicts by reason."""

import json
from dataclasses import replace

import numpy as np

from leakdet._messages import messages_on_screen
from leakdet.detection.spectral_reference import SpectralReference
from leakdet.scoring.summary import VerdictCounts, model_text
from leakdet.scoring.verdict import Verdict
from leakdet.storage.model_file import load_mel_detector


def test_the_models_own_verdict_is_said_first(example_files) -> None:
    detector = load_mel_detector(example_files.model)
    own = {"split": "test", "grade": "good", "label": "Tells leaks apart", "sentence": "It did."}
    good = replace(detector, card={"verdict": own}, file_hash="0123abcd")
    text = "model    0123abcd: Tells leaks apart (own evaluation on test). It did."
    assert model_text(good).splitlines()[0] == text
    assert "does not say what its training recordings sound like" in model_text(good)
    rng = np.random.default_rng(0)
    reference = SpectralReference.of(rng.normal(0, 1, (20, 4)), np.arange(20) < 10)
    good = replace(good, reference=reference)
    assert model_text(good) == text
    off = replace(good, rule=replace(good.rule, unfamiliar="off"))
    assert model_text(off).splitlines()[1].startswith("note     familiarity was not judged")
    assert len(model_text(off).splitlines()) == 2
    bad = replace(good, card={"verdict": {**own, "grade": "bad"}})
    assert "before you dig" in model_text(bad)
    assert "does not say" in model_text(replace(good, card={}))
    assert model_text(good, "decided anew: …").splitlines() == [text, "note     decided anew: …"]


def test_undecided_recordings_are_counted_by_reason() -> None:
    counts = VerdictCounts()
    assert str(counts) == "0 files: 0 leak, 0 no_leak, 0 undecided, 0 failed"
    for reason in ("silent", "short", "short"):
        counts.add(Verdict("a", "undecided", None, 0.5, reason=reason))
    counts.add(Verdict("a", "leak", 0.9, 0.5))
    counts.add(Verdict("a", None, None, 0.5, error="no sound"))
    assert str(counts) == ("5 files: 1 leak, 0 no_leak, 3 undecided (1 silent, 2 short), 1 failed")
    assert (counts.failed, counts.total) == (1, 5)


def test_flags_are_counted() -> None:
    counts = VerdictCounts()
    counts.add(Verdict("a", "leak", 0.9, 0.5, flags=["clipped"]))
    counts.add(Verdict("b", "leak", 0.9, 0.5, flags=["truncated", "clipped"]))
    assert str(counts).splitlines()[1:] == ["flags: 2 clipped, 1 truncated"]


def test_channels_are_counted_with_their_files() -> None:
    counts = VerdictCounts()
    for channel in (1, 2, 1):
        counts.add(Verdict("a", "leak", 0.9, 0.5, channel=channel))
    counts.add(Verdict("b", None, None, 0.5, error="no sound"))
    assert str(counts) == "4 channels of 3 files: 3 leak, 0 no_leak, 0 undecided, 1 failed"


def test_classes_are_counted_where_they_are_told() -> None:
    counts = VerdictCounts()
    for name in ("pump", "burst", "pump"):
        counts.add(Verdict("a", "leak", 0.9, 0.5, class_name=name))
    counts.add(Verdict("a", "undecided", 0.9, 0.5, reason="short"))
    assert str(counts).splitlines()[1:] == ["classes: 2 pump, 1 burst"]
    assert counts.to_json()["classes"] == {"pump": 2, "burst": 1}
    assert "classes" not in VerdictCounts().to_json()


def test_rows_are_counted_as_their_verdicts_and_counts_are_merged() -> None:
    verdicts = [
        Verdict("a.wav", "leak", 0.9, 0.5, flags=["clipped", "damaged"], channel=1),
        Verdict("a.wav", "undecided", None, 0.5, reason="silent", channel=2),
        Verdict("b.wav", None, None, 0.5, error="no sound"),
        Verdict("c.wav", "no_leak", 0.1, 0.5, class_name="rain", class_prob={"rain": 0.9}),
    ]
    whole, first, second = VerdictCounts(), VerdictCounts(), VerdictCounts()
    for number, verdict in enumerate(verdicts):
        whole.add(verdict)
        (first if number < 2 else second).add_row(verdict.to_dict())
    merged = VerdictCounts()
    for part in (first, second):
        merged.merge(json.loads(json.dumps(part.state())))
    assert str(merged) == str(whole)
    assert merged.to_json() == whole.to_json()


def test_counts_are_numbers_where_messages_are_json(capsys) -> None:
    counts = VerdictCounts()
    counts.add(Verdict("a.wav", "leak", 0.9, 0.5))
    with messages_on_screen(as_json=True):
        counts.log()
    (told,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (told["kind"], told["message"]) == ("counts", str(counts))
    assert {key: told[key] for key in counts.to_json()} == counts.to_json()
