"""Constants of calibration against enumeration and sampling, and certificates in words."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import MulticlassClassifier, MultiLabelClassifier
from maxmargin._kernels.game import game_work, solve_game
from maxmargin.certificates import Certificate, calibration_constant, summary


def zero_one(k):
    return 1.0 - np.eye(k)


def absolute(k):
    return np.abs(np.arange(k)[:, None] - np.arange(k)).astype(float)


def hamming(outputs):
    outputs = np.array(list(outputs))
    return (outputs[:, None] != outputs[None]).mean(axis=2)


def nearly_zero_one(k, seed):
    """Symmetric, with differences small enough for Proposition C.10."""
    noise = np.random.RandomState(seed).uniform(0.0, 0.3 / k, (k, k))
    return (1.0 + noise + noise.T) * (1.0 - np.eye(k))


def surrogate_value(losses, scores):
    """``max_mu min_j (losses mu)_j + scores @ mu``."""
    mu = np.empty(len(scores))
    upper, _ = solve_game(losses, scores, np.empty(game_work(len(scores))), mu)
    return upper


def excess(losses, p, scores):
    """Excess risk of the worst prediction among the best scores, and excess surrogate risk."""
    risks = losses @ p
    predicted = np.flatnonzero(scores >= scores.max() - 1e-12)
    surrogate = surrogate_value(losses, scores) - scores @ p
    return risks[predicted].max() - risks.min(), surrogate - risks.min()


# --- constants by name ----------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_zero_one_loss_by_name_by_theorem_and_exactly(k):
    assert calibration_constant("0-1", k) == k
    assert calibration_constant(zero_one(k)) == pytest.approx(k, rel=1e-7)
    assert calibration_constant(3.5 * zero_one(k), method="exact") == pytest.approx(k, rel=1e-7)
    # No smaller one: all scores equal, the first class impossible, the others equally likely.
    p = np.append(0.0, np.full(k - 1, 1.0 / (k - 1)))
    risk, surrogate = excess(zero_one(k), p, np.zeros(k))
    assert risk / surrogate == pytest.approx(k, rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_absolute_loss_has_two(k):
    assert calibration_constant("absolute", k) == 2.0
    assert calibration_constant(absolute(k), method="exact") == pytest.approx(2.0, rel=1e-7)
    expected = 2.0 if k == 2 else math.inf  # a median between two classes may have no mass
    assert calibration_constant(absolute(k)) == pytest.approx(expected)


def test_hamming_loss_has_the_largest_part():
    assert calibration_constant("hamming", [2, 4, 3]) == 4.0
    assert calibration_constant("hamming", 2) == 2.0
    losses = hamming(itertools.product([0, 1], repeat=2))
    assert calibration_constant(losses, method="exact") == pytest.approx(2.0, rel=1e-7)


@pytest.mark.parametrize("k", [3, 4, 5])
def test_lipschitz_losses_stay_below_their_bound(k):
    losses = nearly_zero_one(k, k)
    q = 0.0
    for y, z in itertools.permutations(range(k), 2):
        others = np.setdiff1d(np.arange(k), [y, z])
        q = max(q, np.abs(losses[others, y] - losses[others, z]).sum() / losses[y, z])
    assert 0.0 < q < 1.0
    theorem, exact = calibration_constant(losses), calibration_constant(losses, method="exact")
    assert exact <= theorem * (1.0 + 1e-7) <= (k - q) / (1.0 - q) * (1.0 + 2e-7)


# --- validity -------------------------------------------------------------------------------

CASES = {
    "0-1": zero_one(4),
    "absolute": absolute(4),
    "hamming": hamming(itertools.product([0, 1], repeat=2)),
    "nearly 0-1": nearly_zero_one(4, 0),
    "two classes": np.array([[0.0, 5.0], [1.0, 0.0]]),
    "permutations": hamming(itertools.permutations(range(3))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bound_holds(name):
    losses = CASES[name]
    k = len(losses)
    constant = calibration_constant(losses, method="exact")
    assert constant < math.inf
    random = np.random.RandomState(0)
    worst = 0.0
    for trial in range(3000):
        p = random.dirichlet(np.full(k, random.choice([0.1, 0.5, 2.0])))
        scores = random.choice([0.05, 0.3, 1.0]) * random.randn(k)
        if trial % 2:  # near the best scores, and near ties
            scores = -losses[np.argmin(losses @ p)] + random.choice([0.0, 0.2]) * random.randn(k)
            scores[random.randint(k)] = scores.max()
        risk, surrogate = excess(losses, p, scores)
        assert surrogate >= -1e-12
        assert risk <= constant * surrogate + 1e-9
        worst = max(worst, risk / surrogate if surrogate > 1e-6 else 0.0)
    assert worst > 0.5 * constant  # the trials come close to where it matters


def test_max_margin_has_no_constant():
    """At (.3, .3, .4) the scores 0 are optimal for max-margin, and tie all classes."""
    p = np.array([0.3, 0.3, 0.4])
    losses = zero_one(3)

    def max_margin(scores):
        return sum(p[y] * ((losses[:, y] + scores).max() - scores[y]) for y in range(3))

    random = np.random.RandomState(0)
    at_tie = max_margin(np.zeros(3))
    assert all(max_margin(random.randn(3)) >= at_tie - 1e-12 for _ in range(1000))
    risk, surrogate = excess(losses, p, np.zeros(3))
    assert risk == pytest.approx(0.1) and surrogate >= risk / 3.0


# --- where there is none --------------------------------------------------------------------


def test_no_constant_where_an_impossible_class_can_be_best():
    """The third class is a compromise between the others: best, though it never happens."""
    losses = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.3, 0.3, 0.0]])
    assert calibration_constant(losses, method="exact") == math.inf
    p = np.array([0.5, 0.5, 0.0])
    risk, surrogate = excess(losses, p, np.array([-0.3, -0.3, -5.0]))
    assert risk == pytest.approx(0.2) and surrogate == pytest.approx(0.0, abs=1e-12)


def test_permutations_of_three_items():
    """The constant is 5, not the number of items."""
    assert calibration_constant("permutation", 2) == 2.0
    assert calibration_constant("permutation", 3) == 5.0
    outputs = list(itertools.permutations(range(3)))
    losses = hamming(outputs)
    p = np.zeros(6)
    p[outputs.index((0, 1, 2))] = p[outputs.index((2, 0, 1))] = 0.5
    # Scores of items at positions under which (0, 2, 1) is as good as the two that happen.
    theta = np.array([[0.0, -5.0, 0.0], [0.0, 0.0, 0.0], [-5.0, 0.0, 0.0]])
    scores = np.array([sum(theta[m, y[m]] for m in range(3)) for y in outputs])
    assert scores[outputs.index((0, 2, 1))] == scores.max()
    risk, surrogate = excess(losses, p, scores)
    assert risk / surrogate == pytest.approx(5.0, rel=1e-9)


def permutation_surrogate(theta):
    """``max_mu 1 - max_sigma <sigma, mu> / M + <theta, mu>`` over doubly stochastic mu."""
    M = len(theta)
    n = M * M
    rows, ones = np.kron(np.eye(M), np.ones(M)), np.kron(np.ones(M), np.eye(M))
    covers = np.hstack([np.eye(n), -rows.T, -ones.T])  # mu_ij <= u_i + w_j
    found = linprog(
        -np.concatenate([theta.ravel(), np.full(2 * M, -1.0 / M)]),
        A_ub=covers,
        b_ub=np.zeros(n),
        A_eq=np.hstack([np.vstack([rows, ones]), np.zeros((2 * M, 2 * M))]),
        b_eq=np.ones(2 * M),
        bounds=[(0, None)] * n + [(None, None)] * (2 * M),
    )
    return 1.0 - found.fun


def test_permutations_of_five_items_have_none():
    """One item changes places with a random other: to move nothing is best, and never happens."""
    M = 5
    mu = np.zeros((M, M))
    mu[0, 1:] = mu[1:, 0] = 0.25
    mu[range(1, M), range(1, M)] = 0.75
    assert (mu.sum(axis=0) == 1.0).all() and (mu.sum(axis=1) == 1.0).all()
    gains = {sigma: mu[range(M), sigma].sum() for sigma in itertools.permutations(range(M))}
    best, *rest = sorted(gains, key=gains.__getitem__, reverse=True)
    assert best == tuple(range(M)) and gains[best] > gains[rest[0]] + 0.1
    theta = np.eye(M) / M  # optimal, and right
    value = permutation_surrogate(theta) - np.sum(theta * mu)
    assert value == pytest.approx(1.0 - gains[best] / M, abs=1e-9)
    theta[0, 0] = -1.0  # as good for the surrogate, and wrong
    value = permutation_surrogate(theta) - np.sum(theta * mu)
    assert value == pytest.approx(1.0 - gains[best] / M, abs=1e-9)
    assert theta.trace() < theta[[1, 0, 2, 3, 4], range(M)].sum()
    for M in (4, 5, 20):
        assert calibration_constant("permutation", M) == math.inf


def test_sequences_with_scores_of_transitions_have_none():
    """Two positions, three labels: (0, 1) is best label by label, and never happens."""
    outputs = list(itertools.product(range(3), repeat=2))
    chances = {(0, 0): 0.2, (0, 2): 0.2, (1, 1): 0.2, (2, 1): 0.2, (1, 0): 0.1, (2, 2): 0.1}
    p = np.array([chances.get(y, 0.0) for y in outputs])
    losses = hamming(outputs)
    risks = losses @ p
    assert outputs[int(np.argmin(risks))] == (0, 1) and np.sort(risks)[1] > risks.min() + 0.01
    scores = -losses[outputs.index((0, 1))]
    assert excess(losses, p, scores) == pytest.approx((0.0, 0.0), abs=1e-12)
    scores[outputs.index((0, 1))] = -5.0
    risk, surrogate = excess(losses, p, scores)
    assert risk >= 0.05 - 1e-12 and surrogate == pytest.approx(0.0, abs=1e-12)


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0-1", 1), "size must be an integer >= 2; received 1"),
        (("0-1",), "size must be an integer >= 2; received None"),
        (("permutation", 2.5), "size must be an integer >= 2; received 2.5"),
        (("hamming", [2, 1]), r"size\[1\] must be an integer >= 2; received 1"),
        (("hamming", []), "size must name at least one part"),
        (("squared", 3), "loss must be one of '0-1', 'absolute', 'hamming', 'permutation'"),
        ((zero_one(3), 3), "size belongs to a loss by name; received 3"),
        ((np.ones((3, 3)),), "loss must be 0 on the diagonal"),
        ((np.ones((3, 2)),), r"loss must have shape \(3, 3\)"),
        ((7,), "loss must have shape"),
        (([[0, 1], [2, 0]],), r"symmetric losses, but loss\[0, 1\] is 1 and loss\[1, 0\] is 2"),
    ],
)
def test_what_is_no_loss(arguments, message):
    with pytest.raises(ValueError, match=message):
        calibration_constant(*arguments)


def test_methods():
    with pytest.raises(ValueError, match="method must be one of 'theorem', 'exact'"):
        calibration_constant(zero_one(3), method="guess")
    with pytest.raises(ValueError, match="takes at most 8 classes; received 9"):
        calibration_constant(zero_one(9), method="exact")
    assert calibration_constant(zero_one(9)) == pytest.approx(9.0)


# --- certificates ---------------------------------------------------------------------------


def test_summary_says_what_the_model_knows():
    random = np.random.RandomState(0)
    X = random.randn(60, 3)
    y = (X @ random.randn(3, 3)).argmax(axis=1)
    model = MulticlassClassifier("max-min", alpha=0.02, tol=0.05, random_state=0).fit(X, y)
    found = summary(model)
    assert isinstance(found, Certificate)
    assert (found.primal, found.dual) == (model.primal_, model.dual_)
    assert found.gap == model.gap_ and found.relative_gap == model.gap_ / model.primal_ <= 0.05
    assert found.status == "converged" and found.passes == model.n_iter_
    text = str(found)
    assert f"{model.primal_:.6g}" in text and f"{model.dual_:.6g}" in text
    assert "converged" in text and "Inexact oracles" not in text
    # The distance is true: against a fit that is nearly exact.
    best = MulticlassClassifier("max-min", alpha=0.02, tol=1e-9, max_iter=50_000, random_state=0)
    best.fit(X, y)
    moved = np.sum((model.coef_ - best.coef_) ** 2) + np.sum(
        (model.intercept_ - best.intercept_) ** 2
    )
    assert 0.0 < np.sqrt(moved) <= found.weight_distance + summary(best).weight_distance
    model.oracle_error_ = 0.5 * model.gap_
    assert "Inexact oracles account for" in str(summary(model))
    assert "not convex" not in str(summary(model))
    model.rounds_ = []
    assert summary(model).local and "not convex" in str(summary(model))


def test_summary_of_pipelines_and_of_other_things():
    random = np.random.RandomState(0)
    X = random.randn(40, 2)
    Y = (X > 0.0).astype(int)
    pipeline = make_pipeline(StandardScaler(), MultiLabelClassifier(random_state=0)).fit(X, Y)
    assert summary(pipeline) == summary(pipeline[-1])
    with pytest.raises(TypeError, match="needs an estimator of maxmargin; received Logistic"):
        summary(LogisticRegression())
    with pytest.raises(NotFittedError):
        summary(MulticlassClassifier())


def test_the_module_is_part_of_the_package():
    assert maxmargin.certificates.calibration_constant("0-1", 3) == 3.0
    assert "certificates" in dir(maxmargin)
