"""Answers of losses and structures, against linear programs and enumeration of all outputs."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from marks import more
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.passes import decode_blocks
from maxmargin._kernels.vector import dot
from maxmargin.features.rows import pack_rows
from maxmargin.structures.chain import Chain, max_marginals, pack_products
from maxmargin.structures.losses import AbsoluteLoss, MatrixLoss, ZeroOneLoss

# --- losses ---------------------------------------------------------------------------------


@compiled
def max_min_label(loss, scores, mu):
    return generic.max_min_label(loss, scores, np.empty(4 * mu.shape[0]), mu)


@compiled
def losses_of(loss, mu, matrix, towards_truth, towards_prediction):
    for z in range(mu.shape[0]):
        for j in range(mu.shape[0]):
            matrix[j, z] = generic.label_loss(loss, j, z)
        towards_truth[z] = generic.expected_label_loss(loss, mu, z)
    generic.expected_losses(loss, mu, towards_prediction)


def saddle_value(losses, scores):
    """``max_mu min_j (losses mu)_j + scores @ mu`` as a linear program."""
    k = len(scores)
    answer = linprog(
        -np.append(scores, 1.0),
        A_ub=np.hstack([-losses, np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * k + [(None, None)],
    )
    assert answer.status == 0
    return -answer.fun


def make_costs(kind, random, k):
    if kind == "uniform":
        return np.full(k, random.choice([0.05, 1.0, 3.0]))
    return np.exp(random.uniform(-2.0, 2.0, k))


@pytest.mark.parametrize("kind", ["uniform", "different"])
@pytest.mark.parametrize("loss_class", [ZeroOneLoss, AbsoluteLoss])
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.sampled_from([0.1, 1.0, 5.0]))
def test_max_min_label_solves_its_linear_program(loss_class, kind, seed, k, spread):
    random = np.random.RandomState(seed)
    scores = spread * random.randn(k)
    if seed % 3 == 0:
        scores = np.round(scores)  # ties
    loss = loss_class(make_costs(kind, random, k), kind == "uniform")
    mu = np.full(k, np.nan)
    value, lower = max_min_label(loss, scores, mu)
    assert lower == value  # a formula, not an approximation
    losses = loss.dense(k)
    assert value == pytest.approx(saddle_value(losses, scores), abs=1e-9)
    assert mu.min() >= 0.0
    assert mu.sum() == pytest.approx(1.0, abs=1e-12)
    assert (losses @ mu).min() + scores @ mu == pytest.approx(value, abs=1e-12 * (1.0 + spread))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_absolute_max_min_with_mistakes_that_cost_nothing(k):
    random = np.random.RandomState(k)
    for free in itertools.product([0.0, 1.0], repeat=k):
        costs = np.array(free) * np.exp(random.uniform(-1.0, 1.0, k))
        loss = AbsoluteLoss(costs, bool((costs == costs[0]).all()))
        scores, mu = random.randn(k), np.full(k, np.nan)
        value, _ = max_min_label(loss, scores, mu)
        losses = loss.dense(k)
        assert value == pytest.approx(saddle_value(losses, scores), abs=1e-9)
        assert (losses @ mu).min() + scores @ mu == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("name", ["zero-one", "absolute", "matrix"])
def test_expected_losses_follow_the_matrix(name, k):
    random = np.random.RandomState(k)
    costs = random.random_sample(k)
    labels = np.arange(k)
    if name == "zero-one":
        loss = ZeroOneLoss(costs, False)
        wanted = (labels[:, None] != labels) * costs
    elif name == "absolute":
        loss = AbsoluteLoss(costs, False)
        wanted = np.abs(labels[:, None] - labels) * costs
    else:
        wanted = random.random_sample((k, k)) * (labels[:, None] != labels)
        loss = MatrixLoss(wanted)
    np.testing.assert_allclose(loss.dense(k), wanted, rtol=1e-15)
    mu = random.dirichlet(np.ones(k))
    matrix, truth, prediction = np.empty((k, k)), np.empty(k), np.empty(k)
    losses_of(loss, mu, matrix, truth, prediction)
    np.testing.assert_allclose(matrix, wanted, rtol=1e-15)
    np.testing.assert_allclose(truth, mu @ wanted, rtol=1e-13)
    np.testing.assert_allclose(prediction, wanted @ mu, rtol=1e-13)


# --- chains ---------------------------------------------------------------------------------


class Masks(NamedTuple):
    """What is allowed; everything by default."""

    transitions: np.ndarray
    first: np.ndarray
    last: np.ndarray
    allowed: np.ndarray  # (positions, K), or (0, K)


def no_masks(K):
    return Masks(np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool), np.ones((0, K), bool))


def make_chain(X, truth, lengths, K, *, ends, masks=None, intercept=True):
    """Chain and rows over stacked positions; a sparse X stays sparse, a dense one dense."""
    masks = masks or no_masks(K)
    rows = pack_rows(X, fit_intercept=intercept, compress=False)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    forbidden = [np.where(mask, 0.0, -np.inf) for mask in masks[:3]]
    chain = Chain(
        np.asarray(truth, np.int32), indptr, max(lengths), K, ZeroOneLoss(np.ones(K), True),
        1.0 / np.asarray(lengths), ends, not all(mask.all() for mask in masks), *forbidden,
        masks.allowed, *pack_products(rows, indptr),
    )  # fmt: skip
    return chain, rows


def joint_feature(x, labels, K, ends):
    """Phi(x, y) in the layout of the weights: inputs by label, transitions, first, last."""
    inputs, moves, borders = np.zeros((x.shape[1], K)), np.zeros((K, K)), np.zeros((2, K))
    for t, label in enumerate(labels):
        inputs[:, label] += x[t]
    for a, b in itertools.pairwise(labels):
        moves[a, b] += 1.0
    borders[0, labels[0]] = borders[1, labels[-1]] = 1.0
    parts = [inputs.ravel(), moves.ravel()] + ([borders.ravel()] if ends else [])
    return np.concatenate(parts)


def outputs_of(length, K, masks, start=0):
    """All label sequences that the masks allow."""
    for labels in itertools.product(range(K), repeat=length):
        if (
            masks.first[labels[0]]
            and masks.last[labels[-1]]
            and all(masks.transitions[a, b] for a, b in itertools.pairwise(labels))
            and (
                not len(masks.allowed)
                or all(masks.allowed[start + t, k] for t, k in enumerate(labels))
            )
        ):
            yield labels


@compiled
def linear_maps(structure, rows, weights, i, labels, other, parts, scores, followed):
    """Score of an output y; with d = phi(y) - phi(other) / 2, the square ``|Phi d|^2``.

    Adds ``0.7 Phi d`` to the weights, and writes the scores there twice: as they are, and as the
    former ones become by the Gram matrix of the block.
    """
    size = generic.block_size(structure, i)
    direction, away = np.empty(size), np.empty(size)
    generic.score_block(structure, rows, weights, i, followed)
    generic.embed(structure, i, labels, direction)
    score = dot(followed, direction)
    n_parts = generic.output_parts(structure, i, labels, parts)
    generic.embed(structure, i, other, away)
    for part in range(size):
        direction[part] -= 0.5 * away[part]
    work = np.full(generic.work_size(structure, rows), np.nan)  # nobody may trust its contents
    norm = generic.squared_norm(structure, rows, i, direction, work)
    cheap = generic.add_gram(structure, rows, i, direction, 0.7, followed)
    generic.add_block(structure, rows, weights, i, direction, 0.7)
    generic.score_block(structure, rows, weights, i, scores)
    return score, norm, cheap, n_parts


@st.composite
def masked_chains(draw):
    """A few short sequences, their masks, and weights with or without ties."""
    random = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.integers(2, 4))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    masks = no_masks(K)
    strictness = 0.35
    if draw(st.booleans()):
        masks = masks._replace(transitions=random.random_sample((K, K)) > strictness)
    if draw(st.booleans()):
        masks = masks._replace(first=random.random_sample(K) > strictness)
    if draw(st.booleans()):
        masks = masks._replace(last=random.random_sample(K) > strictness)
    if draw(st.booleans()):
        masks = masks._replace(allowed=random.random_sample((sum(lengths), K)) > 0.2)
    ends = draw(st.booleans())
    ties = draw(st.booleans())
    return random, K, lengths, masks, ends, ties


@settings(max_examples=100)
@given(masked_chains())
def test_chain_decode_and_max_marginals_agree_with_enumeration(case):
    random, K, lengths, masks, ends, ties = case
    X = random.randn(sum(lengths), 3)
    weights = random.randn((4 + K + 2 * ends) * K)
    if ties:
        X, weights = np.round(X), np.round(weights)
    starts = np.cumsum([0, *lengths])[:-1]
    spaces = [list(outputs_of(n, K, masks, s)) for n, s in zip(lengths, starts, strict=True)]
    kept = [i for i, space in enumerate(spaces) if space]  # infeasible ones are refused earlier
    if not kept:
        return
    positions = np.concatenate([np.arange(starts[i], starts[i] + lengths[i]) for i in kept])
    if len(masks.allowed):
        masks = masks._replace(allowed=masks.allowed[positions])
    X, lengths, spaces = X[positions], [lengths[i] for i in kept], [spaces[i] for i in kept]
    truth = np.concatenate([space[0] for space in spaces])
    chain, rows = make_chain(X, truth, lengths, K, ends=ends, masks=masks)
    labels, values = np.empty(len(X), np.int32), np.empty(len(lengths))
    decode_blocks(chain, rows, weights, 0, len(lengths), labels, values)
    marginals = np.full((len(X), K), np.nan)
    max_marginals(chain, rows, weights, 0, len(lengths), marginals)
    start = 0
    for i, (length, space) in enumerate(zip(lengths, spaces, strict=True)):
        x = np.hstack([X[start : start + length], np.ones((length, 1))])
        scores = {y: weights @ joint_feature(x, y, K, ends) for y in space}
        found = tuple(labels[start : start + length].tolist())
        best = max(scores.values())
        assert found in scores  # nothing forbidden
        assert scores[found] == pytest.approx(best, abs=1e-11)
        assert values[i] == pytest.approx(best, abs=1e-11)
        wanted = np.full((length, K), -np.inf)
        for y, score in scores.items():
            for t, k in enumerate(y):
                wanted[t, k] = max(wanted[t, k], score)
        np.testing.assert_allclose(marginals[start : start + length], wanted, atol=1e-11)
        start += length


@pytest.mark.parametrize("kind", ["dense", more("sparse")])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("K", "lengths"), [(3, [5, 1, 2]), (2, [70, 3, 65, 64])])
def test_chain_linear_maps_agree_with_joint_features(kind, ends, intercept, K, lengths):
    random = np.random.RandomState(len(lengths) + ends)
    X = random.randn(sum(lengths), 9) * (random.random_sample((sum(lengths), 9)) < 0.6)
    truth = random.randint(0, K, sum(lengths))
    packed = sp.csr_array(X) if kind == "sparse" else X
    chain, rows = make_chain(packed, truth, lengths, K, ends=ends, intercept=intercept)
    if intercept:
        X = np.hstack([X, np.ones((len(X), 1))])
    for i, (low, high) in enumerate(itertools.pairwise(chain.indptr)):
        x, length = X[low:high], high - low
        for _ in range(3):
            y, other = random.randint(0, K, (2, length)).astype(np.int32)
            weights = random.randn(chain.n_weights(rows.n_inputs))
            moved, parts = weights.copy(), np.empty(2 * length, np.int32)
            scores, followed = np.empty((2, (length + K) * K))
            score, norm, cheap, n_parts = linear_maps(
                chain, rows, moved, i, y, other, parts, scores, followed
            )
            phi = joint_feature(x, y, K, ends)
            direction = phi - 0.5 * joint_feature(x, other, K, ends)
            assert score == pytest.approx(weights @ phi, rel=1e-11, abs=1e-11)
            assert norm == pytest.approx(direction @ direction, rel=1e-11)
            np.testing.assert_allclose(moved, weights + 0.7 * direction, atol=1e-11)
            assert cheap == (length <= 64)
            if cheap:
                np.testing.assert_allclose(followed, scores, rtol=1e-11, atol=1e-11)
            at_parts = scores[parts[:n_parts]].sum()
            assert at_parts == pytest.approx(moved @ phi, rel=1e-11, abs=1e-10)
