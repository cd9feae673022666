import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import says

from leakdet.core.errors import InputError
from leakdet.core.messages import messages_on_screen
from leakdet.detection.decision import DecisionRule
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.labels import LabelMap
from leakdet.detection.source_rates import SourceRates
from leakdet.scoring.detector import Detector, load_detector
from leakdet.scoring.listing import FileList, Listing, list_files
from leakdet.scoring.prediction import (
    VerdictCounts,
    check_replaceable,
    columns_by,
    model_text,
    now,
    sidecar_path,
    write_sidecar,
    write_verdicts,
)
from leakdet.storage.model_file import load_mel_detector
from leakdet.tables.read import read_csv
from leakdet.tables.schema import Verdict, row_columns
from leakdet.tables.write import row_writer, windows_file


def test_the_models_own_verdict_is_said_first(example_files) -> None:
    detector = load_mel_detector(example_files.model)
    own = {"split": "test", "grade": "good", "label": "Tells leaks apart", "sentence": "It did."}
    good = replace(detector, card={"verdict": own}, file_hash="0123abcd")
    text = "model    0123abcd: Tells leaks apart (own evaluation on test). It did."
    assert model_text(good).splitlines()[0] == text
    assert "training recordings sound like" in model_text(good)
    rng = np.random.default_rng(0)
    reference = SpectralReference.of(rng.normal(0, 1, (20, 4)), np.arange(20) < 10)
    good = replace(good, reference=reference)
    good = replace(good, sources=SourceRates({4000: (4, 4)}))
    assert model_text(good) == text
    unknown = replace(good, sources=None)
    assert "knows no sample rate of training recordings" in model_text(unknown)
    assert model_text(replace(unknown, rule=replace(good.rule, source="off"))) == text
    off = replace(good, rule=replace(good.rule, unfamiliar="off"))
    assert model_text(off).splitlines()[1].startswith("note     familiarity ")
    assert len(model_text(off).splitlines()) == 2
    bad = replace(good, card={"verdict": {**own, "grade": "bad"}})
    assert "before you dig" in model_text(bad)
    assert "does not say" in model_text(replace(good, card={}))
    assert model_text(good, "decided anew: …").splitlines() == [text, "note     decided anew: …"]


def test_undecided_recordings_are_counted_by_reason() -> None:
    counts = VerdictCounts()
    assert str(counts) == "0 files: 0 leak, 0 no_leak, 0 undecided, 0 failed"
    for reason in ("silent", "short", "short"):
        counts.add(Verdict("a", "undecided", None, 0.5, reason=reason).to_dict())
    counts.add(Verdict("a", "leak", 0.9, 0.5).to_dict())
    counts.add(Verdict("a", None, None, 0.5, error="no sound").to_dict())
    assert str(counts) == ("5 files: 1 leak, 0 no_leak, 3 undecided (1 silent, 2 short), 1 failed")
    assert (counts.failed, counts.total) == (1, 5)


def test_what_to_do_about_the_undecided_is_said_also_of_merged_counts() -> None:
    whole, first = VerdictCounts(), VerdictCounts()
    for reason, rate_hz in (("doubt", 48000), ("doubt", 40000), *[("other_source", 8000)] * 12):
        first.add(
            Verdict("a", "undecided", 0.6, 0.5, reason=reason, source_rate_hz=rate_hz).to_dict()
        )
    for rate_hz in (40000, 8000, 0):
        first.add(Verdict("a", "leak", 0.9, 0.5, source_rate_hz=rate_hz).to_dict())
    before = VerdictCounts().state()
    del before["other_rates"], before["decided_rates"]  # of parts from before
    for state in (first.state(), before):
        whole.merge(json.loads(json.dumps(state)))
    rule, sources = DecisionRule(doubt=0.2), SourceRates({40000: (5, 5), 48000: (5, 5)})
    doubt, source, decided = whole.undecided_sentences(rule, sources)
    assert doubt == (
        "doubt    2 of 17 are too close to call (leak_prob 0.3 to 0.7): listen to these first."
    )
    assert source == f"source   {sources.sentence(8000, 12)}"
    assert decided == f"source   {sources.sentence(8000, 1, decided=True)}"
    assert VerdictCounts().undecided_sentences(rule, sources) == []


def test_flags_are_counted() -> None:
    counts = VerdictCounts()
    counts.add(Verdict("a", "leak", 0.9, 0.5, flags=["clipped"]).to_dict())
    counts.add(Verdict("b", "leak", 0.9, 0.5, flags=["truncated", "clipped"]).to_dict())
    assert str(counts).splitlines()[1:] == ["flags: 2 clipped, 1 truncated"]


def test_channels_are_counted_with_their_files() -> None:
    counts = VerdictCounts()
    for channel in (1, 2, 1):
        counts.add(Verdict("a", "leak", 0.9, 0.5, channel=channel).to_dict())
    counts.add(Verdict("b", None, None, 0.5, error="no sound").to_dict())
    assert str(counts) == "4 channels of 3 files: 3 leak, 0 no_leak, 0 undecided, 1 failed"


def test_classes_are_counted_where_they_are_told() -> None:
    counts = VerdictCounts()
    for name in ("pump", "burst", "pump"):
        counts.add(
            Verdict("a", "leak", 0.9, 0.5, class_name=name, class_prob={name: 0.9}).to_dict()
        )
    counts.add(Verdict("a", "undecided", 0.9, 0.5, reason="short").to_dict())
    assert str(counts).splitlines()[1:] == ["classes: 2 pump, 1 burst"]
    assert counts.to_json()["classes"] == {"pump": 2, "burst": 1}
    assert "classes" not in VerdictCounts().to_json()


def test_counts_of_parts_are_merged() -> None:
    verdicts = [
        Verdict("a.wav", "leak", 0.9, 0.5, flags=["clipped", "damaged"], channel=1),
        Verdict("a.wav", "undecided", None, 0.5, reason="silent", channel=2),
        Verdict("b.wav", None, None, 0.5, error="no sound"),
        Verdict("c.wav", "no_leak", 0.1, 0.5, class_name="rain", class_prob={"rain": 0.9}),
    ]
    whole, first, second = VerdictCounts(), VerdictCounts(), VerdictCounts()
    for number, verdict in enumerate(verdicts):
        whole.add(verdict.to_dict())
        (first if number < 2 else second).add(verdict.to_dict())
    merged = VerdictCounts()
    for part in (first, second):
        merged.merge(json.loads(json.dumps(part.state())))
    assert str(merged) == str(whole)
    assert merged.to_json() == whole.to_json()


def test_counts_are_numbers_where_messages_are_json(capsys) -> None:
    counts = VerdictCounts()
    counts.add(Verdict("a.wav", "leak", 0.9, 0.5).to_dict())
    with messages_on_screen("json"):
        counts.log(DecisionRule(), None)
    (told,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (told["kind"], told["message"]) == ("counts", str(counts))
    assert {key: told[key] for key in counts.to_json()} == counts.to_json()


def test_it_says_which_model_decided_how_and_what_came_of_it(example_files, tmp_path: Path) -> None:
    latest = tmp_path / "latest"
    latest.symlink_to(example_files.model.parent)  # the next training moves such a link
    model = latest / example_files.model.name
    detector = load_detector(model, device="cpu", threshold=0.75)
    counts = VerdictCounts()
    counts.add(Verdict("a", "leak", 0.9, 0.75, flags=["clipped", "met_in_training"]).to_dict())
    counts.add(Verdict("b", "undecided", None, 0.75, reason="short", flags=["short"]).to_dict())
    counts.add(Verdict("c", None, None, 0.75, error="no sound").to_dict())
    out = tmp_path / "rows.csv"
    write_sidecar(
        out,
        detector,
        counts,
        inputs=["in", "empty"],
        left_out=["left out empty: no audio there"],
        settings={"format": "csv"},
        started_at=now(),
    )
    latest.unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv.json"]
    content = json.loads(sidecar_path(out).read_text())
    assert content["model"]["path"] == str(example_files.model.resolve())
    assert content["model"]["hash"] == detector.mel_detector.file_hash
    assert content["model"]["verdict"] is None
    assert content["decision_rule"]["threshold"] == 0.75
    assert re.search(r"0\.75 .*own 0\.5", content["decided_anew"])
    assert content["settings"] == {"format": "csv", "device": "cpu"}
    assert content["inputs"] == ["in", "empty"]
    assert content["left_out"] == ["left out empty: no audio there"]
    assert content["recordings"] == 3
    assert content["decisions"] == {"leak": 1, "no_leak": 0, "undecided": 1, "failed": 1}
    assert content["reasons"] == {"short": 1}
    assert content["flags"] == {"clipped": 1, "met_in_training": 1, "short": 1}
    assert content["started_at"] <= content["finished_at"]


VERDICT = Verdict("a.wav", "leak", 0.9, 0.5)


def refused(out: Path, windows: bool = False) -> str:
    with pytest.raises(InputError, match=r"would be replaced.*predict") as told:
        check_replaceable(out, windows)
    return str(told.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_of_an_earlier_run_are_replaced(kind: str, tmp_path: Path) -> None:
    out = tmp_path / f"v.{kind}"
    check_replaceable(out, windows=True)
    with row_writer(out, kind, True, row_columns()) as write:
        write(VERDICT.to_dict())
    (tmp_path / f"v.{kind}.json").write_text(json.dumps({"rows": out.name}))
    check_replaceable(out, windows=kind == "csv")
    for text in ("", "old\n"):  # as mktemp makes it; no table
        out.write_text(text)
        check_replaceable(out, windows=False)


def test_what_predict_did_not_write_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("path,label\na.wav,leak\n")
    assert str(table) in refused(table)
    (tmp_path / "metrics.json").write_text(json.dumps({"model": "m"}))
    assert "metrics.json would" in refused(tmp_path / "metrics")
    (tmp_path / "v.windows.csv").write_text("notes\n")
    check_replaceable(tmp_path / "v.csv", windows=False)
    assert "v.windows.csv would" in refused(tmp_path / "v.csv", windows=True)
    for content in (b"\xff\xfe[1]", b"RIFF\0\0\0", b'{\n "a": 1\n}\n'):
        (tmp_path / "other.jsonl").write_bytes(content)
        refused(tmp_path / "other.jsonl")


def test_rows_with_labels_filled_in_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    with row_writer(out, "csv", False, row_columns()) as write:
        write(VERDICT.to_dict())
    out.write_text(out.read_text().replace("path,", "path,label,", 1))
    refused(out)


@pytest.fixture
def detector(example_files) -> Detector:
    return load_detector(example_files.model, device="cpu")


def test_rows_counts_and_sidecar_agree(detector, example_files, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_text("no sound")
    paths, out = [str(example_files.recording), str(tmp_path / "bad.wav")], tmp_path / "rows.csv"
    counts = write_verdicts(detector, paths, list_files(paths), out)
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    content = json.loads((tmp_path / "rows.csv.json").read_text())
    assert (len(rows), counts.total, content["recordings"]) == (2, 2, 2)
    assert {row["model"] for row in rows} == {content["model"]["hash"]}
    assert content["decisions"]["failed"] == 1
    settings = {"format": "csv", "windows": False, "workers": 0, "device": "cpu"}
    assert content["settings"] == settings


def test_seconds_of_a_file_have_a_row_each(detector, example_files, tmp_path: Path) -> None:
    table, out = tmp_path / "list.csv", tmp_path / "rows.csv"
    seconds = ["0.25,1.25", "1,2", "1,2", "2,1", "1.5,2.5"]
    rows = [f"{example_files.recording},{text},north" for text in seconds]
    table.write_text("\n".join(["path,start,end,site", *rows]))
    listed = list_files([str(table)])
    counts = write_verdicts(detector, [str(table)], listed, out, windows=True)
    written = read_csv(out, "rows")
    assert list(written[0])[:4] == ["path", "start_s", "end_s", "site"]
    told = [(row["start_s"], row["end_s"], row["duration_s"]) for row in written]
    assert told == [("0.25", "1.25", "1.0"), ("1.0", "2.0", "1.0"), ("1.5", "2.5", "")]
    assert written[2]["error"] == "its sound ends at 2 s, before the end of 1.5-2.5s"
    assert says(listed.listing.sentences(), "line 5: its end", "seconds", "more than once.*: 1 ")
    assert str(counts).startswith("3 recordings: ")
    windows = read_csv(windows_file(out), "windows")
    assert list(windows[0])[:3] == ["path", "start_s", "end_s"]
    assert [row["window_start_s"] for row in windows if row["start_s"] == "1.0"][:2] == [
        "1.0",
        "1.125",
    ]


def test_an_interrupted_run_keeps_its_rows_and_says_so(
    detector, example_files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Iterator[Verdict]:
        yield Verdict("a.wav", "leak", 0.9, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(detector, "predict_listed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_verdicts(detector, ["in"], FileList([], Listing([])), tmp_path / "rows.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv.partial"]
    assert "a.wav,leak" in (tmp_path / "rows.csv.partial").read_text()


def test_without_a_file_nothing_is_written_beside_it(
    detector, example_files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [str(example_files.recording)]
    write_verdicts(detector, paths, list_files(paths))
    assert capsys.readouterr().out.startswith("path,decision,")
    assert list(tmp_path.iterdir()) == []


def test_the_columns_of_a_model_follow_from_its_channels_and_classes(example_files) -> None:
    detector = load_mel_detector(example_files.model)
    assert columns_by(detector) == row_columns()
    assert columns_by(replace(detector, signal=None), ["site"]) == row_columns(listed=["site"])
    each = replace(detector.signal, channels="each")
    labels = LabelMap("multiclass", ("burst", "ok"), (0,))
    assert columns_by(replace(detector, signal=each, labels=labels), ["site"]) == row_columns(
        True, ["burst", "ok"], ["site"]
    )
