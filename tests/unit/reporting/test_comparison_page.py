"""The page on two models."""

from pathlib import Path

from leakdet.evaluation.comparison import compare
from leakdet.reporting.comparison_page import MOST, ComparedModel, write_comparison


def test_it_has_both_verdicts_and_the_worst_disagreements_to_hear(
    scored, media, report_input, tmp_path: Path
) -> None:
    old, new = scored(gap=0.05, media=media), scored(gap=0.5, media=media)
    comparison = compare(old, new, ("runs/<old>/m", "runs/new/m"), replicates=50)
    models = [
        ComparedModel(
            recordings,
            report_input(recordings, comparison=comparison).metrics,
            f"{place}/report.html",
        )
        for recordings, place in ((old, "a"), (new, "b"))
    ]
    write_comparison(tmp_path / "report.html", *models)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<old>" not in page  # escaped
    assert "new is better" in page
    assert 'href="a/report.html"' in page
    assert page.count("<audio") == page.count('class="mel"') == MOST
    differing = comparison["recordings"]["ids"]
    assert f"On {len(differing)} of 40 recordings" in page
    assert page.index(differing[0]) < page.index(differing[1])
