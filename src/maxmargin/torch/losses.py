"""Structured losses of scores: max-margin, max-min margin, CRF."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._validation import check_choice, check_integer
from ._batch import Batch
from ._forms import check_device, check_shape
from .structures import Structure, structure_of

REDUCTIONS = ("mean", "sum", "none")


class Bracket(NamedTuple):
    """Certified bounds on the loss of each example: ``lower <= loss <= upper``."""

    lower: Tensor
    upper: Tensor


def check_weights(sample_weight: Any, n: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Weights of the examples, or an error that names what is wrong."""
    check_shape("sample_weight", sample_weight, (n,))
    check_device("sample_weight", sample_weight, device)
    weights = sample_weight.detach().to(dtype)
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()) or not float(weights.sum()) > 0:
        raise ValueError("sample_weight must hold finite numbers >= 0, not all of them 0.")
    return weights


@lru_cache(maxsize=64)
def equal_factors(n: int, factor: float) -> np.ndarray:
    """The same factor for all examples; not to be changed."""
    return np.full(n, factor)


def factors_of(weights: Tensor | None, n: int, reduction: str) -> np.ndarray | None:
    """Factors whose sum with the losses is the loss of a batch; None: losses are not summed.

    The mean is that of the weighted examples.
    """
    if reduction == "none":
        return None
    if weights is None:
        return equal_factors(n, 1.0 / n if reduction == "mean" else 1.0)
    factors = weights.cpu().double().numpy()
    return factors / factors.sum() if reduction == "mean" else factors


class StructuredLoss(nn.Module):
    """Base of the losses; see :class:`CRFLoss` for the parameters.

    A loss is ``max_mu [ H(mu) + v @ mu ] - v @ phi(y)`` for scores v and the true output y; its
    gradient is ``mu - phi(y)``.
    """

    surrogate: str

    def __init__(self, structure: Structure | str, *, reduction: str = "mean"):
        super().__init__()
        self.structure = structure_of(structure)
        self.structure.refuse(self.surrogate)
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    def extra_repr(self) -> str:
        """Structure and reduction, as torch prints them."""
        return f"{self.structure.name!r}, reduction={self.reduction!r}"

    def values(self, batch: Batch, factors: np.ndarray | None) -> tuple[Tensor, Any, Any]:
        """Losses, or their sum with factors, and bounds on the loss of each example."""
        raise NotImplementedError

    def forward(
        self,
        scores: Any,
        targets: Any,
        *,
        mask: Tensor | None = None,
        offsets: Any = None,
        sample_weight: Tensor | None = None,
        return_bracket: bool = False,
    ) -> Any:
        """The loss of a batch.

        Parameters
        ----------
        scores : tensor, list of tensors, or ChainScores
            As the structure describes. Examples of different sizes are a list, a padded tensor with
            ``mask``, or a flat tensor with ``offsets``.
        targets : tensor or list of tensors
            True outputs, in the form of the scores.
        mask : bool tensor of shape (n, longest), optional
            True for the positions of a padded tensor that are not padding.
        offsets : integers, optional
            Where the examples of a flat tensor start, with the end of the last: n + 1 numbers.
        sample_weight : tensor of shape (n,), optional
            Weights of the examples.
        return_bracket : bool, default=False
            Also return certified bounds on the loss of each example.

        Returns
        -------
        tensor, or tensor and Bracket
        """
        batch = self.structure.batch(scores, targets, mask, offsets)
        if return_bracket:
            batch = batch._replace(bracket=True)
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, batch.n, batch.device, batch.scores.dtype)
        factors = factors_of(weights, batch.n, self.reduction)
        loss, upper, lower = self.values(batch, factors)
        if factors is None and weights is not None:
            loss = loss * weights
        if not return_bracket:
            return loss
        return loss, Bracket(*(torch.as_tensor(each).to(batch.scores) for each in (lower, upper)))


class CRFLoss(StructuredLoss):
    """Negative log likelihood of a conditional random field: ``log Z(v) - v @ phi(y)``.

    Parameters
    ----------
    structure : Structure or str
        "multiclass", "ordinal", "multilabel", "chain", "permutation" (of at most 12 items),
        "arborescence" or "subset", or such a value.
    reduction : {"mean", "sum", "none"}, default="mean"

    Examples
    --------
    >>> import torch
    >>> from maxmargin.torch import ChainScores, CRFLoss
    >>> emissions, transitions = torch.zeros(2, 3, 4), torch.zeros(4, 4)
    >>> tags = torch.zeros(2, 3, dtype=torch.long)
    >>> loss = CRFLoss("chain")(ChainScores(emissions, transitions), tags)
    >>> round(loss.item(), 4)  # three positions, four labels: 3 log 4
    4.1589
    """

    surrogate = "crf"

    def values(self, batch, factors):
        """Negative log likelihoods."""
        self.structure.check_sums(batch)
        return self.structure.crf(batch, factors)


class MaxMarginLoss(StructuredLoss):
    """Structured hinge loss: ``max_y [ loss(y, y_i) + v @ phi(y) ] - v @ phi(y_i)``.

    Parameters
    ----------
    structure : Structure or str
        "multiclass", "ordinal", "multilabel", "chain", "permutation", "arborescence" or "subset",
        or such a value, which holds the task loss; or :class:`FactorGraphs`.
    reduction : {"mean", "sum", "none"}, default="mean"
    """

    surrogate = "max-margin"

    def values(self, batch, factors):
        """Structured hinge losses."""
        return self.structure.max_margin(batch, factors)


class MaxMinLoss(StructuredLoss):
    """Max-min margin loss: ``max_mu [ min_nu E loss(nu, mu) + v @ mu ] - v @ phi(y)``.

    Unlike max-margin it is consistent for the task loss. Chains, permutations and trees have
    iterative oracles: the value is then an upper bound on the loss, and the gradient is that of a
    point whose value is at least the lower bound. ``return_bracket=True`` returns both bounds.

    Parameters
    ----------
    structure : Structure or str
        As for :class:`MaxMarginLoss`.
    reduction : {"mean", "sum", "none"}, default="mean"
    iterations : int, optional
        Iterations of an iterative oracle. Default: 10 per position on chains, the ``rounds`` of
        factor graphs, at most 100 otherwise.
    """

    surrogate = "max-min"

    def __init__(
        self,
        structure: Structure | str,
        *,
        reduction: str = "mean",
        iterations: int | None = None,
    ):
        super().__init__(structure, reduction=reduction)
        self.iterations = 0 if iterations is None else check_integer("iterations", iterations, 1)

    def values(self, batch, factors):
        """Bounds on the losses."""
        return self.structure.max_min(batch, factors, self.iterations)
