"""The synthetic problems of Bello and Honorio (2018): hidden weights make the outputs."""

from __future__ import annotations

import numpy as np

from maxmargin import DAG, AnyPairs, Arborescence, Latent, SharedPairs, Subset
from maxmargin.latent.problem import EXACT, SCORE

SPACES = {
    "trees": Arborescence(4),
    "acyclic graphs": DAG(4, 2),
    "subsets": Subset(9, 3),
    "4 of 100": Subset(100, 4),
}


def latent_of(name: str, superset: bool) -> Latent:
    """Outputs, the paper's latent space, and maybe its superset."""
    return Latent(SPACES[name], SharedPairs(), superset=AnyPairs() if superset else None)


def make(name: str, n: int, seed: int):
    """Two sets of n examples: bits, and the best outputs under Gaussian weights."""
    rng = np.random.RandomState(seed)
    elements = SPACES[name].packed().n_elements
    hidden = rng.randn(elements * (elements - 1) // 2)
    parts = []
    for _ in range(2):
        X = rng.randint(2, size=(n, len(hidden)))
        problem = latent_of(name, False).pack(X)
        found = problem.search(hidden, np.zeros(n), SCORE, problem.everyone(), EXACT)
        parts.append((X, problem.outputs(found)))
    return parts[0], parts[1]
