"""Fenchel-Young losses: ``Omega*(v) - v @ phi(y) + Omega(phi(y))`` for a convex Omega.

The gradient is ``mu - phi(y)``, where mu maximises ``v @ mu - Omega(mu)``. With s the strength:

- "entropy": Omega is -s times the entropy of a distribution over outputs. A CRF at temperature s.
- "quadratic": Omega is ``s/2 |mu|^2``; mu is the projection of ``v / s``, often sparse (sparsemax).
- "max-min": Omega is minus the Bayes risk less s times the entropy, the smooth max-min margin of
  :mod:`maxmargin.surrogates.smooth_max_min`. Chains are solved by sweeps: the loss is an upper
  bound, ``return_bracket=True`` returns both, which meet but for small strengths.

References
----------
Blondel, Martins, Niculae. Learning with Fenchel-Young losses. JMLR 2020.
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks. 2020.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._validation import check_choice, check_number
from ..oracles.closed_form import Formula
from ..structures.chain import Chain
from ..structures.multiclass import Multiclass
from ..structures.multilabel import HIDDEN, Multilabel
from ..surrogates.smooth_max_min import SmoothMaxMin
from ._autograd import loss_values
from ._batch import Batch
from ._regularized import SmoothChains, smooth_labels, sparsemax
from ._structure import native
from .losses import StructuredLoss
from .structures import REGULARIZERS


class _Envelope(torch.autograd.Function):
    """Values with known gradients: those of a maximum at its maximiser."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Tensor, slopes: Tensor):
        ctx.save_for_backward(slopes)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):  # type: ignore[override]
        (slopes,) = ctx.saved_tensors
        return grad[:, None] * slopes, None, None


class FenchelYoungLoss(StructuredLoss):
    """A Fenchel-Young loss.

    Parameters
    ----------
    structure : Structure or str
        "entropy" takes all structures with a CRF; "quadratic" and "max-min" take "multiclass",
        "ordinal" and "multilabel", the latter without loss matrices; "max-min" also takes "chain"
        with the 0-1 loss of labels.
    regularizer : {"entropy", "quadratic", "max-min"}, default="entropy"
        The convex function Omega, as above. For "multilabel" it is summed over the labels.
    strength : float, default=1.0
        Its factor s (for "max-min", that of the entropy). As s decreases to 0, the loss approaches
        the perceptron loss, or the max-min margin loss for "max-min". The entropy is that of the
        whole output: for chains ``Chain(scale="sum")`` keeps its weight independent of the length.
    reduction : {"mean", "sum", "none"}, default="mean"

    Examples
    --------
    >>> import torch
    >>> from maxmargin.torch import FenchelYoungLoss
    >>> scores = torch.tensor([[2.0, 0.0, -1.0]])
    >>> sparsemax = FenchelYoungLoss("multiclass", "quadratic")
    >>> sparsemax(scores, torch.tensor([0])).item()  # the margin is at least 1
    0.0
    """

    surrogate = "crf"

    def __init__(
        self,
        structure: Any,
        regularizer: str = "entropy",
        *,
        strength: float = 1.0,
        reduction: str = "mean",
    ):
        super().__init__(structure, reduction=reduction)
        self.regularizer = check_choice("regularizer", regularizer, REGULARIZERS)
        self.strength = check_number("strength", strength, above=0)
        self.structure.refuse_regularizer(regularizer)

    def values(self, batch: Batch, factors: np.ndarray | None) -> tuple[Tensor, Any, Any]:
        """Losses."""
        s = self.strength
        if self.regularizer == "entropy":
            loss, upper, lower = self.structure.crf(batch.over(s), factors)
            return loss * s, upper * s, lower * s
        return _values(batch.structure, self, batch, factors)

    def _at_truth(self, truth: Tensor) -> Tensor | float:
        return self.strength / 2 * truth.sum(1) if self.regularizer == "quadratic" else 0.0


@singledispatch
def _values(packed: Any, loss: FenchelYoungLoss, batch: Batch, factors: np.ndarray | None) -> Any:
    """Losses by formulas."""
    with torch.no_grad():
        each, slopes = _formula(packed, loss, batch)
    return native(_Envelope.apply(batch.scores, each, slopes), factors)


@_values.register
def _(packed: Chain, loss: FenchelYoungLoss, batch: Batch, factors: np.ndarray | None) -> Any:
    losses = batch.surrogates(Formula(False), SmoothMaxMin(loss.strength))

    def smooth(batch: Batch, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return SmoothChains.apply(batch, loss.strength, *inputs)

    return loss_values(batch, losses, factors, smooth)


@singledispatch
def _formula(packed: Any, loss: FenchelYoungLoss, batch: Batch) -> tuple[Tensor, Tensor]:
    """Losses and their gradients."""
    raise NotImplementedError(type(packed).__name__)


@_formula.register
def _(packed: Multiclass, loss: FenchelYoungLoss, batch: Batch) -> tuple[Tensor, Tensor]:
    scores = batch.scores
    if loss.regularizer == "max-min":
        smooth = batch.surrogates(Formula(False), SmoothMaxMin(loss.strength))
        found = smooth(None)
        return batch.per_example(found.upper), batch.as_scores(found.rows)
    truth = torch.nn.functional.one_hot(
        torch.from_numpy(packed.truth).long().to(batch.device), scores.shape[1]
    ).to(scores.dtype)
    mu = sparsemax(scores, loss.strength)
    value = (mu * scores).sum(1) - loss.strength / 2 * mu.square().sum(1)
    return value - (truth * scores).sum(1) + loss._at_truth(truth), mu - truth


@_formula.register
def _(packed: Multilabel, loss: FenchelYoungLoss, batch: Batch) -> tuple[Tensor, Tensor]:
    scores = batch.scores
    labels = torch.from_numpy(packed.truth).reshape(scores.shape).to(batch.device)
    known, truth = labels != HIDDEN, (labels == 1).to(scores.dtype)
    if loss.regularizer == "quadratic":
        mu = (scores / loss.strength).clamp(0.0, 1.0)
        each = mu * scores - loss.strength / 2 * (mu.square() - truth)
    else:
        costs = torch.from_numpy(packed.costs).to(scores)
        each, mu = smooth_labels(scores, costs, loss.strength)
    return ((each - truth * scores) * known).sum(1), (mu - truth) * known
