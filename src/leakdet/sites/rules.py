"""The rule by which nights make a state and a rank: its parameters, each with its default."""

from dataclasses import dataclass

from leakdet.config.fields import check_ranges, doc, require


@dataclass(frozen=True)
class WorklistRules:
    """Parameters of the work list. A night is *judged* if a recording of it was decided."""

    night_ends_h: int = doc(
        12,
        "Hour of the recorders' clock at which a night ends and the next begins.",
        at_least=0,
        at_most=23,
    )
    history_nights: int = doc(90, "Nights that are looked at, back from the last one.", at_least=1)
    alarms: int = doc(3, "Alarms among the last judged nights that make a suspicion.", at_least=1)
    of_nights: int = doc(4, "How many last judged nights these are.", at_least=1)
    news_nights: int = doc(
        14,
        "Nights after which a new sound counts as persistent, and a ceased one as quiet.",
        at_least=1,
    )
    rise_db: float = doc(
        6.0,
        "Rise of the quiet level against the site's own median, in dB and on as many nights as "
        "make a suspicion, that counts as louder.",
        above=0.0,
    )
    level_nights: int = doc(
        5, "Earlier nights with a level that a site needs for its median to be one.", at_least=1
    )
    level_far_db: float = doc(
        15.0,
        "Distance of the quiet level from the site's own median, in dB, that is told of its "
        "logger.",
        above=0.0,
    )
    silent_after: int = doc(
        3,
        "Nights without a recording after which a logger counts as silent, in its own usual "
        "interval.",
        at_least=1,
    )
    network_share: float = doc(
        0.1,
        "Share of the sites usually heard in a night that make it a night of the network; "
        "recordings of emptier ones are left out, as a wrong clock's.",
        at_least=0.0,
        below=1.0,
    )
    common_share: float = doc(
        0.2,
        "A night has a common cause, such as rain, and counts for no site, where the share of "
        "sites with an alarm is by so much above the usual one.",
        above=0.0,
        at_most=1.0,
    )
    oldest_year: int = doc(2005, "Earlier times are those of a clock that was reset.", at_least=1)
    prior: float = doc(
        0.01,
        "Share of the sites that have a leak, before anything was heard.",
        above=0.0,
        below=1.0,
    )
    old_odds: float = doc(
        0.1,
        "Odds of a leak where the sound was there from the first night on, against those where its "
        "beginning was heard; 1: no difference.",
        above=0.0,
        at_most=1.0,
    )
    dig_cost: float | None = doc(
        None, "Cost of a dig; while it is unknown, so is its worth.", at_least=0.0
    )
    leak_cost: float | None = doc(
        None, "What a leak costs that is not found, in the same currency.", at_least=0.0
    )
    recordings: int = doc(10, "Newest recordings of a site that its row lists.", at_least=1)

    def __post_init__(self) -> None:
        check_ranges(self)
        most = f"at most of_nights={self.of_nights}"
        require(self.alarms <= self.of_nights, "alarms", self.alarms, most)

    @property
    def gap(self) -> int:
        """Judged nights in a row without an alarm that end a run of alarms."""
        return self.of_nights - self.alarms + 1
