"""Threads that share the visits to label graphs."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import MultiLabelClassifier, SoftAgreement
from maxmargin._kernels import team
from maxmargin._kernels.jit import leaf
from maxmargin.graphs import _shared_visits, soft
from maxmargin.graphs._shared_visits import can_share
from realdata import load_npz

pytestmark = [
    pytest.mark.more,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture
def sharing(monkeypatch):
    """Threads are used on any machine; the numbers of threads that visited together."""
    used = []
    monkeypatch.setattr(team, "processors", lambda: 8)

    def in_step(work, counters):
        numbers = set()

        def noted(number):
            numbers.add(number)
            work(number)

        whole(noted, counters)
        used.append(len(numbers))

    whole = team.in_step
    monkeypatch.setattr(team, "in_step", in_step)
    return used


def label_sets(n_labels=23, n=60, seed=0):
    """Sparse rows, and labels of which some come together; 23 labels have 253 pairs."""
    rng = np.random.RandomState(seed)
    X = rng.rand(n, 40) * (rng.rand(n, 40) < 0.3)
    Y = (X @ rng.randn(40, n_labels) + rng.randn(n, 1) > 0.8).astype(int)
    return X, Y


def fitted(data, n_jobs, solver="auto", **params):
    X, Y = data
    weight = params.pop("sample_weight", None)
    params = {"alpha": 0.01, "tol": 0.02, "max_iter": 30, "random_state": 0, **params}
    model = MultiLabelClassifier(edges="full", solver=solver, n_jobs=n_jobs, **params)
    return model.fit(X, Y, sample_weight=weight)


def _weights_with_zeros():
    weights = np.random.RandomState(1).rand(60) + 0.5
    weights[::7] = 0.0
    return weights


CASES = {
    "full": {},
    "sparse rows": {"sparse": True},
    "no intercept": {"fit_intercept": False},
    "tied": {"interactions": "both-on", "solver": SoftAgreement()},
    "weights": {"sample_weight": _weights_with_zeros()},
    "active": {"solver": SoftAgreement(order="active")},
    "permutation": {"solver": SoftAgreement(order="permutation")},
    "uniform": {"solver": SoftAgreement(order="uniform")},
    "one round": {"solver": SoftAgreement(rounds=1)},
    "soft": {"solver": SoftAgreement("soft", rho=0.1)},
    "max-min": {"surrogate": "max-min"},
}


@pytest.mark.parametrize("case", CASES)
def test_same_bits_with_any_number_of_threads(sharing, case):
    params = dict(CASES[case])
    X, Y = label_sets()
    data = (sp.csr_matrix(X) if params.pop("sparse", False) else X, Y)
    plain = fitted(data, None, **params)
    assert not sharing
    for n_jobs, n_threads in ((1, 0), (2, 2), (3, 2), (8, 2)):  # 23 labels: 16 and 7
        sharing.clear()
        found = fitted(data, n_jobs, **params)
        assert set(sharing) == ({n_threads} if n_threads else set())
        assert np.array_equal(found.coef_, plain.coef_)
        assert (found.primal_, found.dual_) == (plain.primal_, plain.dual_)
        assert found.n_iter_ == plain.n_iter_


def test_documents(sharing):
    """200 documents of RCV1: a true certificate, the same in one thread and in two."""
    data = load_npz("rcv1subset1")
    parts = (data["X_data"], data["X_indices"].astype(np.int32), data["X_indptr"])
    X = sp.csr_matrix(parts, shape=data["X_shape"]).astype(np.float64)[:200]
    Y = np.unpackbits(data["Y_packed"], axis=1)[:200, : int(data["n_labels"])]
    Y = Y[:, data["top30"]].astype(int)
    one, two = (
        MultiLabelClassifier(tol=0.05, random_state=0, n_jobs=n_jobs).fit(X, Y)
        for n_jobs in (None, 2)
    )
    assert set(sharing) == {2}
    assert two.status_ == "converged"
    assert np.array_equal(one.coef_, two.coef_)
    assert (one.primal_, one.dual_) == (two.primal_, two.dual_)
    assert two.score(X, Y) > 0.9


def test_four_threads(sharing):
    data = label_sets(n_labels=34, n=30)
    plain = fitted(data, None, max_iter=8)
    found = fitted(data, 5, max_iter=8)
    assert set(sharing) == {4}
    assert np.array_equal(found.coef_, plain.coef_)
    assert (found.primal_, found.dual_) == (plain.primal_, plain.dual_)


def test_gaps_and_residuals_of_visits(sharing, monkeypatch):
    """What a pass reports of each example, and the mean of the messages."""
    seen = {}
    end_round = SoftAgreement._end_round

    def keep(self, problem, state):
        found = (state.gaps, state.residuals, state.squares, state.mean_messages)
        seen.setdefault(problem.n_threads, []).append([array.copy() for array in found])
        return end_round(self, problem, state)

    monkeypatch.setattr(SoftAgreement, "_end_round", keep)
    for n_jobs in (1, 2):
        fitted(label_sets(), n_jobs, SoftAgreement(), sample_weight=_weights_with_zeros())
    assert set(sharing) == {2}
    assert all(array.any() for array in seen[1][-1])
    for one, two in zip(seen[1], seen[2], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_drawn_examples_and_other_graphs_are_visited_by_one_thread(sharing):
    data = label_sets()
    gap = SoftAgreement(order="gap")
    one, two = (fitted(data, n_jobs, gap, max_iter=5) for n_jobs in (None, 2))
    assert np.array_equal(one.coef_, two.coef_)
    assert sharing  # in the first round, whose order is known
    sharing.clear()
    few = label_sets(n_labels=14)
    assert np.array_equal(fitted(few, None).coef_, fitted(few, 2).coef_)
    fitted(data, 2, kernel="rbf", max_iter=2)
    fitted(data, 2, SoftAgreement(steps="frank-wolfe"), max_iter=2)
    fitted(data, 2, SoftAgreement(smoothing=0.1), max_iter=2)
    assert not sharing


def test_no_more_threads_than_processors(sharing, monkeypatch):
    monkeypatch.setattr(team, "processors", lambda: 1)
    fitted(label_sets(), 2, max_iter=2)
    assert not sharing


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_one_thread_ends_all(sharing, monkeypatch, failing):
    steps = soft.soft_steps

    def fail(*args):
        if args[-1].share.number == failing:
            raise MemoryError("no scratch")
        steps(*args)

    monkeypatch.setattr(soft, "soft_steps", fail)
    before = threading.active_count()
    with pytest.raises(MemoryError, match="no scratch"):
        fitted(label_sets(), 2)
    assert threading.active_count() == before


@leaf
def _count_in_turn(counters, own, n_threads, totals, n):
    for step in range(n):
        if not team.wait_for_all(counters, own, n_threads, step + 1):
            return
        if step % n_threads == own:
            totals[0] = 0.5 * totals[0] + step


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_threads_in_step_see_what_others_wrote(n_threads):
    totals, counters, expected = np.zeros(1), team.make_counters(n_threads), 0.0
    n = 200
    team.in_step(lambda own: _count_in_turn(counters, own, n_threads, totals, n), counters)
    for step in range(n):
        expected = 0.5 * expected + step
    assert totals[0] == expected


def test_what_can_be_shared(monkeypatch):
    problems = []
    monkeypatch.setattr(
        _shared_visits, "can_share", lambda problem: problems.append(problem) or can_share(problem)
    )
    monkeypatch.setattr(team, "processors", lambda: 8)
    fitted(label_sets(), 2, max_iter=1)
    problem = problems[0]
    assert can_share(problem)
    graphs = problem.graphs
    for changed in (
        {"column": graphs.column[::-1].copy()},
        {"binary_pairs": np.ones_like(graphs.binary_pairs)},
        {"first_row": 2 * graphs.first_row},
    ):
        problem.graphs = type(graphs)(*graphs)._replace(**changed)
        assert not can_share(problem)
