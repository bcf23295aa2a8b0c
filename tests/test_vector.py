"""Vector operations on short rows, for every length that mixes their chunks of 8, 4, 2 and 1."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from maxmargin._kernels import vector

LENGTHS = range(1, 71)
OUTSIDE = -777.25  # what stands around a row, and must still stand there afterwards


@numba.njit
def add_scaled(out, row, factor):
    vector.add_scaled(out, row, factor)


@numba.njit
def combine_rows(matrix, indices, data, first, last, out):
    vector.combine_rows(matrix, indices, data, first, last, out)


@numba.njit
def sum_rows(matrix, indices, data, first, last, base, factor, out):
    vector.sum_rows(matrix, indices, data, first, last, base, factor, out)


@numba.njit
def spread_row(matrix, indices, data, first, last, row, scale):
    vector.spread_row(matrix, indices, data, first, last, row, scale)


@numba.njit
def copy(out, row):
    vector.copy(out, row)


@numba.njit
def dot(left, right):
    return vector.dot(left, right)


@numba.njit
def max_plus(old, matrix, new):
    vector.max_plus(old, matrix, new)


@numba.njit
def best_step(old, matrix, row, arrive, leave):
    vector.best_step(old, matrix, row, arrive, leave)


@numba.njit
def mask_above(row, offset, bound):
    return vector.mask_above(row, offset, bound)


@numba.njit
def lowest_bit(mask):
    return vector.lowest_bit(mask)


def framed(values):
    """A row inside a larger array, at an odd place, and that array."""
    around = np.full(len(values) + 20, OUTSIDE)
    around[9 : 9 + len(values)] = values
    return around[9 : 9 + len(values)], around


def assert_frame_untouched(around, length):
    outside = np.delete(around, slice(9, 9 + length))
    np.testing.assert_array_equal(outside, OUTSIDE)


@pytest.fixture
def random():
    return np.random.RandomState(0)


@pytest.mark.parametrize("length", LENGTHS)
def test_add_scaled(random, length):
    before, row = random.randn(2, length)
    out, around = framed(before)
    source, source_around = framed(row)
    add_scaled(out, source, -1.7)
    np.testing.assert_allclose(out, before - 1.7 * row, rtol=0, atol=1e-14)
    assert_frame_untouched(around, length)
    np.testing.assert_array_equal(source_around, framed(row)[1])


def features(random, kind, n_entries):
    """Rows of a matrix and their factors: all rows in turn, or some by index; and both bounds."""
    data = random.randn(n_entries + 5)
    if kind == "in turn":
        return None, np.arange(n_entries + 5), data, 2, 2 + n_entries
    indices = random.permutation(n_entries + 5).astype(np.int32)
    if kind == "single precision":
        data = data.astype(np.float32)
    return indices, indices, data, 3, 3 + n_entries


FEATURE_KINDS = ["in turn", "by index", "single precision"]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_combine_rows(random, kind, length):
    for n_entries in (0, 1, 2, 3, 8):
        indices, rows, data, first, last = features(random, kind, n_entries)
        matrix, before = random.randn(n_entries + 5, length), random.randn(length)
        given = matrix.copy()
        out, around = framed(before)
        combine_rows(matrix, indices, data, first, last, out)
        wanted = before + data[first:last].astype(float) @ matrix[rows[first:last]]
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)
        assert_frame_untouched(around, length)
        np.testing.assert_array_equal(matrix, given)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_spread_row(random, kind, length):
    for n_entries in (0, 1, 2, 3, 8):
        indices, rows, data, first, last = features(random, kind, n_entries)
        before, row = random.randn(n_entries + 5, length), random.randn(length)
        out, around = framed(before.ravel())
        matrix = out.reshape(before.shape)
        spread_row(matrix, indices, data, first, last, row, -0.3)
        wanted = before.copy()
        wanted[rows[first:last]] -= 0.3 * data[first:last, None].astype(float) * row
        np.testing.assert_allclose(matrix, wanted, rtol=0, atol=1e-14)
        assert_frame_untouched(around, before.size)


@pytest.mark.parametrize("length", LENGTHS)
def test_spread_row_of_few_numbers(random, length):
    data, before = random.randn(5), random.randn(5, length)
    for place in range(length):  # chunks that are zero are left out, none is added twice
        row = np.zeros(length)
        row[place] = 1.5
        matrix = before.copy()
        spread_row(matrix, None, data, 0, 5, row, 2.0)
        np.testing.assert_allclose(matrix, before + 2.0 * np.outer(data, row), rtol=0, atol=1e-14)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_sum_rows(random, kind, length):
    for n_entries in (0, 1, 2, 3, 8):
        indices, rows, data, first, last = features(random, kind, n_entries)
        matrix, base = random.randn(n_entries + 5, length), random.randn(length)
        out, around = framed(np.full(length, np.nan))  # what stood there does not matter
        sum_rows(matrix, indices, data, first, last, base, 0.7, out)
        wanted = 0.7 * base + data[first:last].astype(float) @ matrix[rows[first:last]]
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13)
        assert_frame_untouched(around, length)


@pytest.mark.parametrize("length", LENGTHS)
def test_copy(random, length):
    row = random.randn(length)
    row[random.randint(length)] = -np.inf
    out, around = framed(random.randn(length))
    copy(out, row)
    np.testing.assert_array_equal(out, row)
    assert_frame_untouched(around, length)


@pytest.mark.parametrize("length", LENGTHS)
def test_dot(random, length):
    left, right = random.randn(2, length)
    found = dot(framed(left)[0], framed(right)[0])
    assert found == pytest.approx(left @ right, rel=0, abs=1e-13)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_max_plus_and_the_step_of_a_best_path(random, n_rows, length):
    old, matrix = random.randn(n_rows), random.randn(n_rows, length)
    matrix[random.random_sample(matrix.shape) < 0.3] = -np.inf
    matrix[:, random.randint(length)] = -np.inf  # a label that nothing may precede
    old[random.randint(n_rows)] = -np.inf
    new, around = framed(random.randn(length))
    max_plus(old, matrix, new)
    wanted = (old[:, None] + matrix).max(axis=0)
    np.testing.assert_array_equal(new, wanted)
    assert_frame_untouched(around, length)
    row = random.randn(length)
    arrive, around = framed(random.randn(length))
    leave, around_sum = framed(random.randn(length))
    best_step(old, matrix, row, arrive, leave)
    np.testing.assert_array_equal(arrive, wanted)
    np.testing.assert_array_equal(leave, row + wanted)
    assert_frame_untouched(around, length)
    assert_frame_untouched(around_sum, length)


def test_max_plus_takes_the_largest_wherever_it_stands():
    for best in range(9):
        old = np.zeros(9)
        old[best] = 1.0
        new = np.empty(11)
        max_plus(old, np.zeros((9, 11)), new)
        np.testing.assert_array_equal(new, 1.0)


@pytest.mark.parametrize("length", range(8, 71))
def test_mask_above(random, length):
    bound = 0.25
    row = random.choice([bound, np.nextafter(bound, 1.0), -1.0, 2.0], length)
    for offset in range(length - 7):
        mask = mask_above(framed(row)[0], offset, bound)
        wanted = sum(1 << j for j in range(8) if row[offset + j] > bound)
        assert mask == wanted


def test_lowest_bit():
    for place in range(63):
        assert lowest_bit(1 << place) == place
    for mask in range(1, 256):
        assert lowest_bit(mask) == [bit for bit in range(8) if mask >> bit & 1][0]


def refused(function, *arguments):
    with pytest.raises(TypingError):
        function(*arguments)


def test_rows_that_are_not_contiguous_doubles_are_refused():
    # Read as what they are not, they would give garbage without a word.
    row, narrow, strided = np.ones(8), np.ones(8, np.float32), np.ones(16)[::2]
    for wrong in (narrow, strided):
        refused(add_scaled, row, wrong, 1.0)
        refused(add_scaled, wrong, row, 1.0)
        refused(copy, row, wrong)
        refused(dot, row, wrong)
        refused(max_plus, wrong, np.ones((8, 8)), row)
        refused(best_step, row, np.ones((8, 8)), wrong, row, row)
        refused(best_step, row, np.ones((8, 8)), row, row, wrong)
        refused(mask_above, wrong, 0, 0.0)


def test_max_plus_refuses_a_matrix_that_is_not_of_contiguous_doubles():
    row = np.ones(8)
    refused(max_plus, row, np.ones((8, 8)).T[:, ::-1], row)
    refused(max_plus, row, np.ones((8, 8), np.float32), row)


def test_features_that_are_not_contiguous_are_refused():
    matrix, row, data = np.ones((8, 8)), np.ones(8), np.ones(8)
    indices = np.arange(8, dtype=np.int32)
    strided = np.arange(16, dtype=np.int32)[::2]
    for wrong in (
        (matrix.astype(np.float32), indices, data),
        (matrix, indices.astype(np.uint8), data),
        (matrix, strided, data),
        (matrix, indices, np.ones(16)[::2]),
        (matrix, indices, np.ones(8, np.int64)),
    ):
        refused(combine_rows, *wrong, 0, 8, row)
        refused(spread_row, *wrong, 0, 8, row, 1.0)
