import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from tests.browsers import chromium

from leakdet.config import TrainConfig, TuneConfig
from leakdet.tuning.html_page import write_page

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def result(study: optuna.Study, **more: Any) -> dict[str, Any]:
    best = study.best_trial
    return {
        "objective": "recording_f1",
        "trials": {"complete": 7, "best_trial": best.number},
        "best": {"trial": best.number, "value": 1 / 3, "params": {"lr": 0.0123456789}},
        **more,
    }


def page(study: optuna.Study, folder: Path, **more: Any) -> str:
    write_page(study, folder / "tune.html", result(study, **more))
    return (folder / "tune.html").read_text(encoding="utf-8")


def rows(content: str) -> list[list[str]]:
    """The cells of the table of trials, without its head."""
    body = content.partition("<tbody>")[2].partition("</tbody>")[0]
    cells = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>")
    return [cells.findall(row) for row in body.split("<tr")[1:]]


def states(content: str) -> set[str]:
    return {cells[1] for cells in rows(content)}


def test_the_page_holds_facts_trials_and_plots_and_needs_no_network(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    pytest.importorskip("plotly", reason="plotly draws the plots")
    study = tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))
    content = page(study, tmp_path, verdict="F1 < 1 & more")
    assert content.count("<section>") == 1
    assert content.count('<section class="plots">') == 6
    assert "Not drawn" not in content
    assert "<script src" not in content
    assert "<td>F1 &lt; 1 &amp; more</td>" in content
    assert f"trial {study.best_trial.number}, 0.3333: lr 0.01235" in content
    assert states(content) == {"complete", "pruned"}
    assert len(rows(content)) == 12


def test_the_table_begins_with_the_best_trial_and_ends_with_those_that_failed(
    settings: Settings, tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)

    def curve(config: TrainConfig) -> list[float]:
        if config.optimizer.lr < 1e-3:
            raise ValueError("out of <range>")
        return [min(0.9, config.optimizer.lr * 100)]

    study = tuned(settings(n_trials=8, n_min_trials=99), curve)
    best, *others = rows(page(study, tmp_path))
    assert best[0] == f"{study.best_trial.number} (best)"
    values = [float(cells[2]) for cells in (best, *others) if cells[1] == "complete"]
    assert values == sorted(values, reverse=True)
    failed = [cells[1] for cells in others if cells[1] != "complete"]
    assert failed
    assert failed == [cells[1] for cells in others[-len(failed) :]]
    assert "ValueError: out of &lt;range&gt;" in failed[0]


def test_without_plotly_the_page_has_no_plots_and_says_how_to_get_them(
    settings: Settings, tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    content = page(tuned(settings(n_trials=3)), tmp_path)
    assert "plotly is not installed. pip install plotly" in content
    assert content.count("<section") == 2
    assert [cells[1] for cells in rows(content)] == ["complete"] * 3


@pytest.mark.parametrize("width", [390, 1280])
def test_a_laptop_and_a_phone_show_the_page_without_scrolling_sideways(
    settings: Settings, tuned: Tuned, tmp_path: Path, width: int
) -> None:
    pytest.importorskip("plotly", reason="plotly draws the plots")
    browser = chromium()
    content = page(tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2)), tmp_path)
    measured = (
        "<script>addEventListener('load', () => { const page = document.documentElement;"
        "const plots = [...document.querySelectorAll('.plot:not(.wide) > div')];"
        "const out = (div) => div.querySelector('.svg-container').offsetWidth - div.offsetWidth;"
        "parent.postMessage([page.clientWidth, page.scrollWidth, Math.max(...plots.map(out))],"
        "'*'); });</script></html>"
    )
    (tmp_path / "page.html").write_text(content.replace("</html>", measured), encoding="utf-8")
    # windows are 500 px wide at least, frames are not
    (tmp_path / "frame.html").write_text(
        "<script>onmessage = (event) => { document.title = event.data; };</script>"
        f"<iframe src=page.html style='border:0;width:{width}px;height:9000px'></iframe>"
    )
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000"]
    command += ["--window-size=1400,9000", (tmp_path / "frame.html").as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    title = re.search(r"<title>(.*)</title>", seen.stdout)
    assert title, seen.stdout
    assert [int(number) for number in title.group(1).split(",")] == [width, width, 0]
