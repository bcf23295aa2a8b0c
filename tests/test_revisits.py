"""Passes over remembered outputs: a dual that rises, weights that follow, and an end where no
remembered output is better than another that has mass."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from maxmargin import SequenceLabeler, TreeParser
from maxmargin.solvers import frank_wolfe
from maxmargin.solvers._revisit_kernel import revisit_steps
from maxmargin.structures.arborescence import arc_scores
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


def revisited(problem, rounds):
    """The state after some rounds and many visits of remembered outputs; examples with several."""
    stepper = pairwise(problem, rng=np.random.RandomState(0))
    for _ in range(rounds):
        stepper.advance(1.0, problem.n_examples)
    state = stepper.state
    several = np.flatnonzero(state.dual.count > 1)
    assert len(several) >= 4
    before = -np.inf
    for _ in range(3000):
        dual = problem.concave(state.dual) - problem.penalty(state.weights)
        assert dual >= before - 1e-12
        before = dual
        revisit_steps(
            problem.structure, problem.rows, problem.scales, several, state.weights, state.dual
        )  # fmt: skip
    np.testing.assert_allclose(state.weights, problem.weights_of(state.dual), atol=1e-9)
    return state, several


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("ends", [True, False])
def test_mass_moves_until_no_remembered_sequence_is_better(kind, ends):
    model = SequenceLabeler(alpha=0.01, boundary_weights=ends)
    problem = packed(model, [kind(x) for x in X], Y)
    state, several = revisited(problem, rounds=4)
    weights = state.weights
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


def sentences():
    """Words with tags, and trees that these do not explain."""
    random = np.random.RandomState(1)
    words = [
        [(f"w{random.randint(6)}", "NV"[random.randint(2)]) for _ in range(m)] for m in LENGTHS
    ]
    heads = [[0, *(random.randint(1, d + 1) for d in range(1, m))] for m in LENGTHS]
    return words, heads


def sparse_arcs():
    random = np.random.RandomState(2)
    _, heads = sentences()
    tables = [sparse.random((m + 1) * m, 9, 0.4, "csr", random_state=random) for m in LENGTHS]
    return tables, heads


@pytest.mark.parametrize("data", [sentences, sparse_arcs])
def test_mass_moves_until_no_remembered_tree_is_better(data):
    X, y = data()
    problem = packed(TreeParser(alpha=0.3, hash_bits=10), X, y)
    structure = problem.structure
    state, several = revisited(problem, rounds=6)
    weights = state.weights
    arcs = np.empty(structure.parts_indptr[-1])
    arc_scores(structure, problem.rows, weights, 0, len(X), arcs)
    for i in several:
        trees, shares = outputs_of(state.dual, structure, i)
        m, costs = len(y[i]), structure.costs[structure.indptr[i] : structure.indptr[i + 1]]
        table = arcs[structure.parts_indptr[i] : structure.parts_indptr[i + 1]].reshape(m, m + 1)
        scores = [table[range(m), tree].sum() + costs @ (tree != y[i]) for tree in trees]
        assert shares.sum() == pytest.approx(1.0) and (shares > 0.0).all()
        assert max(scores) - min(scores) < 1e-6


def test_trees_of_words_are_revisited_by_default():
    X, y = sentences()
    model = TreeParser(alpha=0.3, hash_bits=10, tol=0.05, max_iter=5000, random_state=0)
    default, other = clone(model).fit(X, y), clone(model).set_params(solver="bcfw").fit(X, y)
    assert default.status_ == other.status_ == "converged"
    assert other.dual_ <= default.primal_ and default.dual_ <= other.primal_
    assert default.n_iter_ < other.n_iter_
