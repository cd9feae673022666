"""`tune.html`: the study in Optuna's own plots, one file that opens anywhere, offline too."""

import html
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from leakdet.errors import LeakdetError

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;text-align:left;vertical-align:top}h2{margin-top:2em}"""


def write_page(study: optuna.Study, path: Path, objective: str, facts: Mapping[str, str]) -> None:
    """Raises `LeakdetError` where plotly is not installed."""
    parts = [f"<h1>Study {html.escape(study.study_name)}</h1>", _facts(facts)]
    script: bool = True
    for title, make in _plots(objective).items():
        content = _drawn(study, make, script)
        script = script and "plotly-graph-div" not in content
        parts.append(f"<section><h2>{title}</h2>\n{content}</section>")
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(study.study_name)}</title>'
    path.write_text(
        f"{head}<style>{STYLE}</style>\n" + "\n".join(parts) + "</html>\n", encoding="utf-8"
    )


def _facts(facts: Mapping[str, str]) -> str:
    rows = (
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>"
        for key, value in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _plots(objective: str) -> dict[str, Callable[[optuna.Study], Any]]:
    from optuna import visualization as show

    def importances(study: optuna.Study) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return show.plot_param_importances(study, evaluator=evaluator, target_name=objective)

    return {
        "History": lambda study: show.plot_optimization_history(study, target_name=objective),
        "Best so far at every validation check, pruned trials included": show.plot_intermediate_values,
        "Importances (PED-ANOVA)": importances,
        "Parallel coordinates": lambda study: show.plot_parallel_coordinate(
            study, target_name=objective
        ),
        "Slices": lambda study: show.plot_slice(study, target_name=objective),
        "Timeline of the workers": show.plot_timeline,
    }


def _drawn(study: optuna.Study, make: Callable[[optuna.Study], Any], script: bool) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure = make(study)
    except ImportError as error:
        raise LeakdetError(
            "tune.html needs plotly, which is not installed: pip install plotly."
        ) from error
    except (
        ValueError,
        RuntimeError,
        ZeroDivisionError,
    ) as error:  # too few or too equal trials for this plot
        done = sum(t.state == TrialState.COMPLETE for t in study.get_trials(deepcopy=False))
        return f"<p>Not drawn for {done} complete trials: {html.escape(str(error))}</p>"
    content: str = figure.to_html(full_html=False, include_plotlyjs=script)
    return content
