"""The CRF of sequences: distributions against enumeration, optimal values, both solvers."""

from __future__ import annotations

import itertools
from unittest import mock

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, logsumexp, softmax

import maxmargin
import steppers
from marks import more, split
from maxmargin import EarlyStopping, MulticlassClassifier, SequenceLabeler
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.estimators._base import StructuredEstimator
from maxmargin.features.rows import pack_rows
from maxmargin.solvers._gradient_kernel import gradient_of_range
from maxmargin.solvers.frank_wolfe import ORDERS
from maxmargin.structures.chain import Chain, pack_products
from maxmargin.structures.entropy_chain import EntropyChain
from maxmargin.structures.losses import ZeroOneLoss
from maxmargin.surrogates.crf import BoundedCrf

EXACT = {"tol": 1e-9, "max_iter": 20_000, "random_state": 0}
ALPHA = 0.1
SOLVERS = ["bcfw", "lbfgs"]


# --- everything by enumeration ---------------------------------------------------------------


def make_chain(random, lengths, K, *, ends=True, strictness=0.0, sparse=False):
    """Random positions and a chain over them, of which each sequence has some labelling."""
    n = sum(lengths)
    X = random.randn(n, 3)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    while True:
        masks = [random.random_sample(shape) >= strictness for shape in ((K, K), (K,), (K,))]
        allowed = (
            random.random_sample((n, K)) >= strictness if strictness else np.ones((0, K), bool)
        )
        spaces = [outputs(masks, allowed, low, high, K) for low, high in itertools.pairwise(indptr)]
        if all(spaces):
            break
    truth = np.concatenate([space[random.randint(len(space))] for space in spaces])
    rows = pack_rows(sp.csr_array(X) if sparse else X, fit_intercept=True, compress=False)
    chain = Chain(
        truth.astype(np.int32), indptr, max(lengths), K, ZeroOneLoss(np.ones(K), True),
        np.ones(n), ends, strictness > 0, *[np.where(mask, 0.0, -np.inf) for mask in masks],
        allowed, *pack_products(rows, indptr),
    )  # fmt: skip
    return chain, rows, np.hstack([X, np.ones((n, 1))]), spaces


def outputs(masks, allowed, low, high, K):
    """All labellings of a sequence that the masks allow."""
    transitions, first, last = masks
    return [
        y
        for y in itertools.product(range(K), repeat=high - low)
        if first[y[0]]
        and last[y[-1]]
        and all(transitions[a, b] for a, b in itertools.pairwise(y))
        and (not len(allowed) or all(allowed[low + t, k] for t, k in enumerate(y)))
    ]


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


def embedding(labels, K):
    """phi(y): labels at positions, then numbers of transitions."""
    unary, moves = np.zeros((len(labels), K)), np.zeros((K, K))
    for t, k in enumerate(labels):
        unary[t, k] = 1.0
    for a, b in itertools.pairwise(labels):
        moves[a, b] += 1.0
    return np.concatenate([unary.ravel(), moves.ravel()])


@compiled
def distribution(structure, rows, weights, i, scores, mu):
    """Scores, marginals and log partition function of a block."""
    work = np.full(generic.work_size(structure, rows), np.nan)
    generic.score_block(structure, rows, weights, i, scores)
    return generic.gibbs(structure, i, scores, work, mu)


@st.composite
def chains(draw):
    random = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    K, ends = draw(st.integers(2, 4)), draw(st.booleans())
    strictness, sparse = draw(st.sampled_from([0.0, 0.25])), draw(st.booleans())
    size = draw(st.sampled_from([0.1, 1.0, 100.0, 3000.0]))
    return random, lengths, K, ends, strictness, sparse, size


@settings(max_examples=60)
@given(chains())
def test_marginals_and_entropy_agree_with_enumeration(case):
    random, lengths, K, ends, strictness, sparse, size = case
    chain, rows, X, spaces = make_chain(
        random, lengths, K, ends=ends, strictness=strictness, sparse=sparse
    )
    with_entropy = EntropyChain(chain)
    weights = size * random.randn(chain.n_weights(rows.n_inputs))
    for i, space in enumerate(spaces):
        low, high = chain.indptr[i], chain.indptr[i + 1]
        features = np.array([joint_feature(X[low:high], y, K, ends) for y in space])
        scores = features @ weights
        wanted = softmax(scores)
        n_parts = (high - low + K) * K
        found, mu = np.full((2, n_parts + 1), np.nan)
        value = distribution(with_entropy, rows, weights, i, found, mu)
        tight = {"rtol": 1e-9 * max(1.0, size / 100.0), "atol": 1e-12 * max(1.0, size)}
        embeddings = np.array([embedding(y, K) for y in space])
        np.testing.assert_allclose(embeddings @ found[:-1], scores, rtol=1e-12, atol=1e-11 * size)
        assert found[-1] == 0.0
        assert value == pytest.approx(logsumexp(scores), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(mu[:-1], wanted @ embeddings, **tight)
        assert mu[-1] == pytest.approx(entr(wanted).sum(), abs=1e-11 * max(1.0, size))
        plain_scores, plain = np.full((2, n_parts), np.nan)
        assert distribution(chain, rows, weights, i, plain_scores, plain) == value
        assert (plain == mu[:-1]).all() and (plain_scores == found[:-1]).all()
        never = embeddings.sum(axis=0) == 0.0
        assert (plain[never] == 0.0).all()  # exactly, where no labelling goes


@compiled
def linear_maps(structure, rows, weights, i, labels, other, found):
    """|Phi d|^2 for d = phi(y) - phi(other) / 2, the best labels; adds 0.7 Phi d to the weights."""
    size = generic.block_size(structure, i)
    work = np.full(generic.work_size(structure, rows), np.nan)
    direction, away, scores = np.empty(size), np.empty(size), np.empty(size)
    generic.score_block(structure, rows, weights, i, scores)
    value = generic.decode(structure, i, scores, work, found)
    generic.embed(structure, i, labels, direction)
    generic.embed(structure, i, other, away)
    for part in range(size):
        direction[part] -= 0.5 * away[part]
    norm = generic.squared_norm(structure, rows, i, direction, work)
    generic.add_block(structure, rows, weights, i, direction, 0.7)
    return norm, value


@pytest.mark.more
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(("K", "lengths"), [(3, [5, 1, 2]), (2, [70, 3, 1])])
def test_blocks_with_an_entropy_have_the_features_of_the_chain(ends, K, lengths):
    random = np.random.RandomState(0)
    truth_space = [(0,) * length for length in lengths]
    with mock.patch(f"{__name__}.outputs", side_effect=lambda m, a, low, high, K: truth_space):
        chain, rows, X, _ = make_chain(random, lengths, K, ends=ends)
    for i, (low, high) in enumerate(itertools.pairwise(chain.indptr)):
        y, other = random.randint(0, K, (2, high - low)).astype(np.int32)
        before = random.randn(chain.n_weights(rows.n_inputs))
        results = []
        for structure in (chain, EntropyChain(chain)):
            weights, labels = before.copy(), np.empty(high - low, np.int32)
            norm, value = linear_maps(structure, rows, weights, i, y, other, labels)
            results.append((norm, value, labels.tolist()))
            direction = joint_feature(X[low:high], y, K, ends)
            direction = direction - 0.5 * joint_feature(X[low:high], other, K, ends)
            assert norm == pytest.approx(direction @ direction, rel=1e-11)
            np.testing.assert_allclose(weights, before + 0.7 * direction, atol=1e-11)
        assert results[0][1:] == results[1][1:]


@compiled
def step_towards(structure, i, mu, direction, scores, curvature, work):
    slope, gap = 0.0, generic.gibbs(structure, i, scores, work, mu.copy()) - mu[-1]
    for part in range(mu.shape[0]):
        slope += direction[part] * scores[part]
        gap -= mu[part] * scores[part]
    surrogate = BoundedCrf(1.0)
    step = generic.line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work)
    return step, gap


@pytest.mark.parametrize("strictness", [0.0, 0.3])
@pytest.mark.parametrize("from_truth", [False, True])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_steps_are_maxima_of_a_bound_below_the_entropy(length, from_truth, strictness):
    random = np.random.RandomState(length)
    for curvature in (1e-3, 0.3, 1.0, 30.0, 1e5):
        K = 3
        chain, rows, X, [space] = make_chain(random, [length], K, strictness=strictness)
        structure = EntropyChain(chain)
        embeddings = np.array([embedding(y, K) for y in space])
        weights = random.randn(chain.n_weights(rows.n_inputs))
        scores, answer = np.full((2, embeddings.shape[1] + 1), np.nan)
        distribution(structure, rows, weights, 0, scores, answer)
        target = softmax(embeddings @ scores[:-1])
        shares = np.array([float(y == tuple(chain.truth)) for y in space])
        if not from_truth:  # a chain that is not a Gibbs distribution: a mixture of two
            shares = 0.3 * shares + 0.7 * softmax(embeddings @ random.randn(embeddings.shape[1]))
        if len(space) == 1:
            continue
        mu = np.append(shares @ embeddings, entr(shares).sum())
        direction = answer - mu
        away = np.abs(direction[: length * K].reshape(length, K)).sum(axis=1).max()
        assert away <= np.abs(target - shares).sum() + 1e-12
        before = direction.copy()
        found, gap = step_towards(structure, 0, mu, direction, scores, curvature, np.empty(10_000))

        def gain(gamma, away=away, gap=gap, curvature=curvature):
            bound = gamma * gap + 0.5 * gamma * (1.0 - gamma) * away**2
            return bound - 0.5 * gamma**2 * curvature

        assert 0.0 < found <= 1.0
        assert gain(found) >= gain(np.linspace(0.0, 1.0, 1001)).max() - 1e-11
        # Only the last part of the direction has changed, by what the bound gains on a line.
        assert (direction[:-1] == before[:-1]).all()
        bound = mu[-1] + found * direction[-1]
        assert bound == pytest.approx(
            mu[-1] + found * before[-1] + 0.5 * found * (1.0 - found) * away**2, abs=1e-12
        )
        assert bound <= entr((1.0 - found) * shares + found * target).sum() + 1e-12


# --- optimal values --------------------------------------------------------------------------

FORBIDDEN = {"transitions": [(2, 0)], "first": [2], "last": [1]}


def sequences(constrained, lengths=(1, 2, 3, 3, 2)):
    """Sequences, labels, weights, and for each the features of all labellings and the truth."""
    random = np.random.RandomState(3)
    X, y, examples = [], [], []
    masks = [np.ones((3, 3), bool), np.ones(3, bool), np.ones(3, bool)]
    if constrained:
        masks[0][2, 0] = masks[1][2] = masks[2][1] = False
    for length in lengths:
        x = random.randn(length, 2)
        space = outputs(masks, [], 0, length, 3)
        truth = random.randint(len(space))
        x_one = np.hstack([x, np.ones((length, 1))])
        examples.append((np.array([joint_feature(x_one, z, 3, True) for z in space]), truth))
        X.append(x)
        y.append(np.array(space[truth]))
    return X, y, random.uniform(0.5, 2.0, len(X)), examples


def crf(constrained=False, **parameters):
    return SequenceLabeler(
        classes=[0, 1, 2],
        constraints=FORBIDDEN if constrained else None,
        **({"surrogate": "crf", "alpha": ALPHA} | EXACT | parameters),
    )


def flat_weights(model):
    parts = [model.coef_.T, model.intercept_, model.transitions_, model.first_, model.last_]
    return np.concatenate([part.ravel() for part in parts])


def objective(examples, weights, w):
    """The objective and its gradient, by enumeration."""
    value, gradient = 0.5 * ALPHA * w @ w, ALPHA * w
    for (features, truth), weight in zip(examples, weights / weights.sum(), strict=True):
        scores = features @ w
        value += weight * (logsumexp(scores) - scores[truth])
        gradient = gradient + weight * (softmax(scores) @ features - features[truth])
    return value, gradient


def optimum(examples, weights):
    w = cp.Variable(examples[0][0].shape[1])
    losses = [cp.log_sum_exp((features - features[truth]) @ w) for features, truth in examples]
    value = 0.5 * ALPHA * cp.sum_squares(w) + weights @ cp.hstack(losses) / weights.sum()
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


@pytest.mark.parametrize("solver", split([*SOLVERS, "auto"], {"bcfw"}))
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_optimum(constrained, solver):
    X, y, weights, examples = sequences(constrained)
    model = crf(constrained, solver=solver).fit(X, y, sample_weight=weights)
    best = optimum(examples, weights)
    assert model.status_ == "converged"
    assert model.dual_ <= best + 1e-8 and model.primal_ >= best - 1e-8
    assert model.primal_ == pytest.approx(best, abs=1e-7)
    value, gradient = objective(examples, weights, flat_weights(model))
    assert value == pytest.approx(model.primal_, abs=1e-12)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-4)


def packed_problem(model, X, y, weights):
    """The problem that an estimator hands to its solver."""

    class Handed(Exception):
        pass

    with mock.patch.object(StructuredEstimator, "_solve", side_effect=Handed) as solver:
        with pytest.raises(Handed):
            model.fit(X, y, sample_weight=weights)
    return solver.call_args.args[0]


def test_the_gradient_agrees_with_enumeration_and_differences():
    X, y, weights, examples = sequences(True)
    problem = packed_problem(crf(True, solver="lbfgs"), X, y, weights)
    with_entropy = problem.in_blocks()
    random = np.random.RandomState(0)
    for size in (0.0, 1.0, 5.0):
        w = size * random.randn(problem.n_weights)
        gradient = np.zeros(problem.n_weights)
        shares = weights / weights.sum()
        loss, error = gradient_of_range(
            problem.surrogate, problem.structure, problem.rows, shares, w, 0, len(X), gradient
        )
        value, wanted = objective(examples, weights, w)
        assert error == 0.0
        assert loss + 0.5 * ALPHA * w @ w == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(gradient + ALPHA * w, wanted, atol=1e-12)
        for _ in range(5):
            direction = random.randn(len(w))
            ahead, behind = (
                with_entropy.evaluate(w + step * direction).primal for step in (1e-5, -1e-5)
            )
            slope = (ahead - behind) / 2e-5
            assert slope == pytest.approx(wanted @ direction, rel=1e-6, abs=1e-8)


# --- certificates ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_the_dual_rises_to_the_optimum_and_the_gap_is_true(order, constrained):
    X, y, weights, examples = sequences(constrained)
    problem = packed_problem(crf(constrained, solver="bcfw"), X, y, weights)
    best = optimum(examples, weights)
    stepper = steppers.frank_wolfe(problem, order=order, rng=np.random.RandomState(0))
    dual = -np.inf
    for check in range(80):
        [(w, found)] = stepper.check()
        assert found.dual >= dual - 1e-12
        assert found.dual <= best + 1e-8 and found.primal >= best - 1e-8
        assert found.primal - found.dual >= -1e-9
        assert stepper.gaps.min() >= -1e-9
        assert found.primal == pytest.approx(objective(examples, weights, w)[0], abs=1e-12)
        np.testing.assert_allclose(w, problem.weights_of(stepper.dual_state), atol=1e-10)
        dual = found.dual
        stepper.advance(1.0, check % 2)  # one step, or to the end of the round
    assert best - dual < 0.01 * best


def largest_entropy(embeddings, marginals):
    """Of all distributions over the outputs that have these marginals; there must be one."""
    shares = cp.Variable(len(embeddings))
    # Marginals depend on each other: equations for a basis are enough.
    basis = np.linalg.svd(embeddings, full_matrices=False)[2][: np.linalg.matrix_rank(embeddings)]
    equations = (embeddings @ basis.T).T @ shares == basis @ marginals
    problem = cp.Problem(cp.Maximize(cp.sum(cp.entr(shares))), [equations])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    np.testing.assert_allclose(shares.value @ embeddings, marginals, atol=1e-7)
    return problem.value


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_blocks_stay_below_the_entropy_of_their_marginals(constrained):
    X, y, weights, _ = sequences(constrained)
    problem = packed_problem(crf(constrained, solver="bcfw"), X, y, weights)
    masks = [np.ones((3, 3), bool), np.ones(3, bool), np.ones(3, bool)]
    if constrained:
        masks[0][2, 0] = masks[1][2] = masks[2][1] = False
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0))
    slack = []
    for passes in (1, 2, 40):
        while stepper.oracle_calls < passes * len(X):
            stepper.advance(1.0, len(X))
        for i in range(len(X)):
            first, size = stepper.dual_state.start[i], stepper.dual_state.count[i]
            block = stepper.dual_state.value[first : first + size]
            space = outputs(masks, [], 0, len(y[i]), 3)
            embeddings = np.array([embedding(labels, 3) for labels in space])
            slack.append(largest_entropy(embeddings, block[:-1]) - block[-1])
    assert min(slack) > -1e-7  # what the convex solver is good for
    assert max(slack[: len(X)]) > 0.01  # a bound at first,
    assert max(slack[-len(X) :]) < 1e-3  # and the entropy in the end


def test_every_gradient_is_a_certificate():
    """P(w) - D(mu) = |grad P(w)|^2 / (2 alpha), for the marginals mu of any w."""
    X, y, weights, examples = sequences(True)
    best = optimum(examples, weights)
    random = np.random.RandomState(0)
    for size in (0.0, 0.5, 1.0, 10.0):
        w = size * random.randn(examples[0][0].shape[1])
        value, gradient = objective(examples, weights, w)
        shares = weights / weights.sum()
        models = [softmax(features @ w) for features, _ in examples]
        entropy = sum(s * entr(p).sum() for s, p in zip(shares, models, strict=True))
        moved = sum(
            s * (features[truth] - p @ features)
            for s, p, (features, truth) in zip(shares, models, examples, strict=True)
        )
        dual = entropy - moved @ moved / (2.0 * ALPHA)  # w(mu) = moved / alpha
        assert value - dual == pytest.approx(gradient @ gradient / (2.0 * ALPHA), rel=1e-10)
        assert dual <= best + 1e-9
        problem = packed_problem(crf(True, solver="lbfgs"), X, y, weights)
        [(_, found)] = steppers.lbfgs(problem, w).check()
        assert found.primal == pytest.approx(value, rel=1e-12)
        assert max(dual, 0.0) - 1e-12 <= found.dual <= best + 1e-9


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_the_bound_of_lbfgs_rises_to_the_optimum(constrained):
    X, y, weights, examples = sequences(constrained)
    problem = packed_problem(crf(constrained, solver="lbfgs"), X, y, weights)
    best = optimum(examples, weights)
    stepper = steppers.lbfgs(problem)
    dual, primal = -np.inf, np.inf
    for _ in range(60):
        [(w, found)] = stepper.check()
        assert found.dual >= dual - 1e-13 and found.primal <= primal + 1e-12
        assert found.dual <= best + 1e-8 and found.primal >= best - 1e-8
        assert found.primal == pytest.approx(objective(examples, weights, w)[0], abs=1e-12)
        assert stepper.estimate() == found.primal - found.dual
        dual, primal = found.dual, found.primal
        stepper.advance(0.0, 1)
    assert primal - dual < 1e-12


@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_lbfgs_copes_with_badly_scaled_features(size):
    X, y, weights, _ = sequences(False)
    X = [x * np.array([1.0, size]) for x in X]
    model = crf(solver="lbfgs", tol=1e-6).fit(X, y, sample_weight=weights)
    assert model.status_ == "converged"


# --- equivalences ----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_sequences_of_length_one_are_rows(solver):
    random = np.random.RandomState(0)
    X, y = random.randn(40, 3), np.arange(40) % 3
    flat = MulticlassClassifier("crf", alpha=ALPHA, **EXACT).fit(X, y)
    model = crf(solver=solver, boundary_weights=False).fit(list(X[:, None]), list(y[:, None]))
    assert model.primal_ == pytest.approx(flat.primal_, abs=1e-8)
    np.testing.assert_allclose(model.coef_, flat.coef_, atol=1e-4)
    assert not model.transitions_.any()
    marginals = np.concatenate(model.predict_marginals(list(X[:, None])))
    np.testing.assert_allclose(marginals, flat.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_weight_two_is_a_sequence_twice(solver):
    X, y, _, _ = sequences(True)
    one = crf(True, solver=solver).fit(X, y, sample_weight=[1, 2, 1, 2, 1])
    twice = [0, 1, 1, 2, 3, 3, 4]
    other = crf(True, solver=solver).fit([X[i] for i in twice], [y[i] for i in twice])
    assert one.primal_ == pytest.approx(other.primal_, abs=1e-8)
    np.testing.assert_allclose(flat_weights(one), flat_weights(other), atol=2e-4)


@pytest.mark.parametrize("solver", [pytest.param("bcfw", marks=pytest.mark.slow), "lbfgs"])
def test_sparse_sequences_are_dense_sequences(solver):
    X, y, _, _ = sequences(False)
    X = [np.where(np.abs(x) > 0.5, x, 0.0) for x in X]
    one = crf(solver=solver).fit(X, y)
    other = crf(solver=solver).fit([sp.csr_array(x) for x in X], y)
    np.testing.assert_allclose(flat_weights(one), flat_weights(other), atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_do_not_change_a_bit(solver):
    random = np.random.RandomState(0)
    X = [random.randn(length, 3) for length in random.randint(1, 9, 80)]
    y = [(x[:, 0] > 0).astype(int) + (x[:, 1] > 1) for x in X]
    models = [crf(solver=solver, tol=1e-4, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    one, two = models
    assert (flat_weights(one) == flat_weights(two)).all()
    assert (one.primal_, one.dual_, one.n_iter_) == (two.primal_, two.dual_, two.n_iter_)
    for a, b in zip(one.predict_marginals(X), two.predict_marginals(X), strict=True):
        assert (a == b).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_refit_continues(solver, tmp_path):
    X, y, _, _ = sequences(True)
    model = crf(True, solver=solver, warm_start=True, tol=1e-7).fit(X, y)
    primal = model.primal_
    maxmargin.save(model, tmp_path / "model", dual=True)
    for again in (model, maxmargin.load(tmp_path / "model")):
        again.fit(X, y)
        assert again.history_[0].primal == pytest.approx(primal, rel=1e-6)
        assert again.n_iter_ <= 5


def test_auto_goes_by_shape_strength_and_threads():
    random = np.random.RandomState(0)
    y = [np.array([0, 1, 2]), np.array([2, 1])]
    few = [random.randn(3, 2), random.randn(2, 2)]
    many = [random.randn(3, 50), random.randn(2, 50)]
    weak, strong = {"alpha": 1e-4, "tol": 1e-3}, {"alpha": ALPHA}
    for X, options, solver in (
        (few, weak, "lbfgs"),
        (few, strong, "bcfw"),
        (few, strong | {"n_jobs": 2}, "lbfgs"),
        (many, weak, "bcfw"),
        (many, strong, "bcfw"),
    ):
        auto = crf(**options).fit(X, y)
        wanted = crf(solver=solver, **options).fit(X, y)
        assert (flat_weights(auto) == flat_weights(wanted)).all()
        assert (auto.dual_nbytes_ == 0) == (solver == "lbfgs")


def test_the_dual_keeps_no_pairs_of_positions():
    random = np.random.RandomState(0)
    lengths, K = (60, 45, 1), 5
    X = [random.randn(length, 150) for length in lengths]
    y = [random.randint(0, K, length) for length in lengths]
    model = SequenceLabeler("crf", solver="bcfw", classes=list(range(K)), max_iter=3, tol=0)
    found = model.fit(X, y).dual_nbytes_
    pairs = sum((length - 1) * K**2 for length in lengths)
    assert found < 4 * pairs
    # a number for each label at a position, each transition and the entropy, and where they are
    assert found == 8 * sum(length * K + K**2 + 1 for length in lengths) + 16 * len(lengths) + 8


# --- what a user can ask ---------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["crf", "max-margin"])
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_probabilities_agree_with_enumeration(surrogate, constrained):
    X, y, _, examples = sequences(constrained)
    model = crf(constrained, surrogate=surrogate, tol=1e-3).fit(X, y)
    w = flat_weights(model)
    marginals, likelihood = model.predict_marginals(X), model.log_likelihood(X, y)
    masks = [np.ones((3, 3), bool), np.ones(3, bool), np.ones(3, bool)]
    if constrained:
        masks[0][2, 0] = masks[1][2] = masks[2][1] = False
    for i, (features, truth) in enumerate(examples):
        shares = softmax(features @ w)
        space = outputs(masks, [], 0, len(y[i]), 3)
        wanted = np.zeros((len(y[i]), 3))
        for labels, share in zip(space, shares, strict=True):
            for t, k in enumerate(labels):
                wanted[t, k] += share
        np.testing.assert_allclose(marginals[i], wanted, atol=1e-13)
        assert likelihood[i] == pytest.approx(np.log(shares[truth]), abs=1e-12)
        everything = list(itertools.product(range(3), repeat=len(y[i])))
        found = model.log_likelihood([X[i]] * len(everything), everything)
        assert logsumexp(found) == pytest.approx(0.0, abs=1e-12)
        for labels, value in zip(everything, found, strict=True):
            assert np.isfinite(value) == (labels in space)


def test_marginals_are_conditioned_on_what_is_known():
    X, y, _, _ = sequences(False)
    model = crf(tol=1e-3).fit(X, y)
    x, labels = X[2], y[2]
    known = [None, int(labels[1]), None]
    everything = np.array(list(itertools.product(range(3), repeat=3)))
    shares = np.exp(model.log_likelihood([x] * 27, everything))
    shares[everything[:, 1] != labels[1]] = 0.0
    wanted = np.array([[shares[everything[:, t] == k].sum() for k in range(3)] for t in range(3)])
    [found] = model.predict_marginals([x], partial_y=[known])
    np.testing.assert_allclose(found, wanted / shares.sum(), atol=1e-13)
    allowed = np.ones((3, 3), bool)
    allowed[0, 1] = False
    [found] = model.predict_marginals([x], allowed=[allowed])
    shares = np.exp(model.log_likelihood([x] * 27, everything, allowed=[allowed] * 27))
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert found[0, 1] == 0.0 and (shares[everything[:, 0] == 1] == 0.0).all()
    wanted = np.array([[shares[everything[:, t] == k].sum() for k in range(3)] for t in range(3)])
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def test_a_saved_model_has_the_same_probabilities(tmp_path):
    X, y, _, _ = sequences(True)
    model = crf(True, tol=1e-3).fit(X, y)
    maxmargin.save(model, tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    for one, other in zip(again.predict_marginals(X), model.predict_marginals(X), strict=True):
        assert (one == other).all()
    assert (again.log_likelihood(X, y) == model.log_likelihood(X, y)).all()


def test_forbidden_labels_have_no_probability():
    X, y, _, _ = sequences(True)
    for solver in SOLVERS:
        model = crf(True, solver=solver).fit(X, y)
        for marginals in model.predict_marginals(X):
            assert marginals[0, 2] == 0.0 and marginals[-1, 1] == 0.0
        # What never counts is never learnt.
        assert model.transitions_[2, 0] == 0.0 and model.first_[2] == 0.0 and model.last_[1] == 0.0


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({"class_weight": "balanced"}, {}, "class_weight is a factor of the loss at a position"),
        ({}, {"position_weight": [[1.0], [1.0, 1.0]]}, "position_weight is a factor of the loss"),
        ({"solver": "pairwise"}, {}, "solver='pairwise' .* needs"),
    ],
)
def test_what_a_likelihood_does_not_have(parameters, arguments, message):
    X, y = [np.ones((1, 2)), np.ones((2, 2))], [[0], [0, 1]]
    with pytest.raises(ValueError, match=message):
        SequenceLabeler("crf", **parameters).fit(X, y, **arguments)


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_lbfgs_needs_a_smooth_surrogate(surrogate):
    with pytest.raises(ValueError, match=f"solver='lbfgs' .* needs .*surrogate='{surrogate}'"):
        MulticlassClassifier(surrogate, solver="lbfgs").fit([[0.0], [1.0]], [0, 1])


def test_likelihood_of_labels_that_do_not_fit():
    X, y, _, _ = sequences(False)
    model = crf(tol=1e-3).fit(X, y)
    with pytest.raises(ValueError, match=r"X\[0\] has 1 positions but y\[0\] has 2 labels"):
        model.log_likelihood(X[:1], [[0, 1]])
    with pytest.raises(ValueError, match=r"y\[1\]\[0\] is 7, which is not among"):
        model.log_likelihood(X[:2], [[0], [7, 1]])


@pytest.mark.parametrize("solver", [*SOLVERS, more("subgradient")])
def test_early_stopping_and_callbacks(solver):
    random = np.random.RandomState(0)
    X = [random.randn(length, 3) for length in random.randint(1, 6, 40)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    seen = []
    model = SequenceLabeler(
        "crf", solver=solver, early_stopping=EarlyStopping(n_iter_no_change=3), tol=0, max_iter=30,
        random_state=0, callbacks=seen.append,
    ).fit(X, y)  # fmt: skip
    assert model.status_ in ("early_stopped", "max_iter") and len(seen) == len(model.history_)
    assert model.score(X, y) > 0.9
    assert all(check.gap >= -1e-9 for check in seen)
