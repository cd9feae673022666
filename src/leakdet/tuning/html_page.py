"""`tune.html`: facts, trials and Optuna's plots in one file that opens offline."""

import html
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from leakdet.tuning.trials import CHECKS

INSTALL = "pip install plotly"
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto}
body{padding:0 1em;color:#222}
section{overflow-x:auto}table{border-collapse:collapse}h2{margin-top:2em}
td,th{padding:.2em .8em .2em 0;text-align:left;vertical-align:top}"""


def has_plotly() -> bool:
    """True if plotly is installed, an extra that draws the plots."""
    return find_spec("plotly") is not None


def write_page(study: optuna.Study, path: Path, result: Mapping[str, Any]) -> None:
    """Write the page of a study and its `result` (result.json); without plotly it has no plots."""
    sections = {"Trials": _trials(study.get_trials(deepcopy=False))}
    if has_plotly():
        sections |= _drawn(study, result["objective"])
    else:
        hint = f"Not drawn: plotly is not installed. {INSTALL}, then repeat the command with "
        sections["Plots"] = f"<p>{hint}tune.workers=1.</p>"
    title = html.escape(study.study_name)
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f"<style>{STYLE}</style><h1>Study {title}</h1>{_facts(study, result)}",
        *(f"<section><h2>{head}</h2>\n{body}</section>" for head, body in sections.items()),
        "</html>",
    ]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _facts(study: optuna.Study, result: Mapping[str, Any]) -> str:
    best = result["best"]
    rows = [
        ("Objective", f"{result['objective']} on val, {study.direction.name.lower()}"),
        ("Trials", _listed(result["trials"])),
        ("Best", f"trial {best['trial']}, {_text(best['value'])}: {_listed(best['params'])}"),
    ]
    if "verdict" in result:
        rows.append(("Did tuning help?", result["verdict"]))
    return _table(rows)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_text(value)}" for key, value in values.items())


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _trials(trials: Sequence[FrozenTrial]) -> str:
    parameters = sorted({name for trial in trials for name in trial.params})
    rows: list[Sequence[object]] = [("Trial", "state", "value", "checks", *parameters)]
    for trial in trials:
        value = "" if trial.value is None else trial.value
        drawn = (trial.params.get(name, "") for name in parameters)
        checks = trial.user_attrs.get(CHECKS, "")
        rows.append((trial.number, trial.state.name.lower(), value, checks, *drawn))
    return _table(rows)


def _table(rows: Iterable[Sequence[object]]) -> str:
    lines = (
        f"<tr><th>{html.escape(_text(row[0]))}</th>"
        + "".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row[1:])
        for row in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _drawn(study: optuna.Study, objective: str) -> dict[str, str]:
    """The plots by their headings; the first that can be drawn carries plotly's script."""
    contents: dict[str, str] = {}
    script = True
    for heading, draw in _plots(objective).items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                contents[heading] = draw(study).to_html(full_html=False, include_plotlyjs=script)
            script = False
        except Exception as error:  # too few or too equal trials; never at the cost of the page
            done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            reason = html.escape(f"{type(error).__name__}: {error}")
            contents[heading] = f"<p>Not drawn for {len(done)} complete trials: {reason}</p>"
    return contents


def _plots(objective: str) -> dict[str, Callable[[optuna.Study], Any]]:
    from optuna import visualization as show

    def importances(study: optuna.Study) -> Any:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return show.plot_param_importances(study, evaluator=evaluator, target_name=objective)

    return {
        "History": lambda study: show.plot_optimization_history(study, target_name=objective),
        "Best so far at every validation check, pruned trials included": (
            show.plot_intermediate_values
        ),
        "Importances (PED-ANOVA)": importances,
        "Parallel coordinates": lambda study: show.plot_parallel_coordinate(
            study, target_name=objective
        ),
        "Slices": lambda study: show.plot_slice(study, target_name=objective),
        "Timeline of the workers": show.plot_timeline,
    }
