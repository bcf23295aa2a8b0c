"""Sequences of every kind that is good: arrays, CSR, dicts, lists, ragged, of length one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import MulticlassClassifier, SequenceLabeler
from maxmargin.features.sequences import learn_sequences

RNG = np.random.RandomState(0)
LENGTHS = [3, 1, 7, 2, 5, 1]
X = [np.round(RNG.randn(length, 2), 1) for length in LENGTHS]
Y = [(x[:, 0] + 0.5 * x[:, 1] > 0).astype(int) + (x[:, 1] > 0.8) for x in X]
NEW = [np.round(RNG.randn(length, 2), 1) for length in (4, 1, 9, 2)]


def labeler(**params):
    return SequenceLabeler(**{"tol": 0.05, "random_state": 0, **params})


def as_dicts(sequences):
    return [[{"f0": row[0], "f1": row[1]} for row in x.tolist()] for x in sequences]


def as_csr(sequences):
    return [sp.csr_matrix(x) for x in sequences]


def same(one, other):
    return len(one) == len(other) and all(
        a.dtype == b.dtype and a.shape == b.shape and (a == b).all() for a, b in zip(one, other)
    )


@pytest.fixture(scope="module")
def reference():
    return labeler().fit(X, Y)


# --- one thing, many forms ----------------------------------------------------------------------

FORMS = {
    "CSR": as_csr,
    "CSR arrays": lambda sequences: [sp.csr_array(x) for x in sequences],
    "CSC": lambda sequences: [sp.csc_matrix(x) for x in sequences],
    "CSR among arrays": lambda sequences: [sp.csr_matrix(sequences[0]), *sequences[1:]],
    "dicts": as_dicts,
    "lists": lambda sequences: [x.tolist() for x in sequences],
    "tuples of tuples": lambda sequences: tuple(tuple(map(tuple, x)) for x in sequences),
    "object array": lambda sequences: np.array([*sequences, None], dtype=object)[:-1],
    "objects": lambda sequences: [x.astype(object) for x in sequences],
    "Fortran order": lambda sequences: [np.asfortranarray(x) for x in sequences],
    "generator": iter,
}


def test_slices_of_a_memory_map_are_not_copied(reference, tmp_path):
    stacked = np.concatenate(X)
    np.save(tmp_path / "x.npy", stacked)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    sequences = np.split(mapped, np.cumsum(LENGTHS)[:-1])
    opened = learn_sequences(sequences)[0].stack()
    assert np.shares_memory(opened, mapped)
    np.testing.assert_array_equal(opened, stacked)
    assert same(labeler().fit(sequences, Y).predict(NEW), reference.predict(NEW))


@pytest.mark.parametrize(
    "arrays",
    [
        lambda whole: [whole[:4], whole[5:]],  # a hole
        lambda whole: [whole[4:], whole[:4]],  # another order
        lambda whole: [whole[:4], whole[:4]],
        lambda whole: [whole[:4, :1], whole[4:, :1]],  # columns
        lambda whole: [whole[:4], whole[4:].copy()],
        lambda whole: [whole[::2], whole[1::2]],
    ],
)
def test_only_slices_one_after_another_are_taken_together(arrays):
    parts = arrays(np.arange(20.0).reshape(10, 2))
    np.testing.assert_array_equal(learn_sequences(parts)[0].stack(), np.concatenate(parts))


@pytest.fixture(scope="module")
def exact():
    return labeler(alpha=0.5, tol=1e-9).fit(X, Y)


@pytest.mark.parametrize("form", FORMS)
def test_form_changes_nothing(exact, form):
    model = labeler(alpha=0.5, tol=1e-9).fit(FORMS[form](X), Y)
    assert model.status_ == exact.status_ == "converged"
    assert same(model.predict(FORMS[form](NEW)), exact.predict(NEW))
    # Sums in another order may break ties, so steps may differ; the optimum does not: both lie
    # within sqrt(2 gap / alpha) of it.
    within = sum(np.sqrt(2.0 * max(one.gap_, 1e-15) / 0.5) for one in (model, exact))
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0, atol=within)
    np.testing.assert_allclose(model.transitions_, exact.transitions_, rtol=0, atol=within)
    assert within < 1e-3
    assert model.score(FORMS[form](X), Y) == exact.score(X, Y)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, bool])
def test_small_types_are_numbers(dtype):
    cast = [np.abs(10 * x).astype(dtype) for x in X]
    model = labeler().fit(cast, Y)
    wide = labeler().fit([x.astype(float) for x in cast], Y)
    assert (model.coef_ == wide.coef_).all()
    assert same(model.predict(cast), wide.predict(cast))


def test_types_may_differ_between_sequences(reference):
    mixed = [x.astype(np.float32) if i % 2 else x.tolist() for i, x in enumerate(NEW)]
    assert same(reference.predict(mixed), reference.predict(NEW))


@pytest.mark.parametrize("form", [list, as_csr])
def test_batch_is_one_by_one(reference, form):
    batch = form(NEW)
    together = reference.predict(batch), reference.decision_function(batch)
    apart = [reference.predict([x])[0] for x in batch]
    assert same(together[0], apart)
    assert same(together[1], [reference.decision_function([x])[0] for x in batch])
    assert [len(labels) for labels in apart] == [4, 1, 9, 2]
    assert same(reference.predict(batch[::-1])[::-1], apart)


def test_sequences_of_length_one_are_multiclass_examples():
    rows, labels = np.concatenate(X), np.concatenate(Y)
    chain = SequenceLabeler(boundary_weights=False, alpha=0.1, tol=1e-3, random_state=0)
    chain.fit([row[None] for row in rows], [[label] for label in labels])
    flat = MulticlassClassifier(alpha=0.1, tol=1e-3, random_state=0).fit(rows, labels)
    # Two certified intervals around one optimum.
    assert max(chain.dual_, flat.dual_) <= min(chain.primal_, flat.primal_)
    assert (chain.transitions_ == 0.0).all()
    assert [k for (k,) in chain.predict([row[None] for row in rows])] == flat.predict(rows).tolist()


def test_one_sequence_with_declared_classes():
    model = labeler(classes=["a", "b", "never"]).fit(X[:1], [["a", "b", "a"]])
    assert model.status_ == "converged"
    assert model.predict(X[:1])[0].tolist() == ["a", "b", "a"]
    assert model.coef_.shape == (3, 2)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("form", [list, as_csr])
def test_constant_features(value, form):
    model = labeler().fit(form([np.full((len(y), 2), value) for y in Y]), Y)
    assert model.status_ == "converged"
    assert model.gap_ >= -1e-9 * max(1.0, model.primal_)


def test_long_sequence():
    """Beyond the length up to which inner products are kept."""
    x = np.random.RandomState(1).randn(150, 2)
    y = (x[:, 0] > 0).astype(int)
    model = labeler(alpha=1.0, max_iter=10_000).fit([x, x[:3]], [y, y[:3]])
    assert model.status_ == "converged"
    assert model.score([x], [y]) > 0.9
    pieces = [x[:70], x[70:]]
    assert [len(labels) for labels in model.predict(pieces)] == [70, 80]


# --- feature dicts ------------------------------------------------------------------------------

# Positions and what CRFsuite makes of them.
ITEMS = [
    ({"w": "cat"}, {"w:cat": 1.0}),
    ({"n": 0.5, "i": 3}, {"n": 0.5, "i": 3.0}),
    ({"yes": True, "no": False}, {"yes": 1.0, "no": 0.0}),
    ({"a": {"b": 1, "c": {"d": "e"}}}, {"a:b": 1.0, "a:c:d:e": 1.0}),
    (["x", "y", "x"], {"x": 1.0, "y": 1.0}),
    ({"s": ["p", "q", "p"]}, {"s:p": 1.0, "s:q": 1.0}),
    ({"s": {"p", "q"}}, {"s:p": 1.0, "s:q": 1.0}),
    ({"e": ""}, {"e:": 1.0}),
    ({"n": np.float32(0.5), "t": np.bool_(True)}, {"n": 0.5, "t": 1.0}),
    ({}, {}),
    ([], {}),
]


@pytest.mark.parametrize("item, features", ITEMS)
def test_dicts_are_read_as_crfsuite_reads_them(item, features):
    X = [[{"bias": 1.0}, item], [{"bias": 1.0}]]
    model = labeler(tol=0.5).fit(X, [["a", "b"], ["a"]])
    assert sorted(model.vectorizer_.feature_names_) == sorted({"bias", *features})
    row = model.vectorizer_.transform([{"bias": 0.0, **features}]).toarray()[0]
    names = model.vectorizer_.feature_names_
    assert {name: row[names.index(name)] for name in features} == features
    flat = labeler(tol=0.5).fit([[{"bias": 1.0}, features], X[1]], [["a", "b"], ["a"]])
    assert (model.coef_ == flat.coef_).all()
    assert same(model.decision_function(X), flat.decision_function(X))


def test_features_that_are_new_at_prediction_count_nothing():
    model = labeler().fit(as_dicts(X), Y)
    known = as_dicts(NEW)
    more = [[{**position, "new": 5.0, "word": "x"} for position in x] for x in known]
    assert same(model.predict(more), model.predict(known))
    assert len(model.predict([[{"new": 1.0}, {}]])[0]) == 2


# --- labels -------------------------------------------------------------------------------------

LABELS = {
    "strings": ["b", "a", "c"],
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "None among strings": ["x", None, "y"],
    "bools and None": [True, False, None],
    "mixed": [1, "one", (1, "one")],
    "numpy scalars": [np.int16(3), np.int16(1), np.int16(2)],
    "floats": [0.5, 1.5, -1.0],
}


@pytest.mark.parametrize("kind", LABELS)
def test_any_hashable_is_a_label(reference, kind):
    labels = LABELS[kind]
    y = [[labels[code] for code in codes] for codes in Y]
    model = labeler(classes=labels).fit(X, y)
    assert model.classes_.tolist() == labels
    expected = [[labels[code] for code in codes] for codes in reference.predict(NEW)]
    assert [found.tolist() for found in model.predict(NEW)] == expected
    assert model.score(X, y) == reference.score(X, Y)
    if kind == "floats":  # no whole numbers: these must be declared
        with pytest.raises(ValueError, match="declare all of them with classes="):
            labeler(hidden=False).fit(X, y)
        return
    found = labeler(hidden=False).fit(X, y).classes_.tolist()
    assert len(found) == 3 and set(found) == set(labels)


def test_letters_of_a_word_are_labels():
    words = ["hello", "he", "hole"]
    X = [[[ord(letter) == ord(other) for other in "helo"] for letter in word] for word in words]
    model = labeler().fit(X, words)
    assert model.classes_.tolist() == list("ehlo")
    assert ["".join(found) for found in model.predict(X)] == words
    assert model.score(X, words) == 1.0


def test_kinds_of_labels_may_differ_between_sequences():
    y = [np.array([1, 2, 1]), np.array(["one"]), *[np.ones(n, int) for n in LENGTHS[2:]]]
    model = labeler().fit(X, y)
    assert set(model.classes_.tolist()) == {1, 2, "one"}


@pytest.mark.parametrize("container", [tuple, np.array, list])
def test_containers_of_labels(reference, container):
    model = labeler().fit(X, tuple(container(codes.tolist()) for codes in Y))
    assert (model.coef_ == reference.coef_).all()
    assert model.predict(NEW)[0].dtype == reference.classes_.dtype
