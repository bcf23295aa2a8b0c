"""Passes over remembered label sequences: a dual that rises, weights that follow, and an end where
no remembered sequence is better than another that has mass."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from maxmargin import SequenceLabeler
from maxmargin.solvers import frank_wolfe
from maxmargin.solvers._revisit_kernel import revisit_steps
from steppers import pairwise
from test_problems import packed

pytestmark = pytest.mark.more

RANDOM = np.random.RandomState(0)
LENGTHS = (1, 2, 5, 9, 12, 3, 4)
X = [RANDOM.randn(length, 4) for length in LENGTHS]
Y = [RANDOM.randint(0, 4, length) for length in LENGTHS]


def outputs_of(atoms, structure, i):
    """Label sequences that an example remembers, and their mass."""
    low, high = structure.indptr[i], structure.indptr[i + 1]
    count, first = atoms.count[i], atoms.labels_start[i]
    labels = atoms.labels[first : first + count * (high - low)].reshape(count, high - low)
    return labels, atoms.weight[atoms.start[i] : atoms.start[i] + count]


def augmented_score(structure, weights, x, truth, y):
    """Score and loss of a label sequence, by the definition; ``x`` ends with a constant."""
    n, d = structure.n_labels, x.shape[1]
    matrix = weights[: d * n].reshape(d, n)
    moves = weights[d * n : (d + n) * n].reshape(n, n)
    total = sum(x[t] @ matrix[:, y[t]] for t in range(len(y)))
    total += sum(moves[a, b] for a, b in itertools.pairwise(y))
    if structure.ends:
        first, last = weights[(d + n) * n :].reshape(2, n)
        total += first[y[0]] + last[y[-1]]
    return total + np.sum(truth != y)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("ends", [True, False])
def test_mass_moves_until_no_remembered_sequence_is_better(kind, ends):
    model = SequenceLabeler(alpha=0.01, boundary_weights=ends)
    problem = packed(model, [kind(x) for x in X], Y)
    stepper = pairwise(problem, rng=np.random.RandomState(0))
    for _ in range(4):
        stepper.advance(1.0, len(X))
    state = stepper.state
    several = np.flatnonzero(state.dual.count > 1)
    assert len(several) >= 4
    weights, before = state.weights, -np.inf
    for _ in range(3000):
        dual = problem.concave(state.dual) - problem.penalty(weights)
        assert dual >= before - 1e-12
        before = dual
        revisit_steps(problem.structure, problem.rows, problem.scales, several, weights, state.dual)
    np.testing.assert_allclose(weights, problem.weights_of(state.dual), atol=1e-9)
    for i in several:
        labels, shares = outputs_of(state.dual, problem.structure, i)
        x = np.hstack([X[i], np.ones((len(X[i]), 1))])
        scores = [augmented_score(problem.structure, weights, x, Y[i], y) for y in labels]
        assert shares.sum() == pytest.approx(1.0) and (shares > 0.0).all()
        assert max(scores) - min(scores) < 1e-6


def test_a_fit_with_revisits_has_the_same_optimum_in_fewer_passes(monkeypatch):
    model = SequenceLabeler(alpha=0.05, tol=1e-3, max_iter=5000, random_state=0)
    one = clone(model).fit(X, Y)
    monkeypatch.setattr(frank_wolfe, "_MANY_WEIGHTS", 0)
    other = clone(model).fit(X, Y)
    assert one.status_ == other.status_ == "converged"
    assert other.dual_ <= one.primal_ and one.dual_ <= other.primal_
    assert other.n_iter_ < one.n_iter_
