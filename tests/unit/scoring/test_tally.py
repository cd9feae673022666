"""Counts with their first examples."""

from leakdet.scoring.tally import Tally


def test_a_tally_of_any_length_names_the_first_few() -> None:
    tally = Tally()
    for number in range(1_000):
        tally.add(f"{number // 2}")
    assert (tally.count, tally.first) == (1_000, ["0", "1", "2", "3", "4"])
    assert str(tally) == "0, 1, 2, 3, 4 …"
