"""Structures written as plain Python classes, trained by the same solvers.

A structure is any object with three methods:

- ``argmax(x, weights, truth=None)``: the output y that maximises ``weights @ joint_feature(x, y)``,
  plus ``loss(truth, y)`` if a truth is given;
- ``joint_feature(x, y)``: the vector ``Phi(x, y)``;
- ``loss(truth, y)``: the loss of predicting y; zero for the truth itself.

The dual block of an example is stored as its mean joint feature and mean loss: a vector of the
length of the weights and two numbers per example, so memory grows with examples x weights. The
compiled structures need less, because they store parts. Steps, order and certificate are the same,
and a structure written both ways gives the same iterates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..structures.traits import PYTHON
from ..surrogates.max_margin import MaxMargin
from .problem import Evaluation, TrainingProblem


@runtime_checkable
class PythonStructure(Protocol):
    """Methods of a structure in plain Python."""

    def argmax(self, x: Any, weights: np.ndarray, truth: Any = None) -> Any:
        """Best output under ``weights``, plus the loss against ``truth`` if given."""

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Feature vector of an input and an output."""

    def loss(self, truth: Any, y: Any) -> float:
        """Loss of predicting ``y`` when ``truth`` is right."""


class MeanBlocks(NamedTuple):
    """Dual blocks: mean joint feature and mean loss of each example."""

    features: np.ndarray
    losses: np.ndarray


class PythonProblem(TrainingProblem):
    """A max-margin problem over a structure in plain Python, with the interface for solvers.

    Parameters
    ----------
    structure : PythonStructure
    X, y : sequences
        Inputs and true outputs.
    alpha : float
    sample_weight : array
    """

    surrogate = MaxMargin()
    traits = PYTHON
    in_python = True

    def __init__(self, structure: PythonStructure, X, y, alpha: float, sample_weight):
        super().__init__(alpha, sample_weight)
        self.structure = structure
        self.X = X
        self.y = y
        self.rows = self  # takes the place of the rows of compiled passes
        self.true_features = np.array(
            [
                np.asarray(structure.joint_feature(x, t), dtype=np.float64)
                for x, t in zip(X, y, strict=True)
            ]
        )
        self.n_weights = self.true_features.shape[1]

    def objective(self, oracle: Any = None) -> None:
        """None: steps in Python use the problem itself."""

    def start(self) -> MeanBlocks:
        """Dual blocks at the truth: w = 0."""
        return MeanBlocks(self.true_features.copy(), np.zeros(self.n_examples))

    def signature(self) -> None:
        """None: mean joint features of other data cannot be used here."""

    def with_truth(self, truth: Any) -> PythonProblem:
        """The same problem with other true outputs, for which dual blocks have other losses."""
        return PythonProblem(self.structure, self.X, truth, self.alpha, self.sample_weight)

    def subset(self, examples: np.ndarray) -> PythonProblem:
        """The problem of some of the examples."""
        X, y = ([values[i] for i in examples] for values in (self.X, self.y))
        return PythonProblem(self.structure, X, y, *self.share(np.asarray(examples)))

    def weights_of(self, blocks: MeanBlocks) -> np.ndarray:
        """``w(mu)``, from scratch."""
        return self.scales @ (self.true_features - blocks.features)

    def answer(self, i: int, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Joint feature and loss of the loss-augmented argmax of example i."""
        x, truth = self.X[i], self.y[i]
        y = self.structure.argmax(x, weights, truth)
        features = np.asarray(self.structure.joint_feature(x, y), dtype=np.float64)
        return features, float(self.structure.loss(truth, y))

    def mean_square(self) -> float:
        """Mean over examples of the squared norm of the true features."""
        return float((self.true_features**2).sum()) / self.n_examples

    def concave(self, blocks: MeanBlocks) -> float:
        """Mean loss of the dual blocks."""
        return float(self.sample_weight @ blocks.losses) / self.total_weight

    def evaluate(
        self, weights, blocks: MeanBlocks | None = None, gaps=None, dual_weights=None, oracle=None
    ) -> Evaluation:
        """True primal value at ``weights``, and dual value at ``blocks``."""
        total = 0.0
        for i in np.flatnonzero(self.sample_weight):
            features, loss = self.answer(int(i), weights)
            value = loss + weights @ (features - self.true_features[i])
            total += self.sample_weight[i] * value
            if blocks is not None and gaps is not None:
                mean = weights @ (blocks.features[i] - self.true_features[i]) + blocks.losses[i]
                gaps[i] = value - mean
        penalty = self.penalty(weights)
        dual = -np.inf
        if blocks is not None:
            dual = self.concave(blocks)
            dual -= penalty if dual_weights is None else self.penalty(dual_weights)
        return Evaluation(penalty + total / self.total_weight, dual, 0.0)


def bcfw_steps(objective, problem, scales, visits, weights, trail, blocks):
    """The pass of block-coordinate Frank-Wolfe, as the compiled kernel does it."""
    from ._bcfw_kernel import draw_from_sum_tree, lengthen, set_in_sum_tree

    order, draws, tree, gaps, fixed = visits
    correction = trail.correction
    by_gap = len(draws) > 0
    for step in range(visits.n_steps):
        before = lengthen(trail)
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        scale = scales[i]
        if scale == 0.0:
            continue
        features, loss = problem.answer(i, weights)
        direction = features - blocks.features[i]
        gap = loss - blocks.losses[i] + float(weights @ direction)
        gaps[i] = gap
        if by_gap:
            set_in_sum_tree(tree, i, scale * max(gap, 0.0))
        if gap <= 0.0:
            continue
        curvature = scale * float(direction @ direction)
        gamma = 1.0 if gap >= curvature else gap / curvature
        if fixed >= 0:
            gamma = 2.0 * problem.n_examples / (fixed + step + 2.0 * problem.n_examples)
        blocks.features[i] += gamma * direction
        blocks.losses[i] += gamma * (loss - blocks.losses[i])
        weights -= gamma * scale * direction
        if len(correction):
            correction -= gamma * scale * before * direction
    return blocks, visits.n_steps


def subgradient_steps(objective, problem, factors, alpha, order, n_before, sums, late):
    """The pass of the stochastic subgradient method, as the compiled kernel does it."""
    concave = 0.0
    for step, i in enumerate(order):
        t = n_before + step
        if factors[i] == 0.0:
            continue
        features, loss = problem.answer(i, sums / (alpha * t) if t > 0 else np.zeros_like(sums))
        concave += factors[i] * loss
        direction = problem.true_features[i] - features
        sums += factors[i] * direction
        late += factors[i] * t * direction
    return concave
