import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from leakdet.reporting.report import render, write_report, write_results


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
    assert "No recording has a picture or sound." in html


def test_a_report_on_synthetic_recordings_says_so_first_and_expects_nothing_of_real_pipes(
    scored, report_input
):
    heading = re.compile(r"<h1>.*?</span> (.*?\.)")
    html = render(report_input(scored(200, gap=0.5), synthetic=True))
    assert heading.search(html)[1] == "These recordings are synthetic."
    assert "At places like these" not in html
    html = render(report_input(scored(200, gap=0.5)))
    assert "synthetic" not in html
    assert "At places like these" in html


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
    assert "In doubt" in page.text


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
    write_results(tmp_path / "run", report_input(scored(200, gap=0.5)))
    names = {"metrics.json", "recordings.csv", "report.html", "figures"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == names
    assert "verdict  Tells leaks apart. It found" in messages.text


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
        assert "At places like these" not in html
        titled = [
            Reader(html).text.count(title) for title in ("Key numbers", "100 digs", "(no evidence)")
        ]
        assert titled == ([0, 0, 4] if known else [1, 1, 0])
    new = met | {"met": 0, "train": 0}
    assert "At places like these" in render(report_input(scored(200, gap=0.5), met_in_training=new))
