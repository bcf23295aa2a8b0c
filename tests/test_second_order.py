"""Trees with siblings and grandparents: argmax, parts, features and optimum by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.features.second_order import pack_second
from maxmargin.structures.second_order import pack_second_trees
from tree_moves import enumerate_trees

WORDS = ("the", "old", "dog", "sees", "cats")
TAGS = ("DET", "ADJ", "NOUN", "VERB", "NOUN")
TEMPLATES = ("upos | upos", "form | upos")
SECOND = (("upos | upos | upos", "| form | form"), ("upos | upos | upos", "form || form"))


def crosses(heads):
    """Whether an arc covers a word that is not a descendant of its head."""
    heads = [0, *heads]
    for d in range(1, len(heads)):
        h = heads[d]
        for word in range(min(h, d) + 1, max(h, d)):
            node = word
            while node not in (0, h):
                node = heads[node]
            if node != h:
                return True
    return False


def rows_of(n, bits=12):
    sentence = {"form": WORDS[:n], "upos": TAGS[:n]}
    return pack_second([sentence], TEMPLATES, "upos", SECOND, bits)


def structure_of(n, truth, single_root, allowed=None):
    allowed = np.ones((n, n + 1), bool) if allowed is None else allowed.copy()
    allowed[np.arange(n), np.arange(1, n + 1)] = False
    truth = np.asarray(truth, np.int32)
    return pack_second_trees(truth, np.array([0, n]), single_root, allowed.ravel())


@compiled
def look(structure, rows, weights, trees, scores, features, best):
    """Scores of parts and of trees, features of trees, and the best tree."""
    size = generic.block_size(structure, 0)
    generic.score_block(structure, rows, weights, 0, scores)
    values = np.empty(trees.shape[0])
    mu, parts = np.empty(size), np.empty(generic.most_parts(structure), np.int32)
    for t in range(trees.shape[0]):
        generic.embed(structure, 0, trees[t], mu)
        values[t] = mu @ scores
        count = generic.output_parts(structure, 0, trees[t], parts)
        for part in parts[:count]:
            mu[part] -= 1.0
        values[t] += np.abs(mu).max()  # nothing, if these are the parts of the tree
        generic.embed(structure, 0, trees[t], mu)
        generic.add_block(structure, rows, features[t], 0, mu, 1.0)
    work = np.full(generic.work_size(structure, rows), np.nan)
    value = generic.decode(structure, 0, scores, work, best)
    work[:] = np.nan
    generic.embed(structure, 0, trees[0], mu)
    norm = generic.squared_norm(structure, rows, 0, mu, work)
    return value, values, norm


def looked_at(structure, rows, weights, trees):
    n = trees.shape[1]
    size = int(structure.parts_indptr[-1])
    scores, features = np.empty(size), np.zeros((len(trees), rows.n_inputs))
    best = np.empty(n, np.int32)
    found = look(structure, rows, weights, trees.astype(np.int32), scores, features, best)
    return *found, features, best


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_the_best_tree_is_that_of_enumeration(n, single_root):
    trees = np.array([t for t in enumerate_trees(n, single_root) if not crosses(t)])
    rows = rows_of(n)
    for seed in range(20):
        random = np.random.RandomState(seed)
        weights = random.randn(rows.n_inputs)
        allowed = random.rand(n, n + 1) < (1.0 if seed % 2 else 0.7)
        allowed[np.arange(n), np.arange(n)] = True  # the word before
        possible = trees[allowed[np.arange(n), trees].all(axis=1)]
        structure = structure_of(n, [], single_root, allowed)
        value, values, norm, features, best = looked_at(structure, rows, weights, possible)
        assert value == pytest.approx(values.max(), abs=1e-10)
        assert values[(possible == best).all(axis=1)] == pytest.approx([value], abs=1e-10)
        np.testing.assert_allclose(features @ weights, values, atol=1e-10)
        assert norm == pytest.approx((features[0] ** 2).sum())


def test_a_true_tree_that_crosses_itself_is_an_output():
    truth = np.array([3, 4, 0, 3, 4])  # 3 -> 1 and 4 -> 2 cross
    assert crosses(truth)
    rows = rows_of(5)
    random = np.random.RandomState(0)
    weights = random.randn(rows.n_inputs)
    structure = structure_of(5, truth, True)
    features = looked_at(structure, rows, weights, truth[None])[3]
    *_, best = looked_at(structure, rows, weights + 10.0 * features[0], truth[None])
    np.testing.assert_array_equal(best, truth)
    found = looked_at(structure._replace(truth=truth[:0]), rows, features[0], truth[None])
    assert not crosses(found[-1])
