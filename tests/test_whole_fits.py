"""A fit is done whole or not at all, and what has no weight leaves no trace."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import (
    Checked,
    MulticlassClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    StructuredPredictor,
)

RNG = np.random.RandomState(0)
X, Y = RNG.randn(30, 4), np.arange(30) % 3
SEQUENCES = [RNG.randn(length, 4) for length in (3, 1, 4, 2, 5)]
LABELS = [(x[:, 0] > 0).astype(int) for x in SEQUENCES]
DICTS = [[{"a": value, "b": "x"} for value in x[:, 0]] for x in SEQUENCES]


class Sign:
    """Two outputs, told apart by the sign of a score."""

    def argmax(self, x, w, y=None):
        return 1 if w @ x + (0 if y is None else 0.5 - y) > 0 else 0

    def joint_feature(self, x, y):
        return x * y

    def loss(self, y, other):
        return float(y != other)


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data)


def fail(check):
    raise RuntimeError("full disk")


# A model, data for a first fit, and other data for a second one.
CASES = {
    "multiclass": (MulticlassClassifier, (X, Y), (X[:, :2], [f"class {k}" for k in Y % 2])),
    "ordinal": (OrdinalClassifier, (X, Y), (X[:, :2], Y % 2)),
    "sequences": (
        SequenceLabeler,
        (SEQUENCES, LABELS),
        (DICTS, [[9 - k for k in y] for y in LABELS]),
    ),
    "dicts": (SequenceLabeler, (DICTS, LABELS), (SEQUENCES, [[9 - k for k in y] for y in LABELS])),
    "Python": (lambda **p: StructuredPredictor(Sign(), **p), (X, Y % 2), (X[:, :2], Y % 2)),
}


@pytest.mark.parametrize("how", ["callback", "warning", "refused"])
@pytest.mark.parametrize("case", CASES)
def test_a_refit_that_fails_leaves_the_model_as_it_was(case, how):
    make, first, second = CASES[case]
    model = fitted(make(max_iter=3, tol=0.0 if how != "warning" else 1e-9, random_state=0), *first)
    before, answers = dict(vars(model)), model.predict(first[0])
    if how == "callback":
        model.callbacks = before["callbacks"] = fail
        with pytest.raises(RuntimeError, match="full disk"):
            model.fit(*second)
    elif how == "warning":
        with warnings.catch_warnings(), pytest.raises(ConvergenceWarning):
            warnings.simplefilter("error", ConvergenceWarning)
            model.fit(*second)
    else:
        with pytest.raises((ValueError, TypeError)):
            model.fit(second[0], second[1][:-1])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert all(np.array_equal(a, b) for a, b in zip(answers, model.predict(first[0]), strict=True))


def test_a_first_fit_that_fails_leaves_nothing():
    model = SequenceLabeler(callbacks=fail)
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match="full disk"):
        model.fit(SEQUENCES, LABELS)
    assert vars(model) == before


@pytest.mark.parametrize("solver", ["bcfw", "pairwise"])
def test_a_dual_state_that_a_failed_fit_has_changed_is_not_used(solver):
    settings = {"tol": 0.0, "random_state": 0, "warm_start": True}
    model = SequenceLabeler(max_iter=2, solver=solver, **settings).fit(SEQUENCES, LABELS)
    with pytest.raises(ValueError, match="y is None"):
        model.fit(SEQUENCES, None)
    assert model._dual is not None  # refused before it was touched
    model.callbacks, model.max_iter = [lambda c: c.passes < 3 or fail(c)], 9
    model.solver = Checked(solver, every=1)
    with pytest.raises(RuntimeError, match="full disk"):
        model.fit(SEQUENCES, LABELS)
    assert model._dual is None
    model.callbacks = None
    again = model.fit(SEQUENCES, LABELS)
    clean = SequenceLabeler(max_iter=9, solver=model.solver, **settings).fit(SEQUENCES, LABELS)
    assert again.weights_.tobytes() == clean.weights_.tobytes()
    assert again.gap_ >= -1e-9


def test_the_warning_names_the_line_of_the_user():
    with pytest.warns(ConvergenceWarning) as found:
        MulticlassClassifier(max_iter=1, tol=1e-9).fit(X, Y)
    assert found[0].filename == __file__


# --- weight 0 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [["new"] * 4, [["unhashable"]] * 4, [np.nan] * 4, ["I-x"] * 4])
def test_sequences_of_weight_zero_name_no_classes(other):
    names = [["B-x" if k else "O" for k in y] for y in LABELS]
    settings = {"tol": 0.0, "max_iter": 20, "random_state": 0}
    if other[0] == "I-x":  # breaks the constraints, which nobody asks
        settings |= {"constraints": "bio", "classes": ["O", "B-x", "I-x"]}
    kept = [0, 1, 3, 4]
    without = SequenceLabeler(**settings).fit(
        [SEQUENCES[i] for i in kept], [names[i] for i in kept]
    )
    y = [*names[:2], other, *names[3:]]
    model = SequenceLabeler(**settings).fit(SEQUENCES, y, [1, 1, 0, 1, 1])
    assert model.classes_.tolist() == without.classes_.tolist()
    assert model.weights_.tobytes() == without.weights_.tobytes()


def test_places_are_those_of_all_sequences():
    y = [labels.tolist() for labels in LABELS]
    weights = [0, 1, 0, 1, 1]
    with pytest.raises(ValueError, match=r"y\[3\]\[1\] is a list, which cannot be a label"):
        SequenceLabeler().fit(SEQUENCES, [*y[:3], [0, [1]], y[4]], weights)
    with pytest.raises(ValueError, match=r"y\[3\]\[1\] is 7, which is not among the declared"):
        SequenceLabeler(classes=[0, 1]).fit(SEQUENCES, [*y[:3], [0, 7], y[4]], weights)
    with pytest.raises(ValueError, match=r"y\[3\]\[1\] is 1, which may not follow 0"):
        SequenceLabeler(classes=[0, 1], constraints={"transitions": [(0, 1)]}).fit(
            SEQUENCES, [*y[:1], [1], y[2], [0, 1], [1] * 5], weights
        )
    with pytest.raises(ValueError, match="y has 1 class: 0"):
        SequenceLabeler().fit(
            SEQUENCES, [[0] * len(x) for x in SEQUENCES[:4]] + [[1] * 5], [1, 1, 1, 1, 0]
        )
