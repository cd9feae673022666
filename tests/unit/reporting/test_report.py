import io
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.acoustics.clip import make_clip
from leakdet.evaluation.metrics_json import metrics_content, split_metrics
from leakdet.evaluation.scored_recordings import MelColumns, ScoredRecordings
from leakdet.reporting.conclusion import cautions, verdict
from leakdet.reporting.number_tables import digs
from leakdet.reporting.recording_rows import (
    MOST_EVIDENCE,
    MOST_ROWS,
    informative,
    report_rows,
    severity_order,
)
from leakdet.reporting.report import render, write_report
from leakdet.reporting.report_input import ReportInput
from leakdet.reporting.small_pictures import LEVELS, mel_png, palette_png, timeline_paths


class Sound:
    """Noise to look at and listen to, for every recording."""

    def mel(self, row):
        rng = np.random.default_rng(row)
        return MelColumns(rng.normal(-50, 10, (64, 300)).astype(np.float32), 5.0, 300.0, 8000.0)

    def clip(self, row, start_s, most_s):
        rng = np.random.default_rng(row)
        return make_clip(rng.normal(0, 0.1, 16000 * 12).astype(np.float32), 16000, start_s, most_s)


def scored(n=40, gap=0.3, seed=0, name="test", media=None, leaks=None):
    rng = np.random.default_rng(seed)
    is_leak = np.arange(n) % 2 == 0 if leaks is None else np.full(n, leaks)
    score = np.clip(rng.normal(0.35 + gap * is_leak, 0.15), 0, 1)
    return ScoredRecordings(
        name=name,
        recording_id=np.array([f"night/{row:06d}.wav" for row in range(n)]),
        label=np.where(is_leak, "LEAK", "NORMAL"),
        is_leak=is_leak,
        score=score,
        threshold=np.full(n, 0.5),
        window_prob=np.repeat(score, 3).astype(np.float32),
        recording_offsets=3 * np.arange(n + 1),
        groups={"site": np.array([f"site-{row % 4}" for row in range(n)])},
        media=media,
    )


def material(*parts, replicates=50, **more):
    tables = {part.name: split_metrics(part, replicates) for part in parts}
    content = metrics_content(tables, None, [], **more)
    return ReportInput("a test", {part.name: part for part in parts}, content)


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


def test_nothing_is_fetched_from_anywhere():
    page = Reader(render(material(scored(media=Sound()))))
    links = [
        value for tag, attrs in page.tags for key, value in attrs.items()
        if key in ("src", "href", "xlink:href", "action", "srcset") and value
    ]  # fmt: skip
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert any("default-src 'none'" in (attrs.get("content") or "") for _, attrs in page.tags)


def test_names_from_files_and_manifests_are_text_not_markup():
    found = scored(6)
    bad = "<script>alert('x')</script>"
    found.recording_id[0] = found.label[1] = "<b>&"
    found.groups = {bad: np.array([bad, bad, "a", "a", "a", "a"])}
    page = Reader(render(material(found)))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert bad in page.text


def test_everything_that_can_be_seen_has_a_name():
    page = Reader(render(material(scored(media=Sound()), comparison=None)))
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


def test_the_confusion_matrix_has_true_in_rows_and_predicted_in_columns():
    found = scored(4)
    found.is_leak = np.array([True, True, True, False])
    found.score = np.array([0.9, 0.9, 0.1, 0.1])  # one missed leak, no false alarm
    html = render(material(found))
    table = html[html.index('<table class="confusion">') :]
    table = table[: table.index("</table>")]
    assert re.findall(r"<b>(\d+)</b>", table) == ["2", "1", "0", "1"]
    assert table.index("predicted leak") < table.index("true leak") < table.index("missed")


def test_worst_mistakes_come_first_and_the_rest_by_doubt():
    found = scored(200)
    order = severity_order(found)
    wrong = found.wrong[order]
    margin = np.abs(found.score - 0.5)[order]
    mistakes = int(wrong.sum())
    assert mistakes > 5
    assert wrong[:mistakes].all()
    assert (np.diff(margin[:mistakes]) <= 0).all()
    assert (np.diff(margin[mistakes:]) >= 0).all()


def test_what_can_be_heard_holds_mistakes_and_the_surest_of_both_kinds():
    found = scored(200)
    chosen = informative(found, severity_order(found))
    assert len(set(chosen)) == len(chosen) == MOST_EVIDENCE
    assert sum(found.wrong[chosen]) >= 2 * MOST_EVIDENCE // 3
    surest = np.where(found.is_leak & found.decision, found.score, 0).argmax()
    assert surest in chosen


def test_very_many_recordings_fit_into_a_page(tmp_path: Path):
    found = scored(20_000, media=Sound())
    path = write_report(tmp_path / "report.html", material(found, replicates=2))
    assert path.stat().st_size < 12_000_000
    rows = report_rows({"test": found})
    assert len(rows) == MOST_ROWS
    assert sum(row.look is not None for row in rows) == MOST_EVIDENCE
    assert "19\u202f000 more recordings" in path.read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("leaks", [True, False])
def test_one_class_only_gives_a_report_that_says_so(leaks):
    html = render(material(scored(8, leaks=leaks)))
    assert "Cannot be judged" in html


def test_without_groups_evidence_or_times_there_is_a_report():
    found = scored(8)
    found.groups = {}
    html = render(material(found))
    assert "Where it errs" not in html
    assert "<audio" not in html


def test_verdicts():
    def of(gap, n=200):
        return verdict(split_metrics(scored(n, gap=gap), 200)["recording"])

    assert of(0.5).grade == "good"
    assert of(0.0).grade == "bad"
    assert of(0.12).grade == "weak"
    assert of(-0.5).sentence.startswith("Worse than guessing")
    table = split_metrics(scored(200, gap=0.5), 200)["recording"]
    few = table | {"intervals": table["intervals"] | {"auroc": [0.44, 1.0]}}
    assert verdict(few).sentence.startswith("These recordings are too few")
    doubted = verdict(table, {"sentence": "Loudness alone does as well."})
    assert (doubted.grade, doubted.label) == ("weak", "In doubt")
    assert doubted.advice.startswith("Plan no dig by it before")
    assert of(0.0).advice == "Plan no dig by it."
    assert f"{table['tp']} of 100 leaks" in of(0.5).sentence


def test_the_audits_sentence_and_shuffled_labels_are_said_first():
    audit = {
        "sentence": "Loudness alone does as well.",
        "rows": [{"name": "loudness", "explanation": "RMS", "auroc": 0.9, "interval": [0.8, 0.95]}],
    }
    made = material(scored(), audit=audit, settings={"data": {"shuffle_labels": True}})
    said = cautions("test", made.tables["recording"], made.metrics)
    assert "null test" in said[0]
    assert said[1] == audit["sentence"]
    page = Reader(render(made))
    assert page.text.count("Loudness alone does as well.") == 2
    assert "0.80 to 0.95" in page.text


def test_one_site_is_no_evidence_for_others():
    made = material(scored())
    said = cautions("test", made.tables["recording"], {**made.metrics, "group_by": ["street"]})
    assert "never share a street" in said[0]
    assert "too few values of street here to resample those" in said[1]
    assert not any(
        "too few values" in text
        for text in cautions("test", made.tables["recording"], made.metrics)
    )


def test_digs_follow_bayes():
    table = {"recall": 0.8, "fpr": 0.1, "positives": 50, "n": 100}
    table["intervals"] = {"recall": [0.7, 0.9], "fpr": [0.05, 0.2]}
    here, tenth, fiftieth = digs(table)
    assert here["hits"] == "89"
    assert tenth["hits"] == f"{100 * 0.8 * 0.1 / (0.8 * 0.1 + 0.1 * 0.9):.0f}" == "47"
    assert fiftieth["range"] == "7 to 27"


def test_a_palette_png_decodes_to_the_colours_of_its_levels():
    index = np.random.default_rng(0).integers(0, LEVELS, (64, 100)).astype(np.uint8)
    decoded = imread(io.BytesIO(palette_png(index)))
    colours = mpl.colormaps["cividis"](np.linspace(0, 1, LEVELS))[:, :3]
    assert decoded[..., :3] == pytest.approx(colours[index], abs=1 / 255)


def test_a_mel_picture_has_low_bands_at_the_bottom_and_at_most_400_columns():
    level_db = np.full((8, 1000), -80.0)
    level_db[0] = -20.0
    decoded = imread(io.BytesIO(mel_png(level_db)))
    assert decoded.shape[:2] == (8, 400)
    assert decoded[-1].mean() > decoded[0].mean() + 0.2


def test_timeline_bars_part_at_the_threshold():
    below, above = timeline_paths(np.array([0.2, 0.5, 0.9]), 0.5)
    assert below == "M0.5 100v-20"
    assert above == "M1.5 100v-50M2.5 100v-90"
