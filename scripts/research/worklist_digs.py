"""Digs until a leak is found, by the work list and by simpler rankings: part of docs/worklist-rule.md.

Networks are made up (`synthetic_nights.py`), so the numbers compare rankings under stated
circumstances; they say nothing about real pipes.

    PYTHONPATH=scripts python scripts/research/worklist_digs.py --seeds 40
"""

import re
from collections.abc import Callable
from datetime import date

import numpy as np

from benchmarks import DOCS, parser
from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import LISTS, WorklistRow
from leakdet.sites.worklist import make_worklist
from leakdet.sites.worth import Evidence
from synthetic_nights import Network, Story, make_network, network_rows, test_scores

PAGE = DOCS / "worklist-rule.md"
TODAY = date(2026, 7, 1)
EACH = 100  # test recordings of each class that the model keeps
CIRCUMSTANCES = {
    "as the demo scores": Story(),
    "a weaker model (log-odds half as far apart)": Story(hardness=2.0),
    "no pump, no rain, no passing sound": Story(pumps=0, rain=0, passing=0.0),
}
POOLINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "middle one, the upper of two": lambda x: np.sort(x, axis=2)[:, :, x.shape[2] // 2],
    "mean": lambda x: x.mean(axis=2),
    "largest": lambda x: x.max(axis=2),
    "least": lambda x: x.min(axis=2),
}


Rank = Callable[[WorklistRow], object]  # a key by which rows of the work list are sorted


def by_worklist(network: Network, evidence: Evidence, *keys: Rank) -> list[np.ndarray]:
    """Sites by the work list after the last night, sorted by each of the keys."""
    rows = network_rows(network.scores, network.levels)
    worklist = make_worklist(rows, WorklistRules(), evidence, TODAY)
    orders = []
    for key in keys:
        ranked = sorted(worklist.rows, key=key)  # type: ignore[arg-type]
        listed = np.array([int(row.site[1:]) for row in ranked])
        orders.append(np.append(listed, np.setdiff1d(np.arange(len(network.scores)), listed)))
    return orders


def as_listed(row: WorklistRow) -> object:
    """News, then the backlog, then all other sites: the order of the work list itself."""
    return LISTS.index(row.list_name)


def backlog_first(row: WorklistRow) -> object:
    """The backlog before the news."""
    return ["backlog", "news", "other"].index(row.list_name)


def without_backlog(row: WorklistRow) -> object:
    """No dig at a site of the backlog before all others are dug."""
    return row.list_name == "backlog"


def one_list(row: WorklistRow) -> object:
    """All sites in one list by the chance of a leak."""
    return -(row.chance or 0.0)


def falling(values: np.ndarray) -> np.ndarray:
    """Sites by falling value, those without one last."""
    return np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")


def rankings(network: Network, evidence: Evidence) -> dict[str, np.ndarray]:
    """Sites in the order in which each ranking digs."""
    score, level = POOLINGS["middle one, the upper of two"](network.scores), network.levels
    lowest = level.min(axis=2)
    known = ~np.isnan(lowest).all(axis=1)
    rise = np.full(len(lowest), np.nan)
    rise[known] = lowest[known, -1] - np.nanmedian(lowest[known], axis=1)
    listed, old_first, news, one = by_worklist(
        network, evidence, as_listed, backlog_first, without_backlog, one_list
    )
    return {
        "work list: news, then backlog": listed,
        "without the backlog": news,
        "backlog, then news": old_first,
        "one list by chance": one,
        "score of the last night": falling(score[:, -1]),
        "mean score of all nights": falling(score.mean(axis=1)),
        "lowest level of the last night": falling(lowest[:, -1]),
        "its rise over the site's own median": falling(rise),
    }


def measures(order: np.ndarray, leaks: np.ndarray) -> list[float]:
    """Digs until the first leak and until half of them; the shares found in 10 and 30 digs."""
    ranks = np.sort(np.flatnonzero(np.isin(order, leaks))) + 1
    half = ranks[(len(ranks) - 1) // 2]
    return [float(ranks[0]), float(half), (ranks <= 10).mean(), (ranks <= 30).mean()]


def cells(values: np.ndarray, rng: np.random.Generator) -> list[str]:
    """Mean over seeds of each measure with its bootstrap interval."""
    drawn = values[rng.integers(0, len(values), (2000, len(values)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    formats = ("{:.1f}", "{:.1f}", "{:.2f}", "{:.2f}")
    return [
        f"{form.format(mean)} ({form.format(a)}–{form.format(b)})"
        for form, mean, a, b in zip(formats, values.mean(axis=0), low, high, strict=True)
    ]


def table(results: dict[str, list[list[float]]], first: str) -> str:
    """A table of rankings."""
    rng = np.random.default_rng(0)
    head = f"| {first} | digs to the first leak | to half of them | found in 10 | in 30 |"
    rows = [
        f"| {name} | {' | '.join(cells(np.array(values), rng))} |"
        for name, values in results.items()
    ]
    return "\n".join([head, "|---|---|---|---|---|", *rows])


Digging = Callable[[Network, Evidence], dict[str, np.ndarray]]


def compare(story: Story, seeds: int, digging: Digging = rankings, first: str = "ranking") -> str:
    """The table of one set of circumstances, of rankings or of other orders to dig in."""
    results: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        network = make_network(story, seed)
        evidence = Evidence(*test_scores(EACH, story.hardness, seed), "test")
        for name, order in digging(network, evidence).items():
            results.setdefault(name, []).append(measures(order, network.leaks))
    return table(results, first)


def by_pooling(network: Network, evidence: Evidence) -> dict[str, np.ndarray]:
    """Sites by the work list, for each way to make one score of the recordings of a night."""
    lowest = network.levels.min(axis=2, keepdims=True)
    return {
        name: by_worklist(
            Network(pool(network.scores)[:, :, None], lowest, network.leak_since),
            evidence,
            as_listed,
        )[0]
        for name, pool in POOLINGS.items()
    }


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=int, default=40)
    given = command.parse_args()
    seeds = given.seeds
    story = Story()
    parts = [
        f"By `scripts/research/worklist_digs.py`: {seeds} made-up networks of {story.sites} sites over "
        f"{story.nights} nights with {story.recordings} recordings each; "
        f"{story.bursts} bursts, {story.growing} growing leaks, {story.old} leaks older than the "
        f"first night, {story.pumps} pumps that always hum, {story.dying} loggers that die, "
        f"{story.rain} nights of rain, a passing sound in {story.passing:.0%} of recordings. "
        "Means, with 95 % bootstrap intervals over networks."
    ]
    for name, circumstances in CIRCUMSTANCES.items():
        parts.append(f"**{name.capitalize()}**\n\n{compare(circumstances, seeds)}")
    weaker = Story(hardness=2.0)
    parts.append(
        f"**How a night is pooled, weaker model**\n\n{compare(weaker, seeds, by_pooling, 'score of a night')}"
    )
    text = "\n\n".join(parts)
    print(text)
    if not given.dry_run:
        marks = r"(<!-- digs -->\n).*?(<!-- end -->)"
        page = PAGE.read_text(encoding="utf-8")
        page = re.sub(marks, lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.DOTALL)
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
