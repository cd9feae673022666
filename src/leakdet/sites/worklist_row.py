"""A row of the work list: what the recordings of one site say over its nights."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, get_args

State = Literal["new", "persistent", "ceased", "watch", "quiet", "silent logger", "broken"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class Recording:
    """A recording of a site; `leak_prob` is None where no window was live, or it failed."""

    path: str
    recorded_at: datetime | None
    leak_prob: float | None
    decision: str  # leak, no_leak, undecided; "" where it could not be scored
    quiet_level_dbfs: float | None
    channel: int = 0  # of its file, from 1, where each channel is a site; 0: the whole file


@dataclass(frozen=True)
class WorklistRow:
    """A site with its state, the reason for it, and what a dig there is worth.

    What is unknown is None: a `score` of a site that was never heard, the `worth` where the model
    keeps no evidence of its own.
    """

    site: str
    state: State
    why: str  # one sentence: the reason by the rule
    nights: int  # nights with a judged recording, n
    leak_nights: int  # those of them with an alarm, k
    since: date | None  # first night of the present run of alarms
    score: float | None  # of the last night heard: leak_prob pooled over that night's recordings
    median_score: float | None  # of its earlier nights
    level_dbfs: float | None  # lowest quiet level of the last night heard
    median_level_dbfs: float | None  # of its earlier nights
    familiarity: float | None  # of the last night heard
    # score of each night from the first to the last of the network; None: not heard
    trend: tuple[float | None, ...]
    # of the logger: missing, silent, clipped, other rate, level far from its history
    health: tuple[str, ...]
    worth: float | None  # expected worth of a dig there, in the currency of the costs
    leak_share: float | None  # share of true leaks from the first rank down to this one
    leak_share_interval: tuple[float, float] | None  # its 95 % interval
    lat: float | None
    lon: float | None
    columns: Mapping[str, str]  # other columns of its latest row, such as logger and pipe
    recordings: tuple[Recording, ...]  # newest first
    chance: float | None = None  # of a leak there, from which the worth follows
