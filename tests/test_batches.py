"""Batches of examples that several threads visit together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SequenceLabeler, TreeParser
from maxmargin._kernels.jit import implements
from maxmargin._kernels.team import answer_item, apply_item, in_batches
from maxmargin.solvers import auto


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


class Ahead(NamedTuple):
    """The same without the total in the answers."""

    answers: np.ndarray
    total: np.ndarray


@implements(answer_item, Ahead)
def _answer_ahead(task, item, scratch):
    task.answers[item % task.answers.shape[0]] = item


@implements(apply_item, Ahead)
def _apply_ahead(task, item, scratch):
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
        in_batches(task, np.arange(n) % 3, size, n_threads, lambda thread: np.empty(1))
        assert task.total[0] == _expected(n, size)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_threads_are_a_batch_ahead(n_threads):
    """Answers that do not depend on steps; there is memory for two batches."""
    for n, size in ((1, 4), (16, 4), (61, 7)):
        task = Doubling(np.full(2 * size, np.nan), np.zeros(1))
        in_batches(
            Ahead(*task), np.arange(n) % 3, size, n_threads, lambda thread: np.empty(1), ahead=True
        )
        total = 0.0
        for item in range(n):
            total = 0.5 * total + item
        assert task.total[0] == total


def test_threads_end_when_the_leader_fails():
    calls = []

    def scratch(thread):
        calls.append(None)
        if len(calls) > 1 or n_threads == 1:  # of the leader, or of a helper: no matter which
            raise MemoryError("no scratch")
        return np.empty(1)

    for n_threads in (1, 3):
        calls.clear()
        with pytest.raises(MemoryError, match="no scratch"):
            in_batches(Doubling(np.zeros(4), np.zeros(1)), np.ones(8), 4, n_threads, scratch)


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
@pytest.mark.parametrize("make", [sequences, trees])
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
    assert not np.array_equal(plain.coef_, fits[0].coef_)  # batches were used
