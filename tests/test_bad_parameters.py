"""Parameters that no fit could use are refused by name, before a look at the data."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import (
    Averaged,
    BlockFrankWolfe,
    Checked,
    GraphLabeler,
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    StructuredPredictor,
    TreeParser,
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
    "solver": ("must be one of 'auto', 'accelerated', 'bcfw'", ["newton", None, 3, ["bcfw"]]),
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


BAD_IN_SOLVERS = {
    "every": (Checked, AT_LEAST_ONE, [0, -1, 1.5, "often", True]),
    "order": (BlockFrankWolfe, "must be one of 'permutation', ", ["random", None, 3]),
    "power": (Averaged, "must be a finite number >= 0", ["no", -1.0, np.nan, None]),
    "step_average": (BlockFrankWolfe, "must be a finite number >= 0", ["no", -1.0, np.nan]),
    "line_search": (BlockFrankWolfe, "must be True or False", ["no", None, 3]),
    "solver": (Checked, "must be one of 'auto', 'accelerated', 'bcfw'", ["newton", None, 3]),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "name, value",
    [(name, value) for name, (_, _, values) in BAD_IN_SOLVERS.items() for value in values],
)
def test_parameter_of_a_solver(name, value, estimator):
    solver, expected, _ = BAD_IN_SOLVERS[name]
    with pytest.raises(ValueError) as caught:
        estimator(solver=solver(**{name: value})).fit(*NO_DATA)
    message = str(caught.value)
    assert expected in message and repr(value) in message and name in message


MOVED = [
    (
        MulticlassClassifier,
        {"order": "gap"},
        "solver=Averaged(solver=Accelerated(solver=BlockFrankWolfe(order='gap')))",
    ),
    (
        SequenceLabeler,
        {"solver": "bcfw", "average": False},
        "solver=BlockFrankWolfe()",
    ),
    (
        SequenceLabeler,
        {"surrogate": "max-min", "oracle": "mirror-prox", "oracle_iterations": 5},
        "solver=BlockFrankWolfe(oracle=MirrorProx(iterations=5), step_average=3.0)",
    ),
    (SequenceLabeler, {"check_every": 5}, "solver=Checked(every=5)"),
    (MultiLabelClassifier, {"rho": 0.1}, "SoftAgreement(order='active', rho=0.1)"),
    (GraphLabeler, {"agreement": "soft"}, "SoftAgreement(agreement='soft')"),
    (LabelRanker, {"projection": "quadratic"}, "oracle=MirrorProx(projection='quadratic')"),
    (TreeParser, {"oracle_iterations": 7}, "oracle=DoubleOracle(iterations=7)"),
]


@pytest.mark.parametrize("estimator, params, spelling", MOVED)
def test_parameters_that_moved_show_their_new_spelling(estimator, params, spelling):
    with pytest.raises(TypeError, match="moved into the solver: write solver=") as caught:
        estimator(**params)
    assert spelling in str(caught.value)
    own = {name: params[name] for name in ("solver", "surrogate") if name in params}
    model = estimator(**own)
    before = model.get_params()
    with pytest.raises(ValueError, match="moved into the solver: write solver=") as caught:
        model.set_params(**{name: params[name] for name in params if name not in own})
    assert spelling in str(caught.value)
    assert model.get_params() == before


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
