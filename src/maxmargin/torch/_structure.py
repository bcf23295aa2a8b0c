"""Base class of structures: reading of scores and targets, and what is computed from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._validation import check_loss_matrix, is_text
from ..oracles.closed_form import Formula
from ..structures.losses import AbsoluteLoss, LabelLoss, MatrixLoss, ZeroOneLoss
from ..surrogates.crf import Crf
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin
from ._autograd import Entropy, LogPartition, Marginals, loss_values
from ._batch import Batch


def native(values: Tensor, factors: np.ndarray | None) -> tuple[Tensor, Any, Any]:
    """Losses that torch computed, as :func:`loss_values` returns them."""
    total = values if factors is None else values @ torch.from_numpy(factors).to(values)
    return total, values.detach(), values.detach()


def label_loss(loss: Any, n_classes: int) -> LabelLoss:
    """The loss of one label: a name or a matrix, rows predicted and columns true."""
    if is_text(loss):
        if loss == "0-1":
            return ZeroOneLoss(np.ones(n_classes), True)
        if loss == "absolute":
            return AbsoluteLoss(np.ones(n_classes), True)
        raise ValueError(f"loss must be '0-1', 'absolute' or a matrix; received {loss!r}.")
    matrix = loss.detach().cpu().numpy() if isinstance(loss, Tensor) else loss
    return MatrixLoss(check_loss_matrix(matrix, n_classes))


class Structure:
    """Base of the structures: how scores and targets of a batch are read."""

    name: str
    surrogates: tuple[str, ...] = ("max-margin", "max-min", "crf")

    def refuse(self, surrogate: str) -> None:
        """Refuse a surrogate that this structure does not have."""
        if surrogate not in self.surrogates:
            have = ", ".join(repr(name) for name in self.surrogates)
            raise ValueError(f"{self.name} has no {surrogate!r} loss; it has {have}.")

    def refuse_regularizer(self, regularizer: str) -> None:
        """Refuse a regularizer of Fenchel-Young losses that this structure has no formula for."""
        if regularizer != "entropy":
            raise ValueError(
                f"regularizer={regularizer!r} has no formula for {self.name!r}; 'entropy' has one "
                "for all structures with a CRF, 'max-min' for 'chain', and both others for "
                "'multiclass', 'ordinal' and 'multilabel'."
            )

    def check_sums(self, batch: Batch) -> None:
        """Refuse a batch with more outputs than can be summed over."""

    def batch(self, scores: Any, targets: Any, mask: Any, offsets: Any) -> Batch:
        """Read scores, and targets unless they are None."""
        raise NotImplementedError

    def max_min_oracle(self, packed: Any, iterations: int) -> Any:
        """The oracle for max-min; 0 iterations stands for the default number."""
        return Formula(False)

    def form(self, batch: Batch, labels: np.ndarray) -> Any:
        """Labels of all examples, in the form of the scores."""
        found = torch.from_numpy(labels.astype(np.int64)).to(batch.device)
        return batch.layout.per_position(found, -1)

    def parts(self, batch: Batch, rows: Tensor) -> Any:
        """Values of all rows of scores, in the form of the scores."""
        if batch.layout.form == "list":
            pieces = rows.split(batch.rows.tolist())
            return [self.shaped(piece, int(n)) for piece, n in zip(pieces, batch.layout.lengths)]
        return rows.reshape(batch.scores.shape)

    def shaped(self, rows: Tensor, length: int) -> Tensor:
        """The rows of one example in the shape of its scores."""
        return rows

    # --- computed from sums over all outputs --------------------------------------------------

    def crf(self, batch: Batch, factors: np.ndarray | None) -> tuple[Tensor, Any, Any]:
        """Negative log likelihoods, as :func:`loss_values` returns them."""
        losses = batch.surrogates(Formula(False), Crf())
        return loss_values(batch, losses, factors, smooth=Marginals.apply)

    def max_margin(self, batch: Batch, factors: np.ndarray | None) -> tuple[Tensor, Any, Any]:
        """Structured hinge losses, as :func:`loss_values` returns them."""
        return loss_values(batch, batch.surrogates(Formula(False), MaxMargin()), factors)

    def max_min(
        self, batch: Batch, factors: np.ndarray | None, iterations: int
    ) -> tuple[Tensor, Any, Any]:
        """Max-min losses, as :func:`loss_values` returns them."""
        oracle = self.max_min_oracle(batch.structure, iterations)
        return loss_values(batch, batch.surrogates(oracle, MaxMin()), factors)

    def log_partition(self, batch: Batch) -> Tensor:
        """Log partition function of each example."""
        return LogPartition.apply(batch, batch.scores, *batch.shared)

    def marginals(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Marginals of the rows, and of the weights of each example."""
        return Marginals.apply(batch, batch.scores, *batch.shared)

    def entropy(self, batch: Batch) -> Tensor:
        """Entropy of the distribution of each example."""
        return Entropy.apply(batch, batch.scores, *batch.shared)

    def draw(self, batch: Batch, generator: torch.Generator | None) -> Any:
        """An output of each example."""
        size = (batch.n, int(batch.layout.lengths.max()))
        uniforms = torch.rand(size, generator=generator, dtype=torch.float64)
        return self.form(batch, batch.draw(uniforms.numpy()))

    def decode(self, batch: Batch) -> Any:
        """The best output of each example."""
        return self.form(batch, self.best(batch))

    def topk(self, batch: Batch, k: int) -> tuple[list[Any], Tensor]:
        """The k best outputs of each example, and their scores."""
        labels, values = batch.best_outputs(k)
        return [self.form(batch, each) for each in labels], batch.per_example(values)

    def transitions(self, batch: Batch, weights: Tensor) -> Tensor:
        """Marginals of pairs of neighbours, among those of the weights of each example."""
        raise ValueError(f"transitions=True is for chains; received structure {self.name!r}.")

    def best(self, batch: Batch) -> np.ndarray:
        """Labels of the best output of each example, without padding."""
        labels, values = batch.decode()
        if values.min() == -np.inf:
            bad = int(np.flatnonzero(values == -np.inf)[0])
            raise ValueError(f"The constraints allow no output of example {bad}.")
        return labels
