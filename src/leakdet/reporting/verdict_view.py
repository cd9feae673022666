"""A verdict as a notebook shows it: as HTML, and as a figure."""

from typing import TYPE_CHECKING, Any

import numpy as np

from leakdet.reporting.pages import filled
from leakdet.reporting.recording_card import Cards
from leakdet.tables.schema import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def verdict_html(verdict: Verdict, **media: Any) -> str:
    """The verdict with its leak probability over time; `media`: its mel, and a clip to hear."""
    name = verdict.path or "an array"
    facts = {
        "leak probability": "" if verdict.leak_prob is None else f"{verdict.leak_prob:.2f}",
        "threshold": f"{verdict.threshold:.2f}",
        "reason": verdict.reason,
        "flags": ", ".join(verdict.flags),
        "error": verdict.error,
    }
    probs = np.array([window.leak_prob for window in verdict.windows])
    media = {"window_prob": probs, "duration_s": verdict.duration_s, **media}
    decision = verdict.shown_decision or "not scored"
    card = Cards().card(name, verdict.threshold, why=decision, facts=facts, **media)
    text = filled("verdict.html.j2", {"card": card})
    # Names of files may hold bytes that are no UTF-8.
    return text.encode(errors="backslashreplace").decode()


def plot_verdict(verdict: Verdict, axes: "Axes | None" = None) -> "Axes":
    """Draw the leak probability of each window over time, and the threshold, into `axes`."""
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(figsize=(6.4, 2.5), layout="constrained")
    for window in verdict.windows:
        colour = "#c2410c" if window.leak_prob >= verdict.threshold else "#6b7280"
        axes.hlines(window.leak_prob, window.start_s, window.end_s, colour, linewidth=4)
    axes.axhline(verdict.threshold, linestyle="--", color="#1f2937")
    title = f"{verdict.path or 'array'}: {verdict.shown_decision or verdict.error}"
    axes.set(ylim=(0, 1), xlabel="time in s", ylabel="leak probability", title=title)
    return axes
