"""Fenchel-Young losses against convex programs over all outputs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch
from outputs import make_case

from maxmargin.torch import (
    Chain,
    ChainScores,
    CRFLoss,
    FenchelYoungLoss,
    MaxMinLoss,
    Multiclass,
    marginals,
)


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
        (lambda: FenchelYoungLoss("chain", "quadratic"), "has no formula for 'chain'"),
        (lambda: FenchelYoungLoss("subset", "max-min"), "has no formula for 'subset'"),
        (lambda: FenchelYoungLoss(Chain("absolute"), "max-min"), "for the 0-1 loss of labels"),
        (lambda: marginals(torch.zeros(2, 3, 3), "arborescence", regularizer="max-min"), "formula"),
        (lambda: FenchelYoungLoss(Multiclass(np.eye(2)[::-1]), "max-min"), "0-1 and the absolute"),
        (lambda: FenchelYoungLoss("multiclass", "l1"), "regularizer must be one of"),
        (lambda: FenchelYoungLoss("multiclass", strength=0.0), "strength must be"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()


# --- marginals --------------------------------------------------------------------------------


def _scores(case, leaves):
    return leaves[0] if len(leaves) == 1 else type(case.scores)(*leaves)


@pytest.mark.parametrize("strength", (0.3, 1.5))
@pytest.mark.parametrize("regularizer", ("entropy", "quadratic", "max-min"))
@pytest.mark.parametrize("name", ("multiclass", "ordinal", "multilabel"))
def test_marginals_are_gradients_and_differentiable(name, regularizer, strength):
    for seed in range(3):
        case = make_case(name, seed)
        options = {"regularizer": regularizer, "strength": strength}
        loss = FenchelYoungLoss(case.structure, **options, reduction="sum")
        (slope,) = torch.autograd.grad(loss(case.scores, case.target), case.leaves)
        found = marginals(case.scores, case.structure, **options)
        truth = case.target if name == "multilabel" else torch.eye(5)[case.target]
        torch.testing.assert_close(found - truth, slope, rtol=0, atol=1e-12)
        assert torch.autograd.gradcheck(
            lambda v, case=case, options=options: marginals(v, case.structure, **options),
            case.leaves,
        )


# --- smooth max-min of chains -----------------------------------------------------------------


def _smooth_chain(case, strength):
    """``max_p  E score + sum_t c_t (1 - max_k mu_t(k)) + s entropy(p)``, by a convex solver."""
    table = np.array(case.outputs)
    n, length = table.shape
    p = cp.Variable(n)
    floor = sum(
        1.0 - cp.max(cp.hstack([(table[:, t] == k).astype(float) @ p for k in range(3)]))
        for t in range(length)
    )
    values = case.values.detach().numpy()
    objective = values @ p + floor / length + strength * cp.sum(cp.entr(p))
    cp.Problem(cp.Maximize(objective / strength), [p >= 0, cp.sum(p) == 1]).solve(cp.CLARABEL)
    p.value = np.maximum(p.value, 0.0) / np.maximum(p.value, 0.0).sum()  # may be just below 0
    return objective.value - values[case.truth]


@pytest.mark.parametrize("strength", (0.05, 0.3, 2.0))
@pytest.mark.parametrize("name", ("chain", "chain constrained"))
def test_smooth_chains_are_those_of_a_convex_solver(name, strength):
    for seed in range(2):
        case = make_case(name, seed)
        loss = FenchelYoungLoss(case.structure, "max-min", strength=strength)
        found, bracket = loss(case.scores, case.target, return_bracket=True)
        exact = _smooth_chain(case, strength)
        assert bracket.lower.item() <= exact + 1e-6
        assert exact <= bracket.upper.item() + 1e-6
        assert found.item() == bracket.upper.item()
        # with little entropy, sweeps may end at their limit
        width = bracket.upper.item() - bracket.lower.item()
        assert width <= (1e-8 if strength > 0.1 else 1e-4)
        assert found.item() == pytest.approx(exact, abs=1e-6 + width)


@pytest.mark.parametrize("strength", (0.1, 0.6))
@pytest.mark.parametrize("name", ("chain", "chain constrained"))
def test_derivatives_of_smooth_chains(name, strength):
    case = make_case(name)
    options = {"regularizer": "max-min", "strength": strength}
    loss = FenchelYoungLoss(case.structure, **options)

    def value(*leaves):
        return loss(_scores(case, leaves), case.target)

    def both(*leaves):
        return marginals(_scores(case, leaves), case.structure, transitions=True, **options)

    assert torch.autograd.gradcheck(value, case.leaves)
    assert torch.autograd.gradcheck(both, case.leaves)
    assert torch.autograd.gradgradcheck(value, case.leaves)
    slopes = torch.autograd.grad(value(*case.leaves), case.leaves[:2])
    truth = torch.nn.functional.one_hot(case.target, 3)
    found, pairs = both(*case.leaves)
    torch.testing.assert_close(found - truth, slopes[0], rtol=0, atol=1e-9)
    steps = torch.zeros(3, 3, dtype=torch.float64)
    for a, b in zip(case.target[0, :-1], case.target[0, 1:], strict=True):
        steps[a, b] += 1
    torch.testing.assert_close(pairs[0] - steps, slopes[1], rtol=0, atol=1e-9)


def test_smooth_chains_between_max_min_and_crf():
    case = make_case("chain")
    small = FenchelYoungLoss(case.structure, "max-min", strength=1e-3)
    exact = MaxMinLoss(case.structure, iterations=3000)(
        case.scores, case.target, return_bracket=True
    )[1]
    # The entropy of 27 labellings is at most log 27.
    value = small(case.scores, case.target).item()
    assert exact.lower.item() <= value <= exact.upper.item() + 1e-3 * np.log(27)
    # The Bayes risk of a position is at most 1: for large strengths it does not matter.
    large = FenchelYoungLoss(case.structure, "max-min", strength=100.0)(case.scores, case.target)
    crf = FenchelYoungLoss(case.structure, strength=100.0)(case.scores, case.target)
    assert 0.0 <= large.item() - crf.item() <= 1.0


def test_smooth_chains_in_all_forms():
    generator = torch.Generator().manual_seed(0)
    lengths = (4, 1, 3)
    own = torch.randn(3, 3, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    scores = [torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in lengths]
    tags = [torch.randint(3, (n,), generator=generator) for n in lengths]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    padded = torch.full((3, 4, 3), torch.nan, dtype=torch.float64)
    padded[mask] = torch.cat(scores)
    labels = torch.zeros(3, 4, dtype=torch.long)
    labels[mask] = torch.cat(tags)
    options = {"regularizer": "max-min", "strength": 0.2}
    for shared in (own, own[0]):
        loss = FenchelYoungLoss("chain", **options, reduction="none")
        answers = [
            loss(ChainScores(scores, shared), tags),
            loss(ChainScores(padded, shared), labels, mask=mask),
            loss(ChainScores(torch.cat(scores), shared), torch.cat(tags), offsets=[0, 4, 5, 8]),
        ]
        slopes = [torch.autograd.grad(each.sum(), own)[0] for each in answers]
        found = marginals(ChainScores(scores, shared), "chain", **options)
        in_padded = marginals(ChainScores(padded, shared), "chain", mask=mask, **options)
        for answer, slope in zip(answers[1:], slopes[1:], strict=True):
            torch.testing.assert_close(answer, answers[0], rtol=0, atol=1e-12)
            torch.testing.assert_close(slope, slopes[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(in_padded[mask], torch.cat(found), rtol=0, atol=1e-12)
        assert (in_padded[~mask] == 0).all()
        total = FenchelYoungLoss("chain", **options)(ChainScores(scores, shared), tags)
        torch.testing.assert_close(total, answers[0].mean())
        (slope,) = torch.autograd.grad(in_padded.square().sum(), own, retain_graph=True)
        (other,) = torch.autograd.grad(torch.cat(found).square().sum(), own)
        torch.testing.assert_close(slope, other, rtol=0, atol=1e-10)


def test_smooth_chains_in_single_precision():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 6, 4, generator=generator, requires_grad=True)
    options = {"regularizer": "max-min", "strength": 0.3}
    found = marginals(scores, "chain", **options)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), marginals(scores.double(), "chain", **options))
    (slope,) = torch.autograd.grad(found.square().sum(), scores)
    assert slope.dtype == torch.float32 and torch.isfinite(slope).all()
