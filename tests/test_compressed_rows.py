"""Arrays that are mostly zero are stored as CSR rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.features.rows import pack_rows


@pytest.mark.parametrize("n_features", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compressed_rows_are_those_of_scipy(n_features, dtype):
    rng = np.random.RandomState(0)
    X = (rng.randn(50, n_features) * (rng.rand(50, n_features) < 0.2)).astype(dtype)
    X[3] = 0.0
    X[4] = -0.0
    rows, expected = pack_rows(X, fit_intercept=True), sp.csr_array(X)
    assert not rows.is_dense
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(rows._asdict()[name], getattr(expected, name))
    assert np.allclose(rows.squares, (X.astype(np.float64) ** 2).sum(axis=1) + 1.0, rtol=1e-12)
