"""Autograd functions of scores and shared scores, whose gradients are computed by kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._batch import Batch, Losses, sum_of_rows


class LossValues(torch.autograd.Function):
    """Upper and lower bounds on the loss of each example; the gradient is ``mu - phi(y)``."""

    @staticmethod
    def forward(
        ctx: Any, batch: Batch, losses: Losses, smooth: bool, scores: Tensor, *shared: Tensor
    ):
        """All losses, and their gradients, in one pass."""
        upper, lower, rows, weights = losses(None)
        ctx.batch, ctx.smooth = batch, smooth
        ctx.save_for_backward(scores, *shared, rows, weights.to(scores.dtype))
        upper, lower = upper.to(scores), lower.to(scores)
        ctx.mark_non_differentiable(lower)
        return upper, lower

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor):  # type: ignore[override]
        """Gradients times the factor of each example; differentiable for smooth losses."""
        *inputs, rows, weights = ctx.saved_tensors
        batch, grad = ctx.batch, grad.cpu()
        if ctx.smooth and torch.is_grad_enabled():
            rows, weights = _differentiable(batch, inputs, rows, weights)
        shared = batch.to_shared(grad, weights) if any(ctx.needs_input_grad[4:]) else ()
        return None, None, None, batch.to_scores(grad, rows), *shared


class TotalLoss(torch.autograd.Function):
    """The sum of all losses times factors; gradients are summed at once.

    ``bounds`` is a list that receives the upper and lower bounds on each loss.
    """

    @staticmethod
    def forward(
        ctx: Any, batch: Batch, losses: Losses, smooth: bool, factors: Tensor,
        bounds: list[Tensor], scores: Tensor, *shared: Tensor,
    ):  # fmt: skip
        """All losses, and the gradient of their sum, in one pass."""
        upper, lower, rows, weights = losses(factors.numpy())
        bounds += upper, lower
        ctx.batch, ctx.losses, ctx.smooth, ctx.factors = batch, losses, smooth, factors
        if shared:
            weights = sum_of_rows(weights, scores.dtype)
        ctx.save_for_backward(scores, *shared, rows, weights)
        return (factors @ upper).to(scores)

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """Gradients times that of the sum."""
        *inputs, rows, weights = ctx.saved_tensors
        batch, grad = ctx.batch, grad.cpu()
        if ctx.smooth and torch.is_grad_enabled():
            _, _, each, each_weights = ctx.losses(None)
            rows, weights = _differentiable(batch, inputs, each, each_weights)
            factors = grad * ctx.factors
            shared = batch.to_shared(factors, weights)
            slopes = batch.to_scores(factors, rows)
        else:
            shared = batch.split(grad * weights) if batch.shared else []
            slopes = batch.to_scores(None, grad * rows)
        return None, None, None, None, None, slopes, *shared


def _differentiable(
    batch: Batch, inputs: list[Tensor], rows: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """The same gradients ``mu - phi(y)``, with mu differentiable."""
    found, found_weights = Marginals.apply(batch, *inputs)
    rows = found + (rows - found).detach()
    return rows, found_weights + (weights - found_weights).detach()


def loss_values(
    batch: Batch, losses: Losses, factors: Tensor | None, smooth: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses of all examples, or their sum with factors; upper and lower bounds on each.

    Only the first one is differentiable, and has the precision and device of the scores.
    """
    if factors is not None and batch.shares_all:
        found: list[Tensor] = []
        value = TotalLoss.apply(batch, losses, smooth, factors, found, batch.scores, *batch.shared)
        return value, found[0], found[1]
    upper, lower = LossValues.apply(batch, losses, smooth, batch.scores, *batch.shared)
    value = upper if factors is None else upper @ factors.to(upper)
    return value, upper.detach(), lower


class LogPartition(torch.autograd.Function):
    """Log partition functions; their gradients are marginals."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, scores: Tensor, *shared: Tensor):
        """Values and marginals in one pass."""
        log_sums, _, rows, weights = batch.gibbs()
        ctx.batch = batch
        ctx.save_for_backward(scores, *shared, rows, weights)
        return log_sums.to(scores)

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
        return batch.gibbs()[1].to(scores)

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
