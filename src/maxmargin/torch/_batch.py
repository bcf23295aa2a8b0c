"""A batch at work: packed outputs, scores in rows, and the kernels over them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._kernels.batches import (
    Bounds,
    Slopes,
    batch_changes,
    batch_decodings,
    batch_draws,
    batch_gibbs,
    batch_surrogates,
)
from .._kernels.passes import Objective
from ..features.scores import ScoreRows
from ._forms import Layout
from ._threads import over_examples


class Batch(NamedTuple):
    """Outputs of a batch, and where their scores stand.

    ``values`` holds the scores in rows, and ``weights`` those that all positions share (transitions
    of a chain), one row for all examples or one for each; both may need gradients.
    """

    structure: Any  # packed outputs, a NamedTuple of the compiled core
    values: Tensor  # (rows, labels)
    weights: Tensor  # (1 or n, number of shared scores)
    places: np.ndarray  # rows that count; empty if all do
    rows: np.ndarray  # number of rows of each example, padding included
    layout: Layout
    operations: float  # of one pass, about: whether threads pay off
    shape: tuple[int, ...]  # of the scores that were given, if these were one tensor
    device: torch.device  # where the scores came from

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.layout.n

    def per_example(self, factors: Tensor, rows: Tensor) -> Tensor:
        """Rows times the factor of their example."""
        if self.n == 1 or factors.stride(0) == 0:
            return rows * factors[0]
        if self.layout.form == "padded":
            return (rows.view(self.n, -1) * factors[:, None]).view(rows.shape)
        return rows * torch.repeat_interleave(factors, torch.from_numpy(self.rows))[:, None]

    # --- kernels ------------------------------------------------------------------------------

    def _rows(self, values: Tensor) -> ScoreRows:
        return ScoreRows(values.detach().numpy(), self.places)

    def _shared(self, weights: Tensor) -> np.ndarray:
        return weights.detach().to(torch.float64).contiguous().numpy()

    def _slopes(self, values: Tensor) -> tuple[Slopes, Tensor, Tensor]:
        rows = torch.zeros_like(values, memory_format=torch.contiguous_format)
        weights = torch.zeros((self.n, self.weights.shape[1]), dtype=torch.float64)
        return Slopes(ScoreRows(rows.numpy(), self.places), weights.numpy()), rows, weights

    def surrogates(self, oracle: Any, surrogate: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Upper and lower bounds on the losses, and the gradients of scores and weights."""
        slopes, rows, weights = self._slopes(self.values)
        bounds = Bounds(np.empty(self.n), np.empty(self.n))
        objective = Objective(oracle, surrogate, self.structure)
        given, shared = self._rows(self.values), self._shared(self.weights)

        def work(first: int, last: int) -> None:
            batch_surrogates(objective, given, shared, slopes, bounds, first, last)

        over_examples(work, self.n, self.operations)
        return torch.from_numpy(bounds.upper), torch.from_numpy(bounds.lower), rows, weights

    def gibbs(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log partition functions, entropies, marginals of the rows and of the weights."""
        found, rows, shared = self._slopes(values)
        log_sums, entropies = np.empty(self.n), np.empty(self.n)
        given, own = self._rows(values), self._shared(weights)

        def work(first: int, last: int) -> None:
            batch_gibbs(self.structure, given, own, found, log_sums, entropies, first, last)

        over_examples(work, self.n, self.operations)
        return torch.from_numpy(log_sums), torch.from_numpy(entropies), rows, shared

    def changes(
        self, values: Tensor, weights: Tensor, along: Tensor, along_weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Derivatives of the marginals along a direction, for the rows and for the weights."""
        found, rows, shared = self._slopes(values)
        given, own = self._rows(values), self._shared(weights)
        moves, own_moves = self._rows(along.contiguous()), self._shared(along_weights)

        def work(first: int, last: int) -> int:
            return batch_changes(self.structure, given, own, moves, own_moves, found, first, last)

        failed = [i for i in over_examples(work, self.n, 2 * self.operations) if i >= 0]
        if failed:
            raise FloatingPointError(
                f"The derivatives of the marginals of example {failed[0]} have too few digits: its "
                "scores are so far apart that the Laplacian is nearly singular. Scale scores down."
            )
        return rows, shared

    def decode(self) -> tuple[np.ndarray, Tensor]:
        """Labels of the best outputs, without padding, and their scores."""
        labels = np.zeros(len(self.structure.truth), np.int32)
        values = np.empty(self.n)
        given, own = self._rows(self.values), self._shared(self.weights)

        def work(first: int, last: int) -> None:
            batch_decodings(self.structure, given, own, labels, values, first, last)

        over_examples(work, self.n, self.operations)
        return labels, torch.from_numpy(values)

    def draw(self, uniforms: Tensor) -> np.ndarray:
        """Labels of outputs drawn by the Gibbs distributions; ``uniforms`` has a row each."""
        labels = np.zeros(len(self.structure.truth), np.int32)
        given, own = self._rows(self.values), self._shared(self.weights)
        numbers = uniforms.numpy()

        def work(first: int, last: int) -> int:
            return batch_draws(self.structure, given, own, numbers, labels, first, last)

        failed = [i for i in over_examples(work, self.n, self.operations) if i >= 0]
        if failed:
            raise ValueError(f"The constraints allow no output of example {failed[0]}.")
        return labels
