import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from leakdet.detection.labels import LabelMap
from leakdet.evaluation.class_tables import ClassScores, class_table
from leakdet.evaluation.metrics import COUNTS, RATES
from leakdet.reporting.conclusion import log_summary
from leakdet.reporting.report import (
    LEARNING,
    MAX_IDS,
    all_numbers,
    audit_rows,
    cards,
    class_page,
    digs,
    interval_sentence,
    kept_apart,
    next_steps,
    page_figures,
    render,
    write_report,
    write_results,
)


def test_the_last_split_is_judged(scored, report_input):
    material = report_input(scored(name="val"), scored(name="test"))
    assert material.judged == "test"
    assert material.tables is material.metrics["test"]


LABELS = LabelMap("multiclass", ("drip", "ok", "pump"), (0,))


def page(true: list[int], predicted: list[int]) -> dict:
    label = np.array([*LABELS.names, "rain"])[true]
    found = class_page(
        class_table(ClassScores(LABELS, np.eye(3)[predicted], np.array(true)), label)
    )
    assert found is not None
    return found


def test_a_binary_model_has_none() -> None:
    assert class_page(None) is None


def test_rows_are_true_classes_and_columns_predicted_ones() -> None:
    found = page([0, 0, 0, 1, 1, 2, -1], [0, 0, 1, 1, 1, 0, 0])
    assert "4 of 6 recordings" in found["sentence"]
    drip, _, pump = found["rows"]
    assert [cell["count"] for cell in drip["cells"]] == [2, 1, 0]
    assert [cell["kind"] for cell in drip["cells"]] == ["right", "wrong", ""]
    assert (drip["leak"], pump["leak"], drip["n"], pump["predicted"]) == (True, False, 3, 0)
    assert pump["metrics"][1].startswith("n/a: no recording")
    assert any("drip (3), ok (2), pump (1)" in note for note in found["notes"])
    assert any(note.endswith("rain (1)") for note in found["notes"])


def test_a_class_without_recordings_says_so() -> None:
    found = page([0, 1], [0, 1])
    metrics = found["rows"][2]["metrics"]
    assert [metric.startswith("n/a: no recording") for metric in metrics] == [True] * 3
    assert [cell["share"] for cell in found["rows"][2]["cells"]] == [None] * 3


def test_nothing_to_judge() -> None:
    assert page([-1], [0])["sentence"].startswith("No recording has a label")


def met(count, of, table):
    return {
        "recordings": of,
        "met": count,
        "train": count - 1,
        "val": 1,
        "ids": [f"{row}.wav" for row in range(count)],
        "recording": table,
    }


def test_recordings_that_the_model_has_met_are_told_apart():
    table = {"tp": 9, "positives": 10, "fp": 1, "negatives": 11}
    (apart,) = kept_apart({"met_in_training": met(21, 22, table)})
    assert apart.heading == "Met in training"
    met_facts = "^21 of 22 .*20 trained .*1 chose .* 9 of 10 leaks .* 1 false alarm on 11 "
    assert re.search(met_facts, apart.sentence)
    assert (len(apart.ids), apart.more) == (21, 0)


def test_silent_recordings_are_told_apart_and_long_lists_end():
    (apart,) = kept_apart({"without_sound": [f"{row}.wav" for row in range(MAX_IDS + 2)]})
    assert apart.sentence.startswith("502 recordings without ")
    assert (len(apart.ids), apart.more) == (MAX_IDS, 2)


def test_recordings_of_no_known_group_are_told_apart():
    (apart,) = kept_apart({"without_group": ["a.wav"], "group_by": ["pipe"]})
    assert apart.sentence == "1 recording with a blank pipe took no part."
    assert apart.ids == ["a.wav"]


def test_what_predict_would_not_decide_is_told_with_its_reason():
    strange = {
        "setting": "strict",
        "recordings": 22,
        "undecided": 2,
        "decided_wrongly": 3,
        "median_familiarity": 0.4,
        "max_familiarity": 2.345,
        "ids": ["a.wav", "b.wav"],
    }
    (apart,) = kept_apart({"unfamiliar": strange})
    assert (apart.heading, apart.ids, apart.more) == ("Unfamiliar", ["a.wav", "b.wav"], 0)
    facts = r"^2 of 22 .* other 20, 3 .* above 0\.8 \(decision\.unfamiliar=strict\).* 2\.35\.$"
    assert re.search(facts, apart.sentence)
    assert kept_apart({"unfamiliar": strange | {"undecided": 0, "ids": []}}) == []
    assert kept_apart({"unfamiliar": None}) == []


def test_nothing_is_kept_apart_where_nothing_is_said():
    assert kept_apart({}) == []
    assert kept_apart({"met_in_training": None, "without_sound": []}) == []
    assert kept_apart({"met_in_training": met(1, 2, None) | {"met": 0}}) == []


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_digs_follow_bayes():
    table = {"recall": 0.8, "fpr": 0.1, "positives": 50, "n": 100}
    table["intervals"] = {"recall": [0.7, 0.9], "fpr": [0.05, 0.2]}
    here, tenth, fiftieth = digs(table)
    assert here["hits"] == "89"
    assert plain(here["share"]) == "as among these recordings (50 %)"
    assert tenth["hits"] == f"{100 * 0.8 * 0.1 / (0.8 * 0.1 + 0.1 * 0.9):.0f}" == "47"
    assert fiftieth["range"] == "7 to 27"


def test_a_detector_that_never_alarms_digs_nowhere():
    table = {"recall": 0.0, "fpr": 0.0, "positives": 50, "n": 100}
    table["intervals"] = {"recall": [0.0, 0.1], "fpr": [0.0, 0.2]}
    assert digs(table)[0] == {
        "share": digs(table)[0]["share"],
        "hits": "no alarms",
        "range": "0 to 100",
    }
    assert digs(table | {"recall": None}) == []


def test_cards_show_value_interval_and_basis(scored, report_input):
    table = report_input(scored()).tables["recording"]
    recall, fpr, precision, f1, auroc = cards(table)
    assert plain(recall["value"]) == f"{100 * table['recall']:.0f} %"
    assert recall["basis"] == f"{table['tp']} of 20"
    assert fpr["basis"] == f"{table['fp']} of 20"
    assert precision["basis"] == f"{table['tp']} of {table['predicted_positives']}"
    assert f1["value"] == f"{table['f1']:.3f}"
    low, high = table["intervals"]["auroc"]
    assert auroc["interval"] == f"{low:.2f} to {high:.2f}"


def test_an_undefined_card_gives_the_reason(scored, report_input):
    (recall, *_) = cards(report_input(scored(4, leaks=False)).tables["recording"])
    assert recall["value"] == "n/a"
    assert recall["interval"].startswith("none of 4 rows")


def test_all_numbers_hold_every_metric_of_every_split(scored, report_input):
    material = report_input(scored(name="val"), scored())
    numbers = all_numbers(material.metrics, ["val", "test"])
    assert numbers["columns"] == [
        "test, recordings",
        "val, recordings",
        "test, windows",
        "val, windows",
    ]
    keys = [key for key, *_ in numbers["rows"]]
    assert set(keys) == {*COUNTS, *RATES, "smallest_resolvable_fpr"}
    cells = dict(zip(keys, (row[2] for row in numbers["rows"]), strict=True))
    assert cells["n"] == ["40", "40", "120", "120"]
    assert re.search(r"^n/a: 20 negatives .*0\.05$", cells["tpr_at_fpr_0.001"][0])
    assert cells["f1"][0].startswith(f"{material.tables['recording']['f1']:.3f} (")


def test_notes_are_listed_where_there_are_any(scored, report_input):
    material = report_input(scored())
    material.tables["recording"]["intervals"]["note"] = None
    assert all_numbers(material.metrics, ["test"])["notes"] == []
    material.tables["recording"]["intervals"]["note"] = "too narrow"
    assert all_numbers(material.metrics, ["test"])["notes"] == ["test: too narrow"]


def test_intervals_say_what_they_resample_and_which_are_wilsons():
    intervals = {"unit": "recording", "note": None}
    assert interval_sentence({"intervals": intervals}).endswith("resample recordings.")
    note = "the intervals rest on 2 groups only and are too narrow; recall: all replicates alike"
    text = interval_sentence({"intervals": {"unit": "pipe", "note": note}})
    assert text.endswith("resample whole groups (pipe). Of recall: all replicates alike.")


def test_the_detector_stands_among_the_baselines_by_auroc(scored, report_input):
    rows = [
        {"name": name, "explanation": "", "auroc": auroc, "interval": None}
        for name, auroc in (("loudness", 0.99), ("nothing", None), ("chance", 0.5))
    ]
    table = report_input(scored()).tables["recording"] | {"auroc": 0.8}
    shown = [row["name"] for row in audit_rows({"rows": rows}, table)]
    assert shown == ["loudness", "the detector", "chance", "nothing"]


@pytest.mark.usefixtures("figures")
def test_each_figure_has_a_heading_with_its_split_and_a_reading(scored, report_input):
    drawn = page_figures(report_input(scored(name="val"), scored()))
    assert [heading for heading, *_ in drawn] == [
        "Leaks found against false alarms (ROC): test recordings",
        "Precision against leaks found: test recordings",
        "Scores: test recordings",
        "Error against share decided: test recordings",
        "Calibration: test recordings",
    ]
    assert all(reading.endswith(".") and svg.startswith("<svg ") for _, reading, svg in drawn)


def test_thresholds_of_folds_are_not_called_one(scored, report_input):
    recordings = scored(name="held_out")
    recordings.threshold = np.where(np.arange(40) < 20, 0.4, 0.6)
    readings = {heading: reading for heading, reading, _ in page_figures(report_input(recordings))}
    reading = readings["Scores: recordings held out of training"]
    assert reading.startswith("Each fold ")


def test_learning_curves_mark_the_epoch_kept(scored, report_input, tmp_path: Path):
    history = tmp_path / "history.csv"
    history.write_text("epoch,train/loss,val/loss,val/recording_f1\n0,,0.7,0\n1,0.5,0.6,1\n")
    material = replace(report_input(scored(8)), history=history)
    *_, (heading, _, svg) = page_figures(material)
    assert (heading, "dotted" in svg) == (LEARNING, False)
    material = replace(report_input(scored(8), best_epoch=1), history=history)
    assert "dotted" in page_figures(material)[-1][2]


class Reader(HTMLParser):
    """Every tag with its attributes, and every text outside of script and style."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self._inside = [], "", ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data


def test_nothing_is_fetched_from_anywhere(scored, media, report_input):
    page = Reader(render(report_input(scored(media=media))))
    links = [
        value for tag, attrs in page.tags for key, value in attrs.items()
        if key in ("src", "href", "xlink:href", "action", "srcset") and value
    ]  # fmt: skip
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert any("default-src 'none'" in (attrs.get("content") or "") for _, attrs in page.tags)


def test_names_from_files_and_manifests_are_text_not_markup(scored, report_input):
    recordings = scored(6)
    bad = "<script>alert('x')</script>"
    recordings.recording_id[0] = recordings.label[1] = "<b>&"
    recordings.groups = {bad: np.array([bad, bad, "a", "a", "a", "a"])}
    page = Reader(render(report_input(recordings)))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert bad in page.text


@pytest.mark.usefixtures("figures")
def test_everything_that_can_be_seen_has_a_name(scored, media, report_input):
    page = Reader(render(report_input(scored(media=media), comparison=None)))
    for tag, attrs in page.tags:
        if tag == "img":
            assert attrs["alt"]
        if tag == "audio" or (tag == "svg" and attrs.get("aria-hidden") != "true"):
            assert attrs["aria-label"]
        if tag == "th":
            assert attrs["scope"] in ("row", "col")
        if tag in ("input", "select"):
            assert attrs["name"]
    assert ("html", {"lang": "en"}) in page.tags


def test_the_confusion_matrix_has_true_in_rows_and_predicted_in_columns(scored, report_input):
    recordings = scored(4)
    recordings.is_leak = np.array([True, True, True, False])
    recordings.score = np.array([0.9, 0.9, 0.1, 0.1])  # one missed leak, no false alarm
    html = render(report_input(recordings))
    table = html[html.index('<table class="confusion">') :]
    table = table[: table.index("</table>")]
    assert re.findall(r"<b>(\d+)</b>", table) == ["2", "1", "0", "1"]
    assert table.index("predicted leak") < table.index("true leak") < table.index("missed")


def test_very_many_recordings_fit_into_a_page(scored, media, report_input, tmp_path: Path):
    material = report_input(scored(20_000, media=media), replicates=2)
    path = write_report(tmp_path / "report.html", material)
    assert path.stat().st_size < 12_000_000
    assert "19\u202f000 more recordings are in" in path.read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("leaks", [True, False])
def test_one_class_only_gives_a_report_that_says_so(leaks, scored, report_input):
    html = render(report_input(scored(8, leaks=leaks)))
    assert "Cannot be judged" in html
    assert "Leaks found against false alarms" not in html


def test_without_groups_media_or_times_there_is_a_report(scored, report_input):
    recordings = scored(8)
    recordings.groups = {}
    html = render(report_input(recordings))
    assert "Errors by group" not in html
    assert "<audio" not in html
    assert "No recording has a picture" in html


def test_a_report_on_synthetic_recordings_says_so_first_and_expects_nothing_of_real_pipes(
    scored, report_input
):
    heading = re.compile(r"<h1>.*?</span> (.*?\.)")
    html = render(report_input(scored(200, gap=0.5), synthetic=True))
    assert heading.search(html)[1] == "These recordings are synthetic."
    assert "Of recordings like these" not in html
    html = render(report_input(scored(200, gap=0.5)))
    assert "synthetic" not in html
    assert "Of recordings like these" in html


def test_recordings_kept_apart_have_a_section(scored, report_input):
    page = Reader(render(report_input(scored(), without_sound=["dead/<1>.wav"])))
    assert "Recordings kept apart" in page.text
    assert "dead/<1>.wav" in page.text
    assert ("a", {"href": "#apart-heading"}) in page.tags
    assert "kept apart" not in render(report_input(scored()))


def test_the_audit_is_shown_beside_the_detector(scored, report_input):
    sentence = "Loudness alone does as well."
    row = {"name": "loudness", "explanation": "RMS", "auroc": 0.9, "interval": [0.8, 0.95]}
    audit = {"sentence": sentence, "findings": [sentence], "rows": [row]}
    page = Reader(render(report_input(scored(), audit=audit)))
    assert page.text.count(sentence) == 2  # among the limits and in its own section
    assert "0.80 to 0.95" in page.text
    assert "Unproven" in page.text


def test_learning_curves_are_drawn_from_the_history_where_there_is_one(
    scored, report_input, tmp_path: Path
):
    material = report_input(scored(8))
    assert "Learning curves" not in render(replace(material, history=tmp_path / "none.csv"))
    history = tmp_path / "history.csv"
    history.write_text("epoch,train/loss,val/loss,val/recording_f1\n0,,0.7,0\n1,0.5,0.6,1\n")
    assert "Learning curves" in render(replace(material, history=history))


def test_results_are_whole_files_with_figures_and_the_verdict_is_logged(
    scored, report_input, tmp_path: Path, messages
):
    material = report_input(scored(200, gap=0.5))
    write_results(tmp_path / "run", material)
    names = {"metrics.json", "recordings.csv", "report.html", "figures"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == names
    log_summary(material.metrics, tmp_path / "run", "leakdet predict model new")
    lines = messages.messages[2:]
    assert len(lines) == 9
    kinds = [lines[number].split()[0] for number in (0, 1, 6, 7, 8)]
    assert kinds == ["verdict", "test", "unsure", "report", "next"]
    assert "Tells leaks apart" in messages.messages[2]


def test_a_summary_of_undecided_recordings_counts_what_is_decided(scored, report_input, messages):
    recordings = scored(200, gap=0.5)
    recordings.reason = np.where(np.abs(recordings.score - 0.5) < 0.1, "doubt", "")
    material = report_input(recordings)
    log_summary(material.metrics)
    coverage = material.tables["coverage"]
    assert f"({coverage['decided']} of 200)" in messages.messages[1]
    wrong = coverage["fp"] + coverage["fn"]
    assert f"({wrong} of {coverage['decided']})" in messages.messages[2]
    assert [line.split()[1] for line in messages.messages[4:6]] == ["F1", "AUROC,"]
    page = Reader(render(material))
    assert f"Undecided: {200 - coverage['decided']} too close to call." in page.text
    assert ("option", {"value": "doubt"}) in page.tags
    decided = Reader(render(report_input(scored(200, gap=0.5))))
    assert "too close to call" not in decided.text


def test_groups_without_a_class_say_so(scored, report_input):
    recordings = scored(8)
    recordings.groups = {"site": recordings.label}  # one site with leaks only, one with none
    html = render(report_input(recordings))
    assert "<td>no leaks</td>" in html
    assert "<td>only leaks</td>" in html
    assert "By site (2)" in html


def test_what_is_not_judged_or_in_doubt_promises_nothing(scored, report_input):
    met = {"recordings": 9, "met": 9, "train": 9, "val": 0, "ids": [], "recording": None}
    for known in (met, None):
        html = render(report_input(scored(200, gap=0.5), met_in_training=known))
        assert "Of recordings like these" not in html
        titled = [
            Reader(html).text.count(title) for title in ("Key numbers", "100 digs", "(no evidence)")
        ]
        assert titled == ([0, 0, 4] if known else [1, 1, 0])
    new = met | {"met": 0, "train": 0}
    assert "Of recordings like these" in render(
        report_input(scored(200, gap=0.5), met_in_training=new)
    )


def test_what_to_do_next_follows_from_the_results(scored, report_input, tmp_path):
    splits = (scored(name="val"), scored(n=20))
    settings = {"data": {"negatives": None}}
    more = {"store": "my store", "model": "model.safetensors", "settings": settings}
    material = replace(report_input(*splits, **more), history=tmp_path / "history.csv")
    few = [step.command for step in next_steps(material, "bad")]
    assert "leakdet crossval 'my store'" in few
    assert "leakdet train 'my store' data.negatives=FOLDER" in few
    assert not any("predict" in command for command in few)
    folds = replace(material, metrics={**material.metrics, "folds": {}})
    assert not any("crossval" in step.command for step in next_steps(folds, "bad"))
    known = {"data": {"negatives": "rain"}}
    large = report_input(scored(name="val"), scored(n=200, gap=0.9), **more | {"settings": known})
    assert [step.command for step in next_steps(large, "good")][-1] == (
        "leakdet predict model.safetensors RECORDINGS --page suspects.html"
    )
    (made_up,) = next_steps(report_input(*splits, synthetic=True, **more), "weak")
    assert made_up.command == "leakdet train RECORDINGS"
    html = render(material)
    assert html.index("What to do next") < html.index("Key numbers")
    assert "leakdet crossval &#39;my store&#39;" in html


def test_several_group_tables_are_folded_and_the_shortcut_check_says_what_it_is(
    scored, report_input
):
    test = scored()
    test.groups["pipe"] = np.where(np.arange(40) % 3 == 0, "PE", "steel")
    html = render(report_input(test, audit={"rows": [], "findings": []}))
    assert html.count("<summary>By ") == 2
    assert not re.search(r"<details open>\s*<summary>By ", html)
    alone = render(report_input(scored()))
    assert re.search(r"<details open>\s*<summary>By ", alone)
    check = html.index("Shortcut check")
    assert check < html.index("nothing to do with leaks") < html.index("predicted from")
