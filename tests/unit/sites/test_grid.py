"""Arithmetic on grids of sites and nights in which values lack."""

import numpy as np

from leakdet.sites.grid import at, held, last_few, last_of, masked_median, packed, sum_of_last

T, F = True, False
MASK = np.array([[F, T, F, T], [F, F, F, F], [T, T, T, T]])
VALUES = np.array([[9.0, 1.0, 9.0, 3.0], [9.0, 9.0, 9.0, 9.0], [4.0, np.nan, 2.0, 1.0]])


def test_last_values_of_a_row() -> None:
    assert last_of(MASK).tolist() == [3, -1, 3]
    assert at(VALUES, last_of(MASK), -5.0).tolist() == [3.0, -5.0, 1.0]
    assert last_few(MASK, 1).tolist() == [[F, F, F, T], [F] * 4, [F, F, F, T]]


def test_packed_values_keep_their_order() -> None:
    order, valid = packed(MASK)
    assert order[0, :2].tolist() == [1, 3]
    assert valid.sum(axis=1).tolist() == [2, 0, 4]


def test_sum_of_the_last_few() -> None:
    assert sum_of_last(MASK, 2).tolist() == [[0, 1, 1, 1], [0] * 4, [1, 2, 2, 2]]
    assert sum_of_last(MASK, 9).tolist() == np.cumsum(MASK, axis=1).tolist()


def test_medians_are_those_of_numpy_and_need_enough_values() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.random((50, 9)), rng.random((50, 9)) < 0.6
    mask[:, :2] = True
    expected = [np.median(row[known]) for row, known in zip(values, mask, strict=True)]
    np.testing.assert_allclose(masked_median(values, mask), expected)
    assert np.isnan(masked_median(VALUES, MASK)).tolist() == [F, T, F]
    assert np.isnan(masked_median(VALUES, MASK, fewest=3)).tolist() == [T, T, F]


def test_the_value_that_is_held() -> None:
    mask = np.ones((3, 4), bool)
    assert held(VALUES, mask, 3)[[0, 2]].tolist() == [3.0, 1.0]
    assert held(VALUES, MASK, 3)[0] == 1.0  # the least of two
    assert np.isnan(held(VALUES, MASK, 3)[1])
