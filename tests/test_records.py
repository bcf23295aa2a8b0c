"""NamedTuples and elements of arrays in compiled code mean what they mean in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from maxmargin._kernels import pipeline, records
from maxmargin._kernels.blocks import Blocks, empty_blocks, grow
from maxmargin._kernels.jit import compiled, inner, leaf
from maxmargin.solvers._bcfw_kernel import Trail
from maxmargin.structures.losses import ZeroOneLoss
from maxmargin.structures.multiclass import Multiclass

needs_support = pytest.mark.skipif(
    not pipeline.SUPPORTED, reason="this version of numba compiles everything by default"
)

# Versions that were tried: on these nothing may be compiled by default unnoticed.
TRIED = ("0.61.", "0.68.")


def test_all_of_it_is_in_use_on_versions_that_were_tried():
    if numba.__version__.startswith(TRIED):
        assert pipeline.SUPPORTED


def trail(power=1.0):
    return Trail(np.arange(3.0), np.array([5.0, 6.0]), power)


def same(left, right):
    if isinstance(right, tuple):
        assert len(left) == len(right) and type(left) is type(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    else:
        np.testing.assert_array_equal(left, right)


@inner
def next_trail(old, step):
    correction = np.empty(old.correction.shape[0] + 1)
    correction[:] = float(step)
    return Trail(correction, old.mass, old.power + 1.0)


@inner
def larger(one, other):
    return one if one.power > other.power else other


@compiled
def keeps_the_old_one(now, n):
    old = now
    oldest = now
    total = 0.0
    for step in range(n):
        oldest = old
        old = now
        now = next_trail(now, step)
        total += 100.0 * oldest.power + 10.0 * old.power + now.power + now.correction[-1]
    return total, oldest, old, now


@compiled
def swaps(one, other, n):
    for _ in range(n):
        one, other = other, one
    return one.power, other.power, larger(one, other)


@compiled
def through_a_tuple(now, n):
    pair = (now, 1)
    for step in range(n):
        before = pair
        pair = (next_trail(before[0], step), before[1] + step)
    return pair, before


@compiled
def sometimes(now, n):
    found = 0.0
    for step in range(n):
        if step % 2 == 1:
            other = next_trail(now, step)
            found += other.correction[0] + other.power
    return found


@leaf
def loss_scale(loss):
    return loss.costs.shape[0] + 2.0 * loss.uniform


@leaf
def of_nested(structure, choose):
    loss = structure.loss
    if choose:
        return loss_scale(loss) + structure.truth[0]
    return loss_scale(structure.loss) - structure.n_classes


@compiled
def unpacks(now):
    correction, mass, power = now
    return correction[1] + mass[0] + power + now[2] + now[-1] + len(now)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_variables_do_not_share_memory(n):
    same(keeps_the_old_one(trail(), n), keeps_the_old_one.py_func(trail(), n))
    same(swaps(trail(1.0), trail(2.0), n), swaps.py_func(trail(1.0), trail(2.0), n))
    assert sometimes(trail(), n) == sometimes.py_func(trail(), n)


def test_tuples_that_hold_one():
    same(through_a_tuple(trail(), 4), through_a_tuple.py_func(trail(), 4))


def test_members():
    assert unpacks(trail(3.0)) == unpacks.py_func(trail(3.0))
    structure = Multiclass(np.array([4, 1], np.int32), 7, ZeroOneLoss(np.empty(3), True))
    for choose in (False, True):
        assert of_nested(structure, choose) == of_nested.py_func(structure, choose)


def test_memory_is_freed_once():
    """Arrays made in a kernel and held by what it returns stay, and go when that goes."""
    base = trail()
    counts = [sys.getrefcount(array) for array in base[:2]]
    kept = [keeps_the_old_one(base, 5) for _ in range(200)]
    for total, _, old, now in kept:
        assert now.correction.tolist() == [4.0] * 8 and old.correction.tolist() == [3.0] * 7
        assert total == kept[0][0]
    del kept, total, old, now, _
    assert [sys.getrefcount(array) for array in base[:2]] == counts


@needs_support
def test_they_are_pointers_and_others_are_as_ever():
    assert isinstance(numba.typeof(trail()), records.Record)
    blocks = grow(empty_blocks(3, 5), 40)
    assert type(blocks) is Blocks and len(blocks.index) >= 40

    @numba.njit
    def plain(now, n):  # in functions of others too
        for _ in range(n):
            old = now
            now = Trail(now.correction, now.mass, now.power + 1.0)
        return old.power, now.power

    assert plain(trail(), 5) == (5.0, 6.0)


@compiled
def maybe_none(now, n):
    found = None
    if n > 0:
        found = now
    return found is None


@needs_support
def test_one_that_may_be_none_is_refused():
    with pytest.raises((TypeError, numba.core.errors.TypingError), match="may be None"):
        maybe_none(trail(), 1)


@compiled
def elements(x, matrix, i, j, small):
    return x[i], matrix[i, j], matrix[small, j], matrix[i][j], x[-1], x[small], matrix[-1, 0]


@compiled
def views(x, matrix, a, b):
    return (
        x[a:b].copy(), x[a:].copy(), x[:b].copy(), x[:].copy(), matrix[a:b].copy(),
        matrix[0, a:b].copy(), matrix[a:b, 1].copy(), matrix[:, a:b].copy(), matrix[1].copy(),
    )  # fmt: skip


@compiled
def writes(x, matrix, flags, a, b, value):
    x[a:b] = value
    x[b] += 1
    matrix[a, b] = value
    matrix[0][:] = 2.0
    matrix[1] = 3.0
    matrix[-1, -1] -= value
    flags[a] = x[b] > 1
    return x[a:b].sum()


@pytest.mark.parametrize("layout", ["C", "F", "A"])
def test_elements_and_views_are_those_of_numpy(layout):
    x, matrix = np.arange(6.0), np.arange(36.0).reshape(6, 6) * 1.5
    if layout == "F":
        matrix = np.asfortranarray(matrix)
    if layout == "A":
        x, matrix = np.arange(12.0)[::2], np.arange(144.0).reshape(12, 12)[::2, ::2]
    for i in (0, 3, -1, -6):
        arguments = (x, matrix, i, 2, np.int32(-2))
        same(elements(*arguments), elements.py_func(*arguments))
    for a in (-9, -2, 0, 1, 4, 6, 11):
        for b in (-8, -1, 0, 2, 5, 6, 30):
            same(views(x, matrix, a, b), views.py_func(x, matrix, a, b))


@pytest.mark.parametrize(("a", "b"), [(0, 3), (1, 4), (-5, -1), (4, 2)])
def test_writing(a, b):
    def start():
        return np.arange(6.0), np.arange(36.0).reshape(6, 6), np.zeros(6, bool)

    ours, theirs = start(), start()
    assert writes(*ours, a, b, 7) == writes.py_func(*theirs, a, b, 7)
    same(ours, theirs)


@compiled
def shaped(x, rows, columns):
    return x.reshape(rows, columns)[1, 2], x.reshape((columns, rows)).copy(), x.reshape(-1).shape[0]


def test_reshape():
    x = np.arange(12.0)
    same(shaped(x, 3, 4), shaped.py_func(x, 3, 4))
    same(shaped(x, 4, 3), shaped.py_func(x, 4, 3))
    with pytest.raises(ValueError, match="total size"):
        shaped(x, 3, 5)


@compiled
def mass_of(trails):
    return trails.one.mass[0] + trails.other.mass[0]


class Trails(NamedTuple):
    one: Trail
    other: Trail


Trails.__module__ = Trail.__module__  # as one of the package


@needs_support
def test_arguments_are_read_and_let_go():
    one, other = trail(), trail(2.0)
    arrays = (one.mass, one.correction, other.mass)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(3):
        assert mass_of(Trails(one, other)) == 10.0
    assert [sys.getrefcount(array) for array in arrays] == before
    assert mass_of(Trails(one, other._replace(mass=other.mass[1:]))) == 11.0
    with pytest.raises(ValueError, match="size mismatch"):
        [found] = mass_of.overloads.values()
        found.entry_point(tuple.__new__(Trails, (one,)))


PLAIN = """
{lose}
import numpy as np
from maxmargin import MulticlassClassifier
from maxmargin._kernels import pipeline
X = np.random.RandomState(0).randn(60, 3)
model = MulticlassClassifier(random_state=0, max_iter=200).fit(X, X.argmax(axis=1))
print(pipeline.SUPPORTED, model.score(X, X.argmax(axis=1)), float(model.coef_.sum()))
print(*np.round(model.coef_.ravel(), 3))
"""


@pytest.mark.more
@needs_support
def test_without_what_it_builds_on_all_works_as_by_default(tmp_path):
    def run(lose, folder):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / folder)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PLAIN.format(lose=lose)],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    quick = run("", "quick")
    plain = run("from maxmargin._kernels import records; records.SUPPORTED = False", "plain")
    assert quick[0] == "True" and plain[0] == "False"
    assert quick[1] == plain[1]
    np.testing.assert_allclose(np.float64(quick[3:]), np.float64(plain[3:]), atol=2e-3)
