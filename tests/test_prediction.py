"""Prediction a few sequences at a time: the same answers and errors as all at once."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SequenceLabeler
from maxmargin._kernels.passes import decode_blocks
from maxmargin.features import sequences as module
from maxmargin.features.rows import pack_rows
from maxmargin.features.sequences import open_sequences


def data(n, seed, width=5, density=1.0):
    """Sequences of small integers, for which sums are exact in any order."""
    random = np.random.RandomState(seed)
    X = [random.randint(-3, 4, (length, width)) for length in random.randint(1, 9, n)]
    return [np.where(random.random_sample(x.shape) < density, x, 0).astype(float) for x in X]


@pytest.fixture(scope="module")
def model():
    X = data(40, 0)
    return SequenceLabeler(max_iter=20, tol=0, random_state=0).fit(
        X, [x[:, :3].argmax(1) for x in X]
    )


@pytest.fixture(params=[1, 3, 20])
def few(request, monkeypatch):
    """A limited number of positions is packed at a time."""
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", 8 * 5 * request.param)
    monkeypatch.setattr(module, "_POSITIONS_AT_ONCE", request.param)
    monkeypatch.setattr(module.Sequences, "at_once", request.param)


def with_whole_weights(model):
    """The same model with weights for which all sums are exact: ties are ties."""
    exact = SequenceLabeler(fit_intercept=model.fit_intercept)
    exact.__dict__.update(model.__dict__)
    exact.weights_ = np.round(3 * model.weights_ / np.abs(model.weights_).max())
    return exact


@pytest.mark.parametrize("density", [1.0, 0.7, 0.4, 0.1, 0.0])
def test_labels_are_those_of_the_oracle_of_training(model, few, density):
    exact = with_whole_weights(model)
    X = data(30, 1, density=density)
    chain, opened = exact._prepare(X, None)
    rows = pack_rows(np.concatenate(X), fit_intercept=True, compress=False)
    labels, values = np.empty(len(rows.values), np.int32), np.empty(len(X))
    decode_blocks(chain, rows, exact.weights_, 0, len(X), labels, values)
    assert np.concatenate(exact.predict(X)).tolist() == exact.classes_[labels].tolist()
    assert len(opened.chunks()) > 1
    best = [scores.max() for scores in exact.decision_function(X)]
    assert best == values.tolist()


@pytest.mark.parametrize("kind", [list, sp.csr_array])
def test_together_is_one_by_one_bit_by_bit(model, few, kind):
    X = [x / 7 for x in data(30, 2, density=0.5)]
    X = X if kind is list else [kind(x) for x in X]
    assert len(open_sequences(X).chunks()) > 1
    together = model.decision_function(X)
    for x, scores in zip(X, together, strict=True):
        assert model.decision_function([x])[0].tobytes() == scores.tobytes()
    again = SequenceLabeler()
    again.__dict__.update(model.__dict__, n_jobs=2)
    for scores, other in zip(together, again.decision_function(X), strict=True):
        assert scores.tobytes() == other.tobytes()
    pairs = zip(model.predict(X), again.predict(X), strict=True)
    assert all((one == other).all() for one, other in pairs)


def test_masks_belong_to_their_sequences(model, few):
    X = data(20, 3)
    random = np.random.RandomState(4)
    known = [random.choice(model.classes_, len(x)).tolist() for x in X]
    found = model.predict(X, partial_y=known)
    assert [labels.tolist() for labels in found] == known


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value, told", [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_the_place_of_a_number_that_is_not_finite(model, few, kind, value, told):
    X = data(20, 5)
    X[13] = np.ones((4, 5))
    X[13][2, 3] = value
    X[17][0, 0] = value  # the first one is named
    match = rf"X\[13\] contains {told}.* at position 2, feature 3"
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match=match):
            method([kind(x) for x in X])
    two = SequenceLabeler()
    two.__dict__.update(model.__dict__, n_jobs=2)
    with pytest.raises(ValueError, match=match):
        two.predict([kind(x) for x in X])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64, bool, np.longdouble])
def test_types_of_numbers(model, few, dtype):
    X = [np.abs(x).astype(dtype) for x in data(20, 6)]
    wide = model.decision_function([x.astype(float) for x in X])
    for scores, other in zip(model.decision_function(X), wide, strict=True):
        assert scores.tobytes() == other.tobytes()


def test_prediction_makes_no_copy_of_all_features(model):
    X = data(20_000, 7)
    size = sum(x.nbytes for x in X)
    wide = [np.tile(x, 10) for x in X]
    trained = SequenceLabeler(max_iter=1, tol=0, random_state=0)
    trained.fit(wide[:50], [x[:, :3].argmax(1) for x in X[:50]])
    trained.predict(wide[:2])
    tracemalloc.start()
    try:
        trained.predict(wide)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * size / 2


# --- CSR ----------------------------------------------------------------------------------------


def spoil(matrix, rng):
    """The same matrix with columns out of order, entries in two parts, and unused ones."""
    data, indices = np.repeat(matrix.data, 2) / 2, np.repeat(matrix.indices, 2)
    indptr = 2 * matrix.indptr
    for a, b in zip(indptr[:-1], indptr[1:], strict=True):
        order = a + rng.permutation(b - a)
        data[a:b], indices[a:b] = data[order], indices[order]
    other = matrix.copy()
    other.data, other.indices = np.append(data, [9.0, np.nan]), np.append(indices, [0, 1])
    other.indptr = indptr
    return other


def test_csr_matrices_of_any_inner_order(model, few):
    rng = np.random.RandomState(8)
    X = [sp.csr_array(x) for x in data(20, 9, density=0.5)]
    spoiled = [spoil(x, rng) for x in X]
    mixed = [spoiled[i] if i % 3 else X[i].toarray() for i in range(len(X))]
    mixed[1] = X[1].tocsc()
    exact = with_whole_weights(model)
    for other in (spoiled, mixed):
        pairs = zip(exact.decision_function(X), exact.decision_function(other), strict=True)
        assert all((one == found).all() for one, found in pairs)
    y = [np.asarray(x.toarray())[:, :3].argmax(1) for x in X]
    fits = [SequenceLabeler(max_iter=3, tol=0, random_state=0).fit(x, y) for x in (X, spoiled)]
    assert fits[0].weights_.tobytes() == fits[1].weights_.tobytes()


@pytest.mark.parametrize("column", [5, -1])
def test_a_column_that_is_not_there(model, few, column):
    X = [sp.csr_array(x) for x in data(20, 10)]
    X[11] = sp.csr_array(np.ones((3, 5)))
    X[11].indices[12] = column
    match = rf"X\[11\] has an entry in column {column} at position 2, but 5 columns"
    with pytest.raises(ValueError, match=match):
        model.predict(X)
    with pytest.raises(ValueError, match=match):
        SequenceLabeler().fit(X, [[0] * x.shape[0] for x in X])
