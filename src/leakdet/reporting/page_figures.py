"""The figures of report.html, each with a heading and how to read it."""

import matplotlib as mpl

from leakdet.reporting.figure_style import STYLE, svg
from leakdet.reporting.report_input import ReportInput
from leakdet.reporting.result_figures import HEADINGS, result_figures
from leakdet.reporting.training_figures import learning_curve, read_history
from leakdet.reporting.wording import NBSP, split_words

SIZE_IN = (4.6, 4.0)
LESS_OVERLAP = "The less the two overlap, the better."
READINGS = {
    "roc": "Each point is a threshold. The further to the upper left, the better.",
    "precision_recall": (
        "The share of digs that find a leak, as more leaks are found. The further to the upper "
        "right, the better."
    ),
    "leak_prob": f"A recording at or right of the threshold is called a leak. {LESS_OVERLAP}",
    "reliability": (
        f"Of recordings with a predicted leak probability of 80{NBSP}%, 80{NBSP}% should have a "
        f"leak. Bars are 95{NBSP}% intervals."
    ),
}
LEARNING = "Learning curves: train and val"


def page_figures(material: ReportInput) -> list[tuple[str, str, str]]:
    """(heading, how to read it, svg) of the figures that these recordings allow."""
    threshold = material.recordings[material.judged].one_threshold
    readings = dict(READINGS)
    if threshold is None:
        readings["leak_prob"] = f"Each fold has its own threshold. {LESS_OVERLAP}"
    figures = result_figures(material.tables, threshold, size_in=SIZE_IN)
    drawn = []
    for name, reading in readings.items():  # the confusion matrix is a table of the page
        if name in figures:
            heading = f"{HEADINGS[name]}: {split_words(material.judged)}"
            drawn.append((heading, reading, svg(figures[name], heading)))
    if material.history is not None and material.history.is_file():
        history = read_history(material.history)
        with mpl.rc_context(STYLE):
            curves = learning_curve(history, material.metrics.get("best_epoch"), size_in=SIZE_IN)
        reading = "Validation loss that rises while training loss falls means overfitting."
        drawn.append((LEARNING, reading, svg(curves, LEARNING)))
    return drawn
