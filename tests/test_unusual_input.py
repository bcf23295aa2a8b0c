"""Input that is unusual but good: it must simply work, with a true certificate."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from maxmargin import EarlyStopping, MulticlassClassifier, OrdinalClassifier

RNG = np.random.RandomState(0)
X = RNG.randn(30, 3)
Y = (X[:, 0] + 0.5 * RNG.randn(30) > [[-0.5], [0.5]]).sum(axis=0)
ESTIMATORS = [MulticlassClassifier, OrdinalClassifier]


def primal(model, X, y):
    """The objective, from the fitted attributes, as the documentation writes it."""
    scores = np.asarray(X @ model.coef_.T) + model.intercept_
    codes = np.array([model.classes_.tolist().index(label) for label in y])
    K = len(model.classes_)
    distance = np.abs(np.arange(K)[:, None] - np.arange(K))
    if model.surrogate == "max-margin":  # of the 0-1 loss
        values = (scores + (distance[codes] > 0)).max(axis=1)
    elif isinstance(model, OrdinalClassifier):
        pairs = scores[:, :, None] + scores[:, None, :] + distance
        values = 0.5 * pairs.reshape(len(scores), -1).max(axis=1)
    else:  # 1 + max_j (sum of the j best scores - 1) / j
        best = -np.sort(-scores, axis=1).cumsum(axis=1)
        values = 1.0 + ((best - 1.0) / np.arange(1, K + 1)).max(axis=1)
    square = (model.coef_**2).sum() + (model.intercept_**2).sum()
    return 0.5 * model.alpha_ * square + np.mean(values - scores[np.arange(len(codes)), codes])


def assert_certified(model, X, y):
    expected = primal(model, X, y)
    assert model.primal_ == pytest.approx(expected, rel=1e-9)
    assert model.gap_ == model.primal_ - model.dual_
    assert model.gap_ >= -1e-9 * max(1.0, model.primal_)
    # w = 0 is a candidate of every fit, so no fit is worse.
    zero = primal_at_zero(model, X, y)
    assert model.dual_ <= zero * (1 + 1e-12) and model.primal_ <= zero * (1 + 1e-12)


def primal_at_zero(model, X, y):
    K = len(model.classes_)
    if model.surrogate == "max-margin":
        return 1.0
    return (K - 1) / 2 if isinstance(model, OrdinalClassifier) else 1 - 1 / K


# --- features -----------------------------------------------------------------------------------

EASY = {
    "constant features": (np.ones((30, 3)), Y),
    "zero features": (np.zeros((30, 3)), Y),
    "empty CSR rows": (sp.csr_matrix((30, 3)), Y),
    "duplicates": (np.repeat(X[::5], 5, axis=0), np.repeat(Y[::5], 5)),
    "contradictions": (np.repeat(X[:10], 3, axis=0), np.tile([0, 1, 2], 10)),
    "one example of each class": (X[[0, 1, 2]], np.array([2, 0, 1])),
    "tiny features": (X * 1e-6, Y),
    "int8": (np.round(3 * X).astype(np.int8), Y),
    "bools": (X > 0, Y),
    "lists": (X.tolist(), Y.tolist()),
    "Fortran order": (np.asfortranarray(X), Y),
    "negative strides": (X[::-1, ::-1], Y[::-1]),
    "duplicate entries": (
        sp.coo_matrix((np.ones(60), (np.repeat(np.arange(30), 2), np.repeat(Y, 2))), (30, 3)),
        Y,
    ),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", EASY)
def test_fit_converges_with_a_true_certificate(estimator, case):
    examples, labels = EASY[case]
    model = estimator(random_state=0).fit(examples, labels)
    assert model.status_ == "converged"
    plain = examples.toarray() if sp.issparse(examples) else np.asarray(examples, dtype=float)
    assert_certified(model, plain, labels)
    assert model.predict(examples).shape == (len(labels),)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("size", [1e-6, 1e-8])
def test_nothing_to_learn_from_features_that_almost_vanish(estimator, size):
    model = estimator("max-min", fit_intercept=False, random_state=0).fit(X * size, Y)
    assert model.status_ == "converged"
    assert_certified(model, X * size, Y)


LARGE = {
    "1e6": X * 1e6,
    "columns of all sizes": X * [1e6, 1.0, 1e-6],
    "rows of all sizes": X * np.logspace(-6, 6, 30)[:, None],
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", LARGE)
def test_certificate_is_true_for_large_features(estimator, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # too hard for 1000 passes, and said so
        model = estimator(random_state=0).fit(LARGE[case], Y)
    assert_certified(model, LARGE[case], Y)
    # With a penalty in proportion, large features are as easy as others.
    easy = estimator(alpha=1e12 / 30, fit_intercept=False, random_state=0).fit(X * 1e6, Y)
    same = estimator(alpha=1 / 30, fit_intercept=False, random_state=0).fit(X, Y)
    assert easy.status_ == same.status_ == "converged"
    assert (easy.predict(X * 1e6) == same.predict(X)).all()
    assert easy.primal_ == pytest.approx(same.primal_, rel=0.01)  # each is within tol = 0.01


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_example_and_declared_classes(estimator):
    model = estimator(classes=["no", "yes"], random_state=0).fit(X[:1], ["yes"])
    assert model.status_ == "converged"
    assert model.predict(X[:1]).tolist() == ["yes"]
    assert model.classes_.tolist() == ["no", "yes"]
    assert_certified(model, X[:1], ["yes"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_dense_and_sparse_agree(estimator):
    dense = estimator(tol=1e-6, max_iter=100_000, random_state=0).fit(X, Y)
    sparse = estimator(tol=1e-6, max_iter=100_000, random_state=0).fit(sp.csr_matrix(X), Y)
    assert abs(dense.primal_ - sparse.primal_) <= 1e-6 * dense.primal_
    # Strong convexity: alpha/2 |w - w*|^2 <= P(w) - P(w*) <= gap, for each of the two.
    distance = np.sqrt(2 / dense.alpha_) * (np.sqrt(dense.gap_) + np.sqrt(sparse.gap_))
    assert np.linalg.norm(dense.coef_ - sparse.coef_) <= distance
    new = RNG.randn(50, 3)
    assert (dense.predict(new) == sparse.predict(sp.csr_matrix(new))).all()
    # One model, two kinds of input: the same scores up to the order of summation.
    np.testing.assert_allclose(
        dense.decision_function(new), dense.decision_function(sp.csr_matrix(new)), rtol=1e-12,
        atol=1e-12,
    )  # fmt: skip


@pytest.mark.more
def test_ten_thousand_classes_in_little_memory():
    script = """
        import pathlib, resource, sys, warnings
        import numpy as np
        from maxmargin import MulticlassClassifier
        warnings.simplefilter("ignore")  # scikit-learn takes many classes for a regression
        n = int(sys.argv[1])
        X, y = np.random.RandomState(0).randn(n, 2), np.arange(n)
        model = MulticlassClassifier(max_iter=2, tol=0.0, warm_start=True, random_state=0)
        model.fit(X, y)
        dual = model._dual[1]
        assert n < 100 or dual.nbytes < n * n * 8 / 20, dual.nbytes
        assert 0 < model.gap_ < model.primal_ <= 1.0
        assert model.predict(X).shape == (n,)
        # The kernel's own mark: getrusage also counts what the parent had when it started this.
        status = pathlib.Path("/proc/self/status")
        marks = status.read_text().splitlines() if status.is_file() else []
        marks = [int(line.split()[1]) for line in marks if line.startswith("VmHWM")]
        print(marks[0] if marks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    # Without prebuilt kernels the first process compiles, which takes memory of its own.
    for n in (20, 10_000) if os.environ.get("MAXMARGIN_PREBUILT") == "0" else (10_000,):
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), str(n)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    kilobytes = int(run.stdout) / (1024 if sys.platform == "darwin" else 1)
    assert kilobytes < 1_000_000


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weight_zero_is_left_out_also_of_what_is_held_out(estimator):
    for seed in range(10):
        model = estimator(
            class_weight={1: 0.0, 2: 0.0}, early_stopping=EarlyStopping(n_iter_no_change=2),
            random_state=seed,
        ).fit(X, Y)  # fmt: skip
        assert model.history_[-1].validation_score is not None
        assert set(model.predict(X[Y == 0])) == {0}


# --- labels -------------------------------------------------------------------------------------

LABELS = {
    "ints": [7, -2, 10**12],
    "large ints": [2**63, -1, 2**64],
    "strings": ["b", "a", "søster"],
    "strings that end with zero bytes": ["a", "a\0", "a\0\0"],
    "tuples": [("a", 1), ("a", 2), ("b",)],
    "tuples of one length": [(0, 0), (0, 1), (1, 0)],
    "None among strings": ["x", None, "y"],
    "mixed": [1, "one", (1, "one")],
    "numpy scalars": [np.int16(3), np.int16(1), np.int16(2)],
    "numpy strings": [np.str_("u"), np.str_("v"), np.str_("w")],
    "floats": [0.0, 1.0, 2.0],
    "frozensets": [frozenset("a"), frozenset("ab"), frozenset()],
    "bytes": [b"a", b"b", b"c"],
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("declared", [True, False])
def test_any_hashable_is_a_label(estimator, kind, declared):
    labels = LABELS[kind]
    if estimator is OrdinalClassifier and any(isinstance(label, str) for label in labels):
        declared = True  # strings do not say their order
    y = [labels[code] for code in Y]
    reference = estimator(random_state=0).fit(X, Y)
    order = labels if declared else None
    model = estimator(classes=order, random_state=0).fit(X, y)
    assert len(model.classes_) == 3 and set(model.classes_.tolist()) == set(labels)
    found = model.predict(X).tolist()
    assert set(found) <= set(labels)
    if declared:
        assert model.classes_.tolist() == labels
        assert found == [labels[code] for code in reference.predict(X)]
        assert model.score(X, y) == reference.score(X, Y)
    if estimator is MulticlassClassifier:
        assert model.score(X, y) == np.mean([a == b for a, b in zip(found, y)]) > 0.6


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", [list, np.array])
def test_bools_are_labels(estimator, kind):
    y = kind([bool(code) for code in Y])
    model = estimator(random_state=0).fit(X, y)
    assert model.classes_.tolist() == [False, True] and model.classes_.dtype == bool
    assert model.decision_function(X).shape == (30,)
    assert ((model.decision_function(X) > 0) == model.predict(X)).all()


def test_declared_order_is_the_scale_of_an_ordinal_classifier():
    names = ["low", "medium", "high"]
    y = [names[code] for code in Y]
    model = OrdinalClassifier(classes=names, random_state=0).fit(X, y)
    assert model.classes_.tolist() == names
    numbers = OrdinalClassifier(random_state=0).fit(X, Y)
    assert (model.coef_ == numbers.coef_).all()
    assert model.score(X, y) == numbers.score(X, Y)
    # A class between the others that never occurs keeps its place on the scale.
    wide = OrdinalClassifier(classes=["low", "medium", "rather high", "high"], random_state=0)
    wide.fit(X, y)
    assert wide.coef_.shape == (4, 3)
    assert wide.score(X, ["high"] * 30) <= model.score(X, ["high"] * 30)


def test_unsorted_classes_change_nothing_but_the_order():
    forwards = MulticlassClassifier(classes=[0, 1, 2], random_state=0).fit(X, Y)
    backwards = MulticlassClassifier(classes=[2, 1, 0], random_state=0).fit(X, Y)
    assert abs(forwards.primal_ - backwards.primal_) <= forwards.gap_ + backwards.gap_
    assert backwards.classes_.tolist() == [2, 1, 0]
