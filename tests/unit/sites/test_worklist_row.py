"""A row of the work list."""

from leakdet.sites.worklist_row import STATES, Recording, WorklistRow


def row() -> WorklistRow:
    return WorklistRow(
        site="A",
        state="watch",
        why="an alarm in 1 of 2 nights",
        nights=2,
        leak_nights=1,
        since=None,
        score=0.9,
        median_score=0.2,
        level_dbfs=-60.0,
        median_level_dbfs=None,
        familiarity=None,
        trend=(None, 0.2, 0.9),
        health=(),
        worth=None,
        leak_share=None,
        leak_share_interval=None,
        lat=None,
        lon=None,
        columns={"logger": "7"},
        recordings=(Recording("a.wav", None, 0.9, "leak", -60.0),),
    )


def test_the_states_are_those_that_the_page_groups_by() -> None:
    assert STATES == ("new", "persistent", "ceased", "watch", "quiet", "silent logger", "broken")


def test_a_row_compares_by_its_values() -> None:
    assert row() == row()
    assert row().state in STATES
