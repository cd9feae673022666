"""Optuna's plots of a study as HTML, by plotly: an extra that may be missing."""

import html
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import optuna
from optuna.trial import TrialState

INSTALL = "pip install plotly"
CONFIG = {"responsive": True, "displayModeBar": False}
PARALLEL = "Parallel coordinates"

Draw = Callable[[optuna.Study], Sequence[Any]]  # one or several plotly figures


def has_plotly() -> bool:
    """True if plotly is installed, an extra that draws the plots."""
    return find_spec("plotly") is not None


def drawn_plots(study: optuna.Study, objective: str) -> dict[str, str]:
    """The plots by their headings; the first that can be drawn carries plotly's script."""
    contents: dict[str, str] = {}
    script = True
    for heading, draw in _plots(objective).items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parts: list[str] = []
                for figure in draw(study):
                    parts.append(_html(figure, script and not parts, small="slice" in heading))
        except Exception as error:  # too few or too equal trials; never at the cost of the page
            done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            reason = html.escape(f"{type(error).__name__}: {error}")
            contents[heading] = f"<p>Not drawn for {len(done)} complete trials: {reason}</p>"
            continue
        script = script and not parts
        kind = {1: "plot"}.get(len(parts), "plot small")
        kind += " wide" if heading == PARALLEL else ""
        contents[heading] = f'<div class="{kind}">' + "\n".join(parts) + "</div>"
    return contents


def _html(figure: Any, script: bool, small: bool) -> str:
    """A plot without a ground and a title of its own, as wide as its place."""
    clear = "rgba(0,0,0,0)"
    figure.update_layout(
        template="plotly_white",
        title=None,
        width=None,
        paper_bgcolor=clear,
        plot_bgcolor=clear,
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -0.25},
    )
    text: str = figure.to_html(
        full_html=False,
        include_plotlyjs=script,
        config=CONFIG,
        default_height="15rem" if small else "26rem",
    )
    return text


def _plots(objective: str) -> dict[str, Draw]:
    from optuna import visualization as show

    def importances(study: optuna.Study) -> Any:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return show.plot_param_importances(study, evaluator=evaluator, target_name=objective)

    def slices(study: optuna.Study) -> list[Any]:
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        names = sorted({name for trial in done for name in trial.params})
        figures = [show.plot_slice(study, params=[name], target_name=objective) for name in names]
        for figure in figures:
            figure.update_traces(marker_showscale=False)
        return figures

    return {
        f"Every trial, and the best {objective} so far": lambda study: [
            show.plot_optimization_history(study, target_name=objective)
        ],
        "Best so far at every validation check, pruned trials included": lambda study: [
            show.plot_intermediate_values(study)
        ],
        "What mattered (PED-ANOVA)": lambda study: [importances(study)],
        PARALLEL: lambda study: [show.plot_parallel_coordinate(study, target_name=objective)],
        "Each setting alone, a slice of the search": slices,
        "When the workers ran which trial": lambda study: [show.plot_timeline(study)],
    }
