"""Fenchel-Young losses against convex programs over all outputs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch
from outputs import make_case

from maxmargin.torch import CRFLoss, FenchelYoungLoss, MaxMinLoss, Multiclass


def _conjugate(case, regularizer, s):
    """``max_mu v @ mu - Omega(mu)`` over distributions of the outputs, by a convex solver."""
    table = np.array(case.outputs, float)
    if table.shape[1] == 1:  # classes
        table = np.eye(len(case.outputs))
    p = cp.Variable(len(case.outputs))
    mu = table.T @ p
    scores = case.leaves[0].detach().numpy()[0]
    objective = scores @ mu
    if regularizer == "quadratic":
        objective -= s / 2 * cp.sum_squares(mu)
    else:
        objective += cp.min(case.losses @ p) + s * cp.sum(cp.entr(mu))
        if len(case.outputs) != table.shape[1]:  # label sets: entropy of both states
            objective += s * cp.sum(cp.entr(1 - mu))
    # in units of s: otherwise the solver may end at probabilities just below 0
    problem = cp.Problem(cp.Maximize(objective / s), [p >= 0, cp.sum(p) == 1])
    problem.solve(cp.CLARABEL)
    at_truth = s / 2 * table[case.truth].sum() if regularizer == "quadratic" else 0.0
    return s * problem.value - scores @ table[case.truth] + at_truth


@pytest.mark.parametrize("strength", (0.1, 1.5))
@pytest.mark.parametrize("regularizer", ("quadratic", "max-min"))
@pytest.mark.parametrize("name", ("multiclass", "ordinal", "multilabel"))
def test_values_are_those_of_a_convex_solver(name, regularizer, strength):
    for seed in range(2):
        case = make_case(name, seed)
        loss = FenchelYoungLoss(case.structure, regularizer, strength=strength)
        found = loss(case.scores, case.target).item()
        assert found == pytest.approx(_conjugate(case, regularizer, strength), abs=1e-6)
        assert found >= 0.0


@pytest.mark.parametrize("regularizer", ("quadratic", "max-min"))
@pytest.mark.parametrize("name", ("multiclass", "ordinal", "multilabel"))
def test_gradcheck(name, regularizer):
    case = make_case(name)
    loss = FenchelYoungLoss(case.structure, regularizer, strength=0.7)
    assert torch.autograd.gradcheck(lambda v: loss(v, case.target), case.leaves)


@pytest.mark.parametrize("name", ("multiclass", "chain", "arborescence", "subset"))
def test_entropy_is_a_crf_at_a_temperature(name):
    case = make_case(name)

    def value(*leaves):
        scores = leaves[0] if len(leaves) == 1 else type(case.scores)(*leaves)
        return FenchelYoungLoss(case.structure, strength=0.5)(scores, case.target)

    halves = [leaf * 2.0 for leaf in case.leaves]
    scores = halves[0] if len(halves) == 1 else type(case.scores)(*halves)
    expected = 0.5 * CRFLoss(case.structure)(scores, case.target)
    torch.testing.assert_close(value(*case.leaves), expected)
    assert torch.autograd.gradcheck(value, case.leaves)


def test_small_strengths_come_close_to_max_min():
    for name in ("multiclass", "ordinal", "multilabel"):
        case = make_case(name)
        exact = MaxMinLoss(case.structure)(case.scores, case.target).item()
        smooth = FenchelYoungLoss(case.structure, "max-min", strength=1e-4)
        # The entropy of five classes is at most log 5, of three labels 3 log 2.
        assert 0.0 <= smooth(case.scores, case.target).item() - exact <= 1e-4 * 3 * np.log(2)


def test_costs_of_labels():
    from maxmargin.torch import Multilabel

    rng = np.random.default_rng(0)
    costs = rng.uniform(0.2, 1.0, (2, 3))
    case = make_case("multilabel")
    outputs = np.array(case.outputs)
    wrong = outputs[:, None, :] != outputs[None, :, :]
    true = outputs[None, :, :]
    losses = (wrong * np.where(true == 1, costs[1], costs[0])).sum(2)
    case = case._replace(structure=Multilabel(costs=costs), losses=losses)
    loss = FenchelYoungLoss(case.structure, "max-min", strength=0.3)
    found = loss(case.scores, case.target).item()
    assert found == pytest.approx(_conjugate(case, "max-min", 0.3), abs=1e-6)


def test_what_has_no_formula_is_refused():
    for bad, message in (
        (lambda: FenchelYoungLoss("chain", "quadratic"), "needs 'multiclass' or 'multilabel'"),
        (lambda: FenchelYoungLoss(Multiclass(np.eye(2)[::-1]), "max-min"), "0-1 and the absolute"),
        (lambda: FenchelYoungLoss("multiclass", "l1"), "regularizer must be one of"),
        (lambda: FenchelYoungLoss("multiclass", strength=0.0), "strength must be"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
