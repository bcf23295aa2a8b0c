"""Partial annotation: hidden labels as latent variables, against enumeration and convex solvers."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import steppers
from marks import more
from maxmargin import EarlyStopping, Hidden, SequenceLabeler, load, save
from maxmargin.features.rows import pack_rows
from maxmargin.solvers.problem import Problem
from maxmargin.surrogates.crf import Crf

K, D = 3, 4
RANDOM = np.random.RandomState(0)
CENTRES = 1.5 * RANDOM.randn(K, D)
LENGTHS = [3, 1, 4, 2, 3, 4, 2, 3, 1, 4, 3, 3]


def _words(lengths, random):
    y = [np.cumsum(random.randint(0, 2, n) + random.randint(0, K)) % K for n in lengths]
    return [CENTRES[codes] + random.randn(len(codes), D) for codes in y], y


X, Y = _words(LENGTHS, RANDOM)
HIDDEN = [np.where(RANDOM.rand(len(codes)) < 0.4, -1, codes) for codes in Y]
HIDDEN[0] = np.array([-1, Y[0][1], -1])
ALPHA = 0.05


def labeler(surrogate="max-margin", **settings):
    given = {"hidden": True, "alpha": ALPHA, "tol": 1e-3, "random_state": 0, **settings}
    return SequenceLabeler(surrogate, **given)


def fit(surrogate="max-margin", x=X, y=HIDDEN, **settings):
    return labeler(surrogate, **settings).fit(x, y)


def scores_of_all(model, x):
    """Every labelling of a sequence, and its score."""
    every = np.array(list(product(range(len(model.classes_)), repeat=len(x))))
    unary = x @ model.coef_.T + model.intercept_
    total = unary[np.arange(len(x)), every].sum(axis=1)
    total += model.transitions_[every[:, :-1], every[:, 1:]].sum(axis=1)
    return every, total + model.first_[every[:, 0]] + model.last_[every[:, -1]]


def max_min_value(every, scores, known):
    """``max_mu min_nu E L + score`` over distributions of all labellings: a linear program."""
    at = np.flatnonzero(known)
    cost = -np.concatenate([scores, np.ones(len(at))])
    rows = []
    for place, t in enumerate(at):
        for label in range(K):
            row = np.zeros(len(cost))
            row[: len(every)] = -(every[:, t] != label).astype(float)
            row[len(every) + place] = 1.0
            rows.append(row)
    total = np.zeros((1, len(cost)))
    total[0, : len(every)] = 1.0
    rows = np.array(rows) if rows else None
    limits = None if rows is None else np.zeros(len(rows))
    found = linprog(cost, rows, limits, total, [1.0], bounds=(0, None))
    return -found.fun


def enumerated_objective(model, x=X, y=HIDDEN):
    """The objective as it is written, over all labellings."""
    total, counted = 0.0, 0
    for features, labels in zip(x, y, strict=True):
        known = labels >= 0
        if not known.any():
            continue
        counted += 1
        every, scores = scores_of_all(model, features)
        agrees = (every[:, known] == labels[known]).all(axis=1)
        if model.surrogate == "crf":
            total += logsumexp(scores) - logsumexp(scores[agrees])
            continue
        if model.surrogate == "max-min":
            worst = max_min_value(every, scores, known)
        else:
            worst = (scores + (every[:, known] != labels[known]).sum(axis=1)).max()
        total += worst - scores[agrees].max()
    return 0.5 * model.alpha_ * model.weights_ @ model.weights_ + total / counted


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
def test_nothing_hidden_is_ordinary_training(surrogate):
    plain = labeler(surrogate, hidden=False).fit(X, Y)
    same = labeler(surrogate, hidden=Hidden(3)).fit(X, Y)
    assert same.weights_.tobytes() == plain.weights_.tobytes()
    assert (same.primal_, same.dual_, same.status_) == (plain.primal_, plain.dual_, "converged")
    assert not hasattr(same, "objective_")


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
def test_objective_is_that_of_the_enumeration(surrogate):
    model = fit(surrogate)
    assert model.status_ == "stationary"
    value = enumerated_objective(model)
    # Max-min reports an upper bound, and by how much it may be off; the others are exact.
    error = model.oracle_error_ if surrogate == "max-min" else 0.0
    assert value <= model.objective_ + 1e-9 and model.objective_ - error <= value + 1e-9
    assert model.objective_ <= model.primal_ and 0.0 <= model.gap_ <= 1e-3 * model.primal_ + 1e-9


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
@pytest.mark.parametrize("surrogate", ["max-margin", more("max-min")])
def test_the_objective_never_rises(surrogate):
    random = np.random.RandomState(3)
    for share in (0.3, 0.6, 0.9):
        x, y = _words(random.randint(1, 6, 40), random)
        y = [np.where(random.rand(len(codes)) < share, -1, codes) for codes in y]
        model = fit(surrogate, x, y, classes=range(K), hidden=Hidden(3), random_state=1)
        falls = np.diff([found.objective for found in model.rounds_])
        assert len(falls) and (falls <= 0.0).all()
        assert model.objective_ == model.rounds_[-1].objective == model.start_objectives_.min()
        assert len(model.start_objectives_) == 3
        assert all(found.objective <= found.primal and found.gap >= 0 for found in model.rounds_)


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_the_certificate_is_that_of_the_last_convex_problem():
    """With hidden labels at their best completion, Clarabel finds nothing below ``dual_``."""
    model = fit(tol=1e-6)
    size = len(model.weights_)
    w = cp.Variable(size)
    terms = []
    for features, labels in zip(X, HIDDEN, strict=True):
        known = labels >= 0
        if not known.any():
            continue
        every, scores = scores_of_all(model, features)
        agrees = np.flatnonzero((every[:, known] == labels[known]).all(axis=1))
        truth = agrees[np.argmax(scores[agrees])]
        maps = np.array([joint_features(features, labelling) for labelling in every])
        loss = (every[:, known] != labels[known]).sum(axis=1)
        terms.append(cp.max(maps @ w + loss) - maps[truth] @ w)
    problem = cp.Problem(cp.Minimize(ALPHA / 2 * cp.sum_squares(w) + sum(terms) / len(terms)))
    best = problem.solve(solver=cp.CLARABEL)
    assert not model.rounds_[-1].changed
    assert model.dual_ - 1e-6 <= best <= model.primal_ + 1e-6
    assert model.gap_ <= 1e-6 * model.primal_ + 1e-9


def joint_features(x, labels):
    """Phi(x, y) in the order of the weights."""
    inputs = np.hstack([x, np.ones((len(x), 1))])
    matrix = np.zeros((D + 1 + K + 2, K))
    for t, label in enumerate(labels):
        matrix[: D + 1, label] += inputs[t]
        if t > 0:
            matrix[D + 1 + labels[t - 1], label] += 1.0
    matrix[D + 1 + K, labels[0]] += 1.0
    matrix[D + 2 + K, labels[-1]] += 1.0
    return matrix.ravel()


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_gradient_of_the_likelihood_of_known_labels():
    model = fit("crf")
    kept = [i for i, labels in enumerate(HIDDEN) if (labels >= 0).any()]
    x, y = [X[i] for i in kept], [HIDDEN[i] for i in kept]
    labels = np.concatenate(y).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in y])])
    known = np.ones((len(labels), K), bool)
    known[labels >= 0] = False
    known[labels >= 0, labels[labels >= 0]] = True
    masks = (np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool))
    from maxmargin.structures.masks import TransitionMasks

    chain = model._chain(indptr, TransitionMasks(*masks), np.ones((0, K), bool))
    chain = chain._replace(truth=np.maximum(labels, 0).astype(np.int32))
    rows = pack_rows(np.concatenate(x), fit_intercept=True)
    problem = Problem(chain, Crf(), rows, ALPHA, np.ones(len(x)))
    problem.clamped = chain._replace(masked=True, allowed=known)
    weights = RANDOM.randn(problem.n_weights)
    point = steppers.lbfgs(problem, weights).state.at
    step = 1e-5
    for k in range(0, problem.n_weights, 3):
        values = []
        for sign in (1, -1):
            moved = weights.copy()
            moved[k] += sign * step
            values.append(steppers.lbfgs(problem, moved).state.at.value)
        # Central differences: the error is of order step^2, rounding of order 1e-16 / step.
        assert point.gradient[k] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("surrogate", ["max-margin", "crf"])
def test_hidden_letters_of_real_words_help(ocr, surrogate):
    words, letters, fold = ocr
    train, test = np.flatnonzero(fold == 0)[:300], np.flatnonzero(fold == 1)[:300]
    random = np.random.RandomState(0)
    x = [words[i] for i in train]
    y = [np.where(random.rand(len(letters[i])) < 0.5, -1, letters[i]) for i in train]
    runs_x, runs_y = [], []
    for features, labels in zip(x, y, strict=True):
        known = np.flatnonzero(labels >= 0)
        for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
            if len(run):
                runs_x.append(features[run])
                runs_y.append(labels[run])
    whole = [i for i, labels in enumerate(y) if (labels >= 0).all()]
    held_out = [words[i] for i in test], [letters[i] for i in test]
    common = {"classes": range(26), "random_state": 0}
    if surrogate == "crf":
        common["solver"] = "lbfgs"

    def accuracy(x, y, **settings):
        model = SequenceLabeler(surrogate, alpha=10.0 / len(x), **common, **settings)
        return model.fit(x, y).score(*held_out)

    with pytest.warns(UserWarning, match="hidden labels only"):
        latent = accuracy(x, y, hidden=True)
    assert latent > accuracy(runs_x, runs_y, boundary_weights=False) + 0.01
    assert latent > accuracy([x[i] for i in whole], [y[i] for i in whole]) + 0.2


# --- interface ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_markers_are_none_and_minus_one():
    by_number = fit()
    with_none = [[None if label < 0 else int(label) for label in labels] for labels in HIDDEN]
    by_none = fit(y=with_none)
    assert by_none.weights_.tobytes() == by_number.weights_.tobytes()
    assert by_none.classes_.dtype == by_number.classes_.dtype
    names = [[None if label < 0 else "abc"[label] for label in labels] for labels in HIDDEN]
    assert fit(y=names).weights_.tobytes() == by_number.weights_.tobytes()
    # Declared, or beside other negative numbers, -1 is a label like any other.
    declared = fit(classes=[-1, 0, 1, 2])
    assert declared.classes_.tolist() == [-1, 0, 1, 2] and declared.status_ == "converged"
    negative = fit(y=[labels - 5 * (labels == 2) for labels in HIDDEN])
    assert negative.classes_.tolist() == [-3, -1, 0, 1]
    assert labeler(hidden=False).fit(X, HIDDEN).classes_.tolist() == [-1, 0, 1, 2]
    assert None in labeler(hidden=False).fit(X, names).classes_.tolist()


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_marks_are_understood_without_being_asked_for():
    asked = fit()
    names = [[None if label < 0 else "abc"[label] for label in labels] for labels in HIDDEN]
    assert fit(y=names, hidden="auto").weights_.tobytes() == asked.weights_.tobytes()
    with pytest.warns(UserWarning, match="y holds -1 in .* Say hidden=True if .* hidden=False if"):
        unasked = fit(hidden="auto")
    assert unasked.weights_.tobytes() == asked.weights_.tobytes()
    assert unasked.score(X, HIDDEN) == asked.score(X, HIDDEN)
    # Two classes that are called -1 and 1 are no marks.
    signs = [np.where(labels > 0, 1, -1) for labels in Y]
    assert fit(y=signs, hidden="auto").classes_.tolist() == [-1, 1]
    with pytest.raises(ValueError, match="hidden must be .*received 'no'"):
        fit(hidden="no")


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_scores_leave_hidden_labels_out():
    model = fit()
    right = [found == labels for found, labels in zip(model.predict(X), Y, strict=True)]
    known = [labels >= 0 for labels in HIDDEN]
    expected = np.concatenate(right)[np.concatenate(known)].mean()
    assert model.score(X, HIDDEN) == pytest.approx(expected, rel=1e-15)
    search = GridSearchCV(labeler(), {"alpha": [0.01, 10.0]}, cv=2).fit(X, HIDDEN)
    assert search.best_params_["alpha"] in (0.01, 10.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(ValueError, match="all labels of y are hidden"):
        model.score(X[:1], [[None] * len(X[0])])


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_files_copies_and_refits(tmp_path):
    model = fit()
    objective = model.objective_
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert again.rounds_ == model.rounds_ and again.objective_ == objective
    assert clone(model).fit(X, HIDDEN).weights_.tobytes() == model.weights_.tobytes()
    assert not hasattr(model.fit(X, Y), "objective_")  # nothing of the fit before
    warm = fit(warm_start=True)
    cold = warm.n_iter_
    warm.fit(X, HIDDEN)
    assert warm.n_iter_ < cold and warm.objective_ == pytest.approx(objective, rel=2e-2)


def test_sequences_without_a_label_are_left_out_with_a_warning():
    y = [labels.copy() for labels in HIDDEN]
    y[3][:] = -1
    kept = [i for i in range(len(y)) if (y[i] >= 0).any()]
    with pytest.warns(UserWarning, match=r"\d sequences have hidden labels only \(indices .*3"):
        model = fit(y=y)
    less = fit(x=[X[i] for i in kept], y=[y[i] for i in kept])
    assert less.weights_.tobytes() == model.weights_.tobytes()


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_none_hides_all_labels_of_a_sequence():
    y = [labels.copy() for labels in HIDDEN]
    y[3][:] = -1
    short = [None if (labels < 0).all() else labels for labels in y]
    assert any(labels is None for labels in short)
    model = fit(y=y)
    assert fit(y=short).weights_.tobytes() == model.weights_.tobytes()
    assert model.score(X, short) == model.score(X, y)
    with pytest.raises(ValueError, match=r"y\[3\] must be a sequence of labels.*received None"):
        fit(y=short, hidden=False)


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_constraints_hold_for_hidden_labels():
    forbidden = {"transitions": [(0, 2)]}
    y = [[0, None, 1], [2, 1]]
    x = [RANDOM.randn(3, D), RANDOM.randn(2, D)]
    model = fit(x=x, y=y, constraints=forbidden)
    assert model.status_ == "stationary"
    with pytest.raises(ValueError, match=r"y\[0\]: no labels of its hidden positions go together"):
        fit(x=x, y=[[0, 2, None], [2, 1]], constraints=forbidden)
    only = [[[0], [2], [1]], None]
    with pytest.raises(ValueError, match=r"y\[0\]: no labels of its hidden positions go together"):
        labeler(constraints=forbidden).fit(x, y, allowed=only)


@pytest.mark.filterwarnings("ignore:.*hidden labels only")
def test_a_callback_stops_with_the_best_so_far():
    seen = []

    def stop(check):
        seen.append(check)
        return len(seen) < 6

    model = fit(callbacks=stop)
    assert model.status_ == "stopped" and len(seen) == len(model.history_) == 6
    passes = [check.passes for check in model.history_]
    assert passes == sorted(passes)
    early = fit(early_stopping=EarlyStopping(0.3, 1))
    assert early.status_ in ("early_stopped", "stationary")


def test_bad_input():
    nothing = [[None] * len(x) for x in X]
    with pytest.raises(ValueError, match="all labels of y are hidden; at least one must be known"):
        fit(y=nothing)
    with pytest.raises(ValueError, match=r"y\[0\]\[0\] is '\?', which is not among the declared"):
        fit(y=[["?", *labels[1:]] for labels in HIDDEN], classes=range(K))
    for settings in ({"solver": "bcfw"}, {"kernel": "rbf"}):
        with pytest.raises(ValueError, match="hidden labels with surrogate='crf' are trained by"):
            fit("crf", **settings)
    with pytest.raises(ValueError, match="starts must be an integer >= 1; received 0"):
        fit(hidden=Hidden(0))
    with pytest.raises(ValueError, match="hidden must be"):
        fit(hidden="yes")
    with pytest.raises(ValueError, match=r"partial_y\[0\]\[0\] names -1"):
        fit(y=Y).predict(X[:1], partial_y=[[-1, 0, 1]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_page_on_hidden_labels_runs():
    page = Path(__file__).resolve().parent.parent / "docs" / "hidden.md"
    block = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)[0]
    names: dict[str, object] = {}
    exec(compile(block, "docs/hidden.md", "exec"), names)
    assert names["model"].status_ == "stationary"
