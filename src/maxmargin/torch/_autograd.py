"""Autograd functions of scores and shared scores, whose gradients are computed by kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._batch import Batch, Found, Losses


class LossValues(torch.autograd.Function):
    """Upper and lower bounds on the loss of each example; the gradient is ``mu - phi(y)``."""

    @staticmethod
    def forward(
        ctx: Any, batch: Batch, losses: Losses, smooth: bool, scores: Tensor, *shared: Tensor
    ):
        """All losses, and their gradients, in one pass."""
        found = losses(None)
        ctx.batch, ctx.smooth, ctx.found = batch, smooth, found
        ctx.save_for_backward(scores, *shared)
        upper, lower = batch.per_example(found.upper), batch.per_example(found.lower)
        ctx.mark_non_differentiable(lower)
        return upper, lower

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor):  # type: ignore[override]
        """Gradients times the factor of each example; differentiable for smooth losses."""
        return None, None, None, *_slopes(ctx, ctx.found, grad.cpu())


class TotalLoss(torch.autograd.Function):
    """The sum of all losses times factors; gradients are summed at once.

    ``bounds`` is a list that receives what is found.
    """

    @staticmethod
    def forward(
        ctx: Any, batch: Batch, losses: Losses, smooth: bool, factors: np.ndarray,
        bounds: list[Found], scores: Tensor, *shared: Tensor,
    ):  # fmt: skip
        """All losses, and the gradient of their sum, in one pass."""
        found = losses(factors)
        bounds.append(found)
        ctx.batch, ctx.losses, ctx.smooth, ctx.factors = batch, losses, smooth, factors
        ctx.found = found
        ctx.save_for_backward(scores, *shared)
        return batch.per_example(factors.dot(found.upper))

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """Gradients times that of the sum."""
        if ctx.smooth and torch.is_grad_enabled():
            factors = grad.cpu() * torch.from_numpy(ctx.factors)
            return None, None, None, None, None, *_slopes(ctx, ctx.losses(None), factors)
        # The gradient of the scores is given away: a second call computes it again.
        found, ctx.found = ctx.found, None
        if found is None:
            _ = ctx.saved_tensors  # raises an error if scores were changed meanwhile
            found = ctx.losses(ctx.factors)
        batch, factor = ctx.batch, grad.item() * ctx.batch.factor
        if factor != 1.0:
            np.multiply(found.rows, factor, out=found.rows)
        slopes = batch.as_scores(found.rows)
        if not batch.shared:
            return None, None, None, None, None, slopes
        return None, None, None, None, None, slopes, *batch.split(found.weights.sum(0) * factor)


def _slopes(ctx: Any, found: Found, grad: Tensor) -> tuple[Tensor, ...]:
    """Gradients of scores and shared scores; differentiable for smooth losses."""
    batch = ctx.batch
    rows, weights = torch.from_numpy(found.rows), torch.from_numpy(found.weights)
    if ctx.smooth and torch.is_grad_enabled():  # mu - phi(y), with mu differentiable
        mu, mu_weights = Marginals.apply(batch, *ctx.saved_tensors)
        rows = mu + (rows - mu).detach()
        weights = mu_weights + (weights - mu_weights).detach()
    return batch.to_scores(grad, rows), *batch.to_shared(grad, weights)


def loss_values(
    batch: Batch, losses: Losses, factors: np.ndarray | None, smooth: bool = False
) -> tuple[Tensor, Any, Any]:
    """Losses of all examples, or their sum with factors; upper and lower bounds on each.

    Only the first one is differentiable, and has the precision and device of the scores.
    """
    if factors is not None and batch.shares_all:
        found: list[Found] = []
        value = TotalLoss.apply(batch, losses, smooth, factors, found, batch.scores, *batch.shared)
        return value, found[0].upper, found[0].lower
    upper, lower = LossValues.apply(batch, losses, smooth, batch.scores, *batch.shared)
    value = upper if factors is None else upper @ torch.from_numpy(factors).to(upper)
    return value, upper.detach(), lower


class LogPartition(torch.autograd.Function):
    """Log partition functions; their gradients are marginals."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, scores: Tensor, *shared: Tensor):
        """Values and marginals in one pass."""
        log_sums, _, rows, weights = batch.gibbs()
        ctx.batch = batch
        ctx.save_for_backward(scores, *shared, rows, weights)
        return batch.per_example(log_sums)

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """Marginals times the factor of each example."""
        *inputs, rows, weights = ctx.saved_tensors
        batch, grad = ctx.batch, grad.cpu()
        if torch.is_grad_enabled():
            rows, weights = Marginals.apply(batch, *inputs)
        return None, batch.to_scores(grad, rows), *batch.to_shared(grad, weights)


class Entropy(torch.autograd.Function):
    """Entropies; their gradients are minus the second derivatives of log Z times the scores."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, scores: Tensor, *shared: Tensor):
        """One pass of sums over all outputs."""
        ctx.batch = batch
        ctx.save_for_backward(scores, *shared)
        return batch.per_example(batch.gibbs()[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """A pass along the scores themselves."""
        batch, grad = ctx.batch, -grad.cpu()
        rows, weights = batch.changes(batch.values, batch.weights)
        return None, batch.to_scores(grad, rows), *batch.to_shared(grad, weights)


class Marginals(torch.autograd.Function):
    """Marginals of the rows and, for each example, of the shared scores, on the CPU."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, scores: Tensor, *shared: Tensor):
        """One pass of sums over all outputs."""
        _, _, rows, weights = batch.gibbs()
        ctx.batch = batch
        ctx.save_for_backward(scores, *shared)
        return rows, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along: Tensor, along_weights: Tensor):  # type: ignore[override]
        """Second derivatives of the log partition functions, which are symmetric."""
        batch = ctx.batch
        rows, weights = batch.changes(
            along.contiguous().numpy(), along_weights.contiguous().numpy()
        )
        return None, batch.to_scores(None, rows), *batch.to_shared(None, weights)
