"""Weights that are hardly coupled with others: their centre moves towards the dual point."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import Partitioned, SequenceLabeler
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from maxmargin.features.couplings import Couplings, couplings_of
from maxmargin.features.rows import pack_rows
from maxmargin.solvers import partitions
from maxmargin.solvers._centre_kernel import _BACK, _PULL, move_centre, pull_centre
from test_partitions import Losing, bits, on

RNG = np.random.RandomState(0)
LENGTHS = RNG.randint(2, 12, 300)
COLUMNS = 1500
# Five columns that half of the positions have, and ten of many others, on which the tags depend.
COMMON = [RNG.rand(n, 5) < 0.5 for n in LENGTHS]
RARE = [RNG.rand(n, COLUMNS) < 10.0 / COLUMNS for n in LENGTHS]
SENTENCES = [sp.csr_matrix(np.c_[a, b].astype(float)) for a, b in zip(COMMON, RARE, strict=True)]
TRUTH = RNG.randn(COLUMNS)
TAGS = [
    (a.sum(axis=1) - 2.5 + b @ TRUTH > 0.0).astype(int) for a, b in zip(COMMON, RARE, strict=True)
]


def tagger(n_partitions, **params):
    params = {"solver": Partitioned("auto", n_partitions), "random_state": 0, **params}
    return SequenceLabeler(**params)


@pytest.fixture
def known(monkeypatch):
    """What was found for the weights in every fit."""
    found = []
    whole = partitions._apartness

    def heard(*args):
        found.append(whole(*args))
        return found[-1]

    monkeypatch.setattr(partitions, "_apartness", heard)
    return found


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_couplings_are_row_sums_of_the_gram_matrix_of_columns(dense, fit_intercept):
    X = RNG.randn(9, 4) * (RNG.rand(9, 4) < 0.7)
    structure = SimpleNamespace(n_weights=lambda n_inputs: 3 * n_inputs + 7)
    rows = pack_rows(X if dense else sp.csr_matrix(X), fit_intercept=fit_intercept, compress=False)
    found = couplings_of(structure, rows)
    full = np.abs(np.c_[X, np.ones(9)] if fit_intercept else X)
    np.testing.assert_allclose(found.sums, (full.T @ full).sum(axis=1), rtol=1e-13)
    assert found.n_columns == 3
    assert couplings_of(structure, rows._replace(seen=np.ones(1, np.uint8))) is None
    assert couplings_of(structure, rows._replace(in_kernel_space=True)) is None


def test_the_centre_goes_towards_the_dual_point():
    weights, before, centre = RNG.randn(3, 8)
    apartness = np.r_[np.zeros(4), RNG.rand(4)]
    bare = 4.0 * weights - 3.0 * centre
    momentum = 0.6 * (1.0 - apartness) - _BACK * apartness
    there = weights + momentum * (weights - before) + _PULL * apartness * (bare - weights)
    plain, pulled = ([v.copy() for v in (weights, before, centre)] for _ in range(2))
    move_centre(*plain, 0.6, 3.0, 2.0)
    pull_centre(*pulled, apartness, 0.6, 3.0, 2.0)
    np.testing.assert_allclose(pulled[2], there, rtol=1e-12)
    np.testing.assert_allclose(pulled[0], (bare + 2.0 * there) / 3.0, rtol=1e-12)
    np.testing.assert_array_equal(pulled[1], weights)
    for a, b in zip(plain, pulled, strict=True):  # the dual point stays where it was
        np.testing.assert_allclose(a[:4], b[:4], rtol=1e-13)
    np.testing.assert_allclose(3.0 * pulled[0] - 2.0 * pulled[2], bare, rtol=1e-12)


def test_weights_are_apart_where_columns_are_rare():
    problem = SimpleNamespace(alpha=0.1, total_weight=20.0, n_parts=4, n_weights=8)
    unit = 2.0 * partitions._COUPLED * 4
    parts = [Couplings(np.array([0.0, unit, 4e9]), 2), Couplings(np.zeros(3), 2)]
    found = partitions._apartness(problem, parts)
    np.testing.assert_allclose(found, [1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0], atol=1e-6)
    assert partitions._apartness(problem, [*parts, None]) is None
    assert partitions._apartness(problem, [Couplings(np.full(3, 1e9), 2)]) is None


@pytest.mark.parametrize(("n_partitions", "used"), [(2, False), (4, True), (8, True)])
def test_the_certificate_stays_true(n_partitions, used, known):
    whole = SequenceLabeler(random_state=0, tol=1e-4).fit(SENTENCES, TAGS)
    model = tagger(n_partitions, tol=1e-3).fit(SENTENCES, TAGS)
    assert bool(known) == used and all(found is not None for found in known)
    assert model.status_ == "converged"
    for check in model.history_:
        assert check.dual <= whole.primal_ + 1e-9 and whole.dual_ <= check.primal + 1e-9


def test_fewer_rounds_where_columns_are_rare(monkeypatch):
    found = tagger(8, tol=0.05).fit(SENTENCES, TAGS)
    monkeypatch.setattr(partitions, "_apartness", lambda *args: None)
    assert found.n_iter_ < tagger(8, tol=0.05).fit(SENTENCES, TAGS).n_iter_


def test_the_number_of_threads_changes_no_bit(known):
    found = [bits(tagger(5, n_jobs=n, tol=0.02).fit(SENTENCES, TAGS)) for n in (None, 1, 2, 3)]
    assert len(set(found)) == 1 and len(known) == 4


@pytest.mark.parametrize(("name", "number"), [("couplings", 1), ("round", 3)])
def test_a_lost_partition_leaves_the_certificate_true(name, number, known):
    whole = SequenceLabeler(random_state=0, tol=1e-4).fit(SENTENCES, TAGS)
    engine = Losing(name, number)
    model = on(engine, SequenceLabeler(random_state=0, tol=1e-2), SENTENCES, TAGS, 5)
    assert engine.met >= number and known[0] is not None
    assert model.status_ == "converged"
    for check in model.history_:
        assert check.dual <= whole.primal_ + 1e-9 and whole.dual_ <= check.primal + 1e-9


def test_a_checkpoint_continues_bit_for_bit(tmp_path, known):
    path, params = tmp_path / "run", {"tol": 1e-2}
    whole = tagger(5, **params).fit(SENTENCES, TAGS)

    def write(state):
        if state.solver.calls <= 3 * len(TAGS):
            write_checkpoint(path, {}, state)

    first = tagger(5, callbacks=lambda check: check.passes < 4, **params)
    first._recorder = Recorder(write, 0.0)
    first.fit(SENTENCES, TAGS)
    second = tagger(5, n_jobs=2, **params)
    second._recorder = Recorder(lambda state: None, 1e9, read_checkpoint(path)[1])
    assert bits(second.fit(SENTENCES, TAGS)) == bits(whole)
    assert all(found is not None for found in known)
