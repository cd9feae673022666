"""`tune.html`: facts, trials and Optuna's plots in one file that opens offline."""

import html
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from leakdet.storage.atomic import write_whole
from leakdet.tuning.study_plots import INSTALL, drawn_plots, has_plotly
from leakdet.tuning.trials import CHECKS, REASON, ranked

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1f2937; --soft: #4b5563; --line: #d1d5db;
  --best: #f0fdf4; --done: #166534; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #111827; --ink: #e5e7eb; --soft: #a8b1bf; --line: #374151; --best: #0c2a1a;
    --done: #86efac; }
  .plot { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; color: var(--ink); background: var(--page);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.35rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; }
th, td { padding: .25rem .5rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
.facts th { white-space: nowrap; }
.trials { width: 100%; font-size: .8rem; font-variant-numeric: tabular-nums; }
.trials td, .trials th { padding: .2rem .4rem .2rem 0; overflow-wrap: normal; }
.trials thead th { vertical-align: bottom; }
.trials .best { background: var(--best); font-weight: 600; }
.trials .best .state { color: var(--done); }
.plot, .wide { overflow-x: auto; }
.small { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); }
.small > div { min-width: 0; overflow: hidden; }
@media (max-width: 46rem) {
  .facts th, .facts td { display: block; border: 0; padding: .1rem 0; }
  .trials { font-size: .9rem; }
  .trials thead { display: none; }
  .trials tr { display: block; border: 1px solid var(--line); border-radius: .5rem;
    margin: .5rem 0; padding: .4rem .6rem; }
  .trials th, .trials td { display: inline-block; border: 0; padding: 0 .9rem 0 0;
    overflow-wrap: anywhere; }
  .trials td:empty { display: none; }
  .trials :is(th, td)::before { content: attr(data-name) " "; color: var(--soft);
    font-weight: 400; }
  .plot.wide > div { min-width: 52rem; }
}
@page { margin: 12mm; size: landscape; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .trials { font-size: 7pt; }
  .trials td, .trials th { overflow-wrap: anywhere; }
  .wide { overflow: visible; }
  .plots { display: none; }
  tr { break-inside: avoid; }
  * { print-color-adjust: exact; }
}
"""

# A plot is drawn when the page has come to it, and the place of small ones shrinks after that.
FIT = '<script>addEventListener("load", () => dispatchEvent(new Event("resize")))</script>'


def write_page(study: optuna.Study, path: Path, result: Mapping[str, Any]) -> None:
    """Write the page of a study and its `result` (result.json); without plotly it has no plots."""
    best = result["best"]["trial"]
    trials = _trials(study, result["objective"], best)
    sections = [f"<section><h2>Trials, the best first</h2>\n{trials}</section>"]
    if has_plotly():
        plots = drawn_plots(study, result["objective"])
    else:
        hint = f"Not drawn: plotly is not installed. {INSTALL}, then repeat the command with "
        plots = {"Plots": f"<p>{hint}tune.workers=1.</p>"}
    sections += [
        f'<section class="plots"><h2>{html.escape(heading)}</h2>\n{content}</section>'
        for heading, content in plots.items()
    ]
    title = html.escape(study.study_name)
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>Study {title}</title><style>{STYLE}</style>",
        f"<h1>Study {title}</h1>{_facts(study, result)}",
        *sections,
        f"{FIT}</html>",
    ]
    write_whole(path, "\n".join(parts) + "\n")


def _facts(study: optuna.Study, result: Mapping[str, Any]) -> str:
    best, trials = result["best"], dict(result["trials"])
    trials.pop("best_trial", None)
    made, saved = trials.pop("checks", None), trials.pop("checks_saved", None)
    rows = [
        ("Objective", f"{result['objective']} on val, {study.direction.name.lower()}"),
        ("Trials", ", ".join(f"{count} {state}" for state, count in trials.items() if count)),
        ("Best", f"trial {best['trial']}, {_text(best['value'])}: {_listed(best['params'])}"),
    ]
    if made is not None:
        rows.insert(2, ("Validation checks", f"{made} made, {saved} saved by pruning"))
    if "verdict" in result:
        rows.append(("Did tuning help?", result["verdict"]))
    lines = (f'<tr><th scope="row">{_cell(a)}</th><td>{_cell(b)}</td></tr>' for a, b in rows)
    return f'<table class="facts">{"".join(lines)}</table>'


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_text(value)}" for key, value in values.items())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(value: object) -> str:
    return html.escape(_text(value))


def _trials(study: optuna.Study, objective: str, best: int) -> str:
    """One row for each trial, the best first and marked; on a phone each row is a card."""
    trials = list(study.get_trials(deepcopy=False))
    complete = ranked(trials, study.direction == StudyDirection.MAXIMIZE)
    ranks = {trial.number: rank for rank, trial in enumerate(complete)}
    trials.sort(key=lambda trial: ranks.get(trial.number, len(ranks)))
    parameters = sorted({name for trial in trials for name in trial.params})
    names = ("trial", "state", objective, "checks", *parameters)
    heads = (_cell(name).replace("_", "_<wbr>") for name in names)  # where they may break
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = []
    for trial in trials:
        value = "" if trial.value is None else trial.value
        drawn = (trial.params.get(name, "") for name in parameters)
        cells = (trial.number, _state(trial), value, trial.user_attrs.get(CHECKS, ""), *drawn)
        rows.append(_row(names, cells, trial.number == best))
    return (
        '<div class="wide"><table class="trials">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _state(trial: FrozenTrial) -> str:
    reason = trial.user_attrs.get(REASON, "")
    return f"{trial.state.name.lower()}{': ' if reason else ''}{reason}"


def _row(names: Iterable[str], cells: Iterable[object], best: bool) -> str:
    (name, number), *others = zip(names, cells, strict=True)
    mark = ' class="best"' if best else ""
    tail = " (best)" if best else ""
    texts = [f'<th scope="row" data-name="{html.escape(name)}">{_cell(number)}{tail}</th>']
    for name, value in others:
        kind = ' class="state"' if name == "state" else ""
        texts.append(f'<td{kind} data-name="{html.escape(name)}">{_cell(value)}</td>')
    return f"<tr{mark}>{''.join(texts)}</tr>"
