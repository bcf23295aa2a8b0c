"""Parameters that no fit could use are refused by name, before a look at the data."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import (
    RBF,
    Averaged,
    BlockFrankWolfe,
    Checked,
    EarlyStopping,
    GraphLabeler,
    GridLabeler,
    HammingLoss,
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
    (MulticlassClassifier, {"order": "gap"}, "solver=BlockFrankWolfe(order='gap')"),
    (SequenceLabeler, {"average": False}, "solver=Averaged('auto', power=8.0), or a solver"),
    (SequenceLabeler, {"oracle": "mirror-prox"}, "solver=BlockFrankWolfe(oracle=MirrorProx())"),
    (
        TreeParser,
        {"oracle_iterations": 7},
        "solver=BlockFrankWolfe(oracle=MirrorProx(7)), for trees",
    ),
    (SequenceLabeler, {"check_every": 5}, "solver=Checked('auto', every=5)"),
    (MultiLabelClassifier, {"rho": 0.1}, "SoftAgreement(rho=0.1)"),
    (GraphLabeler, {"agreement": "soft"}, "SoftAgreement(agreement='soft')"),
    (LabelRanker, {"projection": "quadratic"}, "oracle=MirrorProx(projection='quadratic')"),
    (MulticlassClassifier, {"kernel": "rbf", "gamma": 0.5}, "kernel=RBF(gamma=0.5)"),
    (OrdinalClassifier, {"gamma": 0.5}, "kernel=RBF(gamma=0.5)"),
    (GraphLabeler, {"coef0": 1.0}, "kernel=Polynomial(coef0=1.0)"),
    (StructuredPredictor, {"n_iter_no_change": 3}, "early_stopping=EarlyStopping(n_iter_no_cha"),
    (MultiLabelClassifier, {"hidden_starts": 3}, "hidden=Hidden(starts=3)"),
    (SequenceLabeler, {"normalize_loss": True}, "loss=HammingLoss(normalize=True)"),
    (GridLabeler, {"directions": "shared"}, "neighbors=Neighbors(directions='shared')"),
    (
        SequenceLabeler,
        {"check_every": 5, "gamma": 2.0},
        "(check_every=5, gamma=2.0) moved: write solver=Checked('auto', every=5), kernel=RBF(gam",
    ),
]


@pytest.mark.parametrize("estimator, params, spelling", MOVED)
def test_parameters_that_moved_show_their_new_spelling(estimator, params, spelling):
    with pytest.raises(TypeError, match="moved: write ") as caught:
        estimator(**params)
    assert spelling in str(caught.value)
    own = {
        name: params[name]
        for name in ("solver", "surrogate", "kernel", "early_stopping")
        if name in params
    }
    model = estimator(**own)
    before = model.get_params()
    with pytest.raises(ValueError, match="moved: write ") as caught:
        model.set_params(**{name: params[name] for name in params if name not in own})
    assert spelling in str(caught.value)
    assert model.get_params() == before


def test_parameters_that_an_estimator_never_had_are_unknown():
    with pytest.raises(TypeError, match="unexpected keyword argument 'gamma'"):
        TreeParser(gamma=1.0)


def test_a_name_has_no_parameters_to_set():
    for name in ("kernel__gamma", "solver__order", "early_stopping__n_iter_no_change"):
        model = MulticlassClassifier(kernel="rbf")
        with pytest.raises(ValueError, match=f"{name} cannot be set, because .* no parameters"):
            model.set_params(**{name: 1})
    assert model.set_params(kernel=RBF(), kernel__gamma=2.0).kernel.gamma == 2.0


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


SWITCHES = ["warm_start"]
SWITCH_CASES = [(estimator, name) for estimator in ESTIMATORS for name in SWITCHES]
SWITCH_CASES += [(estimator, "fit_intercept") for estimator in ESTIMATORS[:4]]
SWITCH_CASES += [(SequenceLabeler, "boundary_weights")]


@pytest.mark.parametrize("estimator, name", SWITCH_CASES)
def test_word_that_would_count_as_true(estimator, name):
    with pytest.raises(ValueError, match=f"{name} must be True or False; received 'no'"):
        estimator(**{name: "no"}).fit(*NO_DATA)


def test_words_that_stand_for_no_value():
    for params, match in (
        (
            {"early_stopping": "no"},
            "early_stopping must be True or False, or .*received 'no'",
        ),
        ({"hidden": "no"}, r"hidden must be 'auto', True or False, or Hidden.*received 'no'"),
        ({"loss": "0-1"}, r"loss must be 'hamming' or a matrix, or Hamming.*received '0-1'"),
        ({"loss": HammingLoss(normalize="no")}, "normalize must be True or False; received 'no'"),
        ({"kernel": "sigmoid"}, "kernel must be one of 'linear', .* received 'sigmoid'"),
    ):
        with pytest.raises(ValueError, match=match):
            SequenceLabeler(**params).fit(*NO_DATA)


BAD_SPLITS = {
    "validation_fraction": [0, 1, 1.5, -0.1, np.nan, "half", None],
    "n_iter_no_change": [0, 1.5, "few", None],
}
SPLIT_CASES = [(name, value) for name, values in BAD_SPLITS.items() for value in values]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name, value", SPLIT_CASES)
def test_early_stopping(estimator, name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*received {value!r}"):
        estimator(early_stopping=EarlyStopping(**{name: value})).fit(*NO_DATA)


def test_early_stopping_needs_something_to_hold_out():
    model = MulticlassClassifier(early_stopping=True, classes=[0, 1])
    with pytest.raises(ValueError, match=r"early_stopping=True needs examples.*of 1 none .*left"):
        model.fit([[1.0]], [0])
