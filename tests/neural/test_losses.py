"""Losses against enumeration, gradients against automatic and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from outputs import MAKERS, make_case, max_min_value

from maxmargin.torch import Arborescence, CRFLoss, MaxMarginLoss, MaxMinLoss

EXACT = ("multiclass", "ordinal", "matrix", "multilabel", "subset")


@pytest.mark.parametrize("name", MAKERS)
def test_crf_is_a_sum_over_all_outputs(name):
    case = make_case(name)
    loss = CRFLoss(case.structure)(case.scores, case.target)
    expected = case.values.logsumexp(0) - case.values[case.truth]
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    slopes = torch.autograd.grad(loss, case.leaves)
    for slope, wanted in zip(slopes, torch.autograd.grad(expected, case.leaves), strict=True):
        torch.testing.assert_close(slope, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_max_margin_is_a_maximum_over_all_outputs(name):
    case = make_case(name)
    loss = MaxMarginLoss(case.structure)(case.scores, case.target)
    augmented = case.values + torch.from_numpy(case.losses[:, case.truth])
    expected = augmented.max() - case.values[case.truth]
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    slopes = torch.autograd.grad(loss, case.leaves)
    for slope, wanted in zip(slopes, torch.autograd.grad(expected, case.leaves), strict=True):
        torch.testing.assert_close(slope, wanted, rtol=0, atol=1e-12)


# With constraints on transitions, the predictions of max-min may break them: another surrogate.
@pytest.mark.parametrize("name", [name for name in MAKERS if name != "chain constrained"])
def test_max_min_brackets_the_saddle_point(name):
    case = make_case(name)
    loss, bracket = MaxMinLoss(case.structure, iterations=300 if "chain" in name else None)(
        case.scores, case.target, return_bracket=True
    )
    values = case.values.detach().numpy()
    exact = max_min_value(values, case.losses) - values[case.truth]
    # Tolerance: that of the linear program.
    assert bracket.lower.item() <= exact + 1e-7
    assert exact <= bracket.upper.item() + 1e-7
    assert loss.item() == bracket.upper.item()
    # Mirror-prox converges like one over the number of iterations.
    assert bracket.upper.item() - bracket.lower.item() <= (0.02 if "chain" in name else 1e-5)
    if name in EXACT:
        assert loss.item() == pytest.approx(exact, abs=1e-7)
        assert loss.item() == pytest.approx(bracket.lower.item(), abs=1e-12)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "chain constrained"])
def test_gradients_of_max_min_are_subgradients(name):
    """``loss(v') >= loss(v) + slope (v' - v)``, up to the width of the bracket."""
    case = make_case(name)
    loss, bracket = MaxMinLoss(case.structure)(case.scores, case.target, return_bracket=True)
    slopes = torch.autograd.grad(loss, case.leaves)
    for seed in (1, 2, 3):
        other = make_case(name, seed)
        values = other.values.detach().numpy()
        exact = max_min_value(values, case.losses) - values[case.truth]
        step = sum(
            ((there - here) * slope).sum().item()
            for here, there, slope in zip(case.leaves, other.leaves, slopes, strict=True)
        )
        assert exact >= bracket.lower.item() + step - 1e-7


@pytest.mark.parametrize("loss", (MaxMarginLoss, MaxMinLoss))
@pytest.mark.parametrize("name", EXACT)
def test_gradients_off_kinks_are_finite_differences(name, loss):
    case = make_case(name)
    (scores,) = case.leaves

    def value(at):
        return loss(case.structure)(at, case.target)

    (slope,) = torch.autograd.grad(value(scores), scores)
    step = 1e-6
    flat = scores.detach().reshape(-1)
    for p in range(len(flat)):
        ends = []
        for sign in (1.0, -1.0):
            moved = flat.clone()
            moved[p] += sign * step
            ends.append(value(moved.reshape(scores.shape)).item())
        assert slope.reshape(-1)[p].item() == pytest.approx(
            (ends[0] - ends[1]) / (2 * step), abs=1e-8
        )


@pytest.mark.parametrize("name", MAKERS)
def test_gradcheck_of_crf(name):
    case = make_case(name)

    def value(*leaves):
        scores = leaves[0] if len(leaves) == 1 else type(case.scores)(*leaves)
        return CRFLoss(case.structure)(scores, case.target)

    assert torch.autograd.gradcheck(value, case.leaves)
    assert torch.autograd.gradgradcheck(value, case.leaves)


def test_hidden_labels_cost_nothing():
    scores = torch.tensor([[0.3, -2.0, 1.0]], dtype=torch.float64, requires_grad=True)
    known = torch.tensor([[1, 0]])
    for loss in (CRFLoss, MaxMarginLoss, MaxMinLoss):
        whole = loss("multilabel", reduction="sum")
        hidden = whole(scores, torch.tensor([[1, -1, 0]]))
        # Costs are 1/3 with three labels and 1/2 with two.
        from maxmargin.torch import Multilabel

        part = loss(Multilabel(costs=np.full((2, 2), 1 / 3)), reduction="sum")
        assert hidden.item() == pytest.approx(part(scores[:, ::2], known).item(), abs=1e-12)
        (slope,) = torch.autograd.grad(hidden, scores)
        assert slope[0, 1] == 0.0


def test_reductions_and_weights():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 5, 3, dtype=torch.float64, generator=generator).requires_grad_()
    tags = torch.randint(3, (4, 5), generator=generator)
    weights = torch.tensor([1.0, 0.0, 2.0, 0.5], dtype=torch.float64)
    for loss in (CRFLoss, MaxMarginLoss):
        each = loss("chain", reduction="none")(scores, tags)
        assert each.shape == (4,)
        total = loss("chain", reduction="sum")(scores, tags, sample_weight=weights)
        mean = loss("chain")(scores, tags, sample_weight=weights)
        torch.testing.assert_close(total, (weights * each).sum())
        torch.testing.assert_close(mean, total / weights.sum())
        torch.testing.assert_close(loss("chain")(scores, tags), each.mean())
        (slope,) = torch.autograd.grad(mean, scores)
        (each_slope,) = torch.autograd.grad(each, scores, weights / weights.sum())
        torch.testing.assert_close(slope, each_slope)
        # a weight of 2 is an example twice
        twice = torch.tensor([0, 2, 2])
        torch.testing.assert_close(
            loss("chain", reduction="sum")(scores[twice], tags[twice]),
            loss("chain", reduction="sum")(
                scores, tags, sample_weight=torch.tensor([1.0, 0.0, 2.0, 0.0])
            ),
        )


def test_single_precision_agrees_with_double():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 6, 4, generator=generator)
    tags = torch.randint(4, (3, 6), generator=generator)
    for loss in (CRFLoss, MaxMarginLoss, MaxMinLoss):
        found = loss("chain")(scores, tags)
        assert found.dtype == torch.float32
        torch.testing.assert_close(
            found.double(), loss("chain")(scores.double(), tags), rtol=1e-6, atol=0
        )


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 7, 9, 25, 65])
def test_trees_of_a_batch_do_not_depend_on_each_other(words, single_root):
    """Four trees of the same length are processed together, one alone: other kernels."""
    generator = torch.Generator().manual_seed(words)
    scores = torch.randn(9, words, words + 1, generator=generator, dtype=torch.float64)
    if words > 1:
        scores[1] *= 40.0  # these need the elimination without subtraction
        scores[2, :2, 1:3] += 60.0  # a cycle
        scores[6] += 1e4
    heads = torch.arange(words).repeat(9, 1)
    loss = CRFLoss(Arborescence(single_root=single_root), reduction="none")

    def found(some):
        leaf = scores[some].requires_grad_()
        values = loss(leaf, heads[some])
        values.sum().backward()
        return values.detach(), leaf.grad

    values, slopes = found(slice(0, 9))
    for i in range(9):
        value, slope = found(slice(i, i + 1))
        torch.testing.assert_close(values[i : i + 1], value, rtol=1e-12, atol=1e-10)
        torch.testing.assert_close(slopes[i : i + 1], slope, rtol=0.0, atol=2e-11)
