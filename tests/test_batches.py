"""Batches and lanes of examples that several threads visit together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SequenceLabeler, TreeParser
from maxmargin._kernels.jit import implements
from maxmargin._kernels.team import answer_item, apply_item, do_phase, in_batches, in_phases
from maxmargin.features.lanes import N_LANES, make_plan
from maxmargin.features.rows import pack_rows
from maxmargin.solvers import auto
from maxmargin.solvers._lane_kernel import visit_in_lanes
from maxmargin.solvers.climb import Climb


class Doubling(NamedTuple):
    """Item i answers i plus the total before its batch; its step adds the answer to the total."""

    answers: np.ndarray
    total: np.ndarray


@implements(answer_item, Doubling)
def _answer(task, item, scratch):
    task.answers[item % task.answers.shape[0]] = item + task.total[0]


@implements(apply_item, Doubling)
def _apply(task, item, scratch):
    task.total[0] = 0.5 * task.total[0] + task.answers[item % task.answers.shape[0]]


def _expected(n: int, size: int) -> float:
    total = 0.0
    for first in range(0, n, size):
        answers = [item + total for item in range(first, min(first + size, n))]
        for answer in answers:
            total = 0.5 * total + answer
    return total


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_answers_before_a_batch_and_steps_in_order(n_threads):
    for n, size in ((1, 4), (16, 4), (61, 7)):
        task = Doubling(np.zeros(size), np.zeros(1))
        in_batches(task, n, size, n_threads, lambda: np.empty(1))
        assert task.total[0] == _expected(n, size)


def test_threads_end_when_the_leader_fails():
    calls = []

    def scratch():
        calls.append(None)
        if len(calls) > 1 or n_threads == 1:  # of the leader, or of a helper: no matter which
            raise MemoryError("no scratch")
        return np.empty(1)

    for n_threads in (1, 3):
        calls.clear()
        with pytest.raises(MemoryError, match="no scratch"):
            in_batches(Doubling(np.zeros(4), np.zeros(1)), 8, 4, n_threads, scratch)


class Relay(NamedTuple):
    """In each phase a lane adds what the next lane had before."""

    values: np.ndarray


@implements(do_phase, Relay)
def _relay(task, phase, lane, scratch):
    before = task.values[phase]
    task.values[phase + 1, lane] = before[lane] + 3 * before[(lane + 1) % before.shape[0]]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_phases_begin_when_all_lanes_are_done(n_threads):
    values = np.zeros((401, 4), np.int32)
    values[0] = 1, 2, 3, 4
    expected = values[0].copy()
    for _ in range(400):
        expected = expected + 3 * np.roll(expected, -1)
    in_phases(Relay(values), 400, 4, n_threads, lambda: np.empty(1))
    assert np.array_equal(values[-1], expected)


def some_rows():
    rng = np.random.RandomState(0)
    X = sp.random_array((400, 60), density=0.04, format="csr", rng=rng)
    return pack_rows(X, fit_intercept=True), np.arange(0, 401, 2)


def test_features_of_a_plan():
    """Entries keep their feature, unless other lanes of the batch have it too."""
    rows, first = some_rows()
    plan = make_plan(rows, first)
    owner = np.repeat(np.arange(200), np.diff(rows.indptr[first]))
    for b in range(len(plan.first)):
        shared = plan.shared[plan.first[b] : plan.first[b] + plan.count[b]]
        lanes = [set(), set()]
        for lane in range(N_LANES):
            there = (plan.batch == b) & (plan.lane == lane)
            assert there.any()
            lanes[lane] = set(rows.indices[there[owner]].tolist())
        assert set(shared.tolist()) == (lanes[0] & lanes[1]) | {60}
        assert shared[0] == 60 and len(set(shared.tolist())) == len(shared)
        at = np.flatnonzero((plan.batch == b)[owner])
        codes, features = plan.codes[at], rows.indices[at]
        assert np.array_equal(np.where(codes < 0, shared[~np.minimum(codes, -1)], codes), features)
        assert np.array_equal(codes < 0, np.isin(features, shared))


def test_order_of_a_plan():
    rows, first = some_rows()
    plan = make_plan(rows, first)
    order = np.random.RandomState(1).permutation(200)[:150]
    grouped = plan.grouped(order, np.random.RandomState(2))
    assert sorted(grouped) == sorted(order)
    for given, most in ((grouped, len(plan.first)), (order, 150)):
        bounds = plan.bounds(given)
        assert len(bounds) <= most
        assert np.array_equal(bounds[1:, 1], bounds[:-1, -1]) and bounds[-1, -1] == 150
        for batch, *ends in bounds:
            for lane in range(N_LANES):
                members = given[ends[lane] : ends[lane + 1]]
                assert (plan.batch[members] == batch).all()
                assert (plan.lane[members] == lane).all()
    for count in (1, 40, 150):
        end = plan.end_of_batch(grouped, count)
        assert end >= count
        assert end == 150 or plan.batch[grouped[end]] != plan.batch[grouped[end - 1]]


def alike():
    """Sequences with the same few features: whatever a lane changes, the others change, too."""
    rng = np.random.RandomState(0)
    X = [sp.csr_array(np.tile([1.0, 1.0, 0.0, 0.0, 0.0], (3, 1))) for _ in range(80)]
    y = [[int(label) for label in rng.randint(0, 3, 3)] for _ in X]
    return SequenceLabeler, (X, y), {"alpha": 0.02, "tol": 2e-3}


@pytest.mark.parametrize("make", [alike, lambda: sequences()])
def test_weights_are_those_of_the_dual_point(monkeypatch, make):
    """After visits in lanes, with and without oracles; and the dual has risen."""
    monkeypatch.setattr(auto, "_FEWEST_IN_PARTS", 1)
    model, data, params = make()
    kept = []
    first = Climb.__init__
    def remember(self, *args, **kwargs):
        kept.append(self)
        first(self, *args, **kwargs)

    monkeypatch.setattr(Climb, "__init__", remember)
    model(**params, n_jobs=2, max_iter=1, random_state=0).fit(*data)
    problem = kept[0].problem
    atoms, means, gaps = problem.start_atoms(), np.zeros(2), np.zeros(problem.n_examples)
    weights, rng, dual = problem.weights_of(atoms), np.random.RandomState(0), -np.inf
    for turn in range(8):
        order = problem.lanes.grouped(rng.permutation(problem.n_examples), rng)
        with_oracles = turn % 2 == 0
        atoms = visit_in_lanes(
            problem, order, gaps if with_oracles else np.empty(0), weights, atoms, means
        )
        # Sums of a few hundred terms of this size.
        assert np.allclose(weights, problem.weights_of(atoms), rtol=0, atol=1e-12 * abs(weights).max())
        value = problem.concave(atoms) - problem.penalty(weights)
        assert value >= dual - 1e-12
        dual = value


def sequences():
    rng = np.random.RandomState(0)
    X, y = [], []
    for _ in range(60):
        words = rng.randint(0, 40, rng.randint(2, 7))
        X.append(sp.csr_array(np.eye(41)[words] + np.eye(41)[np.roll(words, 1)] * 0.5))
        y.append([int(word % 3 if rng.rand() < 0.9 else rng.randint(3)) for word in words])
    return SequenceLabeler, (X, y), {"alpha": 0.02, "tol": 2e-3}


def trees():
    rng = np.random.RandomState(0)
    X, y = [], []
    for _ in range(40):
        tags = ["NVDA"[rng.randint(4)] for _ in range(rng.randint(2, 6))]
        X.append([{"form": f"{tag}{rng.randint(9)}", "upos": tag} for tag in tags])
        root = rng.randint(len(tags))
        y.append([0 if word == root else root + 1 for word in range(len(tags))])
    return TreeParser, (X, y), {"alpha": 1.0, "tol": 0.05}


@pytest.mark.more
@pytest.mark.parametrize("make", [sequences, alike, trees])
def test_any_number_of_threads_finds_the_same_optimum(monkeypatch, make):
    """Bit by bit with any number of threads; the certificate holds the optimum of single visits."""
    monkeypatch.setattr(auto, "_FEWEST_IN_PARTS", 1)
    model, data, params = make()
    params = {"max_iter": 500, "random_state": 0, **params}
    plain = model(**params).fit(*data)
    fits = [model(**params, n_jobs=n_jobs).fit(*data) for n_jobs in (1, 2, 3)]
    for found in fits:
        assert found.status_ == "converged"
        assert np.array_equal(found.coef_, fits[0].coef_)
        assert (found.primal_, found.dual_) == (fits[0].primal_, fits[0].dual_)
        assert found.dual_ <= plain.primal_ + 1e-12
        assert plain.dual_ <= found.primal_ + 1e-12
    assert not np.array_equal(plain.coef_, fits[0].coef_)  # batches or lanes were used
