"""Where no class has a majority: what the surrogates converge to with infinite data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from marks import more
from maxmargin import (
    Latent,
    LatentPredictor,
    MulticlassClassifier,
    SequenceLabeler,
    SharedPairs,
    Subset,
)
from maxmargin.certificates import summary

CHANCES = [0.3, 0.3, 0.4]


def scores(surrogate, alpha, chances=CHANCES, **settings):
    """Scores at the one input there is; weights are probabilities, so the data are infinite."""
    k = len(chances)
    model = MulticlassClassifier(
        surrogate,
        alpha=alpha,
        fit_intercept=False,
        tol=1e-9,
        max_iter=100_000,
        random_state=0,
        **settings,
    )
    model.fit(np.ones((k, 1)), np.arange(k), sample_weight=chances)
    assert model.status_ == "converged"
    return model, model.coef_[:, 0]


@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.001])
def test_max_margin_ties(alpha):
    model, found = scores("max-margin", alpha)
    np.testing.assert_allclose(found, 0.0, atol=summary(model).weight_distance + 1e-9)
    assert model.primal_ == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("loss", ["0-1", more(1.0 - np.eye(3))], ids=["formula", "matrix"])
@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.001])
def test_max_min_finds_the_best_class(alpha, loss):
    model, found = scores("max-min", alpha, loss=loss)
    radius = summary(model).weight_distance + 1e-9
    np.testing.assert_allclose(found, [-1 / 3, -1 / 3, 2 / 3], atol=radius)
    assert model.predict([[1.0]])[0] == 2
    # The surrogate's optimum is the smallest possible risk, .6, and the penalty.
    assert model.primal_ == pytest.approx(0.6 + 0.5 * alpha * 2 / 3, abs=1e-8)


def test_more_penalty_than_that_shrinks_the_answer():
    _, found = scores("max-min", 0.2)
    assert found[2] < 2 / 3 - 0.05 and found.argmax() == 2


def test_both_are_right_with_a_majority():
    for surrogate in ("max-margin", "max-min"):
        _, found = scores(surrogate, 0.01, [0.2, 0.2, 0.6])
        assert found.argmax() == 2 and found[2] - found[0] > 0.9


def test_an_optimum_at_zero_is_named_with_its_remedy():
    X, y = np.ones((10, 1)), np.repeat([0, 1, 2], [4, 3, 3])
    model = MulticlassClassifier(fit_intercept=False, random_state=0)
    with pytest.warns(ConvergenceWarning, match='all zero.*surrogate="max-min"'):
        model.fit(X, y)
    assert model.status_ == "converged" and not model.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert model.set_params(surrogate="max-min").fit(X, y).predict(X[:1])[0] == 0


def test_hidden_labels_do_not_help_against_it():
    X, y = [np.ones((2, 1))] * 10, [np.array([k, -1]) for k in np.repeat([0, 1, 2], [4, 3, 3])]
    model = SequenceLabeler(hidden=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match='all zero.*surrogate="max-min"'):
        model.fit(X, y)
    assert model.status_ == "stationary" and not model.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for surrogate in ("max-min", "crf"):
            assert model.set_params(surrogate=surrogate).fit(X, y).predict(X[:1])[0][0] == 0


def test_latent_variables_do_not_help_against_it():
    structure = Subset(4, 2)
    y = list(structure.enumerate())
    X = np.ones((len(y), 6), int)
    for trainer in ("lssvm", "all"):
        model = LatentPredictor(Latent(structure, SharedPairs()), trainer, random_state=0)
        with pytest.warns(ConvergenceWarning, match='all zero.*trainer="random"'):
            model.fit(X, y)
        assert model.status_ == "stationary" and not model.coef_.any()
