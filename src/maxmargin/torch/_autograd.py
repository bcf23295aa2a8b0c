"""Gradients of what kernels compute: autograd functions over rows of scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._batch import Batch


def _to_weights(batch: Batch, factors: Tensor | None, slopes: Tensor) -> Tensor:
    """Gradients of the weights from those of each example."""
    if factors is not None:
        factors = factors.to(slopes.dtype)
    if len(batch.weights) == 1:
        summed = slopes.sum(0) if factors is None else factors @ slopes
        return summed[None].to(batch.weights.dtype)
    each = slopes if factors is None else factors[:, None] * slopes
    return each.to(batch.weights.dtype)


class SurrogateValues(torch.autograd.Function):
    """Upper and lower bounds on the losses; the gradient is ``mu - phi(y)``."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weights: Tensor, batch: Batch, oracle: Any, surrogate: Any
    ):
        """All losses, and their gradients, in one pass."""
        upper, lower, rows, shared = batch.surrogates(oracle, surrogate)
        ctx.batch, ctx.smooth = batch, surrogate.cost.smooth
        ctx.save_for_backward(values, weights, rows, shared)
        lower = lower.to(values.dtype)
        ctx.mark_non_differentiable(lower)
        return upper.to(values.dtype), lower

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor):  # type: ignore[override]
        """Gradients times the factor of each example; differentiable for smooth surrogates."""
        values, weights, rows, shared = ctx.saved_tensors
        batch = ctx.batch
        if ctx.smooth and torch.is_grad_enabled():
            found, found_shared = Marginals.apply(values, weights, batch)
            rows = found + (rows - found).detach()
            shared = found_shared + (shared - found_shared).detach()
        needs_weights = ctx.needs_input_grad[1] and weights.shape[1] > 0
        return (
            batch.per_example(grad, rows),
            _to_weights(batch, grad, shared) if needs_weights else None,
            None, None, None,
        )  # fmt: skip


class LogPartition(torch.autograd.Function):
    """Log partition functions; their gradients are marginals."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, batch: Batch):
        """Values and marginals in one pass."""
        log_sums, _, rows, shared = batch.gibbs(values, weights)
        ctx.batch = batch
        ctx.save_for_backward(values, weights, rows, shared)
        return log_sums.to(values.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """Marginals times the factor of each example."""
        values, weights, rows, shared = ctx.saved_tensors
        if torch.is_grad_enabled():
            rows, shared = Marginals.apply(values, weights, ctx.batch)
        return (
            ctx.batch.per_example(grad, rows), _to_weights(ctx.batch, grad, shared), None
        )  # fmt: skip


class Entropy(torch.autograd.Function):
    """Entropies; their gradients are minus the second derivatives of log Z times the scores."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, batch: Batch):
        """One pass of sums over all outputs."""
        _, entropies, _, _ = batch.gibbs(values, weights)
        ctx.batch = batch
        ctx.save_for_backward(values, weights)
        return entropies.to(values.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        """A pass along the scores themselves."""
        values, weights = ctx.saved_tensors
        rows, shared = ctx.batch.changes(values, weights, values, weights)
        return ctx.batch.per_example(-grad, rows), _to_weights(ctx.batch, -grad, shared), None


class Marginals(torch.autograd.Function):
    """Marginals of the rows and, for each example, of the weights."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, batch: Batch):
        """One pass of sums over all outputs."""
        _, _, rows, shared = batch.gibbs(values, weights)
        ctx.batch = batch
        ctx.save_for_backward(values, weights)
        return rows, shared

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along: Tensor, along_weights: Tensor):  # type: ignore[override]
        """Second derivatives of the log partition functions, which are symmetric."""
        values, weights = ctx.saved_tensors
        rows, shared = ctx.batch.changes(values, weights, along, along_weights)
        return rows, _to_weights(ctx.batch, None, shared), None
