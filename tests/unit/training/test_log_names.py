from collections import Counter

from leakdet.training import log_names
from leakdet.training.validation import BINS


def values() -> list[str]:
    constants = {name: value for name, value in vars(log_names).items() if name.isupper()}
    groups = [value for value in constants.values() if isinstance(value, tuple)]
    single = [value for value in constants.values() if isinstance(value, str)]
    grouped = [name for group in groups for name in group if name not in single]
    return [*single, *grouped]


def test_no_two_things_have_one_name() -> None:
    assert [name for name, count in Counter(values()).items() if count > 1] == []


def test_the_histogram_has_a_column_per_bin() -> None:
    assert len(log_names.VAL_PROB_BINS) == BINS
