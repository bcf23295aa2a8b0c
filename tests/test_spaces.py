"""Output spaces: counts, membership, moves, uniform draws, distortions, and errors that name."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import chisquare

from maxmargin import DAG, Arborescence, LabelSequence, Permutation, Subset
from maxmargin.latent.kernels.space_moves import draw_sets

SPACES = {
    "trees": Arborescence(4),
    "acyclic": DAG(4, 2),
    "subsets": Subset(6, 3),
    "permutations": Permutation(4),
    "labels": LabelSequence(3, 3),
}
SIZES = {"trees": 64, "acyclic": 443, "subsets": 20, "permutations": 24, "labels": 27}


def key(y):
    return tuple(map(tuple, y)) if isinstance(y, list) else tuple(np.asarray(y).tolist())


def test_numbers_of_outputs():
    assert Arborescence(4).count() == 64 and Arborescence(3).count() == 9
    assert DAG(4, 2).count() == 443 and DAG(3, 2).count() == 25 and DAG(4, 3).count() == 543
    assert Subset(9, 3).count() == 84 and Subset(100, 4).count() == 3_921_225
    assert Permutation(5).count() == 120 and LabelSequence(3, 4).count() == 81


@pytest.mark.parametrize("name", SPACES)
def test_enumeration_is_the_space_and_moves_connect_it(name):
    space = SPACES[name]
    outputs = {key(y): y for y in space.enumerate()}
    assert len(outputs) == SIZES[name] == space.count()
    neighbours = {}
    for k, y in outputs.items():
        assert key(space.check(y)) == k
        neighbours[k] = [key(z) for z in space.moves(y)]
        assert len(set(neighbours[k])) == len(neighbours[k]) and k not in neighbours[k]
        assert set(neighbours[k]) <= set(outputs)
    assert all(k in neighbours[z] for k in neighbours for z in neighbours[k])
    reached, pending = set(), [next(iter(outputs))]
    while pending:
        k = pending.pop()
        if k not in reached:
            reached.add(k)
            pending += neighbours[k]
    assert reached == set(outputs)


@pytest.mark.parametrize("name", ["trees", "acyclic", "subsets"])
def test_many_outputs_at_once_are_what_each_of_them_is(name):
    space, rng = SPACES[name], np.random.RandomState(0)
    outputs = [list(y)[::-1] if name != "trees" else y for y in space.enumerate()]
    one_by_one = np.array([space.to_set(y) for y in outputs])
    for many in (outputs, [np.asarray(y).tolist() for y in outputs]):
        assert np.array_equal(space._at_once(many), one_by_one)
        assert np.array_equal(space.to_sets(many), one_by_one)
    table = {tuple(row) for row in one_by_one}
    high = space.n_elements if name == "subsets" else space.n_nodes
    for _ in range(300):  # anything of the right form: refused with its place unless a member
        if name == "acyclic":
            wild = rng.randint(-1, high + 1, size=(rng.randint(1, 5), 2)).tolist()
        else:
            wild = rng.randint(-1, high + 1, size=len(outputs[0])).tolist()
        try:
            rows = space.to_sets([outputs[1], wild])
        except ValueError as error:
            assert "y[1]" in str(error)
            with pytest.raises(ValueError, match=re.escape(str(error))):
                space.to_set(wild, "y[1]")
        else:
            assert tuple(rows[1]) in table and np.array_equal(rows[1], space.to_set(wild))


def test_moves_are_all_members_that_differ_in_one_element():
    space = DAG(3, 1)
    outputs = [frozenset(y) for y in space.enumerate()]
    for y in outputs:
        expected = {z for z in outputs if z != y and len(z - y) <= 1 and len(y - z) <= 1}
        assert {frozenset(z) for z in space.moves(sorted(y))} == expected


@pytest.mark.parametrize("name", ["trees", "acyclic", "subsets"])
def test_compiled_draws_are_uniform(name):
    space = SPACES[name]
    rows = np.full((60 * SIZES[name], space.packed().width + 1), -1, np.int32)
    draw_sets(space.packed(), 7, rows)
    counts = {key(y): 0 for y in space.enumerate()}
    for row in rows:
        counts[key(space.from_set(row))] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_the_walk_over_acyclic_graphs_is_uniform_too():
    space = DAG(4, 2)
    rows = np.full((20 * 443, space.packed().width + 1), -1, np.int32)
    draw_sets(space._bare(), 3, rows)  # without its list, as for more than 5 nodes
    counts = {key(y): 0 for y in space.enumerate()}
    for row in rows:
        counts[key(space.from_set(row))] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("name", SPACES)
def test_draws_follow_the_seed(name):
    space = SPACES[name]
    assert key(space.draw(3)) == key(space.draw(3))
    assert len({key(space.draw(seed)) for seed in range(30)}) > 5
    large = DAG(8, 2)
    assert key(large.check(large.draw(0))) == key(large.draw(0))


def test_distortions():
    trees = Arborescence(4)
    assert trees.distortion([-1, 0, 0, 0], [(0, 1), (0, 2), (0, 3)]) == 0.0
    assert trees.distortion([-1, 0, 0, 0], [-1, 0, 0, 1]) == pytest.approx(1 / 3)
    assert trees.distortion([-1, 0, 1, 2], [1, 2, 3, -1]) == 1.0
    dags = DAG(4, 2)
    assert dags.distortion([], []) == 0.0 and dags.distortion([], [(0, 1)]) == 1.0
    assert dags.distortion([(0, 1)], [(0, 1), (0, 2)]) == pytest.approx(1 / 3)
    assert Subset(9, 3).distortion([0, 1, 2], [2, 3, 4]) == pytest.approx(2 / 3)
    assert Permutation(4).distortion([0, 1, 2, 3], [1, 0, 2, 3]) == 0.5


def test_uniform_draws_of_distortion_one():
    """What the paper's Assumption A is about, by enumeration."""
    outputs = list(Arborescence(4).enumerate())
    far = np.mean([Arborescence(4).distortion(outputs[0], y) == 1.0 for y in outputs])
    assert far == (1 - 1 / 4) ** 3
    graphs = [frozenset(y) for y in DAG(4, 2).enumerate()]
    least = min(np.mean([y.isdisjoint(z) for z in graphs]) for y in graphs)
    assert least == pytest.approx(73 / 443)
    assert DAG(4, 2).distortion([(0, 1)], [(1, 0)]) == 1.0  # disjoint graphs differ by 1
    assert math.comb(6, 3) / math.comb(9, 3) == pytest.approx(0.238, abs=5e-4)


@pytest.mark.parametrize(
    ("space", "y", "message"),
    [
        (Arborescence(4), [0, 0, 0, 0], r"y\[2\] holds the edge \(0, 0\)"),
        (Arborescence(4), [1, 0, 0, 0], r"y\[2\] is not a tree: the edge \((0, 1|1, 0)\) is on a"),
        (Arborescence(4), [-1, -1, 0, 0], r"y\[2\] is not a spanning tree: it has 2 edges"),
        (Arborescence(4), [-1, 0, 0], r"y\[2\] has 3 entries; expected the parent of each of 4"),
        (Arborescence(4), [(0, 1), (2, 1), (0, 3)], r"node 1 of the edge \(0, 1\) has 2 parents"),
        (Arborescence(4), [(0, 1), (0, 9), (0, 3)], r"y\[2\] holds the edge \(0, 9\)"),
        (DAG(4, 2), [(0, 1), (1, 2), (2, 0)], r"not acyclic: the edge \(\d, \d\) is on a cycle"),
        (DAG(4, 1), [(0, 2), (1, 2)], r"node 2 of the edge \(0, 2\) has 2 parents; expected at m"),
        (DAG(4, 2), [(0, 1), (0, 1)], r"holds the edge \(0, 1\) twice"),
        (DAG(4, 2), [5], r"holds 5; expected edges"),
        (Subset(5, 2), [0, 0], r"y\[2\] holds element 0 twice"),
        (Subset(5, 2), [0, 7], r"y\[2\] holds element 7; expected 0, ..., 4"),
        (Subset(5, 2), [0, 1, 2], r"y\[2\] has 3 elements; expected exactly 2"),
        (Subset(5, 2), [0.5, 1], r"y\[2\] holds 0.5"),
        (Permutation(3), [0, 1, 1], r"y\[2\] is not a permutation: it holds 1 at place 1"),
        (Permutation(3), [0, 1], r"y\[2\] has 2 entries"),
        (LabelSequence(2, 3), [0, 1, 2], r"y\[2\] holds 2 at position 2"),
        (Subset(5, 2), "ab", r"y\[2\] must be a list"),
    ],
)
def test_errors_name_the_place(space, y, message):
    with pytest.raises(ValueError, match=message):
        space.check(y, "y[2]")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Arborescence(1), "at least 2 nodes"),
        (DAG(1), "at least 2 nodes"),
        (Subset(3, 3), "size must be below n_elements=3"),
        (Subset(3, 0), "size must be an integer >= 1"),
        (DAG(4, 0), "max_parents must be an integer >= 1"),
    ],
)
def test_spaces_that_are_none(space, message):
    with pytest.raises(ValueError, match=message):
        space.packed()


def test_too_many_outputs_are_not_listed():
    with pytest.raises(ValueError, match="too many outputs"):
        Subset(100, 8).listed()
    with pytest.raises(ValueError, match="too many outputs"):
        Permutation(20).enumerate()
