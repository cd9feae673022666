"""Rows of predict as columns."""

from datetime import datetime

import numpy as np
import pytest
from tests.unit.sites.conftest import row

from leakdet.sites.row_columns import DAY_S, UNDATED, UNREAD, Kind, read_columns

NIGHT = datetime.fromisoformat("2026-05-01T03:00")


def test_texts_of_a_csv_and_values_read_alike() -> None:
    text = row("A", NIGHT, 0.25, -61.5)
    values = text | {"leak_prob": 0.25, "quiet_level_dbfs": -61.5, "recorded_at": NIGHT}
    columns = read_columns([text, values])
    assert columns.numbers["leak_prob"].tolist() == [0.25, 0.25]
    assert columns.numbers["quiet_level_dbfs"].tolist() == [-61.5, -61.5]
    assert columns.seconds[0] == columns.seconds[1] == NIGHT.toordinal() * DAY_S + 3 * 3600


def test_an_offset_is_not_applied_since_nights_are_those_of_the_recorders_clock() -> None:
    times = ("2026-05-01T03:00:00", "2026-05-01T03:00:00+10:00", "2026-05-01T03:00:00Z")
    columns = read_columns([row("A", NIGHT, 0.1, recorded_at=time) for time in times])
    assert len(set(columns.seconds.tolist())) == 1


def test_columns_may_lack() -> None:
    columns = read_columns([{"path": "a.wav", "site": "A", "decision": "leak"}])
    assert columns.seconds.tolist() == [UNDATED]
    assert all(np.isnan(values).all() for values in columns.numbers.values())


def test_times_and_numbers_that_are_none() -> None:
    columns = read_columns([row("A", NIGHT, 0.1, recorded_at="tonight", lat="51,5", lon="inf")])
    assert columns.seconds.tolist() == [UNREAD]
    assert columns.unread_time == "tonight"
    assert columns.bad_numbers == 2


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, Kind.JUDGED),
        ({"flags": "clipped,met_in_training"}, Kind.MET),
        ({"decision": "undecided", "reason": "unfamiliar"}, Kind.UNDECIDED),
        ({"decision": "undecided", "reason": "silent"}, Kind.NO_SOUND),
        ({"decision": "undecided", "reason": "short"}, Kind.SPOILT),
        ({"decision": "", "error": "damaged"}, Kind.FAILED),
    ],
)
def test_what_a_recording_is_for_its_site(values: dict[str, str], kind: Kind) -> None:
    assert read_columns([row("A", NIGHT, 0.1, **values)]).kind.tolist() == [kind]


def test_a_channel_is_a_site_and_other_columns_are_kept() -> None:
    columns = read_columns([row("A", NIGHT, 0.1, channel="2", logger="7", pipe="steel")])
    assert columns.texts["site"] == ["A channel 2"]
    for blank in (None, ""):
        assert read_columns([row("A", NIGHT, 0.1, channel=blank)]).texts["site"] == ["A"]
    assert read_columns([row("A", NIGHT, 0.1, channel=2.0)]).texts["site"] == ["A channel 2"]
    assert columns.texts["other"] == [(("logger", "7"), ("pipe", "steel"))]


def test_a_channel_is_a_site_whether_told_as_text_or_number() -> None:
    told = [{"path": "a.wav", "site": "B7", "channel": channel} for channel in ("2", 2.0, "", None)]
    columns = read_columns(told)
    names = [columns.texts["site"][site] for site in columns.ids["site"]]
    assert names == ["B7 channel 2", "B7 channel 2", "B7", "B7"]
