"""A list, a padded tensor and a flat one are the same batch, and the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from maxmargin.torch import (
    ChainScores,
    CRFLoss,
    MaxMarginLoss,
    MaxMinLoss,
    Subset,
    decode,
    entropy,
    log_partition,
    marginals,
)

LENGTHS = (4, 1, 3)
LONGEST = 4


def _chain(generator, n):
    return torch.randn(n, 3, dtype=torch.float64, generator=generator), torch.randint(
        3, (n,), generator=generator
    )


def _permutation(generator, n):
    return torch.randn(n, n, dtype=torch.float64, generator=generator), torch.randperm(
        n, generator=generator
    )


def _tree(generator, n):
    return torch.randn(n, n + 1, dtype=torch.float64, generator=generator), torch.arange(n)


def _subset(generator, n):
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[: (n + 1) // 2] = True
    return torch.randn(n, dtype=torch.float64, generator=generator), chosen


MAKERS = {"chain": _chain, "permutation": _permutation, "arborescence": _tree, "subset": _subset}


def _lists(name):
    generator = torch.Generator().manual_seed(0)
    scores, targets = zip(*(MAKERS[name](generator, n) for n in LENGTHS), strict=True)
    return [each.requires_grad_() for each in scores], list(targets)


def _padded(name, scores, targets):
    """Padding is NaN: nobody may look at it."""
    shape = {"chain": (4, 3), "permutation": (4, 4), "arborescence": (4, 5), "subset": (4,)}[name]
    rows = []
    for each in scores:
        row = torch.full(shape, torch.nan, dtype=torch.float64)
        row[tuple(slice(0, n) for n in each.shape)] = each
        rows.append(row)
    labels = torch.full((len(scores), LONGEST), 0, dtype=targets[0].dtype)
    mask = torch.zeros(len(scores), LONGEST, dtype=torch.bool)
    for i, each in enumerate(targets):
        labels[i, : len(each)] = each
        mask[i, : len(each)] = True
    return torch.stack(rows), labels, mask


def _flat(name, scores, targets):
    values = torch.cat(scores) if name == "chain" else torch.cat([s.reshape(-1) for s in scores])
    return values, torch.cat(targets), np.concatenate([[0], np.cumsum(LENGTHS)])


def _with_transitions(name, scores, transitions):
    return ChainScores(scores, transitions, transitions[0]) if name == "chain" else scores


@pytest.mark.parametrize("loss", (CRFLoss, MaxMarginLoss, MaxMinLoss))
@pytest.mark.parametrize("name", MAKERS)
def test_losses_in_all_forms(name, loss):
    scores, targets = _lists(name)
    shared = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    leaves = [*scores, shared] if name == "chain" else scores
    measure = loss(name, reduction="none")
    padded, labels, mask = _padded(name, scores, targets)
    flat, flat_labels, offsets = _flat(name, scores, targets)
    answers = [
        measure(_with_transitions(name, scores, shared), targets),
        measure(_with_transitions(name, padded, shared), labels, mask=mask),
        measure(_with_transitions(name, flat, shared), flat_labels, offsets=offsets),
        torch.cat(
            [
                measure(_with_transitions(name, [s], shared), [t])
                for s, t in zip(scores, targets, strict=True)
            ]
        ),
    ]
    along = torch.tensor([1.0, 2.0, -0.5], dtype=torch.float64)
    slopes = [torch.autograd.grad(each, leaves, along, retain_graph=True) for each in answers]
    for answer, slope in zip(answers[1:], slopes[1:], strict=True):
        torch.testing.assert_close(answer, answers[0], rtol=0, atol=1e-12)
        for one, other in zip(slope, slopes[0], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ("chain", "arborescence", "subset"))
def test_layers_in_all_forms(name):
    scores, targets = _lists(name)
    kind = Subset(size=[2, 1, 2]) if name == "subset" else name
    padded, labels, mask = _padded(name, scores, targets)
    flat, _, offsets = _flat(name, scores, targets)
    for function in (log_partition, entropy):
        expected = function(scores, kind)
        torch.testing.assert_close(function(padded, kind, mask=mask), expected)
        torch.testing.assert_close(function(flat, kind, offsets=offsets), expected)
    listed, in_padded = marginals(scores, kind), marginals(padded, kind, mask=mask)
    in_flat = marginals(flat, kind, offsets=offsets)
    torch.testing.assert_close(
        in_flat.reshape(-1), torch.cat([each.reshape(-1) for each in listed])
    )
    for i, each in enumerate(listed):
        assert each.shape == scores[i].shape
        at = (i, *(slice(0, n) for n in each.shape))
        torch.testing.assert_close(in_padded[at], each)
    assert float(in_padded.sum().detach()) == pytest.approx(
        float(sum(each.sum().detach() for each in listed))
    )
    # gradients of marginals arrive in all forms
    along = [torch.randn_like(each) for each in listed]
    expected = torch.autograd.grad(
        sum((a * m).sum() for a, m in zip(along, listed, strict=True)), scores
    )
    wide, _, _ = _padded(name, along, targets)
    found = torch.autograd.grad((wide.nan_to_num() * in_padded).sum(), scores)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", MAKERS)
def test_decode_in_all_forms(name):
    scores, targets = _lists(name)
    kind = Subset(size=[2, 1, 2]) if name == "subset" else name
    padded, labels, mask = _padded(name, scores, targets)
    flat, _, offsets = _flat(name, scores, targets)
    listed = decode(scores, kind)
    assert torch.equal(decode(flat, kind, offsets=offsets), torch.cat(listed))
    wide = decode(padded, kind, mask=mask)
    for i, each in enumerate(listed):
        assert torch.equal(wide[i, : len(each)], each)
        assert not wide[i, len(each) :].clamp(min=0).any()


def test_sizes_without_targets_are_asked_for():
    with pytest.raises(ValueError, match="Subset needs size="):
        decode([torch.zeros(3)], "subset")
    with pytest.raises(ValueError, match="size of example 1 must be from 1 to 1; received 2"):
        decode([torch.zeros(3), torch.zeros(1)], Subset(size=2))


@pytest.mark.parametrize("loss", (CRFLoss, MaxMarginLoss))
@pytest.mark.parametrize("reduction", ("sum", "none"))
def test_transitions_of_each_sequence(loss, reduction):
    """Transitions, start and end of shapes (n, K, K) and (n, K), or shared: as one by one."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

    emissions, transitions, start, end = draw(3, 4, 3), draw(3, 3, 3), draw(3), draw(3, 3)
    tags = torch.randint(3, (3, 4), generator=generator)
    leaves = (emissions, transitions, start, end)
    measure = loss("chain", reduction=reduction)
    whole = measure(ChainScores(*leaves), tags).sum()
    single = sum(
        measure(
            ChainScores(emissions[i : i + 1], transitions[i], start, end[i]), tags[i : i + 1]
        ).sum()
        for i in range(3)
    )
    torch.testing.assert_close(whole, single)
    slopes = zip(
        torch.autograd.grad(whole, leaves), torch.autograd.grad(single, leaves), strict=True
    )
    for one, other in slopes:
        torch.testing.assert_close(one, other)
    found = decode(ChainScores(*leaves), "chain")
    for i in range(3):
        own = ChainScores(emissions[i : i + 1], transitions[i], start, end[i])
        assert torch.equal(decode(own, "chain")[0], found[i])
    likely = marginals(ChainScores(*leaves), "chain")
    assert torch.autograd.gradcheck(lambda *g: marginals(ChainScores(*g), "chain"), leaves)
    assert likely.sum(2).allclose(torch.ones(3, 4, dtype=torch.float64))


def test_copies_from_other_devices_are_announced_once(monkeypatch):
    """No other device is at hand, so a tensor that says it is elsewhere stands in for one."""
    from maxmargin.torch import _forms

    class Elsewhere:
        device = torch.device("cuda", 0)

        def cpu(self):
            return torch.zeros(1)

    monkeypatch.setattr(_forms, "_announced", set())
    with pytest.warns(UserWarning, match="scores are on cuda:0") as caught:
        for _ in range(3):
            assert torch.equal(_forms.to_cpu(Elsewhere()), torch.zeros(1))
    assert len(caught) == 1
