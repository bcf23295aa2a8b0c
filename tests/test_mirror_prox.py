"""Saddle-point mirror-prox on chains: its bracket against linear programs, and what it trains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import steppers
from maxmargin import (
    BlockFrankWolfe,
    DoubleOracle,
    LabelRanker,
    MirrorProx,
    MulticlassClassifier,
    SequenceLabeler,
)
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.chain_saddle import step_length
from maxmargin._kernels.jit import compiled
from maxmargin.oracles.mirror_prox import chain_pairs
from test_chain_max_min import HAMMING, allowed_there, outputs_of, small_problem
from test_duality import CHAIN_COSTS, CHAIN_LABELS, chain_model, chains

pytestmark = pytest.mark.more

EXAMPLE, LENGTH = 2, 3  # an example of small_problem with three positions
K = CHAIN_LABELS
LOSSES = HAMMING * CHAIN_COSTS / LENGTH


@compiled
def respond(oracle, surrogate, structure, rows, scores, mu):
    work = np.empty(generic.work_size(structure, rows))
    labels = np.empty(structure.longest, np.int32)[:LENGTH]
    return generic.answer(oracle, surrogate, structure, EXAMPLE, scores, work, labels, mu)


@compiled
def safe_step(structure):
    return step_length(structure, EXAMPLE)


def embedded(outputs):
    """Indicators of the parts of outputs, one a column."""
    columns = np.zeros((LENGTH * K + K * K, len(outputs)))
    for column, labels in enumerate(outputs):
        for t, label in enumerate(labels):
            columns[t * K + label, column] = 1.0
        for a, b in itertools.pairwise(labels):
            columns[LENGTH * K + a * K + b, column] += 1.0
    return columns


def exact_value(scores, constrained):
    """``max_mu sum_t min_j (L mu_t)_j + scores @ mu``, a linear program over all outputs."""
    phi = embedded(outputs_of(LENGTH, constrained))
    allowed = allowed_there(LENGTH, constrained)
    n = phi.shape[1]
    rows = []
    for t in range(LENGTH):
        for j in np.flatnonzero(allowed[t]):
            floor = np.zeros(LENGTH)
            floor[t] = 1.0
            rows.append(np.concatenate([-LOSSES[j] @ phi[t * K : (t + 1) * K], floor]))
    answer = linprog(
        -np.concatenate([scores @ phi, np.ones(LENGTH)]),
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=np.concatenate([np.ones(n), np.zeros(LENGTH)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)] * LENGTH,
    )
    return -answer.fun


def is_feasible(mu, constrained):
    """Whether mu is a mixture of outputs, up to rounding."""
    phi = embedded(outputs_of(LENGTH, constrained))
    n = phi.shape[1]
    apart = np.ones((len(mu), 1))
    closest = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.vstack([np.hstack([phi, -apart]), np.hstack([-phi, -apart])]),
        b_ub=np.concatenate([mu, -mu]),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
    )
    return closest.fun < 1e-8


@pytest.mark.parametrize("size", [0.3, 3.0, 2000.0])
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_the_bracket_holds_the_truth_and_shrinks_like_one_over_the_iterations(
    factor, constrained, size
):
    problem, _ = small_problem(constrained)
    structure = problem.structure
    random = np.random.RandomState(int(size))
    for _ in range(3):
        scores = random.randn(LENGTH * K + K * K) * size
        truth = exact_value(scores, constrained)
        tolerance = 1e-9 * max(1.0, size)
        for iterations in (1, 2, 5, 20, 100, 500):
            oracle = chain_pairs(structure, iterations, factor=factor)
            mu = np.empty(len(scores))
            upper, lower = respond(oracle, problem.surrogate, structure, problem.rows, scores, mu)
            assert lower - tolerance <= truth <= upper + tolerance
            assert is_feasible(mu, constrained)
            if factor == 1.0:  # the theorem: divergences from the start, over step and iterations
                divergences = 2.0 * LENGTH * np.log(K)
                most = divergences / (safe_step(structure) * iterations)
                assert upper - lower <= most + tolerance
        if size < 10:
            assert upper - lower < 0.01


def test_one_position_is_the_closed_form():
    random = np.random.RandomState(0)
    y = np.arange(8) % 4
    X = random.randn(8, 2) + np.eye(4, 2)[y]
    flat = MulticlassClassifier("max-min", alpha=0.1, tol=1e-7, random_state=0).fit(X, y)
    solver = BlockFrankWolfe(oracle=MirrorProx(iterations=100), step_average=3.0)
    chain = SequenceLabeler(
        "max-min", solver=solver, boundary_weights=False, alpha=0.1, tol=0.01, random_state=0
    )
    chain.fit(list(X[:, None]), list(y[:, None]))
    assert chain.status_ == "converged"
    assert chain.dual_ <= flat.primal_ and flat.dual_ <= chain.primal_


def test_evaluation_reads_and_steps_write():
    problem, _ = small_problem(True)
    oracle = MirrorProx(iterations=3)
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0), oracle=oracle)
    before = stepper.state.oracle.theta.copy()
    first = stepper.check()[0][1]
    again = stepper.check()[0][1]
    assert first == again
    np.testing.assert_array_equal(stepper.state.oracle.theta, before)
    stepper.advance(1.0, 1000)
    assert not np.array_equal(stepper.state.oracle.theta, before)
    assert stepper.oracle_calls == problem.n_examples


@pytest.mark.slow
@pytest.mark.parametrize("line_search", [True, False], ids=["exact", "paper"])
@pytest.mark.parametrize("iterations", [1, 10])
def test_certificates_hold_with_few_iterations(iterations, line_search):
    problem, optimum = small_problem(True)
    stepper = steppers.frank_wolfe(
        problem, average=True, rng=np.random.RandomState(0), line_search=line_search,
        oracle=MirrorProx(iterations=iterations),
    )  # fmt: skip
    dual = -np.inf
    first_gap = None
    for _ in range(150):
        candidates = stepper.check()
        for _, found in candidates:
            assert found.primal >= optimum - 1e-9
            assert found.dual <= optimum + 1e-9
            assert found.oracle_error >= -1e-12
        found = candidates[0][1]
        assert found.primal - found.dual >= -1e-9
        if line_search:
            assert found.dual >= dual - 1e-12
        dual = found.dual
        first_gap = first_gap or found.primal - found.dual
        stepper.advance(1.0, 1000)
    assert min(found.primal for _, found in candidates) - dual < 0.5 * first_gap


def test_iterations_that_grow_reach_what_constant_ones_do_not():
    problem, optimum = small_problem(True)
    found = {}
    for schedule in ("constant", "growing"):
        oracle = MirrorProx(iterations=1, schedule=schedule)
        stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0), oracle=oracle)
        for _ in range(60):
            stepper.advance(1.0, 1000)
        ((_, found[schedule]),) = stepper.check()
        assert found[schedule].dual <= optimum + 1e-9 <= found[schedule].primal + 2e-9
    assert (stepper.state.oracle.visits == 60).all()
    assert found["growing"].oracle_error < 0.1 * found["constant"].oracle_error
    assert found["growing"].dual > found["constant"].dual


def test_iterations_grow_on_permutations():
    random = np.random.RandomState(0)
    X, ranks = random.randn(12, 3), np.array([random.permutation(4) for _ in range(12)])
    errors = []
    for schedule in ("constant", "growing"):
        solver = BlockFrankWolfe(oracle=MirrorProx(iterations=2, schedule=schedule))
        model = LabelRanker("max-min", alpha=0.1, solver=solver, tol=0.0, max_iter=20,
                            y_format="ranks", random_state=0).fit(X, ranks)  # fmt: skip
        errors.append(model.oracle_error_)
        assert model.gap_ >= model.oracle_error_ - 1e-9
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.slow
def test_enough_iterations_come_close_to_the_optimum():
    X, y, weights, _ = chains(False)
    model = chain_model(
        False,
        surrogate="max-min",
        solver=BlockFrankWolfe(oracle=MirrorProx(iterations=100), step_average=3.0),
        tol=0.02,
        max_iter=3000,
        random_state=0,
    )
    model.fit(X, y, sample_weight=weights)
    _, optimum = small_problem(False)
    assert model.status_ == "converged"
    assert model.dual_ <= optimum <= model.primal_ + 1e-9
    assert 0.0 < model.oracle_error_ < model.gap_ + 1e-9


@pytest.mark.parametrize(
    "settings, solver, message",
    [
        ({"surrogate": "max-margin"}, {}, "surrogate='max-min', the only one with saddle points"),
        ({}, {"oracle": "magic"}, "oracle must be 'auto' or an oracle such as MirrorProx"),
        ({}, {"oracle": None}, "oracle must be 'auto' or an oracle such as MirrorProx"),
        ({}, {"oracle__iterations": 0}, "iterations must be an integer >= 1"),
        ({}, {"oracle__iterations": "many"}, "iterations must be one of 'auto'; received 'many'"),
        ({}, {"oracle__schedule": "often"}, "schedule must be one of 'constant', 'growing'"),
        ({}, {"line_search": "yes"}, "line_search"),
        ({}, {"oracle": DoubleOracle()}, "it needs trees"),
        ({}, {"oracle": "auto"}, "it needs an exact max-min oracle"),
        ({"surrogate": "max-margin"}, {"oracle": "auto", "steps": "pairwise", "line_search": False},
         "line_search=True"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(settings, solver, message):
    X, y, _, _ = chains(False)
    value = BlockFrankWolfe(oracle=MirrorProx()).set_params(**solver)
    model = chain_model(False, **{"surrogate": "max-min", "solver": value, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_the_oracle_can_be_searched_over():
    model = SequenceLabeler("max-min", solver=BlockFrankWolfe(oracle=MirrorProx()))
    model.set_params(solver__oracle__iterations=3)
    assert model.solver.oracle.iterations == 3
