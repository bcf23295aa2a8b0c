"""Scores and targets that cannot be used are refused by name, before any work."""

from __future__ import annotations

import pytest
import torch

from maxmargin.torch import Chain, ChainScores, CRFLoss, MaxMarginLoss, MaxMinLoss, decode

TAGS = torch.zeros(2, 3, dtype=torch.long)
SCORES = torch.zeros(2, 3, 4)
MASK = torch.tensor([[True, True, False], [True, True, True]])


def refused(error, message, *args, loss=None, **options):
    with pytest.raises(error, match=message):
        (loss or CRFLoss("chain"))(*args, **options)


@pytest.mark.parametrize("bad", (torch.nan, torch.inf, -torch.inf))
def test_scores_that_are_not_finite_name_the_example(bad):
    scores = SCORES.clone()
    scores[1, 2, 3] = bad
    refused(ValueError, "scores of example 1 contain NaN or infinity", scores, TAGS)
    scores = scores.flip(0)
    refused(ValueError, "scores of example 0", scores, TAGS, mask=MASK.flip(0))
    CRFLoss("chain")(scores, TAGS, mask=MASK)  # what is not finite is padding here
    refused(ValueError, r"scores of example 1", [SCORES[0], scores[0]], [TAGS[0], TAGS[1]])
    transitions = torch.zeros(4, 4)
    transitions[0, 1] = bad
    refused(ValueError, "transitions contain NaN", ChainScores(SCORES, transitions), TAGS)
    trees = torch.zeros(2, 3, 4)
    trees[1, 0, 2] = bad
    heads = torch.tensor([[0, 1, 1]] * 2)
    refused(ValueError, "scores of example 1", trees, heads, loss=CRFLoss("arborescence"))
    classes = torch.zeros(3, 2)
    classes[2, 0] = bad
    for name in ("multiclass", "multilabel"):
        with pytest.raises(ValueError, match="scores of example 2"):
            decode(classes, name)


def test_wrong_shapes():
    refused(
        ValueError, r"emissions must have 3 dimensions; received shape \(3, 4\)", SCORES[0], TAGS
    )
    refused(ValueError, r"targets must be a tensor of shape \(2, 3\)", SCORES, TAGS[:, :2])
    refused(ValueError, r"mask must have shape \(2, 3\)", SCORES, TAGS, mask=MASK[:, :2])
    refused(ValueError, "mask of example 0 must be True first", SCORES, TAGS, mask=MASK.flip(1))
    refused(
        ValueError,
        "example 0 has no positions",
        SCORES,
        TAGS,
        mask=MASK & torch.tensor([[False], [True]]),
    )
    refused(
        ValueError,
        r"transitions must be a tensor of shape \(4, 4\)",
        ChainScores(SCORES, torch.zeros(3, 3)),
        TAGS,
    )
    refused(
        ValueError,
        r"start must be a tensor of shape \(4,\)",
        ChainScores(SCORES, None, torch.zeros(3)),
        TAGS,
    )
    refused(ValueError, "not both", SCORES, TAGS, mask=MASK, offsets=[0, 3, 6])
    refused(
        ValueError,
        "emissions must have 5 rows by offsets; received 6",
        SCORES.reshape(6, 4),
        TAGS.reshape(-1),
        offsets=[0, 3, 5],
    )
    refused(
        ValueError,
        "offsets must be a vector",
        SCORES.reshape(6, 4),
        TAGS.reshape(-1),
        offsets=[1, 6],
    )
    refused(
        ValueError,
        r"targets\[1\] must be a tensor of shape \(3,\)",
        list(SCORES),
        [TAGS[0], TAGS[1, :2]],
    )
    refused(ValueError, "same number of labels", [SCORES[0], SCORES[1, :, :2]], list(TAGS))
    refused(ValueError, "empty list", [], [])
    square = torch.zeros(2, 3, 3)
    refused(
        ValueError, r"scores must have shape \(3, 4\)", square, TAGS, loss=CRFLoss("arborescence")
    )
    refused(
        ValueError,
        r"scores must have shape \(3, 3\)",
        SCORES,
        TAGS,
        loss=MaxMarginLoss("permutation"),
    )
    refused(
        ValueError,
        r"targets must be a tensor of shape \(2,\)",
        SCORES[:, 0],
        TAGS,
        loss=CRFLoss("multiclass"),
    )
    refused(
        ValueError,
        "mask and offsets do not apply",
        SCORES[:, 0],
        TAGS[:, 0],
        mask=MASK,
        loss=CRFLoss("multiclass"),
    )


def test_wrong_kinds():
    refused(
        TypeError,
        "emissions must be float32 or float64; received torch.float16",
        SCORES.half(),
        TAGS,
    )
    refused(
        TypeError, "emissions must be float32 or float64; received torch.int64", SCORES.long(), TAGS
    )
    refused(TypeError, "targets must hold integers; received torch.float32", SCORES, TAGS.float())
    refused(
        TypeError,
        "mask must be a bool tensor; received torch.float32",
        SCORES,
        TAGS,
        mask=MASK.float(),
    )
    refused(TypeError, r"emissions\[0\] must be a torch.Tensor; received list", [[1.0]], [TAGS[0]])
    refused(
        ValueError, r"emissions\[1\] is torch.float64", [SCORES[0], SCORES[1].double()], list(TAGS)
    )
    refused(TypeError, "must be a tensor or a list", 3.0, TAGS)


def test_devices_must_agree():
    elsewhere = torch.zeros(2, 3, dtype=torch.long, device="meta")
    refused(ValueError, "targets is on meta, but the scores are on cpu", SCORES, elsewhere)
    refused(ValueError, "mask is on meta", SCORES, TAGS, mask=elsewhere.bool())
    refused(
        ValueError,
        "transitions is on meta",
        ChainScores(SCORES, torch.zeros(4, 4, device="meta")),
        TAGS,
    )
    weights = torch.ones(2, device="meta")
    refused(ValueError, "sample_weight is on meta", SCORES, TAGS, sample_weight=weights)


def test_targets_that_are_no_outputs():
    bad = TAGS.clone()
    bad[1, 2] = 4
    refused(
        ValueError,
        "targets of example 1 holds 4 at position 2; expected integers from 0 to 3",
        SCORES,
        bad,
    )
    heads = torch.tensor([[0, 1, 1], [2, 3, 1]])
    trees = torch.zeros(2, 3, 4)
    refused(
        ValueError,
        "targets of example 1 are no tree: their heads have a cycle",
        trees,
        heads,
        loss=CRFLoss("arborescence"),
    )
    heads = torch.tensor([[0, 0, 1], [0, 1, 1]])
    refused(
        ValueError,
        "targets of example 0 have 2 words with head 0",
        trees,
        heads,
        loss=CRFLoss("arborescence"),
    )
    twice = torch.tensor([[0, 1, 2], [0, 2, 2]])
    refused(
        ValueError,
        "targets of example 1 are no permutation",
        torch.zeros(2, 3, 3),
        twice,
        loss=MaxMarginLoss("permutation"),
    )
    none = torch.tensor([[True, False, False], [False] * 3])
    refused(
        ValueError,
        "targets of example 1 choose no element",
        torch.zeros(2, 3),
        none,
        loss=CRFLoss("subset"),
    )


def test_weights_and_parameters():
    refused(
        ValueError,
        r"sample_weight must be a tensor of shape \(2,\)",
        SCORES,
        TAGS,
        sample_weight=torch.ones(3),
    )
    refused(
        ValueError,
        "sample_weight must hold finite numbers >= 0",
        SCORES,
        TAGS,
        sample_weight=torch.tensor([1.0, -1.0]),
    )
    with pytest.raises(ValueError, match="structure must be one of 'multiclass'"):
        CRFLoss("tree")
    with pytest.raises(ValueError, match="reduction must be one of"):
        CRFLoss("chain", reduction="average")
    with pytest.raises(ValueError, match="iterations must be an integer >= 1"):
        MaxMinLoss("chain", iterations=0)
    with pytest.raises(ValueError, match="classes has 2 labels, but emissions have 4"):
        CRFLoss(Chain(classes=["a", "b"]))(SCORES, TAGS)
    with pytest.raises(ValueError, match="loss must be '0-1'"):
        MaxMarginLoss(Chain(loss="hinge"))(SCORES, TAGS)


def test_constraints_that_leave_no_output():
    structure = Chain(constraints={"first": [0, 1, 2, 3]})
    with pytest.raises(ValueError, match="The constraints allow no output of example 0"):
        decode(SCORES, structure)
