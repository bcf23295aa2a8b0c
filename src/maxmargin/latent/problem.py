"""The questions about packed examples with latent variables: explanations, searches, features.

Everything is for a list of examples at once; results are arrays with a row for every example, of
which only those asked for are filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .kernels.pair_map import INDICATOR, MARGIN, SCORE, SLACK
from .kernels.working_set import Rows

__all__ = [
    "EXACT",
    "INDICATOR",
    "LISTED",
    "MARGIN",
    "SCORE",
    "SLACK",
    "Found",
    "LatentProblem",
    "Random",
    "Rows",
]

EXACT = "exact"  # the best structure, by whatever is fast
LISTED = "listed"  # the same by going through all outputs and all latent variables


class Random(NamedTuple):
    """Search among random structures: uniform draws, then (``greedy``) local climbs."""

    n_samples: int
    seed: int
    greedy: bool = True


class Found(NamedTuple):
    """Structures: outputs and latent variables in packed form, distortion against the truth."""

    outputs: np.ndarray
    latents: np.ndarray
    losses: np.ndarray


class LatentProblem:
    """Packed examples of one kind of structure."""

    n_examples: int
    n_weights: int
    width: int  # most entries of a row of features
    gamma: float  # bound on the norm of the features
    n_structures: float  # bound on the number of (y, h) of an example
    n_superset: float  # bound on the number of latent variables, those of the superset included
    has_superset: bool
    n_searches: int = 0  # of single examples, so far, in training

    def take(self, examples: np.ndarray) -> Any:
        """Some of the examples."""
        raise NotImplementedError

    def complete(self, weights: np.ndarray, relaxed: bool, examples: np.ndarray) -> Found:
        """True outputs with their best explanations, over the superset if ``relaxed``."""
        raise NotImplementedError

    def guess(self, relaxed: bool, rng: np.random.RandomState) -> Found:
        """True outputs with latent variables drawn uniformly, from the superset if ``relaxed``."""
        raise NotImplementedError

    def search(
        self,
        weights: np.ndarray,
        references: np.ndarray,
        objective: int,
        examples: np.ndarray,
        how: Any,
    ) -> Found:
        """The structures that maximise ``worth`` (``latent/kernels/pair_map.py``)."""
        found = self._empty()
        data = (found, weights, references, objective, examples)
        if isinstance(how, Random):
            self._draw(*data, how)
        else:
            self._maximise(*data, how == LISTED)
        return found

    def _empty(self) -> Found:
        """Structures that are still to be filled in."""
        raise NotImplementedError

    def _draw(self, found, weights, references, objective, examples, how: Random) -> None:
        """Fill in the best of random structures."""
        raise NotImplementedError

    def _maximise(self, found, weights, references, objective, examples, listed: bool) -> None:
        """Fill in the best structures; ``listed``: by going through all outputs and latents."""
        raise NotImplementedError

    def rows(self, found: Found, examples: np.ndarray) -> Rows:
        """Features of structures."""
        raise NotImplementedError

    def outputs(self, found: Found) -> list[Any]:
        """Outputs as users write them."""
        raise NotImplementedError

    def latents(self, found: Found) -> list[Any]:
        """Latent variables as users write them."""
        raise NotImplementedError

    def everyone(self) -> np.ndarray:
        """All examples."""
        return np.arange(self.n_examples)

    def uniform_beta(self) -> float:
        """A known bound on ``P[distortion < 1]`` for uniform proposals; 1 if there is none."""
        return 1.0
