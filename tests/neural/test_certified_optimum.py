"""A linear model trained by stochastic gradients meets the certified optimum of the estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from maxmargin import HammingLoss, MulticlassClassifier, SequenceLabeler
from maxmargin.torch import ChainScores, CRFLoss, MaxMarginLoss, MaxMinLoss

LOSSES = {"crf": CRFLoss, "max-margin": MaxMarginLoss, "max-min": MaxMinLoss}


def descend(parameters, objective, alpha, n_examples, n_passes, first_step):
    """Stochastic subgradients with steps ``1 / (alpha (t + t0))``, averaged with weight t."""
    rng = np.random.RandomState(0)
    means = [torch.zeros_like(p) for p in parameters]
    t, mass = 0, 0.0
    offset = 1.0 / (alpha * first_step)
    for _ in range(n_passes):
        for chosen in np.array_split(rng.permutation(n_examples), max(1, n_examples // 8)):
            slopes = torch.autograd.grad(objective(parameters, chosen), parameters)
            t += 1
            mass += t
            with torch.no_grad():
                for p, slope, mean in zip(parameters, slopes, means, strict=True):
                    p -= slope / (alpha * (t + offset))
                    mean += (t / mass) * (p - mean)
    return means


@pytest.mark.parametrize("surrogate", LOSSES)
def test_multiclass(surrogate):
    rng = np.random.RandomState(0)
    X = rng.randn(64, 4)
    y = np.argmax(X @ rng.randn(4, 3) + rng.randn(64, 3), axis=1)
    alpha = 0.1
    model = MulticlassClassifier(
        surrogate, alpha=alpha, tol=1e-4, fit_intercept=False, random_state=0
    ).fit(X, y)
    assert model.gap_ <= 1e-3 * model.primal_
    rows, classes = torch.from_numpy(X), torch.from_numpy(y)
    loss = LOSSES[surrogate]("multiclass")

    def objective(parameters, chosen):
        (weights,) = parameters
        value = loss(rows[chosen] @ weights, classes[chosen])
        return value + alpha / 2 * weights.square().sum()

    start = [torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)]
    found = descend(start, objective, alpha, 64, 100, 0.5)
    value = objective(found, np.arange(64)).item()
    assert model.primal_ - model.gap_ <= value + 1e-9
    assert value <= 1.01 * model.primal_


@pytest.mark.parametrize("surrogate", ("crf", "max-margin"))
def test_chain(surrogate):
    rng = np.random.RandomState(1)
    X = [rng.randn(rng.randint(2, 6), 3) for _ in range(32)]
    truth = rng.randn(3, 3)
    y = [np.argmax(x @ truth + 0.5 * rng.randn(len(x), 3), axis=1) for x in X]
    alpha = 0.1
    model = SequenceLabeler(
        surrogate, alpha=alpha, tol=1e-4, fit_intercept=False, random_state=0,
        loss=HammingLoss(normalize=True),
    ).fit(X, y)  # fmt: skip
    assert model.gap_ <= 1e-3 * model.primal_
    rows = [torch.from_numpy(x) for x in X]
    tags = [torch.from_numpy(labels) for labels in y]
    loss = LOSSES[surrogate]("chain")

    def objective(parameters, chosen):
        weights, *shared = parameters
        scores = ChainScores([rows[i] @ weights for i in chosen], *shared)
        value = loss(scores, [tags[i] for i in chosen])
        return value + alpha / 2 * sum(p.square().sum() for p in parameters)

    shapes = ((3, 3), (3, 3), (3,), (3,))
    start = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    found = descend(start, objective, alpha, 32, 100, 0.2)
    value = objective(found, np.arange(32)).item()
    assert model.primal_ - model.gap_ <= value + 1e-9
    assert value <= 1.01 * model.primal_
