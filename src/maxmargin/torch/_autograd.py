"""Autograd functions of scores and shared scores, whose gradients are computed by kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._batch import Batch, Found, Losses

# Differentiable marginals of the rows and the shared scores, of a smooth loss; None of others.
Smooth = Callable[..., tuple[Tensor, Tensor]] | None


class LossValues(torch.autograd.Function):
    """Upper and lower bounds on the loss of each example; the gradient is ``mu - phi(y)``."""

    @staticmethod
    def forward(
        ctx: Any, batch: Batch, losses: Losses, smooth: Smooth, scores: Tensor, *shared: Tensor
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
        return None, None, None, *_slopes(ctx, ctx, ctx.found, grad.cpu())


class Total:
    """A sum of losses times factors: ``found`` is what kernels found, until it is given away."""

    __slots__ = ("batch", "factors", "found", "losses", "smooth")

    def __init__(
        self, batch: Batch, losses: Losses, smooth: Smooth, factors: np.ndarray, found: Found
    ):
        self.batch, self.losses, self.smooth, self.factors = batch, losses, smooth, factors
        self.found: Found | None = found


class TotalLoss(torch.autograd.Function):
    """The sum of all losses times factors; gradients are summed at once."""

    @staticmethod
    def forward(ctx: Any, total: Total, scores: Tensor, *shared: Tensor):
        """The sum; its gradient is known."""
        ctx.total = total
        ctx.save_for_backward(scores, *shared)
        assert total.found is not None
        return total.batch.per_example(total.factors.dot(total.found.upper))

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """Gradients times that of the sum."""
        total = ctx.total
        if total.smooth is not None and torch.is_grad_enabled():
            factors = grad.cpu() * torch.from_numpy(total.factors)
            return None, *_slopes(ctx, total, total.losses(None), factors)
        # The gradient of the scores is given away: a second call computes it again.
        found, total.found = total.found, None
        if found is None:
            _ = ctx.saved_tensors  # raises an error if scores were changed meanwhile
            found = total.losses(total.factors)
        batch, factor = total.batch, grad.item() * total.batch.factor
        if factor != 1.0:
            np.multiply(found.rows, factor, out=found.rows)
        slopes = batch.as_scores(found.rows)
        if not batch.shared:
            return None, slopes
        return None, slopes, *batch.split(found.weights.sum(0) * factor)


def _slopes(ctx: Any, what: Any, found: Found, grad: Tensor) -> tuple[Tensor, ...]:
    """Gradients of scores and shared scores; differentiable for smooth losses."""
    batch = what.batch
    rows, weights = torch.from_numpy(found.rows), torch.from_numpy(found.weights)
    if what.smooth is not None and torch.is_grad_enabled():  # mu - phi(y), mu differentiable
        mu, mu_weights = what.smooth(batch, *ctx.saved_tensors)
        rows = mu + (rows - mu).detach()
        weights = mu_weights + (weights - mu_weights).detach()
    return batch.to_scores(grad, rows), *batch.to_shared(grad, weights)


def loss_values(
    batch: Batch, losses: Losses, factors: np.ndarray | None, smooth: Smooth = None
) -> tuple[Tensor, Any, Any]:
    """Losses of all examples, or their sum with factors; upper and lower bounds on each.

    Only the first one is differentiable, and has the precision and device of the scores.
    """
    if factors is not None and batch.shares_all:
        found = losses(factors)
        total = Total(batch, losses, smooth, factors, found)
        value = TotalLoss.apply(total, batch.scores, *batch.shared)
        return value, found.upper, found.lower
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
