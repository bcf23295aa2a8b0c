"""Constraints, allowed labels and known labels that make no sense are refused by place."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import SequenceLabeler
from maxmargin.estimators._base import StructuredEstimator

RNG = np.random.RandomState(0)
X = [RNG.randn(3, 2), RNG.randn(2, 2), RNG.randn(4, 2)]
Y = [["a", "b", "a"], ["b", "a"], ["a", "b", "b", "a"]]
CHUNKS = [["B-x", "I-x", "O"], ["O", "B-x"], ["O", "O", "B-x", "I-x"]]


@pytest.fixture(autouse=True)
def no_training(request, monkeypatch):
    """A refusal must come before any training."""
    if not {"free", "chunker"} & set(request.fixturenames):
        monkeypatch.setattr(
            StructuredEstimator, "_solve", lambda *rest: pytest.fail("training has started")
        )


@pytest.fixture(scope="module")
def free():
    return SequenceLabeler(tol=0.1, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def chunker():
    return SequenceLabeler(constraints="bio", tol=0.1, random_state=0).fit(X, CHUNKS)


def put(items, i, value):
    return [value if k == i else item for k, item in enumerate(items)]


def refused(y, match, allowed=None, **params):
    with pytest.raises(ValueError, match=match):
        SequenceLabeler(**params).fit(X, y, allowed=allowed)


MATRIX = r"constraints must be a bool matrix of shape \(2, 2\), True where.*received shape "
BAD_CONSTRAINTS = {
    "unknown scheme": ("iob", r"constraints must be None, 'bio', 'bioes'.*received 'iob'"),
    "labels of no scheme": ("bio", r"constraints='bio' needs labels like 'O' and 'B-.*label 'a'"),
    "number": (3, MATRIX + r"\(\), int64"),
    "shape": (np.ones((3, 3), bool), MATRIX + r"\(3, 3\), bool"),
    "type": (np.ones((2, 2)), MATRIX + r"\(2, 2\), float64"),
    "key": ({"frist": ["a"]}, r"constraints may have the keys 'transitions', .*\['frist'\]"),
    "label": ({"first": ["z"]}, r"constraints\['first'\] names 'z', which is no known label"),
    "label of a pair": (
        {"transitions": [("a", "q")]},
        r"constraints\['transitions'\] names 'q', which is no known label; correct it",
    ),
    "no pair": ({"transitions": ["ab"]}, r"constraints\['transitions'\] must hold pairs.*'ab'"),
    "string": ({"first": "ab"}, r"constraints\['first'\] must be a list; received 'ab'"),
    "None": ({"last": None}, r"constraints\['last'\] must be a list; received None"),
}


@pytest.mark.parametrize("case", BAD_CONSTRAINTS)
def test_constraints(case):
    constraints, match = BAD_CONSTRAINTS[case]
    refused(Y, match, constraints=constraints)


@pytest.mark.parametrize("label", ["B", "B-", "O-x", "Z-x", "I", ""])
def test_label_that_does_not_fit_the_scheme(label):
    refused(
        put(CHUNKS, 1, ["O", label]),
        rf"constraints='bio' needs labels like 'O' and 'B-kind'; received the label '{label}'",
        constraints="bio",
    )


FORBIDDEN = {
    "first": (
        "bio",
        put(CHUNKS, 1, ["I-x", "O"]),
        r"y\[1\]\[0\] is 'I-x', which may not come first",
    ),
    "after another": (
        "bio",
        put(CHUNKS, 2, ["O", "O", "I-x", "I-x"]),
        r"y\[2\]\[2\] is 'I-x', which may not follow 'O' by the constraints; correct the labels or",
    ),
    "chunk without end": ("bioes", CHUNKS, r"y\[0\]\[2\] is 'O', which may not follow 'I-x'"),
    "last": ({"last": ["a"]}, Y, r"y\[0\]\[2\] is 'a', which may not come last"),
    "pair": ({"transitions": [("b", "b")]}, Y, r"y\[2\]\[2\] is 'b', which may not follow 'b'"),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_labels_that_break_the_constraints(case):
    constraints, y, match = FORBIDDEN[case]
    refused(y, match, constraints=constraints)


BAD_ALLOWED = {
    "too few": (
        [None],
        r"allowed has 1 entries but X has 3 sequences; expected one entry for each",
    ),
    "number": (3, r"allowed must be a list with one entry for each sequence.*received int"),
    "dict": ({0: None, 1: None, 2: None}, r"allowed must be a list .*received dict"),
    "too short": ([None, [None], None], r"allowed\[1\] has 1 positions but X\[1\] has 2; expected"),
    "no list": ([None, 3, None], r"allowed\[1\] must have one entry for each of the 2 positions"),
    "shape": (
        [None, np.ones((2, 3), bool), None],
        r"allowed\[1\] must be a bool array of shape \(2, 2\), positions by classes; .*\(2, 3\)",
    ),
    "type": ([None, np.ones((2, 2)), None], r"allowed\[1\] must be a bool array .*float64"),
    "bools in lists": ([None, [[True, False]] * 2, None], r"allowed\[1\]\[0\] holds bools; pass"),
    "unknown label": ([None, [["a"], ["z"]], None], r"allowed\[1\]\[1\] names 'z', which is not"),
    "no labels": ([None, [3, None], None], r"allowed\[1\]\[0\] must be a list of labels or None"),
    "unhashable": ([None, [[["a"]], None], None], r"allowed\[1\]\[0\] names \['a'\], which is not"),
}


@pytest.mark.parametrize("case", BAD_ALLOWED)
def test_allowed_in_training(case):
    allowed, match = BAD_ALLOWED[case]
    refused(Y, match, allowed)


@pytest.mark.parametrize("case", BAD_ALLOWED)
def test_allowed_in_prediction(free, case):
    allowed, match = BAD_ALLOWED[case]
    for method in (free.predict, free.decision_function):
        with pytest.raises(ValueError, match=match):
            method(X, allowed=allowed)


@pytest.mark.parametrize("labels", [["a"], []])
def test_mask_that_forbids_the_truth(labels):
    match = r"y\[1\]\[0\] is 'b', which is not allowed there by the constraints; correct the labels"
    refused(Y, match, [None, [labels, None], None])


INFEASIBLE = r"X\[1\]: no labelling of its 2 positions satisfies the constraints.*relax them"


def test_nothing_allowed_at_a_position(free):
    with pytest.raises(ValueError, match=INFEASIBLE):
        free.predict(X, allowed=[None, [["a"], []], None])


def test_mask_and_constraints_leave_nothing(chunker):
    allowed = [None, [["O"], ["I-x"]], None]
    for method in (chunker.predict, chunker.decision_function):
        with pytest.raises(ValueError, match=INFEASIBLE):
            method(X, allowed=allowed)


BAD_PARTIAL = {
    "too few": ([None], r"partial_y has 1 entries but X has 3 sequences; expected one entry"),
    "number": (3, r"partial_y must be a list with one entry for each sequence.*received int"),
    "too short": (
        [None, ["a"], None],
        r"partial_y\[1\] has 1 positions but X\[1\] has 2; expected",
    ),
    "no list": ([None, 3, None], r"partial_y\[1\] must have one entry for each of the 2 positions"),
    "unknown label": (
        [None, ["a", "z"], None],
        r"partial_y\[1\]\[1\] names 'z', which is not among",
    ),
}


@pytest.mark.parametrize("case", BAD_PARTIAL)
def test_known_labels(free, case):
    partial, match = BAD_PARTIAL[case]
    with pytest.raises(ValueError, match=match):
        free.predict(X, partial_y=partial)


def test_known_labels_that_contradict_the_mask(free):
    with pytest.raises(ValueError, match=INFEASIBLE):
        free.predict(X, partial_y=[None, ["a", None], None], allowed=[None, [["b"], None], None])


def test_known_labels_that_contradict_the_constraints(chunker):
    with pytest.raises(ValueError, match=INFEASIBLE):
        chunker.predict(X, partial_y=[None, ["O", "I-x"], None])
