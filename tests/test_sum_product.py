"""Sums over the labellings of a chain against enumeration, and the exponentials inside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from maxmargin._kernels import exponential
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.sum_product import (
    careful_marginals_summed,
    chain_marginals_summed,
    sum_product_work,
)

LENGTHS = [*range(1, 35), 1001]
OUTSIDE = -777.25


@compiled
def exp_row(row, shift, out):
    return exponential.exp_row(row, shift, out)


@compiled
def exp_difference(row, constant, shifts, out, sums):
    exponential.exp_difference(row, constant, shifts, out, sums)


@compiled
def extremes(row):
    return exponential.extremes(row)


@compiled
def entropy_line(row, direction, gamma):
    return exponential.entropy_line(row, direction, gamma)


@compiled
def log_row(row, out):
    exponential.log_row(row, out)


@compiled
def entropy_of_row(row):
    return exponential.entropy_of_row(row)


def framed(length):
    """A row inside a larger array, at an odd place, and that array."""
    around = np.full(length + 20, OUTSIDE)
    return around[9 : 9 + length], around


def outside(around, length):
    return np.delete(around, slice(9, 9 + length))


# --- exponentials and logarithms ------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
def test_exponentials(length):
    random = np.random.RandomState(length)
    row = random.uniform(-700.0, 700.0, length)
    out, around = framed(length)
    total = exp_row(row, 3.5, out)
    np.testing.assert_allclose(out, np.exp(row - 3.5), rtol=1e-15)
    assert total == pytest.approx(np.exp(row - 3.5).sum(), rel=1e-13)
    assert (outside(around, length) == OUTSIDE).all()
    shifts, sums = row + random.uniform(-5.0, 5.0, length), random.rand(length)
    before = sums.copy()
    exp_difference(row, -1.25, shifts, out, sums)
    np.testing.assert_allclose(out, np.exp(row - 1.25 - shifts), rtol=1e-15)
    np.testing.assert_allclose(sums, before + out, rtol=1e-15)
    assert (outside(around, length) == OUTSIDE).all()


def test_exponentials_at_the_borders():
    row = np.array([-np.inf, -1e300, -708.1, -708.0, -1e-300, 0.0, 1e-16, 709.0])
    out = np.empty(8)
    exp_row(row, 0.0, out)
    assert (out[:3] == 0.0).all() and out[5] == 1.0
    np.testing.assert_allclose(out[3:], np.exp(row[3:]), rtol=1e-15)


@pytest.mark.parametrize("length", LENGTHS)
def test_logarithms(length):
    random = np.random.RandomState(length)
    row = np.exp(random.uniform(-700.0, 700.0, length))
    row[::3] = 1.0 + 0.3 * random.uniform(-1.0, 1.0, len(row[::3]))
    row[::7] = 1.0 + 1e-9 * random.randn(len(row[::7]))
    out, around = framed(length)
    log_row(row, out)
    np.testing.assert_allclose(out, np.log(row), rtol=5e-16)
    assert (outside(around, length) == OUTSIDE).all()
    mu = random.dirichlet(np.full(length, 0.1))
    mu[::5] = 0.0
    wanted = -sum(m * np.log(m) for m in mu if m > 0.0)
    assert entropy_of_row(mu) == pytest.approx(wanted, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("length", LENGTHS)
def test_smallest_and_largest(length):
    random = np.random.RandomState(length)
    row, around = framed(length)
    row[:] = random.randn(length)
    assert extremes(row) == (row.min(), row.max())
    row[random.randint(length)] = -np.inf
    assert extremes(row) == (-np.inf, row.max())
    assert (outside(around, length) == OUTSIDE).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_entropy_along_a_line(length):
    random = np.random.RandomState(length)
    row, direction = random.rand(length), random.randn(length)
    row[::4] = 0.0
    direction[::4] = np.abs(direction[::4])
    row[::8] = direction[::8] = 0.0
    point = row + 0.01 * direction
    moves = direction != 0.0
    point, direction_there = np.maximum(point[moves], 1e-300), direction[moves]
    first, second = entropy_line(row, direction, 0.01)
    assert first == pytest.approx((direction_there * np.log(point)).sum(), rel=1e-12, abs=1e-14)
    assert second == pytest.approx((direction_there**2 / point).sum(), rel=1e-12)


def test_logarithms_at_the_borders():
    row = np.array([0.0, 5e-324, 2.3e-308, 0.5, np.sqrt(0.5), 1.0, np.sqrt(2.0), 1.7e308])
    out = np.empty(8)
    log_row(row, out)
    assert (out[:2] == -np.inf).all() and out[5] == 0.0
    np.testing.assert_allclose(out[2:], np.log(row[2:]), rtol=5e-16)
    assert entropy_of_row(np.array([0.0, 1.0, 0.0])) == 0.0


# --- chains ---------------------------------------------------------------------------------


def enumerate_chain(unary, pairs):
    """Log partition function and marginals from all labellings; pairs by position."""
    length, K = unary.shape
    labellings = list(itertools.product(range(K), repeat=length))
    scores = np.array(
        [
            sum(unary[t, k] for t, k in enumerate(y))
            + sum(pairs[t, a, b] for t, (a, b) in enumerate(itertools.pairwise(y)))
            for y in labellings
        ]
    )
    value = logsumexp(scores)
    marginals, pair_marginals = np.zeros((length, K)), np.zeros((length - 1, K, K))
    for y, probability in zip(labellings, np.exp(scores - value), strict=True):
        for t, k in enumerate(y):
            marginals[t, k] += probability
        for t, (a, b) in enumerate(itertools.pairwise(y)):
            pair_marginals[t, a, b] += probability
    return value, marginals, pair_marginals


def run_chain(unary, transitions, function=chain_marginals_summed):
    """The compiled answer; scratch is full of NaN, nobody may trust its contents."""
    length, K = unary.shape
    work, marginals = np.full(sum_product_work(length, K), np.nan), np.full((length, K), np.nan)
    summed = np.full((K, K), np.nan)
    return function(unary, transitions, work, marginals, summed), marginals, summed


@st.composite
def chains(draw):
    random = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    length, K = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    size = draw(st.sampled_from([0.0, 1.0, 30.0, 1e3, 1e4]))
    unary = size * random.uniform(-1.0, 1.0, (length, K))
    pairs = size * random.uniform(-1.0, 1.0, (K, K))
    if draw(st.booleans()):
        unary, pairs = np.round(unary), np.round(pairs)  # ties
    strictness = draw(st.sampled_from([0.0, 0.2, 0.5]))
    unary[random.random_sample(unary.shape) < strictness] = -np.inf
    pairs[random.random_sample(pairs.shape) < strictness] = -np.inf
    return unary, pairs


@settings(max_examples=300)
@given(chains())
def test_chain_marginals_agree_with_enumeration(case):
    unary, transitions = case
    length, K = unary.shape
    by_position = np.broadcast_to(transitions, (length - 1, K, K))
    with np.errstate(invalid="ignore"):
        wanted, wanted_marginals, wanted_pairs = enumerate_chain(unary, by_position)
    for function in (chain_marginals_summed, careful_marginals_summed):
        value, marginals, summed = run_chain(unary, transitions, function)
        if wanted == -np.inf:
            assert value == -np.inf
            assert not marginals.any() and not summed.any()
            continue
        assert value == pytest.approx(wanted, rel=1e-13, abs=1e-12)
        # Scores of 1e4 have 12 digits behind the point.
        np.testing.assert_allclose(marginals, wanted_marginals, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(summed, wanted_pairs.sum(axis=0), rtol=1e-9, atol=1e-300)
        # Exactly on the polytope, and nothing for what is forbidden.
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-14)
        np.testing.assert_allclose(summed.sum(axis=1), marginals[:-1].sum(axis=0), atol=1e-13)
        np.testing.assert_allclose(summed.sum(axis=0), marginals[1:].sum(axis=0), atol=1e-13)
        assert (marginals[unary == -np.inf] == 0.0).all()
        assert (summed[transitions == -np.inf] == 0.0).all()


@pytest.mark.parametrize("forbidden", [False, True])
def test_plain_messages_agree_with_logarithms(forbidden):
    random = np.random.RandomState(2)
    for size in (0.1, 3.0, 20.0, 90.0, 140.0):
        unary, transitions = size * random.randn(12, 6), size * random.randn(6, 6)
        if forbidden:
            transitions[random.rand(6, 6) < 0.4] = -np.inf
            unary[3:6, random.permutation(6)[:2]] = -np.inf
        value, marginals, found = run_chain(unary, transitions)
        wanted, wanted_marginals, wanted_sums = run_chain(
            unary, transitions, careful_marginals_summed
        )
        assert value == pytest.approx(wanted, rel=1e-14)
        # products of probabilities below 1e-150 may vanish
        np.testing.assert_allclose(marginals, wanted_marginals, rtol=1e-10, atol=1e-250)
        np.testing.assert_allclose(found, wanted_sums, rtol=1e-10, atol=1e-250)


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_a_long_chain_does_not_lose_its_digits(size):
    """Against logarithms throughout, in both directions."""
    random = np.random.RandomState(1)
    unary, transitions = size * random.randn(3000, 5), size * random.randn(5, 5)
    value, marginals, found = run_chain(unary, transitions)
    forward, backward = unary.copy(), np.zeros_like(unary)
    for t in range(1, 3000):
        forward[t] += logsumexp(forward[t - 1][:, None] + transitions, axis=0)
        backward[-t - 1] = logsumexp(transitions + (unary + backward)[-t], axis=1)
    assert value == pytest.approx(logsumexp(forward[-1]), rel=1e-13)
    wanted = np.exp(forward + backward - value)
    np.testing.assert_allclose(marginals, wanted, atol=1e-12 * size * 3000)
    assert found.sum() == pytest.approx(2999.0, rel=1e-12)


def test_many_poor_ways_outweigh_a_few_good_ones():
    """Entropy against energy: the one best labelling scores 800 more, and has no weight at all."""
    K, length = 26, 1000
    unary = np.zeros((length, K))
    transitions = np.full((K, K), 0.0)
    transitions[0, 1:] = transitions[1:, 0] = -np.inf  # label 0 keeps to itself
    unary[0, 0] = 800.0
    value, marginals, summed = run_chain(unary, transitions)
    again, same, _ = run_chain(unary, transitions, careful_marginals_summed)
    assert again == pytest.approx(value, rel=1e-14)
    assert summed.sum() == pytest.approx(length - 1.0, rel=1e-12)
    np.testing.assert_allclose(same, marginals, rtol=1e-10, atol=1e-300)
    assert value == pytest.approx(length * np.log(K - 1.0), rel=1e-13)
    np.testing.assert_allclose(marginals[:, 1:], 1.0 / (K - 1.0), rtol=1e-10)
    assert (marginals[:, 0] < 1e-300).all()
