"""Parameters that no fit could use are refused by name, before a look at the data."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import (
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    StructuredPredictor,
)

ESTIMATORS = [
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    StructuredPredictor,
]
NO_DATA = (None, None)  # parameters come first: what is wrong here must not be noticed

POSITIVE = "must be a finite number > 0"
AT_LEAST_ONE = "must be an integer >= 1"
BAD = {
    "alpha": (POSITIVE, [0, -1.0, np.nan, np.inf, "strong", None, True, [1.0], 1j]),
    "tol": ("must be a finite number >= 0", [-0.1, np.nan, np.inf, "small", None]),
    "max_iter": (AT_LEAST_ONE, [0, -1, 1.5, np.nan, "many", None, True]),
    "check_every": (AT_LEAST_ONE, [0, -1, 1.5, "often", True]),
    "solver": ("must be one of 'auto', 'accelerated', 'bcfw'", ["newton", None, 3, ["bcfw"]]),
    "order": ("must be one of 'permutation', ", ["random", None, 3]),
    "average": ("must be a finite number >= 0", ["no", -1.0, np.nan, None]),
    "surrogate": ("must be one of 'max-margin', 'max-min'", ["hinge", None, 3]),
    "verbose": ("must be an integer >= 0", [-1, 1.5, "yes", None]),
    "n_jobs": ("must be None or an integer other than 0", [0, 1.5, "all", True]),
}
CASES = [(name, value) for name, (_, values) in BAD.items() for value in values]


@pytest.mark.parametrize(
    "name, value, estimator",
    [
        (name, value, estimator)
        for name, value in CASES
        for estimator in ESTIMATORS
        # None is a value there: it depends on whether labels interact.
        if not (name == "max_iter" and value is None and estimator is MultiLabelClassifier)
    ],
)
def test_parameter(name, value, estimator):
    expected, _ = BAD[name]
    with pytest.raises(ValueError) as caught:
        estimator(**{name: value}).fit(*NO_DATA)
    message = str(caught.value)
    assert expected in message and repr(value) in message
    assert name in message


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "callbacks, match",
    [
        (3, "callbacks must be a callable or a list of callables; received 3"),
        ("print", "callbacks must be a callable or a list of callables; received 'print'"),
        ([print, None], r"callbacks\[1\] must be callable; received NoneType"),
    ],
)
def test_callbacks(estimator, callbacks, match):
    with pytest.raises(TypeError, match=match):
        estimator(callbacks=callbacks).fit(*NO_DATA)


SWITCHES = ["warm_start", "early_stopping"]
SWITCH_CASES = [(estimator, name) for estimator in ESTIMATORS for name in SWITCHES]
SWITCH_CASES += [(estimator, "fit_intercept") for estimator in ESTIMATORS[:4]]
SWITCH_CASES += [(SequenceLabeler, "normalize_loss"), (SequenceLabeler, "boundary_weights")]


@pytest.mark.parametrize("estimator, name", SWITCH_CASES)
def test_word_that_would_count_as_true(estimator, name):
    with pytest.raises(ValueError, match=f"{name} must be True or False; received 'no'"):
        estimator(**{name: "no"}).fit(*NO_DATA)


BAD_SPLITS = {
    "validation_fraction": [0, 1, 1.5, -0.1, np.nan, "half", None],
    "n_iter_no_change": [0, 1.5, "few", None],
}
SPLIT_CASES = [(name, value) for name, values in BAD_SPLITS.items() for value in values]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name, value", SPLIT_CASES)
def test_early_stopping(estimator, name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*received {value!r}"):
        estimator(early_stopping=True, **{name: value}).fit(*NO_DATA)


def test_early_stopping_needs_something_to_hold_out():
    model = MulticlassClassifier(early_stopping=True, classes=[0, 1])
    with pytest.raises(ValueError, match=r"early_stopping=True needs examples.*of 1 none .*left"):
        model.fit([[1.0]], [0])
