import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.core.errors import InputError
from leakdet.crossvalidation.folds import make_folds, select_rows


@st.composite
def recordings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Groups and labels in which every group has both classes, so that any division can be trained
    on; some are unknown.
    """
    sizes = draw(st.lists(st.integers(4, 6), min_size=4, max_size=12))
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    is_leak = [place % 2 == 0 for size in sizes for place in range(size)]
    unknown = draw(st.integers(0, 3))
    order = draw(st.permutations(range(len(groups) + unknown)))
    return np.array(groups + [""] * unknown)[order], np.array(is_leak + [True] * unknown)[order]


@given(
    recordings(), st.sampled_from([0, 2, 3]), st.sampled_from([0.2, 0.25, 0.4]), st.integers(0, 3)
)
def test_every_known_recording_is_held_out_once_and_its_group_is_used_nowhere_else(
    drawn: tuple[np.ndarray, np.ndarray], count: int, val_fraction: float, seed: int
) -> None:
    groups, is_leak = drawn
    folds = make_folds(groups, is_leak, count, val_fraction, seed)
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == np.flatnonzero(groups != "").tolist()
    for fold in folds:
        fitted = np.concatenate([fold.train, fold.val])
        assert not set(groups[fold.test]) & set(groups[fitted])
        assert "" not in groups[fitted]
        assert sorted(np.concatenate([fitted, fold.test])) == sorted(tested)
        for part in (fold.train, fold.val):
            assert 0 < is_leak[part].sum() < len(part)
        if fold.val_by == "group":
            assert not set(groups[fold.val]) & set(groups[fold.train])


def test_validation_takes_whole_groups_where_there_are_enough() -> None:
    groups = np.repeat([f"site{number}" for number in range(9)], 4)
    is_leak = np.tile([True, False], 18)
    folds = make_folds(groups, is_leak, 0, 0.25, 0)
    assert [fold.name for fold in folds] == sorted(set(groups))
    assert {fold.val_by for fold in folds} == {"group"}
    assert {len(fold.val) for fold in folds} == {8}  # two of the eight sites that are left


def test_validation_takes_recordings_where_groups_are_too_few() -> None:
    groups = np.repeat(["pipe1", "pipe3"], 12)
    folds = make_folds(groups, np.tile([True, False], 12), 0, 0.25, 0)
    assert {fold.val_by for fold in folds} == {"recording"}
    assert all(2 <= len(fold.val) <= 4 for fold in folds)


@pytest.mark.parametrize("seed", range(5))
def test_channels_of_a_file_are_never_in_training_and_validation(seed: int) -> None:
    """Whole groups are too few here, so that validation takes single recordings."""
    groups = np.repeat(["pipe1", "pipe3"], 24)
    files = np.array([f"f{number // 3}" for number in range(48)])
    is_leak = np.tile(np.repeat([True, False], 3), 8)
    folds = make_folds(groups, is_leak, 0, 0.25, seed, files)
    assert {fold.val_by for fold in folds} == {"recording"}
    for fold in folds:
        assert not set(files[fold.train]) & set(files[fold.val])


def test_channels_of_a_file_in_two_groups_are_refused() -> None:
    sensors = np.tile(["left", "right"], 12)
    files = np.array([f"f{number // 2}" for number in range(24)])
    is_leak = np.tile([True, True, False, False], 6)
    with pytest.raises(InputError, match=r"12 of 12 files .*channels .*: f0"):
        make_folds(sensors, is_leak, 0, 0.25, 0, files)
    one_each = np.where(sensors == "left", sensors, "")  # as crossval.where leaves them
    one_each[::4] = "other"
    assert len(make_folds(one_each, np.repeat([True, False], 12), 0, 0.25, 0, files)) == 2


def test_folds_are_stratified_and_follow_the_seed() -> None:
    groups = np.array([f"r{number}" for number in range(60)])
    is_leak = np.arange(60) < 20
    folds = make_folds(groups, is_leak, 10, 0.2, 0)
    assert [int(is_leak[fold.test].sum()) for fold in folds] == [2] * 10
    assert {len(fold.test) for fold in folds} == {6}
    again, other = (make_folds(groups, is_leak, 10, 0.2, seed) for seed in (0, 1))
    assert all(
        (a.test == b.test).all() and (a.val == b.val).all()
        for a, b in zip(folds, again, strict=True)
    )
    assert any(set(a.test) != set(b.test) for a, b in zip(folds, other, strict=True))


def test_every_leak_from_one_sensor_cannot_be_held_out_and_the_message_has_the_counts() -> None:
    sensors = np.repeat(["A", "B", "C"], 4)
    with pytest.raises(InputError, match=r"Leaving out A, 0 leaks and 8 others are left"):
        make_folds(sensors, sensors == "A", 0, 0.25, 0)


@pytest.mark.parametrize(("count", "needed"), [(0, 2), (4, 4)])
def test_too_few_groups_are_named(count: int, needed: int) -> None:
    groups = np.repeat(["only"] if count == 0 else ["a", "b", "c"], 6)
    with pytest.raises(InputError, match=rf"cannot make {needed} folds: "):
        make_folds(groups, np.arange(len(groups)) % 2 == 0, count, 0.25, 0)


COLUMNS = {
    "pipe": np.array(["1", "1", "3", ""]),
    "day": np.array(["mon", "tue", "mon", "mon"]),
    "label": np.array(["leak", "other", "leak", "ambient"]),
}


def test_folds_that_would_stay_empty_are_refused() -> None:
    groups = np.repeat(np.arange(8).astype(str), [8, 6, 3, 4, 1, 1, 1, 2])
    is_leak = np.isin(np.arange(26), [6, 8, 10, 13, 14, 15, 16, 20])
    with pytest.raises(InputError, match=r"8 groups .*only 7 of 8 folds"):
        make_folds(groups, is_leak, folds=8, val_fraction=0.2, seed=0)


def test_rows_are_chosen_by_the_values_of_columns() -> None:
    assert select_rows(COLUMNS, {"pipe": ["1", "3"], "label": ["leak"]}, "x").tolist() == [0, 2]
    assert select_rows(COLUMNS, {"pipe": [""]}, "x").tolist() == [3]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"tube": ["1"]}, r"'tube' .*group column.* day, label, pipe"),
        ({"pipe": ["1", "7"]}, r"x\.pipe: no recording has 7; there are , 1, 3"),
        ({"pipe": ["3"], "day": ["tue"]}, "no recording fits"),
    ],
)
def test_what_no_recording_has_is_refused(where: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        select_rows(COLUMNS, where, "x")
