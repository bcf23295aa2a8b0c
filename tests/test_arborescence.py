"""Directed spanning trees: argmax, marginals, sampling and moves against the list of all trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2

from maxmargin._kernels.arborescence import best_trees
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.matrix_tree import careful_marginals, matrix_tree_work, tree_marginals
from tree_moves import (
    can_move,
    draw_trees,
    draw_uniform_trees,
    enumerate_trees,
    move,
    wrong_heads,
)

DRAWS = 20_000
ROOTS = pytest.mark.parametrize("single_root", [False, True])


@compiled
def marginals_of(scores, single_root, careful):
    """Marginals and ``log Z`` of one table of scores, ``(n, n + 1)``; -inf forbids an arc."""
    n = scores.shape[0]
    table = scores.copy()
    mu = np.zeros((n, n + 1))
    for d in range(n):
        table[d, d + 1] = -np.inf
    work = np.empty(matrix_tree_work(n))
    if careful:
        return mu, careful_marginals(table, single_root, work, mu)
    return mu, tree_marginals(table, single_root, work, mu)


def is_tree(heads, single_root):
    for word in range(1, len(heads) + 1):
        node, steps = word, 0
        while node and steps <= len(heads):
            node, steps = heads[node - 1], steps + 1
        if node:
            return False
    return not single_root or list(heads).count(0) == 1


TREES = {
    (n, single): np.array(
        [y for y in itertools.product(range(n + 1), repeat=n) if is_tree(y, single)]
    )
    for n in range(1, 6)
    for single in (False, True)
}


def find(tables, single_root):
    """Heads and scores of the best trees of some tables."""
    lengths = [len(table) for table in tables]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    heads, values = np.empty(indptr[-1], np.int32), np.empty(len(tables))
    flat = np.concatenate([np.asarray(table, float).ravel() for table in tables])
    best_trees(flat, indptr, single_root, heads, values)
    return np.split(heads, indptr[1:-1]), values


def random_tables(count, random, largest=5):
    """Normal scores, integers full of ties, and some with forbidden arcs."""
    for k in range(count):
        n = random.randint(1, largest + 1)
        table = random.randn(n, n + 1) if k % 2 else random.randint(0, 3, (n, n + 1)) * 1.0
        if k % 3 == 0:
            table[random.rand(n, n + 1) < 0.3] = -np.inf
        yield table


def scores_of(table, trees):
    return table[np.arange(len(table)), trees].sum(axis=1)


def test_all_trees_are_listed():
    for (n, single), trees in TREES.items():
        np.testing.assert_array_equal(enumerate_trees(n, single), trees)
        assert len(trees) == (n ** (n - 1) if single else (n + 1) ** (n - 1))  # Cayley


# --- the best tree ----------------------------------------------------------------------------


@ROOTS
def test_the_best_tree_is_that_of_enumeration(single_root):
    tables = list(random_tables(5_000, np.random.RandomState(single_root)))
    impossible = 0
    for table, heads, value in zip(tables, *find(tables, single_root), strict=True):
        best = scores_of(table, TREES[len(table), single_root]).max()
        if best == -np.inf:
            impossible += 1
            assert value == -np.inf
            continue
        assert is_tree(heads, single_root)
        # Sums of at most five numbers of size 3: rounding is below 1e-14.
        assert value == pytest.approx(best, abs=1e-13)
        assert scores_of(table, heads[None])[0] == pytest.approx(value, abs=1e-13)
    assert 100 < impossible < 1000


def networkx_best(table):
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    for d, row in enumerate(table, start=1):
        graph.add_weighted_edges_from((h, d, s) for h, s in enumerate(row) if h != d)
    tree = networkx.maximum_spanning_arborescence(graph)
    return sum(data["weight"] for _, _, data in tree.edges(data=True))


def test_larger_trees_agree_with_networkx():
    random = np.random.RandomState(0)
    tables = [random.randn(n, n + 1) for n in (6, 9, 14, 25) for _ in range(4)]
    # Strong cycles: words in pairs that prefer each other, contracted again and again.
    for n in (8, 16):
        table = random.rand(n, n + 1)
        for level in (2, 4, 8):
            for a, b in itertools.product(range(n), repeat=2):
                table[a, b + 1] += 3.0 * (a // level == b // level)
        tables.append(table)
    _, values = find(tables, False)
    for table, value in zip(tables, values, strict=True):
        assert value == pytest.approx(networkx_best(table), abs=1e-11)


def test_a_single_root_is_the_best_over_all_roots():
    random = np.random.RandomState(1)
    for scale in (1.0, 1e9):  # a penalty on arcs from the root would lose all digits of the rest
        tables = [random.randn(12, 13) for _ in range(10)]
        for table in tables:
            table[:, 0] += scale
        found, values = find(tables, True)
        for table, heads, value in zip(tables, found, values, strict=True):
            assert is_tree(heads, True)
            rooted = []
            for root in range(12):
                only = table.copy()
                only[np.arange(12) != root, 0] = -np.inf
                only[root, 1:] = -np.inf
                rooted.append(only)
            best = find(rooted, False)
            assert value == best[1].max()
            np.testing.assert_array_equal(heads, best[0][best[1].argmax()])


@pytest.mark.more
@given(st.data())
def test_ties_are_broken_the_same_way_every_time(data):
    n = data.draw(st.integers(1, 5))
    single = data.draw(st.booleans())
    values = st.sampled_from([0.0, 1.0, -np.inf])
    row = st.lists(values, min_size=n + 1, max_size=n + 1)
    table = np.array(data.draw(st.lists(row, min_size=n, max_size=n)))
    [heads, again], [value, other] = find([table, table.copy()], single)
    assert value == other == scores_of(table, TREES[n, single]).max()
    if value > -np.inf:
        assert is_tree(heads, single)
        np.testing.assert_array_equal(heads, again)
    # The smallest difference decides; sums of such numbers are exact in any order.
    preferred = np.where(np.arange(n + 1) == n, table + 2.0**-30, table)
    assert find([preferred], single)[1][0] == scores_of(preferred, TREES[n, single]).max()


# --- marginals --------------------------------------------------------------------------------


@pytest.mark.parametrize("careful", [False, True])
@ROOTS
def test_marginals_are_those_of_enumeration(single_root, careful):
    random = np.random.RandomState(2)
    possible = 0
    for k, table in enumerate(random_tables(600, random)):
        table = table * (1.0, 10.0, 100.0, 2000.0)[k % 4]
        n = len(table)
        trees = TREES[n, single_root]
        scores = scores_of(table, trees)
        mu, log_z = marginals_of(table, single_root, careful)
        if scores.max() == -np.inf:
            assert log_z == -np.inf
            continue
        possible += 1
        # Logarithms of up to 3e4 are exact to 4e-12, and so are probabilities.
        assert log_z == pytest.approx(logsumexp(scores), rel=1e-11, abs=2e-11)
        wanted = np.zeros((n, n + 1))
        for y, p in zip(trees, np.exp(scores - logsumexp(scores)), strict=True):
            wanted[np.arange(n), y] += p
        np.testing.assert_allclose(mu, wanted, atol=5e-11)
    assert possible > 500


@ROOTS
def test_both_ways_to_marginals_agree(single_root):
    random = np.random.RandomState(3)
    for scale in (0.1, 1.0, 5.0):
        table = scale * random.randn(14, 15)
        (mu, log_z), (other, other_z) = (
            marginals_of(table, single_root, careful) for careful in (False, True)
        )
        np.testing.assert_allclose(mu, other, atol=3e-11)
        assert log_z == pytest.approx(other_z, rel=1e-11)
        np.testing.assert_allclose(mu.sum(axis=1), 1.0, atol=1e-13)
        if single_root:
            assert mu[:, 0].sum() == pytest.approx(1.0, abs=1e-10)


# --- random trees -----------------------------------------------------------------------------


def surprise(found, trees, probabilities):
    """Probability of counts as far from the expected ones, by Pearson's chi-square."""
    base = (trees.max() + 1) ** np.arange(trees.shape[1])
    codes = dict(zip((trees @ base).tolist(), range(len(trees)), strict=True))
    counts = np.bincount([codes[code] for code in (found @ base).tolist()], minlength=len(trees))
    expected = len(found) * probabilities
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(trees) - 1)


@ROOTS
def test_uniform_trees_are_uniform(single_root):
    state = np.array([7], np.uint64)
    for n in (1, 3, 4):
        trees = TREES[n, single_root]
        found = draw_uniform_trees(n, single_root, DRAWS, state)
        # Fixed seed: this fails only if the code changes, and then with probability 1e-4.
        assert len(trees) == 1 or surprise(found, trees, np.full(len(trees), 1 / len(trees))) > 1e-4


@ROOTS
def test_random_trees_follow_the_weights(single_root):
    random, state = np.random.RandomState(4), np.array([8], np.uint64)
    for n in (3, 4):
        table = random.randn(n, n + 1)
        table[0, n] = -np.inf
        trees = TREES[n, single_root]
        mu, log_z = marginals_of(table, single_root, False)
        roots = mu[:, 0].copy() if single_root else np.empty(0)
        found = draw_trees(np.exp(table), roots, DRAWS, state)
        scores = scores_of(table, trees)
        possible = scores > -np.inf
        assert surprise(found, trees[possible], np.exp(scores[possible] - log_z)) > 1e-4


# --- moves ------------------------------------------------------------------------------------


@compiled
def neighbours(heads, single_root, found):
    """Trees one move away."""
    count = 0
    for word in range(heads.shape[0]):
        for head in range(heads.shape[0] + 1):
            if can_move(heads, word, head, single_root):
                found[count] = heads
                move(found[count], word, head, single_root)
                count += 1
    return count


@ROOTS
def test_moves_lead_from_every_tree_to_every_other(single_root):
    for n in (1, 2, 3, 4):
        trees = TREES[n, single_root].astype(np.int32)
        reached, left = {tuple(trees[0])}, [trees[0]]
        while left:
            heads = left.pop()
            found = np.empty((n * (n + 1), n), np.int32)
            count = neighbours(heads, single_root, found)
            for other in found[:count]:
                assert is_tree(other, single_root)
                assert 1 <= wrong_heads(other, heads) <= (2 if single_root else 1)
                if tuple(other) not in reached:
                    reached.add(tuple(other))
                    left.append(other)
        assert len(reached) == len(trees)


@pytest.mark.parametrize("careful", [False, True])
def test_a_single_root_is_kept_whatever_the_scores(careful):
    """Trees with two roots are impossible, also where their scores are larger by any number."""
    random = np.random.RandomState(0)
    for scale in (1.0, 1e4, 1e5, 1e9):
        table = scale * random.randn(4, 5)
        table[:, 0] = scale * np.array([50.0, 50.0, 1.0, 2.0])  # two words want the root
        mu, log_z = marginals_of(table, True, careful)
        assert np.isfinite(log_z)
        assert mu[:, 0].sum() == pytest.approx(1.0, abs=1e-9)
        assert mu.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-9)
