"""Constraints on label sequences: the same in training and prediction, never violated.

Everything is compared with the list of all label sequences.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import SequenceLabeler
from maxmargin.structures.masks import transition_masks

BIO = np.array(["O", "B-x", "I-x", "B-y", "I-y"])
BIOES = np.array(["O", "B-x", "I-x", "E-x", "S-x", "B-y", "E-y"])


def is_bio(labels):
    """Whether every I-kind continues a chunk of its kind."""
    before = "O"
    for label in labels:
        if label[0] == "I" and before[1:] != label[1:]:
            return False
        before = label
    return True


def is_bioes(labels):
    """Whether chunks are S, or B I* E of one kind."""
    inside = None
    for label in labels:
        prefix, kind = label[0], label[1:]
        if (prefix in "IE") != (inside is not None) or (inside is not None and kind != inside):
            return False
        inside = kind if prefix in "BI" else None
    return inside is None


def satisfies(masks, codes):
    """Whether codes obey masks, by definition."""
    return (
        masks.first[codes[0]]
        and masks.last[codes[-1]]
        and all(masks.transitions[a, b] for a, b in zip(codes, codes[1:]))
    )


@pytest.mark.parametrize(
    "scheme, classes, check", [("bio", BIO, is_bio), ("bioes", BIOES, is_bioes)]
)
def test_presets_allow_exactly_the_valid_sequences(scheme, classes, check):
    masks = transition_masks(scheme, classes)
    counts = [0, 0]
    for length in (1, 2, 3, 4):
        for codes in itertools.product(range(len(classes)), repeat=length):
            valid = check(classes[list(codes)])
            assert satisfies(masks, codes) == valid
            counts[valid] += 1
    assert min(counts) > 50  # both kinds were met


# --- prediction ---------------------------------------------------------------------------------


def score(model, x, codes):
    """Score of a labelling, as the documentation writes it."""
    unary = x @ model.coef_.T + model.intercept_
    total = model.first_[codes[0]] + model.last_[codes[-1]]
    total += sum(unary[t, k] for t, k in enumerate(codes))
    return total + sum(model.transitions_[a, b] for a, b in zip(codes, codes[1:]))


def labellings(model, length, masks, allowed=None):
    """All feasible label codes of a sequence."""
    for codes in itertools.product(range(len(model.classes_)), repeat=length):
        if satisfies(masks, codes) and (
            allowed is None or all(allowed[t, k] for t, k in enumerate(codes))
        ):
            yield codes


def data(lengths):
    """Random sequences of some lengths, and the generator for more."""
    rng = np.random.RandomState(0)
    return [rng.randn(length, 2) for length in lengths], rng


@pytest.fixture(scope="module")
def chunker():
    X, _ = data([3, 1, 4])
    y = [["B-x", "I-x", "O"], ["B-y"], ["O", "B-y", "I-y", "I-y"]]
    return SequenceLabeler(constraints="bio", tol=0.5, random_state=0).fit(X, y)


def randomise(model, seed, scale):
    """Give a fitted model random weights."""
    rng = np.random.RandomState(seed)
    weights = scale * rng.randn(len(model.weights_))
    model._set_weights(weights, np.empty((0, model.n_features_in_)), np.arange(0))
    return rng


SEEDS = st.integers(0, 2**32 - 1)
SCALES = st.sampled_from([0.0, 1e-3, 1.0, 1e6])


@settings(max_examples=40)
@given(seed=SEEDS, scale=SCALES, lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_predictions_are_the_best_valid_sequences(chunker, seed, scale, lengths):
    rng = randomise(chunker, seed, scale)
    X = [rng.randn(length, 2) for length in lengths]
    masks = transition_masks("bio", chunker.classes_)
    for x, labels in zip(X, chunker.predict(X)):
        assert is_bio(labels)
        codes = [chunker.classes_.tolist().index(label) for label in labels]
        best = max(score(chunker, x, other) for other in labellings(chunker, len(x), masks))
        # Sums of at most 13 products: rounding is far below 1e-12 of the largest term.
        assert score(chunker, x, codes) == pytest.approx(best, rel=1e-10, abs=1e-10 * scale)


@settings(max_examples=25)
@given(seed=SEEDS, length=st.integers(1, 4))
def test_known_labels_are_kept_and_the_rest_is_best(chunker, seed, length):
    rng = randomise(chunker, seed, 1.0)
    x = rng.randn(length, 2)
    masks = transition_masks("bio", chunker.classes_)
    everything = list(labellings(chunker, length, masks))
    target = everything[rng.randint(len(everything))]
    known = rng.rand(length) < 0.5
    partial = [chunker.classes_[k] if is_known else None for k, is_known in zip(target, known)]
    (labels,) = chunker.predict([x], partial_y=[partial])
    assert is_bio(labels)
    assert [labels[t] for t in np.flatnonzero(known)] == [p for p in partial if p is not None]
    fitting = [
        codes for codes in everything if all(np.array(codes)[known] == np.array(target)[known])
    ]
    codes = [chunker.classes_.tolist().index(label) for label in labels]
    best = max(score(chunker, x, other) for other in fitting)
    assert score(chunker, x, codes) == pytest.approx(best, rel=1e-10, abs=1e-10)


@settings(max_examples=25)
@given(seed=SEEDS, length=st.integers(1, 3))
def test_scores_are_those_of_the_best_sequence_through_each_label(chunker, seed, length):
    rng = randomise(chunker, seed, 1.0)
    x = rng.randn(length, 2)
    allowed = rng.rand(length, 5) < 0.7
    masks = transition_masks("bio", chunker.classes_)
    expected = np.full((length, 5), -np.inf)
    for codes in labellings(chunker, length, masks, allowed):
        for t, k in enumerate(codes):
            expected[t, k] = max(expected[t, k], score(chunker, x, codes))
    if np.isinf(expected).all():
        with pytest.raises(ValueError, match=r"X\[0\]: no labelling"):
            chunker.decision_function([x], allowed=[allowed])
        return
    (found,) = chunker.decision_function([x], allowed=[allowed])
    assert (np.isneginf(found) == np.isneginf(expected)).all()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    (labels,) = chunker.predict([x], allowed=[allowed])
    assert labels.tolist() == chunker.classes_[found.argmax(axis=1)].tolist()


def test_sequence_that_is_known_altogether(chunker):
    randomise(chunker, 3, 1.0)
    truth = ["B-y", "I-y", "O"]
    (labels,) = chunker.predict([np.ones((3, 2))], partial_y=[truth])
    assert labels.tolist() == truth


def test_constraints_without_scheme():
    X, rng = data([2, 3, 4])
    y = [["a", "b"], ["a", "c", "b"], ["c", "a", "a", "b"]]
    forbidden = {"first": ["b"], "last": ["c", "a"], "transitions": [("b", "b"), ("a", "c")]}
    with pytest.raises(ValueError, match=r"y\[1\]\[1\] is '?.*c.* may not follow .*a"):
        SequenceLabeler(constraints=forbidden).fit(X, y)
    forbidden["transitions"].remove(("a", "c"))
    model = SequenceLabeler(constraints=forbidden, tol=0.5, random_state=0).fit(X, y)
    for seed in range(20):
        randomise(model, seed, 1.0)
        for labels in model.predict([rng.randn(length, 2) for length in (2, 3, 5)]):
            assert labels[0] != "b" and labels[-1] == "b"
            assert "bb" not in "".join(labels)


def test_matrix_of_allowed_transitions():
    X, rng = data([2, 3, 4])
    y = [["a", "b"], ["a", "b", "c"], ["c", "a", "a", "b"]]
    matrix = np.array([[1, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool)
    model = SequenceLabeler(constraints=matrix, tol=0.5, random_state=0).fit(X, y)
    assert (model.allowed_transitions_ == matrix).all()
    for seed in range(20):
        randomise(model, seed, 1.0)
        (labels,) = model.predict([rng.randn(8, 2)])
        assert not {"ac", "ba", "bb", "cb", "cc"} & {a + b for a, b in zip(labels, labels[1:])}


# --- training -----------------------------------------------------------------------------------


def primal_by_enumeration(model, X, y, masks, allowed=None):
    """``alpha/2 |w|^2 + mean_i max_z [ hamming(z, y_i) + score(z) ] - score(y_i)``."""
    total = 0.0
    for i, (x, labels) in enumerate(zip(X, y)):
        truth = [model.classes_.tolist().index(label) for label in labels]
        mask = None if allowed is None else allowed[i]
        total += max(
            np.sum(np.array(codes) != truth) + score(model, x, codes)
            for codes in labellings(model, len(x), masks, mask)
        ) - score(model, x, truth)
    parts = (model.coef_, model.intercept_, model.transitions_, model.first_, model.last_)
    square = sum(float((part**2).sum()) for part in parts)
    return 0.5 * model.alpha_ * square + total / len(X)


CHUNKS = [["B-x", "I-x", "O"], ["B-y"], ["O", "B-y", "I-y", "I-y"], ["B-x", "B-y"]]


@pytest.mark.parametrize("constraints", ["bio", None, {"transitions": [("O", "I-x"), ("O", "O")]}])
def test_certificate_is_true_under_constraints(constraints):
    X, _ = data([3, 1, 4, 2])
    model = SequenceLabeler(constraints=constraints, alpha=0.1, tol=0.01, random_state=0)
    model.fit(X, CHUNKS)
    assert model.status_ == "converged"
    masks = transition_masks(constraints, model.classes_)
    expected = primal_by_enumeration(model, X, CHUNKS, masks)
    assert model.primal_ == pytest.approx(expected, rel=1e-9)
    assert 0.0 <= model.gap_ <= 0.01 * model.primal_
    # No weights have a smaller objective than the dual value: not even nearly optimal ones.
    model.set_params(tol=1e-5, max_iter=100_000).fit(X, CHUNKS)
    assert model.status_ == "converged"
    best = primal_by_enumeration(model, X, CHUNKS, masks)
    assert expected >= best * (1 - 1e-5)
    assert model.dual_ <= best * (1 + 1e-9)


def test_constraints_change_the_objective_and_not_only_the_answers():
    X, _ = data([3, 1, 4, 2])
    free, bound = (
        SequenceLabeler(constraints=rule, alpha=0.1, tol=1e-4, max_iter=20_000, random_state=0)
        .fit(X, CHUNKS)
        for rule in (None, "bio")
    )  # fmt: skip
    # Fewer competitors of the truth: the optimum can only become smaller, here it does.
    assert bound.primal_ < free.dual_


def test_masks_of_positions_act_in_training_like_constraints():
    X, _ = data([3, 1, 4, 2])
    labels = sorted({label for tags in CHUNKS for label in tags})
    no_inside = [label for label in labels if not label.startswith("I")]
    as_lists = [[no_inside, *[None] * (len(x) - 1)] for x in X]
    as_arrays = [np.ones((len(x), len(labels)), bool) for x in X]
    for mask in as_arrays:
        mask[0] = [label in no_inside for label in labels]
    by_rule = SequenceLabeler(constraints={"first": ["I-x", "I-y"]}, alpha=0.1, random_state=0).fit(
        X, CHUNKS
    )
    for allowed in (as_lists, as_arrays):
        model = SequenceLabeler(alpha=0.1, random_state=0).fit(X, CHUNKS, allowed=allowed)
        assert (model.weights_ == by_rule.weights_).all()
        assert model.primal_ == by_rule.primal_ and model.dual_ == by_rule.dual_
        for one, other in zip(model.predict(X, allowed=allowed), by_rule.predict(X)):
            assert (one == other).all()
        masks = transition_masks(None, model.classes_)
        expected = primal_by_enumeration(model, X, CHUNKS, masks, as_arrays)
        assert model.primal_ == pytest.approx(expected, rel=1e-9)
