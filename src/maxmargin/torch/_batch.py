"""A batch: packed outputs, scores in rows, and calls of the kernels."""

from __future__ import annotations

from collections.abc import Callable
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
from .._kernels.best_outputs import batch_best_outputs
from .._kernels.passes import Objective
from ..features.scores import ScoreRows
from ..structures.chain import best_paths
from ._forms import Layout
from ._threads import GROUP, over_examples

NO_PLACES = np.empty(0, np.int64)
NO_WEIGHTS = np.empty((1, 0))
_NO_FACTORS = np.empty(0)
_FLOATS = {torch.float32: np.float32, torch.float64: np.float64}


class Found(NamedTuple):
    """Bounds on the losses of all examples, and gradients of their rows and shared scores."""

    upper: np.ndarray
    lower: np.ndarray
    rows: np.ndarray
    weights: np.ndarray


# Losses of a batch; gradients are those of the examples, or summed with factors.
Losses = Callable[[np.ndarray | None], Found]


def _tensors(slopes: Slopes) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(slopes.rows.values), torch.from_numpy(slopes.weights)


class Batch(NamedTuple):
    """Outputs of a batch, and their scores.

    ``scores`` and ``shared`` are the tensors that receive gradients: scores of parts, and those
    that all positions share (transitions of a chain). ``values`` and ``weights`` are the same
    numbers in the form that kernels read: rows of scores, and one row of shared scores for all
    examples or one per example.
    """

    structure: Any  # packed outputs, a NamedTuple of the compiled core
    scores: Tensor
    values: np.ndarray  # (rows, labels)
    layout: Layout
    rows: np.ndarray  # number of rows of each example, padding included
    operations: float  # of one pass, estimated: whether threads are faster
    places: np.ndarray = NO_PLACES  # rows that count; empty if all do
    shared: tuple[Tensor, ...] = ()
    columns: tuple[tuple[int, int, bool], ...] = ()  # of each: first and last, one per example?
    weights: np.ndarray = NO_WEIGHTS
    factor: float = 1.0  # values are the scores times this
    bracket: bool = False  # whether both bounds on the losses are wanted

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.layout.n

    @property
    def device(self) -> torch.device:
        """Where the scores came from."""
        return self.scores.device

    def over(self, number: float) -> Batch:
        """The same batch with all scores divided by a number."""
        return self._replace(
            scores=self.scores / number,
            values=self.values / self.values.dtype.type(number),
            shared=tuple(part / number for part in self.shared),
            weights=self.weights / number,
        )

    # --- gradients ----------------------------------------------------------------------------

    def to_scores(self, factors: Tensor | None, rows: Tensor) -> Tensor:
        """Rows, times the factors of their examples, as gradients of the scores."""
        if factors is not None:
            if factors.stride(0) == 0 or self.n == 1:
                rows = rows * factors[0]
            elif self.layout.form == "padded":
                rows = rows.view(self.n, -1) * factors[:, None]
            else:
                owners = torch.from_numpy(self.rows)
                rows = rows * torch.repeat_interleave(factors, owners)[:, None]
        if self.factor != 1.0:
            rows = rows * self.factor
        return rows.view(self.scores.shape).to(self.scores)

    def as_scores(self, rows: np.ndarray) -> Tensor:
        """Rows in the form of the scores, which have the same precision."""
        return self._on_device(torch.from_numpy(rows.reshape(self.scores.shape)))

    def _on_device(self, tensor: Tensor) -> Tensor:
        device = self.scores.device
        return tensor if device.type == "cpu" else tensor.to(device)

    def per_example(self, values: np.ndarray) -> Tensor:
        """Values with the precision and on the device of the scores."""
        return self._on_device(torch.from_numpy(np.asarray(values, self.values.dtype)))

    def to_shared(self, factors: Tensor | None, slopes: Tensor) -> list[Tensor]:
        """Rows of shared scores, one per example, as gradients of the shared scores."""
        if not self.shared:
            return []
        if self.shares_all:
            slopes = slopes.sum(0) if factors is None else factors.to(slopes) @ slopes
        elif factors is not None:
            slopes = factors.to(slopes)[:, None] * slopes
        return [
            (slopes[..., begin:end] if own or self.shares_all else slopes[:, begin:end].sum(0))
            .to(part)
            .view(part.shape)
            for part, (begin, end, own) in zip(self.shared, self.columns)
        ]

    def split(self, total: np.ndarray) -> list[Tensor]:
        """One row of shared scores, as gradients of the shared scores."""
        return [
            self._on_device(
                torch.from_numpy(total[begin:end].astype(_FLOATS[part.dtype]).reshape(part.shape))
            )
            for part, (begin, end, _) in zip(self.shared, self.columns)
        ]

    @property
    def shares_all(self) -> bool:
        """Whether no example has shared scores of its own."""
        return len(self.weights) == 1

    # --- kernels ------------------------------------------------------------------------------

    def _rows(self) -> ScoreRows:
        return ScoreRows(self.values, self.places)

    def _slopes(self, factors: np.ndarray | None = None, is_written: bool = False) -> Slopes:
        """Arrays for gradients; with factors those of the shared scores are summed in groups.

        Groups do not depend on the number of threads; hence the sums do not either.
        """
        fill = np.empty if is_written and not len(self.places) else np.zeros
        rows = fill(self.values.shape, self.values.dtype)
        if factors is None:
            factors, group = _NO_FACTORS, 1
        else:
            group = GROUP
        weights = np.zeros((-(-self.n // group), self.weights.shape[1]))
        return Slopes(ScoreRows(rows, self.places), weights, factors, group)

    def surrogates(self, oracle: Any, surrogate: Any) -> Losses:
        """Losses, computed by an oracle."""
        objective = Objective(oracle, surrogate, self.structure)

        def losses(factors: np.ndarray | None) -> Found:
            return self._losses(batch_surrogates, objective, factors)

        return losses

    def likelihoods(self, kernel: Any) -> Losses:
        """Negative log likelihoods by a kernel of one structure, which overwrites gradients."""

        def losses(factors: np.ndarray | None) -> Found:
            return self._losses(kernel, self.structure, factors, is_written=True)

        return losses

    def _losses(
        self, kernel: Any, objective: Any, factors: np.ndarray | None, is_written: bool = False
    ) -> Found:
        slopes = self._slopes(factors, is_written)
        bounds = Bounds(np.empty(self.n), np.empty(self.n))
        given = self._rows()

        def work(first: int, last: int) -> None:
            kernel(objective, given, self.weights, slopes, bounds, first, last)

        over_examples(work, self.n, self.operations)
        return Found(*bounds, slopes.rows.values, slopes.weights)

    def gibbs(self) -> tuple[np.ndarray, np.ndarray, Tensor, Tensor]:
        """Log partition functions, entropies, marginals of the rows and of the shared scores."""
        found = self._slopes()
        log_sums, entropies = np.empty(self.n), np.empty(self.n)
        given = self._rows()

        def work(first: int, last: int) -> None:
            batch_gibbs(
                self.structure, given, self.weights, found, log_sums, entropies, first, last
            )

        over_examples(work, self.n, self.operations)
        return log_sums, entropies, *_tensors(found)

    def changes(self, along: np.ndarray, along_weights: np.ndarray) -> tuple[Tensor, Tensor]:
        """Derivatives of the marginals along a direction, of the rows and the shared scores."""
        found = self._slopes()
        given, moves = self._rows(), ScoreRows(along, self.places)

        def work(first: int, last: int) -> int:
            return batch_changes(
                self.structure, given, self.weights, moves, along_weights, found, first, last
            )

        failed = [i for i in over_examples(work, self.n, 2 * self.operations) if i >= 0]
        if failed:
            raise FloatingPointError(
                f"The derivatives of the marginals of example {failed[0]} have too few digits: its "
                "scores are so far apart that the Laplacian is nearly singular. Scale scores down."
            )
        return _tensors(found)

    def decode(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels of the best outputs, without padding, and their scores."""
        labels = np.zeros(len(self.structure.truth), np.int32)
        values = np.empty(self.n)
        given = self._rows()

        def work(first: int, last: int) -> None:
            batch_decodings(self.structure, given, self.weights, labels, values, first, last)

        over_examples(work, self.n, self.operations)
        return labels, values

    def best_outputs(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels of the k best outputs, -1 where there are fewer, and their scores."""
        labels = np.full((k, len(self.structure.truth)), -1, np.int32)
        values = np.empty((self.n, k))
        given = self._rows()

        def work(first: int, last: int) -> None:
            batch_best_outputs(self.structure, given, self.weights, labels, values, first, last)

        over_examples(work, self.n, k * float(self.layout.longest) * self.operations)
        return labels, values

    def best_paths(self) -> np.ndarray:
        """Labels of the best outputs of chains, all with the same transitions."""
        labels = np.empty(len(self.structure.truth), np.int32)
        given, weights = self._rows(), self.weights[0]

        def work(first: int, last: int) -> None:
            best_paths(self.structure, given, weights, first, last, labels)

        over_examples(work, self.n, self.operations)
        return labels

    def draw(self, uniforms: np.ndarray) -> np.ndarray:
        """Labels of outputs drawn from the Gibbs distributions; one row of ``uniforms`` each."""
        labels = np.zeros(len(self.structure.truth), np.int32)
        given = self._rows()

        def work(first: int, last: int) -> int:
            return batch_draws(self.structure, given, self.weights, uniforms, labels, first, last)

        failed = [i for i in over_examples(work, self.n, self.operations) if i >= 0]
        if failed:
            raise ValueError(f"The constraints allow no output of example {failed[0]}.")
        return labels
