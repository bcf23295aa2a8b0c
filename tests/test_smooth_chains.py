"""Smooth max-min of sequences: bounds against enumeration, fits against a convex solver."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from marks import split
from maxmargin import HammingLoss, MulticlassClassifier, SequenceLabeler, SmoothMaxMin, load, save
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.structures.entropy_chain import EntropyChain
from test_crf_chain import embedding, joint_feature, largest_entropy, make_chain, outputs

NAME = "smooth-max-min"
K = 3


@compiled
def oracle(structure, strength, rows, weights, i, scores, mu):
    """Scores of a block, the answer of the oracle and both bounds."""
    work = np.full(generic.work_size(structure, rows), np.nan)
    generic.score_block(structure, rows, weights, i, scores)
    return generic.smooth_max_min(structure, strength, i, scores, work, mu)


def lowest_upper_bound(labels, scores, strength):
    """The smallest ``s log sum_y exp((score + expected loss) / s)`` over predictions, by scipy."""
    T = labels.shape[1]
    places = np.arange(T)

    def bound(logits):
        nu = softmax(logits.reshape(T, K), axis=1)
        tilted = (scores + (1.0 - nu[places, labels]).sum(axis=1)) / strength
        mu = np.zeros((T, K))
        for y, share in zip(labels, softmax(tilted), strict=True):
            mu[places, y] += share
        slope = -nu * (mu - (nu * mu).sum(axis=1, keepdims=True))
        return strength * logsumexp(tilted), slope.ravel()

    return minimize(bound, np.zeros(T * K), jac=True, method="L-BFGS-B", tol=1e-14).fun


@pytest.mark.parametrize("strictness", [0.0, 0.25], ids=["free", "constrained"])
def test_the_bounds_meet_at_the_value_by_enumeration(strictness):
    random = np.random.RandomState(0)
    for strength, size in ((0.02, 0.5), (0.1, 3.0), (0.3, 0.5), (0.5, 30.0), (4.0, 1.0)):
        chain, rows, X, spaces = make_chain(random, [4, 1, 3], K, strictness=strictness)
        weights = size * random.randn(chain.n_weights(rows.n_inputs))
        for i, space in enumerate(spaces):
            low, high = chain.indptr[i], chain.indptr[i + 1]
            scores = np.array([joint_feature(X[low:high], y, K, True) for y in space]) @ weights
            found, mu = np.full((2, (high - low + K) * K + 1), np.nan)
            upper, lower = oracle(EntropyChain(chain), strength, rows, weights, i, found, mu)
            tight = 1e-8 * (1.0 + np.abs(scores).max())
            slack = tight if strength > 0.1 else 1e-3  # sweeps end at a limit with little entropy
            assert -tight <= upper - lower <= slack
            best = lowest_upper_bound(np.array(space), scores, strength)
            assert lower <= best + tight and upper == pytest.approx(best, rel=1e-4, abs=5.0 * slack)
            floor = (1.0 - mu[: (high - low) * K].reshape(-1, K).max(axis=1)).sum()
            assert lower == pytest.approx(floor + strength * mu[-1] + found @ mu, abs=tight)
            if size >= 10.0 * strength:
                continue  # marginals of 1e-60, which a convex solver takes for infeasible
            embeddings = np.array([embedding(y, K) for y in space])
            assert mu[-1] <= largest_entropy(embeddings, mu[:-1]) + 1e-5


def sequences():
    random = np.random.RandomState(0)
    X = [random.randn(length, 2) for length in (3, 1, 2, 4, 3, 2, 1, 4)]
    # None of these labels is forbidden anywhere in the constrained case.
    return X, [random.randint(0, K - 1, len(x)) for x in X]


FORBIDDEN = {"transitions": [(2, 0)], "first": [2], "last": []}


def labeler(solver="lbfgs", strength=0.3, constrained=False, **options):
    return SequenceLabeler(
        SmoothMaxMin(strength), alpha=0.05, solver=solver, tol=1e-7, max_iter=3000, random_state=0,
        classes=list(range(K)), constraints=FORBIDDEN if constrained else None, **options,
    )  # fmt: skip


def optimum(X, y, strength, alpha, constrained):
    """The smallest objective over weights and predictions together."""
    masks = [np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool)]
    if constrained:
        masks[0][2, 0] = masks[1][2] = False
    w = cp.Variable((3 + K + 2) * K)
    losses, limits = [], []
    for x, truth in zip(X, y, strict=True):
        space = outputs(masks, [], 0, len(x), K)
        full = np.hstack([x, np.ones((len(x), 1))])
        features = np.array([joint_feature(full, z, K, True) for z in space])
        places = np.array([embedding(z, K)[: len(x) * K] for z in space])
        nu = cp.Variable(len(x) * K, nonneg=True)
        limits.append(cp.sum(cp.reshape(nu, (len(x), K), order="C"), axis=1) == 1)
        true = joint_feature(full, truth, K, True)
        exponents = ((features - true) @ w + len(x) - places @ nu) / strength
        losses.append(strength * cp.log_sum_exp(exponents))
    value = 0.5 * alpha * cp.sum_squares(w) + cp.sum(cp.hstack(losses)) / len(X)
    problem = cp.Problem(cp.Minimize(value), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value


@pytest.mark.parametrize("solver", split(["lbfgs", "bcfw"], {"bcfw"}))
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_fits_have_the_optimum_of_a_convex_solver(constrained, solver, tmp_path):
    X, y = sequences()
    model = labeler(solver, constrained=constrained).fit(X, y)
    best = optimum(X, y, 0.3, 0.05, constrained)
    assert model.status_ == "converged"
    assert model.dual_ <= best + 1e-7 and model.primal_ >= best - 1e-7
    assert model.primal_ == pytest.approx(best, abs=1e-6)
    # The gradient is zero: alpha w is the mean of true minus expected features.
    slope = sum(
        (np.eye(K)[labels] - mu).T @ x
        for x, labels, mu in zip(X, y, model.predict_marginals(X), strict=True)
    )
    # sqrt(2 gap / alpha) = 4e-3 times the curvature is what the gap leaves to gradients.
    np.testing.assert_allclose(0.05 * model.coef_, slope / len(X), atol=2e-3)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").weights_, model.weights_)


def test_probabilities_agree_with_one_another():
    X, y = sequences()
    model = labeler(constrained=True).fit(X, y)
    x, marginals = X[3], model.predict_marginals(X)[3]
    masks = [np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool)]
    masks[0][2, 0] = masks[1][2] = False
    space = np.array(outputs(masks, [], 0, len(x), K))
    shares = np.exp(model.log_likelihood([x] * len(space), list(space)))
    assert shares.sum() == pytest.approx(1.0, abs=1e-9)
    for t in range(len(x)):
        found = np.bincount(space[:, t], shares, K)
        np.testing.assert_allclose(marginals[t], found, atol=1e-9)
    assert model.uncertainty([x])[0] == pytest.approx(1.0 - shares.max(), abs=1e-9)
    drawn = model.sample([x], 300, random_state=0)[0]
    likely = space[shares.argmax()]
    assert np.mean([(z == likely).all() for z in drawn]) == pytest.approx(shares.max(), abs=0.1)


def test_sequences_of_length_one_are_classes():
    X, y = sequences()
    rows, labels = np.concatenate(X), np.concatenate(y)
    common = {"alpha": 0.05, "tol": 1e-8, "classes": range(K), "solver": "lbfgs"}
    alone = MulticlassClassifier(SmoothMaxMin(0.3), **common).fit(rows, labels)
    model = SequenceLabeler(SmoothMaxMin(0.3), boundary_weights=False, **common)
    model.fit(rows[:, None], labels[:, None])
    assert model.primal_ == pytest.approx(alone.primal_, abs=1e-7)
    found = np.concatenate(model.predict_marginals(rows[:, None]))
    np.testing.assert_allclose(found, alone.predict_proba(rows), atol=5e-3)


def test_positions_without_a_loss_and_hidden_labels():
    X, y = sequences()
    weights = [np.zeros(len(x)) for x in X]
    fitted = labeler(strength=1.0).fit(X, y, position_weight=weights)
    crf = SequenceLabeler("crf", alpha=0.05, solver="lbfgs", tol=1e-7, classes=range(K)).fit(X, y)
    assert fitted.primal_ == pytest.approx(crf.primal_, abs=1e-6)  # no loss: a likelihood
    hidden = [np.where(np.arange(len(labels)) == 0, -1, labels) for labels in y[:4]] + y[4:]
    found = labeler(hidden=True).fit(X[2:], hidden[2:])
    assert np.isfinite(found.primal_)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": 1.0 - np.eye(K)},
        {"class_weight": "balanced"},
        {"loss": HammingLoss(normalize=True)},
    ],
)
def test_other_losses_are_refused(parameters):
    X, y = sequences()
    with pytest.raises(ValueError, match="of sequences needs loss='hamming' and class_weight"):
        SequenceLabeler(NAME, **parameters).fit(X, y)


def test_predictions_are_the_best_scores():
    X, y = sequences()
    model = labeler().fit(X, y)
    for x, predicted in zip(X, model.predict(X), strict=True):
        space = np.array(outputs([np.ones((K, K), bool), *np.ones((2, K), bool)], [], 0, len(x), K))
        unary = x @ model.coef_.T + model.intercept_
        scores = [
            model.first_[z[0]] + model.last_[z[-1]] + unary[np.arange(len(x)), z].sum()
            + sum(model.transitions_[a, b] for a, b in pairwise(z))
            for z in space
        ]  # fmt: skip
        np.testing.assert_array_equal(predicted, space[int(np.argmax(scores))])
