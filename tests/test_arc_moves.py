"""Moves between the stored trees of a sentence, against features that are written out."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import TreeParser
from maxmargin._kernels.atoms import reserve_atoms, write_atom
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.protocol import add_row, score_row
from maxmargin.features.arc_slots import fill_products, list_slots, most_slots, products_work
from maxmargin.features.arcs import locate
from maxmargin.solvers._batch_kernel import revisit_batches
from maxmargin.solvers._bcfw_kernel import Visits
from maxmargin.solvers._revisit_kernel import revisit_steps
from maxmargin.structures.arc_moves import MOST_ARCS
from test_problems import packed

pytestmark = pytest.mark.more

# The last sentence has more arcs than are prepared: its moves are made one by one.
LENGTHS = (1, 2, 5, 9, 12, 7, 60)
# With 4 bits there are 16 weights: all arcs share some, and features of an arc share others.
BITS = (4, 12)


@compiled
def arc_score(rows, weights, row):
    return score_row(rows, weights.reshape(rows.n_inputs, 1), row)


@compiled
def add_arc(rows, weights, row):
    add_row(rows, weights.reshape(rows.n_inputs, 1), row, np.ones(1), 1.0)


@compiled
def slots_of(rows, row):
    first, _, d, h = locate(rows, row)
    slots = np.empty(most_slots(rows), np.int32)
    return slots[: list_slots(rows, first, d, h, slots, 0)]


@compiled
def products(indptr, slots, gram):
    fill_products(indptr, slots, np.empty(products_work(len(slots))), gram)


def random_tree(random, m):
    """Heads that come before their words in a random order; the first has the root."""
    order = random.permutation(m)
    heads = np.empty(m, np.int32)
    for place, word in enumerate(order):
        heads[word] = 0 if place == 0 else order[random.randint(place)] + 1
    return heads


def made_problem(bits):
    random = np.random.RandomState(0)
    X = [[(f"w{random.randint(6)}", "NVDA"[random.randint(4)]) for _ in range(m)] for m in LENGTHS]
    y = [random_tree(random, m).tolist() for m in LENGTHS]
    return packed(TreeParser(alpha=0.3, hash_bits=bits), X, y)


def mixtures(problem, n_trees, seed=1):
    """A dual point with random trees and shares, and its weights."""
    random = np.random.RandomState(seed)
    atoms = problem.start_atoms()
    for i, m in enumerate(LENGTHS):
        for _ in range(n_trees - 1):
            tree = random_tree(random, m)
            if not any((tree == other).all() for other in trees_of(problem, atoms, i)[0]):
                atoms = reserve_atoms(problem.structure, atoms, np.array([i]))
                write_atom(atoms, i, tree, 0.0)
        count, start = atoms.count[i], atoms.start[i]
        atoms.weight[start : start + count] = random.dirichlet(np.ones(count))
        atoms.weight[start] += atoms.weight[start + count - 1]  # one tree without mass
        atoms.weight[start + count - 1] = 0.0 if count > 1 else 1.0
    return atoms, problem.weights_of(atoms)


def trees_of(problem, atoms, i):
    low, high = problem.structure.indptr[i : i + 2]
    count, first, start = atoms.count[i], atoms.labels_start[i], atoms.start[i]
    labels = atoms.labels[first : first + count * (high - low)].reshape(count, high - low)
    return labels, atoms.weight[start : start + count]


def written_out(problem, trees, i):
    """Features of trees, and their losses."""
    structure = problem.structure
    m, first = trees.shape[1], structure.indptr[i]
    features = np.zeros((len(trees), problem.n_weights))
    for tree, row in zip(trees, features, strict=True):
        for d, h in enumerate(tree):
            add_arc(problem.rows, row, structure.parts_indptr[i] + d * (m + 1) + h)
    wrong = trees != structure.truth[first : first + m]
    return features, wrong @ structure.costs[first : first + m]


def moved(features, losses, weights, shares, scale, most):
    """Shares and weights after moves from the worst tree to the best, by the definition."""
    weights, shares, first_gain = weights.copy(), shares.copy(), None
    for _ in range(most):
        scores = features @ weights + losses
        best = int(scores.argmax())
        worst = int(np.where(shares > 0.0, scores, np.inf).argmin())
        gain = scores[best] - scores[worst]
        first_gain = gain if first_gain is None else first_gain
        if gain <= 0.0 or (gain < first_gain and gain <= 0.3 * first_gain):
            break
        difference = features[best] - features[worst]
        step = min(shares[worst], gain / (scale * difference @ difference))
        shares[best] += step
        shares[worst] -= step
        weights -= step * scale * difference
    return shares, weights


@pytest.mark.parametrize("bits", BITS)
def test_indices_of_an_arc_are_its_features(bits):
    problem = made_problem(bits)
    weights = np.random.RandomState(0).randn(problem.n_weights)
    for row in range(0, int(problem.structure.parts_indptr[-1]), 7):
        slots, counts = slots_of(problem.rows, row), np.zeros(problem.n_weights)
        add_arc(problem.rows, counts, row)
        assert np.array_equal(np.bincount(slots, minlength=len(weights)), counts)
        assert weights[slots].sum() == pytest.approx(arc_score(problem.rows, weights, row))


@pytest.mark.parametrize("n_weights", [3, 50, 5000])
def test_products_count_shared_indices(n_weights):
    random = np.random.RandomState(n_weights)
    sizes = random.randint(1, 30, 20)
    slots = random.randint(0, n_weights, sizes.sum()).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    gram = np.full((20, 20), np.nan)
    products(indptr, slots, gram)
    dense = [
        np.bincount(slots[low:high], minlength=n_weights)
        for low, high in zip(indptr[:-1], indptr[1:], strict=True)
    ]
    assert np.array_equal(gram, np.dot(dense, np.transpose(dense)))


@pytest.mark.parametrize("bits", BITS)
def test_a_visit_makes_the_moves_of_the_definition(bits):
    problem = made_problem(bits)
    for i, m in enumerate(LENGTHS):
        atoms, weights = mixtures(problem, 8)
        trees, shares = trees_of(problem, atoms, i)
        arcs = sum(len(set(heads)) for heads in trees.T if len(set(heads)) > 1)
        assert (arcs > MOST_ARCS) == (m == LENGTHS[-1])
        features, losses = written_out(problem, trees, i)
        most = 1 if arcs > MOST_ARCS else 20
        expected = moved(features, losses, weights, shares, problem.scales[i], most)
        kept = {tuple(tree): share for tree, share in zip(trees, expected[0]) if share > 0.0}
        revisit_steps(
            problem.structure, problem.rows, problem.scales, np.array([i]), weights, atoms
        )
        found = {tuple(tree): share for tree, share in zip(*trees_of(problem, atoms, i))}
        assert found == pytest.approx(kept)
        np.testing.assert_allclose(weights, expected[1], atol=1e-12)


@pytest.mark.parametrize("bits", BITS)
def test_the_dual_never_decreases(bits):
    problem = made_problem(bits)
    atoms, weights = mixtures(problem, 8)
    dual = problem.concave(atoms) - problem.penalty(weights)
    for i in np.random.RandomState(0).permutation(np.repeat(np.arange(len(LENGTHS)), 30)):
        revisit_steps(
            problem.structure, problem.rows, problem.scales, np.array([i]), weights, atoms
        )
        before, dual = dual, problem.concave(atoms) - problem.penalty(weights)
        assert dual >= before - 1e-12
    np.testing.assert_allclose(weights, problem.weights_of(atoms), atol=1e-9)


def test_batches_make_the_same_moves_with_any_number_of_threads():
    problem = made_problem(8)
    order = np.arange(1, len(LENGTHS))
    atoms, weights = mixtures(problem, 8)
    revisit_steps(problem.structure, problem.rows, problem.scales, order, weights, atoms)
    problem.batch = 3
    for n_threads in (1, 2, 3):
        problem.n_threads = n_threads
        found, moving = mixtures(problem, 8)
        visits = Visits(order, np.empty(0), np.empty(0), np.zeros(len(LENGTHS)))
        revisit_batches(problem, visits, moving, found)
        assert np.array_equal(moving, weights)
        for i in range(len(LENGTHS)):
            for mine, other in zip(trees_of(problem, found, i), trees_of(problem, atoms, i)):
                assert np.array_equal(mine, other)
