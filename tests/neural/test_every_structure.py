"""What every loss of every structure has: reductions, weights, brackets, checks, no copies."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from outputs import MAKERS, make_case

from maxmargin.torch import ChainScores, CRFLoss, FenchelYoungLoss, MaxMarginLoss, MaxMinLoss
from maxmargin.torch._forms import as_rows

LOSSES = {
    "crf": CRFLoss,
    "max-margin": MaxMarginLoss,
    "max-min": MaxMinLoss,
    "entropy": lambda kind, **options: FenchelYoungLoss(kind, strength=0.7, **options),
    "smooth max-min": lambda kind, **options: FenchelYoungLoss(
        kind, "max-min", strength=0.7, **options
    ),
}
SMOOTH = ("multiclass", "ordinal", "multilabel", "chain", "chain constrained")
PAIRS = [
    (name, loss) for name in MAKERS for loss in LOSSES if loss != "smooth max-min" or name in SMOOTH
]


def _batch(name, n=3):
    """Examples of different scores; shared scores of a chain are those of the first."""
    cases = [make_case(name, seed) for seed in range(n)]
    first = torch.cat([case.leaves[0].detach() for case in cases]).requires_grad_()
    shared = cases[0].leaves[1:]
    scores = ChainScores(first, *shared) if shared else first
    return cases[0].structure, first, scores, torch.cat([case.target for case in cases])


@pytest.mark.parametrize(("name", "loss"), PAIRS)
def test_reductions_weights_and_brackets(name, loss):
    structure, leaf, scores, targets = _batch(name)
    weights = torch.tensor([0.5, 0.0, 2.0], dtype=torch.float64)
    make = LOSSES[loss]
    each, bracket = make(structure, reduction="none")(scores, targets, return_bracket=True)
    assert each.shape == bracket.lower.shape == bracket.upper.shape == (3,)
    assert (bracket.lower <= bracket.upper + 1e-12).all()
    torch.testing.assert_close(each, bracket.upper, rtol=0, atol=1e-12)
    weighted = make(structure, reduction="none")(scores, targets, sample_weight=weights)
    torch.testing.assert_close(weighted, weights * each)
    total = make(structure, reduction="sum")(scores, targets, sample_weight=weights)
    mean = make(structure)(scores, targets, sample_weight=weights)
    torch.testing.assert_close(total, (weights * each).sum())
    torch.testing.assert_close(mean, total / weights.sum())
    torch.testing.assert_close(make(structure)(scores, targets), each.mean())
    (slope,) = torch.autograd.grad(mean, leaf)
    (expected,) = torch.autograd.grad(each, leaf, weights / weights.sum(), retain_graph=True)
    torch.testing.assert_close(slope, expected)
    for _ in range(2):  # a graph that is kept gives the same gradient again
        (again,) = torch.autograd.grad(total, leaf, retain_graph=True)
        torch.testing.assert_close(again, weights.sum() * expected)


@pytest.mark.parametrize("bad", (torch.nan, torch.inf, -torch.inf))
@pytest.mark.parametrize("name", MAKERS)
def test_scores_that_are_not_finite_name_the_example(name, bad):
    structure, leaf, scores, targets = _batch(name)
    with torch.no_grad():
        leaf[2].view(-1)[-1] = bad
    for make in (CRFLoss, MaxMarginLoss, MaxMinLoss):
        with pytest.raises(ValueError, match="scores of example 2 contain NaN or infinity"):
            make(structure)(scores, targets)


@pytest.mark.parametrize("name", MAKERS)
def test_half_precision_and_fractions_are_refused(name):
    structure, leaf, scores, targets = _batch(name)
    half = (
        scores._replace(emissions=leaf.half()) if isinstance(scores, ChainScores) else leaf.half()
    )
    for make in (CRFLoss, MaxMarginLoss, MaxMinLoss):
        with pytest.raises(TypeError, match=r"must be float32 or float64; received torch.float16"):
            make(structure)(half, targets)
        with pytest.raises(TypeError, match="targets must hold integers"):
            make(structure)(scores, targets.double())
        with pytest.raises(ValueError, match="targets must be a tensor of shape"):
            make(structure)(scores, targets[:2])


def test_scores_are_read_where_they_are():
    for dtype in (torch.float32, torch.float64):
        scores = torch.randn(4, 3, 5, dtype=dtype, requires_grad=True)
        assert np.shares_memory(as_rows(scores, 5), scores.detach().numpy())


@pytest.mark.parametrize("name", MAKERS)
def test_scores_in_another_order_of_memory(name):
    structure, leaf, scores, targets = _batch(name)
    turned = leaf.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_()
    other = scores._replace(emissions=turned) if isinstance(scores, ChainScores) else turned
    for make in (CRFLoss, MaxMarginLoss):
        one, same = make(structure)(scores, targets), make(structure)(other, targets)
        torch.testing.assert_close(one, same)
        (slope,), (like,) = torch.autograd.grad(one, leaf), torch.autograd.grad(same, turned)
        torch.testing.assert_close(slope, like)


def test_scores_that_change_before_the_second_gradient():
    structure, leaf, scores, targets = _batch("arborescence")
    loss = CRFLoss(structure)(scores, targets)
    torch.autograd.grad(loss, leaf, retain_graph=True)
    with torch.no_grad():
        leaf.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, leaf)


def test_losses_can_be_copied():
    structure, _, scores, targets = _batch("chain")
    loss = MaxMarginLoss(structure)
    torch.testing.assert_close(copy.deepcopy(loss)(scores, targets), loss(scores, targets))
