from dataclasses import replace
from pathlib import Path

import numpy as np

from leakdet.reporting.page_figures import LEARNING, page_figures


def test_each_figure_has_a_heading_with_its_split_and_a_reading(scored, report_input):
    drawn = page_figures(report_input(scored(name="val"), scored()))
    assert [heading for heading, *_ in drawn] == [
        "Leaks found against false alarms (ROC): test recordings",
        "Precision against leaks found: test recordings",
        "Scores: test recordings",
        "Calibration: test recordings",
    ]
    assert all(reading.endswith(".") and svg.startswith("<svg ") for _, reading, svg in drawn)


def test_thresholds_of_folds_are_not_called_one(scored, report_input):
    recordings = scored(name="held_out")
    recordings.threshold = np.where(np.arange(40) < 20, 0.4, 0.6)
    readings = {heading: reading for heading, reading, _ in page_figures(report_input(recordings))}
    reading = readings["Scores: recordings held out of training"]
    assert reading.startswith("Each fold has its own threshold.")


def test_learning_curves_mark_the_epoch_kept(scored, report_input, tmp_path: Path):
    history = tmp_path / "history.csv"
    history.write_text("epoch,train/loss,val/loss,val/recording_f1\n0,,0.7,0\n1,0.5,0.6,1\n")
    material = replace(report_input(scored(8)), history=history)
    *_, (heading, _, svg) = page_figures(material)
    assert (heading, "dotted" in svg) == (LEARNING, False)
    material = replace(report_input(scored(8), best_epoch=1), history=history)
    assert "dotted" in page_figures(material)[-1][2]
