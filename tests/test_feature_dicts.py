"""Feature dicts: the columns and values that scikit-learn's DictVectorizer gives."""

from __future__ import annotations

import gc
import weakref
from enum import Enum
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer

from maxmargin import SequenceLabeler, StateFeatures
from maxmargin.features import sequences
from maxmargin.features.dicts import as_dict, columns_of
from maxmargin.features.sequences import learn_sequences, open_sequences

NAMES = st.sampled_from(["a", "b", "a:b", "word", "word:", ":", "", "é"])
STRINGS = st.sampled_from(["", "a", "b", "b:c", ":", "1", "1.0", "True"])
NUMBERS = st.one_of(
    st.sampled_from([0, 1, 1.0, 0.0, -0.0, True, False, 2, -1.5, 10**30, 1e-300]),
    st.sampled_from([np.float64(1), np.float32(0.5), np.int8(3), np.bool_(True), Fraction(1, 4)]),
)
PLAIN = st.one_of(STRINGS, STRINGS.map(np.str_), NUMBERS)
NESTED = st.one_of(
    PLAIN,
    st.lists(STRINGS, max_size=2),
    st.frozensets(STRINGS, max_size=2),
    st.dictionaries(NAMES, PLAIN, max_size=2),
)
USUAL = st.dictionaries(NAMES, PLAIN, max_size=4)
POSITION = st.one_of(
    USUAL,
    USUAL,
    st.dictionaries(NAMES, NESTED, max_size=3),
    USUAL.map(MappingProxyType),
    st.lists(NAMES, max_size=3),
    st.frozensets(NAMES, max_size=3),
)
SEQUENCES = st.lists(st.lists(POSITION, min_size=1, max_size=3), min_size=1, max_size=4)


def matrix_of(rows, n_features):
    """Dense array of sparse rows, with what is stored twice summed."""
    found = np.zeros((len(rows.indptr) - 1, n_features))
    for t in range(len(found)):
        for p in range(rows.indptr[t], rows.indptr[t + 1]):
            found[t, rows.indices[p]] += rows.data[p]
    return found


def plain_positions(X):
    return [as_dict(features, 0, 0) for x in X for features in x]


@given(SEQUENCES, SEQUENCES)
def test_as_scikit_learn(train, new):
    if not (sequences.holds_dicts(train) and sequences.holds_dicts(new)):
        return
    peer = DictVectorizer(separator=":", sparse=False, sort=False).fit(plain_positions(train))
    opened, vectorizer = learn_sequences(train)
    names = vectorizer.feature_names_
    assert vectorizer.vocabulary_ == {name: column for column, name in enumerate(names)}
    assert sorted(names) == sorted(peer.feature_names_)
    peer.feature_names_, peer.vocabulary_ = names, vectorizer.vocabulary_  # in the same order
    assert vectorizer.get_params() == {**peer.get_params(), "sparse": True}
    if not peer.feature_names_:
        return
    expected = peer.transform(plain_positions(train))
    assert opened.stack().toarray().tolist() == expected.tolist()
    for X in (new, train, new):  # what was met before changes nothing
        again = open_sequences(X, vectorizer)
        rows = again.rows(0, len(X), 1.0)
        found = matrix_of(rows, again.n_features)
        assert found.tolist() == peer.transform(plain_positions(X)).tolist()


def test_strings_that_are_equal_are_the_same_feature():
    class Tag(str, Enum):  # noqa: UP042 (prints as "Tag.NOUN", unlike a StrEnum)
        NOUN = "noun"

    opened, vectorizer = learn_sequences([[{"tag": Tag.NOUN}, {"tag": "noun"}]])
    assert vectorizer.feature_names_ == ["tag:noun"]
    assert opened.stack().toarray().tolist() == [[1.0], [1.0]]


def test_names_and_pairs_that_spell_the_same_are_summed():
    X = [[{"a": "b", "a:b": 2.0}, {"a:b": True}]]
    opened, vectorizer = learn_sequences(X)
    assert vectorizer.feature_names_ == ["a:b"]
    assert opened.stack().toarray().tolist() == [[3.0], [1.0]]


def test_a_feature_that_is_always_zero_has_a_column():
    opened, vectorizer = learn_sequences([[{"a": False, "b": 1}, {"a": 0.0}]])
    assert vectorizer.feature_names_ == ["a", "b"]
    assert opened.stack().toarray().tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("value", [10**400, np.nan, np.inf])
def test_numbers_that_are_not_finite(value):
    X = [[{"a": 1.0}], [{"a": 0.5}, {"b": "x", "a": value}]]
    with pytest.raises(ValueError, match=r"X\[1\] contains .* at position 1, feature 'a'"):
        learn_sequences(X)
    _, vectorizer = learn_sequences([[{"a": 1.0}]])
    with pytest.raises(ValueError, match=r"X\[1\] contains .* at position 1, feature 'a'"):
        open_sequences(X, vectorizer).rows(0, 2, 1.0)


def test_places_in_later_chunks(monkeypatch):
    monkeypatch.setattr(sequences.Sequences, "at_once", 2)
    monkeypatch.setattr(sequences, "_SEQUENCES_AT_ONCE", 2)
    good = [[{"a": 1.0}, {"a": "x"}], [{"b": 2.0}], [["a"], {"b": "y"}]]
    X = [*good, [{"a": 1.0}, {"a": object()}]]
    with pytest.raises(ValueError, match=r"X\[3\]\[1\]\['a'\] must be a number, a string"):
        learn_sequences(X)
    with pytest.raises(ValueError, match=r"X\[3\]\[0\] must be a list of feature names; found 3"):
        learn_sequences([*good, [["a", 3]]])
    model = SequenceLabeler(max_iter=2, tol=0).fit(good, [[0, 1], [1], [0, 1]])
    for bad, match in (
        ([{"a": None}], r"X\[3\]\[0\]\['a'\] must be"),
        ([{}, ["a", 3]], r"X\[3\]\[1\] must be a list of feature names; found 3"),
        ([{}, {3: 1}], r"X\[3\]\[1\] has the feature name 3"),
        (None, r"X\[3\] must be a list of feature dicts, as X\[0\] is; received NoneType"),
    ):
        with pytest.raises(ValueError, match=match):
            model.predict([*good, bad])


def test_an_iterator_is_read_once_and_not_kept():
    alive = weakref.WeakSet()

    class Position(dict):
        __hash__ = object.__hash__

    def described():
        for i in range(600):
            assert len(alive) <= 3 * sequences._SEQUENCES_AT_ONCE
            x = [Position(word=f"w{i % 7}"), Position(word=f"w{i % 3}", size=0.5)]
            alive.update(x)
            yield x

    listed = [[dict(position) for position in x] for x in described()]
    opened, vectorizer = learn_sequences(described())
    expected, peer = learn_sequences(listed)
    assert vectorizer.feature_names_ == peer.feature_names_
    assert (opened.stack() != expected.stack()).nnz == 0
    y = [[i % 2, i % 3] for i in range(600)]
    params = {"max_iter": 2, "tol": 0, "random_state": 0}
    model = SequenceLabeler(**params).fit(described(), y)
    assert np.array_equal(model.coef_, SequenceLabeler(**params).fit(listed, y).coef_)
    with pytest.raises(ValueError, match=r"X\[2\] has 2 positions but y\[2\] has 1 labels"):
        model.fit(described(), [*y[:2], [0], *y[3:]])
    with pytest.raises(ValueError, match="X has 600 sequences but y has 599"):
        model.fit(described(), y[1:])
    with pytest.raises(ValueError, match="X is empty"):
        model.fit(iter([]), [])
    with pytest.raises(ValueError, match="reads X many times, but X is an iterator"):
        SequenceLabeler(alpha="cv").fit(described(), y)


@pytest.mark.more
def test_unknown_features_leave_nothing_behind():
    _, vectorizer = learn_sequences([[{"a": "x", "b": 1.0}]])
    columns = columns_of(vectorizer)
    for i in range(100):
        X = [[{"a": f"new {i}", f"name {i}": 1.0, "b": i / 7}, [f"other {i}"]]]
        open_sequences(X, vectorizer).rows(0, 1, 1.0)
    assert set(columns._met) <= {("a", "x"), ("b", 1.0), ("b", 0.0)}
    gone = weakref.ref(columns)
    del columns, vectorizer
    gc.collect()
    assert gone() is None


def test_rare_features_are_left_out():
    X = [[{"w": "a", "n": 2.0}, {"w": "b", "rare": 3.0}], [["w:a", "n"], ["only"], ["w:b"]]]
    y = [["x", "y"], ["x", "y", "y"]]
    model = SequenceLabeler(state_features=StateFeatures(min_count=2), random_state=0).fit(X, y)
    assert model.vectorizer_.feature_names_ == ["w:a", "n", "w:b"]
    matrices = [np.array([[1.0, 2, 0], [0, 0, 1]]), np.array([[1.0, 1, 0], [0, 0, 0], [0, 0, 1]])]
    by_matrix = SequenceLabeler(random_state=0).fit(matrices, y)
    assert model.alpha_ == by_matrix.alpha_ and np.allclose(model.coef_, by_matrix.coef_)
    found = model.decision_function([[["w:b", "rare"], ["w:a"]]])[0]
    assert np.allclose(found, by_matrix.decision_function([[[0.0, 0, 1], [1, 0, 0]]])[0])
    with pytest.raises(ValueError, match=r"StateFeatures\(min_count=2\) is for feature dicts"):
        SequenceLabeler(state_features=StateFeatures(min_count=2)).fit(matrices, y)
    with pytest.raises(ValueError, match="no feature of X is at 9 positions or more"):
        SequenceLabeler(state_features=StateFeatures(min_count=9)).fit(X, y)
    with pytest.raises(ValueError, match="min_count must be"):
        SequenceLabeler(state_features=StateFeatures(min_count=0)).fit(X, y)
