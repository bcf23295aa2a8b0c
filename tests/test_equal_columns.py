"""Equal columns of sparse features, merged: the same problem with fewer weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from maxmargin import MulticlassClassifier, SequenceLabeler
from maxmargin.estimators import _kernel
from maxmargin.features import equal_columns
from maxmargin.features.equal_columns import merge_columns


def with_equal_columns(rng, n_rows=40, n_features=60):
    """Sparse rows with columns that are equal, empty, or differ in one value only."""
    X = rng.random((n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.15)
    X[:, 20:30] = X[:, [3, 3, 3, 7, 7, 8, 8, 8, 8, 8]]
    X[:, 30:33] = 0.0
    X[:, 33] = 2.0 * X[:, 3]
    return X[:, rng.permutation(n_features)]


def test_scores_and_norms_are_those_of_all_columns():
    rng = np.random.default_rng(0)
    X = with_equal_columns(rng)
    rows = sp.csr_array(X)
    for at in range(len(X)):  # the order within a row makes no difference
        part = slice(rows.indptr[at], rows.indptr[at + 1])
        order = rng.permutation(rows.indptr[at + 1] - rows.indptr[at])
        rows.indices[part], rows.data[part] = rows.indices[part][order], rows.data[part][order]
    small, equal = merge_columns(rows)
    distinct = {column.tobytes() for column in X.T}
    assert small.shape == (len(X), len(distinct))
    assert (np.diff(np.count_nonzero(small.toarray(), axis=0)) <= 0).all()  # frequent first
    weights = rng.normal(size=(small.shape[1] + 2, 3))
    whole = equal.spread(weights.ravel(), 3).reshape(-1, 3)
    assert_allclose(small @ weights[:-2], X @ whole[:-2], atol=1e-13)
    assert_allclose((weights**2).sum(), (whole**2).sum())
    assert (whole[-2:] == weights[-2:]).all()
    for column in range(X.shape[1]):
        same = [j for j in range(X.shape[1]) if (X[:, j] == X[:, column]).all()]
        assert len(set(equal.place[same])) == 1


def test_entries_in_parts_and_hashes_that_collide(monkeypatch):
    rows = sp.csr_array((np.array([1.0, 2.0, 3.0, 3.0]), [0, 0, 1, 2], [0, 4]), shape=(1, 3))
    small, equal = merge_columns(rows)
    assert small.shape == (1, 1) and equal.place.tolist() == [0, 0, 0]
    assert_allclose(small.toarray(), 3.0 * np.sqrt(3.0))
    X = sp.csr_array(with_equal_columns(np.random.default_rng(1)))
    monkeypatch.setattr(
        equal_columns,
        "_hashes",
        lambda X: (np.zeros(X.shape[1], np.uint64), np.diff(X.tocsc().indptr)),
    )
    small, equal = merge_columns(X)
    assert (small != X).nnz == 0 and equal.place.tolist() == list(range(X.shape[1]))


@pytest.mark.parametrize("surrogate", ["max-margin", "crf"])
def test_fits_are_the_same(surrogate, monkeypatch):
    rng = np.random.default_rng(2)
    X = [sp.csr_array(with_equal_columns(rng, 5)) for _ in range(30)]
    X = [sp.csr_array(x[:, np.r_[0:60, 0:60]]) for x in X]  # every column twice
    y = [rng.integers(0, 3, 5) for _ in X]
    flat, labels = sp.vstack(X).tocsr(), np.concatenate(y)
    found = []
    for many in (1, 1 << 60):
        monkeypatch.setattr(_kernel, "_MANY_WEIGHTS", many)
        model = SequenceLabeler(surrogate, tol=1e-9, max_iter=3000, random_state=0).fit(X, y)
        classes = MulticlassClassifier(surrogate, tol=1e-9, max_iter=3000).fit(flat, labels)
        found.append((model, classes))
    for merged, plain in zip(*found, strict=True):
        assert merged.alpha_ == pytest.approx(plain.alpha_, rel=1e-12)
        # Strongly convex: both are within sqrt(2 gap / alpha) of the same optimum.
        off = sum(np.sqrt(2.0 * model.gap_ / model.alpha_) for model in (merged, plain))
        assert np.linalg.norm(merged.coef_ - plain.coef_) <= off
        assert merged.primal_ == pytest.approx(plain.primal_, rel=2e-9)
        assert merged.coef_.shape == plain.coef_.shape
