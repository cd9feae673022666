"""From rows to the ranked list."""

from tests.unit.sites.conftest import TODAY, network, night_rows
from tests.unit.sites.test_dig_worth import evidence

from leakdet.sites.make_worklist import make_worklist


def test_each_site_has_one_row_whatever_the_order_of_the_sites() -> None:
    rows = network(8) + night_rows("A", [0.1] * 4 + [0.9] * 4)
    there, back = (
        make_worklist(sorted(rows, key=lambda one: one["site"], reverse=turned), today=TODAY)
        for turned in (False, True)
    )
    assert len(there.rows) == 26
    assert {one.site: one for one in there.rows} == {one.site: one for one in back.rows}
    assert there.rows[0] == back.rows[0]
    assert len(there.nights) == 8


def test_an_iterator_of_rows_is_enough() -> None:
    rows = network(3)
    assert make_worklist(iter(rows), today=TODAY) == make_worklist(rows, today=TODAY)


def test_what_the_list_cannot_know_is_said() -> None:
    rows = [one | {"quiet_level_dbfs": ""} for one in night_rows("A", [0.1] * 3)]
    rows[0] |= {"flags": "met_in_training"}
    notes = " ".join(make_worklist(rows, today=TODAY).notes)
    assert "No row has a quiet_level_dbfs: levels are unknown" in notes
    assert "1 recording that the model met in training decide nothing" in notes
    assert "No scores of the model's own test recordings are known" in notes
    assert "unknown without the costs" in notes
    few = make_worklist(night_rows("A", [0.1]), evidence=evidence(5, 30), today=TODAY)
    assert any("With fewer than 20 sites" in note for note in few.notes)
    assert any("5 leaks and 30 other recordings of the test split" in note for note in few.notes)
