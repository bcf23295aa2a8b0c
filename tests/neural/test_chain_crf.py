"""The head for networks: the numbers of pytorch-crf, and what it adds."""

from __future__ import annotations

import itertools

import pytest
import torch
from torchcrf import CRF

from maxmargin.torch import ChainCRF, MaxMarginLoss


def _batch(batch_first, seed=0, n=5, T=7, K=4):
    generator = torch.Generator().manual_seed(seed)
    emissions = torch.randn(n, T, K, dtype=torch.float64, generator=generator)
    tags = torch.randint(K, (n, T), generator=generator)
    lengths = torch.tensor([7, 1, 4, 6, 2])
    mask = torch.arange(T)[None] < lengths[:, None]
    if not batch_first:
        emissions, tags, mask = (x.transpose(0, 1) for x in (emissions, tags, mask))
    return emissions.clone().requires_grad_(), tags.contiguous(), mask.contiguous()


def _pair(batch_first, K=4):
    torch.manual_seed(1)
    theirs = CRF(K, batch_first=batch_first).double()
    ours = ChainCRF(K, batch_first=batch_first).double()
    assert [name for name, _ in ours.named_parameters()] == [
        name for name, _ in theirs.named_parameters()
    ]
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("batch_first", (True, False))
@pytest.mark.parametrize("masked", (True, False))
def test_the_numbers_of_pytorch_crf(batch_first, masked):
    ours, theirs = _pair(batch_first)
    emissions, tags, mask = _batch(batch_first)
    mask = mask if masked else None
    for reduction in ("sum", "mean", "token_mean", "none"):
        answers = []
        for crf in (ours, theirs):
            value = crf(emissions, tags, mask=mask, reduction=reduction)
            inputs = (emissions, *crf.parameters())
            answers.append((value, *torch.autograd.grad(value.sum(), inputs)))
        for one, other in zip(*answers, strict=True):
            torch.testing.assert_close(one, other)
    assert ours.decode(emissions, mask) == theirs.decode(emissions, mask)


def test_masks_as_bytes_and_padding_tags():
    ours, _ = _pair(True)
    emissions, tags, mask = _batch(True)
    expected = ours(emissions, tags, mask)
    torch.testing.assert_close(
        ours(emissions, tags.masked_fill(~mask, -100), mask.byte()), expected
    )


def test_topk_has_probabilities():
    ours, _ = _pair(True)
    emissions, _, mask = _batch(True)
    found = ours.topk(emissions, 3, mask)
    assert [best[0][0] for best in found] == ours.decode(emissions, mask)
    for i, best in enumerate(found):
        length = int(mask[i].sum())
        for labels, likely in best:
            tags = torch.tensor([labels])
            value = ours(emissions[i : i + 1, :length], tags)
            assert likely == pytest.approx(value.exp().item(), rel=1e-9)


def test_span_probabilities_are_sums_over_labellings():
    ours, _ = _pair(True)
    emissions, _, mask = _batch(True)
    spans = [(0, 2, [1, 3]), (2, 3, [0]), (4, 0, [2, 2]), (1, 0, [3])]
    found = ours.span_probabilities(emissions, spans, mask)
    for value, (i, first, labels) in zip(found, spans, strict=True):
        length = int(mask[i].sum())
        if length > 4:
            continue
        expected = 0.0
        for rest in itertools.product(range(4), repeat=length):
            if list(rest[first : first + len(labels)]) == labels:
                expected += ours(emissions[i : i + 1, :length], torch.tensor([rest])).exp().item()
        assert value.item() == pytest.approx(expected, rel=1e-9)
    single = ours.span_probabilities(emissions, [(0, 5, [2])])
    assert single.item() == pytest.approx(ours.marginals(emissions)[0, 5, 2].item(), rel=1e-9)
    every = [(0, 2, list(pair)) for pair in itertools.product(range(4), repeat=2)]
    assert ours.span_probabilities(emissions, every).sum().item() == pytest.approx(1.0)


def test_constraints_hold_in_training_and_decoding():
    classes = ["O", "B-x", "I-x"]
    crf = ChainCRF(3, batch_first=True, constraints="bio", classes=classes).double()
    emissions = torch.zeros(1, 3, 3, dtype=torch.float64)
    emissions[..., 2] = 5.0  # I-x everywhere, which must follow B-x or I-x
    assert crf.decode(emissions) == [[1, 2, 2]]
    likely = crf.marginals(emissions)
    assert likely[0, 0, 2] == 0.0
    total = 0.0
    for tags in itertools.product(range(3), repeat=3):
        if tags[0] != 2 and all((a, b) != (0, 2) for a, b in itertools.pairwise(tags)):
            total += crf(emissions, torch.tensor([tags])).exp().item()
    assert total == pytest.approx(1.0)
    with pytest.raises(
        ValueError, match=r"targets of example 0 break the constraints at position 0"
    ):
        crf(emissions, torch.tensor([[2, 2, 2]]))


def test_the_head_serves_other_losses():
    crf = ChainCRF(4, batch_first=True).double()
    emissions, tags, mask = _batch(True)
    loss = MaxMarginLoss("chain")(crf.scores(emissions), tags, mask=mask)
    loss.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in crf.parameters())


def test_bad_input():
    crf = ChainCRF(4, batch_first=True)
    emissions, tags, mask = _batch(True)
    with pytest.raises(ValueError, match="num_tags"):
        ChainCRF(0)
    with pytest.raises(ValueError, match="last one 4"):
        crf(emissions[..., :3], tags)
    with pytest.raises(ValueError, match="reduction must be one of"):
        crf(emissions, tags, reduction="median")
    with pytest.raises(ValueError, match=r"spans\[0\] covers positions 6 to 7 of sequence 0"):
        crf.span_probabilities(emissions, [(0, 6, [1, 1])])
