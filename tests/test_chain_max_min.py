"""Max-min margin on sequences: values against a convex solver, certificates, interface."""

from __future__ import annotations

import functools
import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import steppers
from maxmargin import Checked, EarlyStopping, HammingLoss, MulticlassClassifier, SequenceLabeler
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.flows import NEGLIGIBLE
from maxmargin._kernels.jit import compiled
from maxmargin.solvers.frank_wolfe import ORDERS
from maxmargin.solvers.loop import run
from test_duality import (
    ALPHA,
    CHAIN_COSTS,
    CHAIN_LABELS,
    FORBIDDEN,
    chain_features,
    chain_model,
    chains,
    is_allowed,
    max_margin_optimum,
    packed_problem,
    solve,
    with_constant,
)

MATRIX = np.array([[0.0, 1.0, 0.4], [2.0, 0.0, 1.0], [0.3, 1.5, 0.0]])
HAMMING = 1.0 - np.eye(CHAIN_LABELS)
EXACT = {"tol": 1e-8, "max_iter": 20_000, "random_state": 0}


def outputs_of(length, constrained):
    every = itertools.product(range(CHAIN_LABELS), repeat=length)
    return [labels for labels in every if not constrained or is_allowed(labels)]


def allowed_there(length, constrained):
    """Labels that predictions may have at each position."""
    allowed = np.ones((length, CHAIN_LABELS), bool)
    if constrained:
        allowed[0, FORBIDDEN["first"]] = False
        allowed[-1, FORBIDDEN["last"]] = False
    return allowed


def max_min_optimum(X, y, weights, losses, scales, constrained=False, alpha=ALPHA):
    """The primal with all outputs enumerated: ``min_w,nu max_y [ E_nu loss(., y) + score(y) ]``."""
    slacks = cp.Variable(len(X))
    w = cp.Variable(len(chain_features(with_constant(X[0]), y[0])))
    constraints = []
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        x = with_constant(x)
        nu = cp.Variable((len(x), CHAIN_LABELS), nonneg=True)
        constraints += [cp.sum(nu, axis=1) == 1]
        constraints += [nu[~allowed_there(len(x), constrained)] == 0] if constrained else []
        for labels in outputs_of(len(x), constrained):
            moved = chain_features(x, labels) - chain_features(x, truth)
            loss = sum(scales[i][t] * (nu[t] @ losses[:, label]) for t, label in enumerate(labels))
            constraints.append(slacks[i] >= loss + moved @ w)
    objective = 0.5 * alpha * cp.sum_squares(w) + weights @ slacks / weights.sum()
    return solve(objective, constraints)


def mean_scales(X):
    return [np.full(len(x), 1.0 / len(x)) for x in X]


def check_certificate(model, optimum):
    assert model.status_ == "converged"
    assert model.primal_ >= optimum - 1e-8
    assert model.dual_ <= optimum + 1e-8
    assert model.primal_ == pytest.approx(optimum, abs=1e-6)
    assert model.dual_ == pytest.approx(optimum, abs=1e-6)


# --- optimal values -------------------------------------------------------------------------


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("loss", ["hamming", pytest.param("matrix", marks=pytest.mark.slow)])
def test_optimum_with_class_weights(loss, constrained):
    X, y, weights, _ = chains(constrained)
    model = chain_model(constrained, surrogate="max-min", **EXACT)
    losses = HAMMING
    if loss == "matrix":
        model.set_params(loss=HammingLoss(MATRIX, normalize=True))
        losses = MATRIX
    model.fit(X, y, sample_weight=weights)
    optimum = max_min_optimum(X, y, weights, losses * CHAIN_COSTS, mean_scales(X), constrained)
    check_certificate(model, optimum)


def test_optimum_with_position_weights_and_a_summed_loss():
    X, y, weights, _ = chains(False)
    random = np.random.RandomState(5)
    positions = [random.uniform(0.0, 2.0, len(x)) for x in X]
    positions[2][1] = 0.0
    model = SequenceLabeler(
        "max-min",
        alpha=ALPHA,
        classes=range(CHAIN_LABELS),
        **EXACT,
    )
    model.fit(X, y, sample_weight=weights, position_weight=positions)
    check_certificate(model, max_min_optimum(X, y, weights, HAMMING, positions))


@pytest.mark.more
def test_flows_reach_the_optimum_of_max_margin():
    X, y, weights, examples = chains(True)
    model = chain_model(True, solver="flow", **EXACT).fit(X, y, sample_weight=weights)
    check_certificate(model, max_margin_optimum(examples, weights))
    assert model.oracle_error_ == 0.0


def test_long_sequences_take_the_way_without_stored_products(monkeypatch):
    X, y, weights, _ = chains(True)
    reference = chain_model(True, surrogate="max-min", **EXACT).fit(X, y, sample_weight=weights)
    monkeypatch.setattr("maxmargin.structures.chain.KEEP_PRODUCTS_UP_TO", 1)
    problem = packed_problem(chain_model(True, surrogate="max-min"), X, y, weights)
    assert np.diff(problem.structure.products_indptr).tolist() == [1, 0, 0, 0, 0]
    # The size of the scratch was compiled for the usual bound: give it a sequence above that.
    problem.structure = problem.structure._replace(longest=70)
    found = run(steppers.flow(problem, rng=np.random.RandomState(0)), tol=1e-8, max_iter=20_000)
    assert found.status == "converged"
    assert found.primal == pytest.approx(reference.primal_, abs=1e-7)


def test_sequences_of_length_one_are_multiclass():
    random = np.random.RandomState(2)
    y = np.arange(12) % 4
    X = random.randn(12, 3) + np.eye(4, 3)[y]
    weights = random.uniform(0.5, 2.0, 12)
    flat = MulticlassClassifier("max-min", alpha=0.05, **EXACT).fit(X, y, sample_weight=weights)
    chain = SequenceLabeler("max-min", alpha=0.05, boundary_weights=False, **EXACT)
    chain.fit(list(X[:, None]), list(y[:, None]), sample_weight=weights)
    assert chain.primal_ == pytest.approx(flat.primal_, abs=1e-7)
    np.testing.assert_allclose(chain.coef_, flat.coef_, atol=1e-3)


@pytest.mark.more
def test_the_minimiser_is_consistent_where_max_margin_ties():
    """One sequence twice over, with labels of which none has a majority at the second position."""
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    X = [x] * 3
    y = [[0, 0], [0, 1], [0, 2]]
    weights = np.array([0.3, 0.3, 0.4])
    settings = {"alpha": 1e-3, "boundary_weights": False, "fit_intercept": False}
    settings |= EXACT | {"tol": 1e-5}
    right = SequenceLabeler("max-min", **settings).fit(X, y, sample_weight=weights)
    scores = right.decision_function([x])[0][1]
    assert scores[2] - max(scores[:2]) > 0.1
    tied = SequenceLabeler(solver="flow", **settings).fit(X, y, sample_weight=weights)
    scores = tied.decision_function([x])[0][1]
    assert scores[2] - max(scores[:2]) < 0.05


# --- certificates ---------------------------------------------------------------------------


@functools.cache
def small_problem(constrained=True):
    X, y, weights, _ = chains(constrained)
    problem = packed_problem(chain_model(constrained, surrogate="max-min"), X, y, weights)
    optimum = max_min_optimum(X, y, weights, HAMMING * CHAIN_COSTS, mean_scales(X), constrained)
    return problem, optimum


def check_flow(problem, flows):
    """Mass is conserved: one unit through every slot, and as much out of a label as into it."""
    K = CHAIN_LABELS
    for low, high in itertools.pairwise(problem.structure.indptr):
        arrived = None
        for p in range(low, high):
            edges = flows.edge[flows.start[p] : flows.start[p] + flows.count[p]]
            mass = flows.mass[flows.start[p] : flows.start[p] + flows.count[p]]
            assert len(set(edges.tolist())) == len(edges)
            assert (mass > NEGLIGIBLE).all()
            assert mass.sum() == pytest.approx(1.0, abs=1e-12)
            if arrived is not None:
                left = np.bincount(edges // K, mass, minlength=K)
                np.testing.assert_allclose(left, arrived, atol=1e-12)
            arrived = np.bincount(edges % K, mass, minlength=K)
        np.testing.assert_allclose(flows.predictions[low:high].sum(axis=1), 1.0, atol=1e-12)
        assert (flows.predictions[low:high] >= 0).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inertia", [0.0, 3.0])
def test_the_bracket_holds_at_every_check(order, inertia):
    problem, optimum = small_problem()
    stepper = steppers.flow(
        problem, order=order, average=True, inertia=inertia, rng=np.random.RandomState(0)
    )
    for check in range(200):
        for _, found in stepper.check():
            assert found.primal >= optimum - 1e-8
            assert found.dual <= optimum + 1e-8
            assert found.primal - found.dual >= -1e-9
            assert -1e-12 <= found.oracle_error <= found.primal - found.dual + 1e-9
        bare = problem.weights_of(stepper.dual_state)
        np.testing.assert_allclose(stepper.dual_weights(), bare, atol=1e-9)
        check_flow(problem, stepper.dual_state)
        stepper.advance(1.0, 1 if check % 2 else 1000)
    assert found.primal - found.dual < 0.3 * optimum


def test_the_primal_reported_bounds_the_surrogate_from_above():
    """The exact surrogate of the fitted weights, by linear programs over all outputs."""
    X, y, weights, _ = chains(False)
    model = chain_model(False, surrogate="max-min", tol=0.2, random_state=0)
    model.fit(X, y, sample_weight=weights)
    flat = [model.coef_.T, model.intercept_, model.transitions_, model.first_, model.last_]
    w = np.concatenate([part.ravel() for part in flat])
    values = []
    for x, truth in zip(X, y, strict=True):
        x = with_constant(x)
        nu = cp.Variable((len(x), CHAIN_LABELS), nonneg=True)
        worst = []
        for labels in outputs_of(len(x), False):
            moved = chain_features(x, labels) - chain_features(x, truth)
            columns = HAMMING * CHAIN_COSTS / len(x)
            worst.append(sum(nu[t] @ columns[:, k] for t, k in enumerate(labels)) + moved @ w)
        values.append(solve(cp.max(cp.hstack(worst)), [cp.sum(nu, axis=1) == 1]))
    exact = 0.5 * ALPHA * w @ w + np.average(values, weights=weights)
    assert exact - 1e-8 <= model.primal_ <= exact + model.oracle_error_ + 1e-8
    assert model.oracle_error_ <= model.gap_ + 1e-9


def test_history_never_falls_and_the_gap_is_never_negative():
    X, y, weights, _ = chains(False)
    model = chain_model(False, surrogate="max-min", solver=Checked(), tol=1e-6, random_state=0)
    model.fit(X, y, sample_weight=weights)
    duals = [record.dual for record in model.history_]
    primals = [record.primal for record in model.history_]
    assert (np.diff(duals) >= 0).all() and (np.diff(primals) <= 0).all()
    assert min(record.gap for record in model.history_) >= -1e-9


# --- the step along a direction -------------------------------------------------------------


@compiled
def floor_and_step(structure, rows, mu, direction, slope, curvature):
    work = np.empty(generic.work_size(structure, rows))
    step = generic.loss_floor_step(structure, 2, mu, direction, slope, curvature, work)
    return step, generic.loss_floor(structure, 2, mu + step * direction, work)


@compiled
def floor_at(structure, rows, mu):
    return generic.loss_floor(structure, 2, mu, np.empty(generic.work_size(structure, rows)))


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_step_along_a_direction_is_the_best(constrained, seed):
    problem, _ = small_problem(constrained)
    structure, rows = problem.structure, problem.rows
    random = np.random.RandomState(seed)
    outputs = np.array(outputs_of(3, constrained))

    def marginals():
        mu = np.zeros(3 * CHAIN_LABELS + CHAIN_LABELS**2)
        shares = random.dirichlet(np.full(len(outputs), 0.3))
        for t in range(3):
            np.add.at(mu, t * CHAIN_LABELS + outputs[:, t], shares)
        return mu

    mu, other = marginals(), marginals()
    allowed = allowed_there(3, constrained)
    costs = HAMMING * CHAIN_COSTS / 3
    lowest = sum(min((costs @ mu[t * 3 : t * 3 + 3])[allowed[t]]) for t in range(3))
    assert floor_at(structure, rows, mu) == pytest.approx(lowest, abs=1e-12)
    slope, curvature = random.randn(), random.uniform(0.0, 2.0)
    direction = other - mu
    step, value = floor_and_step(structure, rows, mu, direction, slope, curvature)
    value += step * slope - 0.5 * step**2 * curvature
    grid = np.linspace(0.0, 1.0, 2001)
    values = [
        floor_at(structure, rows, mu + g * direction) + g * slope - 0.5 * g**2 * curvature
        for g in grid
    ]
    assert 0.0 <= step <= 1.0
    assert value >= max(values) - 1e-12


# --- interface ------------------------------------------------------------------------------


@pytest.mark.slow
def test_sparse_is_dense():
    X, y, _, _ = chains(False)
    plain = chain_model(False, surrogate="max-min", **EXACT)
    value = plain.fit(X, y).primal_
    assert plain.fit([sp.csr_array(x) for x in X], y).primal_ == pytest.approx(value, abs=1e-7)


def test_weight_two_is_twice():
    X, y, _, _ = chains(False)
    plain = chain_model(False, surrogate="max-min", **EXACT)
    twice = plain.fit(X + X[:2], y + y[:2])
    value, coef = twice.primal_, twice.coef_
    weighted = plain.fit(X, y, sample_weight=[2.0, 2.0, 1.0, 1.0, 1.0])
    assert weighted.primal_ == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(weighted.coef_, coef, atol=1e-3)


def test_same_seed_same_bits_however_the_work_is_cut():
    problem, _ = small_problem()
    states = []
    for cut in (1, 3, 1000):
        stepper = steppers.flow(problem, average=True, rng=np.random.RandomState(0))
        while stepper.oracle_calls < 12 * problem.n_examples:
            stepper.advance(1.0, min(cut, 12 * problem.n_examples - stepper.oracle_calls))
        states.append((stepper.weights.tobytes(), stepper.mean_weights.tobytes()))
    assert states[0] == states[1] == states[2]


def test_threads_change_nothing():
    X, y, weights, _ = chains(True)
    one, two = (
        chain_model(True, surrogate="max-min", n_jobs=jobs, random_state=0).fit(X, y, weights)
        for jobs in (1, 2)
    )
    assert one.weights_.tobytes() == two.weights_.tobytes()
    assert one.primal_ == two.primal_


def test_warm_start_goes_on_from_the_dual():
    X, y, weights, _ = chains(False)
    model = chain_model(False, surrogate="max-min", warm_start=True, **EXACT)
    model.fit(X, y, sample_weight=weights)
    first = model.n_iter_
    model.fit(X, y, sample_weight=weights)
    assert model.n_iter_ < first
    assert model.history_[0].dual == pytest.approx(model.dual_, abs=1e-6)


@pytest.mark.more
def test_warm_start_with_another_loss_is_its_own_problem():
    X, y, weights, _ = chains(False)
    model = chain_model(False, surrogate="max-min", warm_start=True, **EXACT)
    model.fit(X, y, sample_weight=weights)
    loss = {"loss": HammingLoss(MATRIX, normalize=True), "class_weight": None}
    model.set_params(**loss).fit(X, y, sample_weight=weights)
    check_certificate(model, max_min_optimum(X, y, weights, MATRIX, mean_scales(X)))


@pytest.mark.parametrize("solver", ["bcfw", "subgradient"])
def test_solvers_that_need_an_exact_oracle_are_refused(solver):
    X, y, _, _ = chains(False)
    with pytest.raises(ValueError, match=f"solver='{solver}' .* needs an exact max-min oracle"):
        chain_model(False, surrogate="max-min", solver=solver).fit(X, y)


def test_masks_and_early_stopping_reach_prediction():
    X, y, _, _ = chains(True)
    allowed = [np.ones((len(x), CHAIN_LABELS), bool) for x in X]
    for mask, labels in zip(allowed, y, strict=True):
        mask[0, (labels[0] + 1) % CHAIN_LABELS] = False
    seen = []
    model = chain_model(
        True,
        surrogate="max-min",
        early_stopping=EarlyStopping(validation_fraction=0.3),
        callbacks=seen.append,
        random_state=0,
    )
    model.fit(X, y, allowed=allowed)
    assert len(seen) == len(model.history_)
    for labels, mask in zip(model.predict(X, allowed=allowed), allowed, strict=True):
        assert is_allowed(tuple(labels)) and mask[0, labels[0]]


# --- real data ------------------------------------------------------------------------------


def test_handwritten_words(ocr):
    X, y, fold = ocr
    train = np.flatnonzero(fold == 0)[:200]
    test = np.flatnonzero(fold == 1)[:200]
    errors = {}
    for surrogate in ("max-margin", "max-min"):
        model = SequenceLabeler(surrogate, tol=0.05, random_state=0)
        model.fit([X[i] for i in train], [y[i] for i in train])
        assert model.status_ == "converged"
        assert 0.0 <= model.gap_ <= 0.05 * model.primal_
        errors[surrogate] = 1.0 - model.score([X[i] for i in test], [y[i] for i in test])
    assert errors["max-min"] < errors["max-margin"] + 0.01
    assert errors["max-min"] < 0.4
