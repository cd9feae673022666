"""What is wrong with the logger of each site, as short facts."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

import numpy as np
from jaxtyping import Bool, Int

from leakdet.errors import counted
from leakdet.sites.course import Levels, Presence
from leakdet.sites.grid import at, last_few, masked_median
from leakdet.sites.row_columns import Kind
from leakdet.sites.rules import WorklistRules
from leakdet.sites.site_history import History

KINDS = {
    Kind.NO_SOUND: ("silent", "without sound"),
    Kind.SPOILT: ("spoilt", "short, stuck or with dropouts"),
    Kind.FAILED: ("failed", "that could not be read"),
}
RATE_NIGHTS = 9  # earlier nights whose usual rate the last one is compared with
GAPS = 0.2  # share of the network's nights since its first; more of them missed are told


def health_facts(
    history: History,
    levels: Levels,
    presence: Presence,
    network: Bool[np.ndarray, " N"],
    clock_back: Int[np.ndarray, " S"],
    dates: Sequence[date],
    rules: WorklistRules,
) -> list[tuple[str, ...]]:
    """Facts of each site, on its last night heard where nothing else is said."""
    heard, last, night = history.heard, presence.last_heard, np.arange(len(network))
    facts: list[list[str]] = [[] for _ in last]

    def tell(which: Bool[np.ndarray, " S"], text: Callable[[int], str]) -> None:
        for site in np.flatnonzero(which).tolist():
            facts[site].append(text(site))

    own = network & (night >= np.argmax(heard > 0, axis=1)[:, None])
    nights, lacking = own.sum(axis=1), (own & (heard == 0)).sum(axis=1)
    away = (last >= 0) & (presence.missed > 0)
    tell(away, lambda site: f"missing for {counted(int(presence.missed[site]), 'night')}")
    often = (last >= 0) & ~away & (lacking > GAPS * nights)
    tell(often, lambda site: f"missing in {lacking[site]} of {counted(int(nights[site]), 'night')}")
    total = at(heard, last, 0)
    for kind, (name, words) in KINDS.items():
        bad = at(history.counts[kind], last, 0)
        tell(bad > 0, partial(_of, name, bad, total, words))
    clipped = at(history.clipped, last, 0)
    tell((clipped > 0) & (2 * clipped >= total), partial(_of, "clipped", clipped, total, ""))
    rate = at(history.rate_hz, last, np.nan)
    before = masked_median(
        history.rate_hz, last_few((night < last[:, None]) & (heard > 0), RATE_NIGHTS)
    )
    other = ~np.isnan(rate) & ~np.isnan(before) & (rate != before)
    tell(other, lambda site: f"other rate: {rate[site]:.0f} Hz, before {before[site]:.0f} Hz")
    off = np.nan_to_num(levels.off, nan=0.0)
    tell(np.abs(off) >= rules.level_far_db, lambda site: f"level far: {_shift(float(off[site]))}")
    tell(
        levels.restarted >= 0,
        lambda site: f"logger changed on {dates[levels.restarted[site]]}: levels count from there",
    )
    tell(clock_back > 0, lambda site: f"clock: {clock_back[site]} recordings dated wrongly")
    return [tuple(site) for site in facts]


def _of(name: str, bad: np.ndarray, total: np.ndarray, words: str, site: int) -> str:
    """`silent: 1 of 2 recordings without sound`."""
    return f"{name}: {bad[site]} of {counted(int(total[site]), 'recording')} {words}".rstrip()


def _shift(off_db: float) -> str:
    return f"{abs(off_db):.0f} dB {'above' if off_db > 0 else 'below'} its own median"
