"""The assumptions of Theorem 3 on random structures, checked at the weights of a model.

With proposals ``(y', h') ~ R(w, x)`` and the explanation h* of the truth y:

- A (maximal distortion): ``P[d(y, y', h') = 1] >= 1 - beta`` for every example;
- B (low norm): ``| E[Phi(x, y, h*) - Phi(x, y', h')] |_2 <= 1 / (2 sqrt(n)) <= 1 / (2 |w|)``.

The paper has two sufficient conditions of B, with |P| the number of features that can differ from
zero and an integer b > 0. Claim iii: structures differ from the truth in at most one feature, by at
most b, and proposals are uniform. Claim iv: every feature differs by at most ``b / |P|``. Both want
``n <= |P| / (4 b^2)``.

References
----------
Bello, Honorio. Learning latent variable structured prediction models with Gaussian perturbations.
NeurIPS 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._validation import check_integer, check_number

_BLOCK = 5_000_000  # numbers of features that are held at once

__all__ = ["BetaEstimate", "LowNorm", "check_low_norm", "estimate_beta"]


def pack(model: Any, X: Any, y: Any) -> Any:
    """The packed examples of a fitted LatentPredictor."""
    if "latent" not in vars(model):
        raise TypeError(f"expected a LatentPredictor; received {type(model).__name__}.")
    check_is_fitted(model, "coef_")
    return model.latent.pack(X, y)


def check_probability(name: str, value: Any) -> None:
    """Strictly between 0 and 1."""
    if check_number(name, value, above=0) >= 1:
        raise ValueError(f"{name} must be between 0 and 1; received {value!r}.")


def _draws(model: Any, problem: Any, n_draws: int, greedy: bool | None, random_state: Any) -> Any:
    """Proposals of all examples, one after the other."""
    from .problem import Random

    rng, everyone = check_random_state(random_state), problem.everyone()
    climbs = bool(model.greedy if greedy is None else greedy)
    nothing = np.zeros(problem.n_examples)
    for _ in range(n_draws):
        draw = Random(1, int(rng.randint(2**31)), climbs)
        yield problem.search(model.coef_, nothing, 0, everyone, draw)


# --- Assumption A -------------------------------------------------------------------------------


@dataclass(frozen=True)
class BetaEstimate:
    """How often proposals have a distortion below 1: Assumption A wants at most beta everywhere.

    ``worst`` is the largest share of an example, ``mean`` that of all; ``high`` is an upper
    confidence limit for the largest probability of the examples (Clopper-Pearson, corrected for
    their number), ``low`` a lower one.
    """

    worst: float
    mean: float
    low: float
    high: float
    n_draws: int
    confidence: float
    shares: np.ndarray


def estimate_beta(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_draws: int = 200,
    greedy: bool | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
) -> BetaEstimate:
    """Estimate beta of Assumption A for the proposals of a fitted model, at its weights.

    A climb with good weights ends near the truth, so that beta is close to 1 for greedy
    proposals of a trained model: the assumption is then of little use, and so is Theorem 3.

    Parameters
    ----------
    model : LatentPredictor
    X, y : lists
    n_draws : int, default=200
        Proposals of each example.
    greedy : bool, optional
        Climb or not; by default as the model does. Uniform proposals do not depend on weights.
    confidence : float, default=0.95
    random_state : int, RandomState or None
    """
    problem = pack(model, X, y)
    check_integer("n_draws", n_draws, 1)
    check_probability("confidence", confidence)
    below = np.zeros(problem.n_examples)
    for found in _draws(model, problem, n_draws, greedy, random_state):
        below += found.losses < 1.0 - 1e-12
    worst = float(below.max())
    tail = (1.0 - confidence) / (2.0 * problem.n_examples)
    high = 1.0 if worst == n_draws else float(stats.beta.ppf(1 - tail, worst + 1, n_draws - worst))
    low = 0.0 if worst == 0 else float(stats.beta.ppf(tail, worst, n_draws - worst + 1))
    shares = below / n_draws
    return BetaEstimate(
        worst / n_draws, float(shares.mean()), low, high, n_draws, confidence, shares
    )


# --- Assumption B -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LowNorm:
    """Norms of the expected difference of features, and whether they are as small as B wants.

    ``norms`` are those of the means of the draws, one per example. The true ones differ from them
    by at most ``error``, for all examples at once, with probability ``confidence``.

    Attributes
    ----------
    holds : bool or None
        True if all norms are below ``limit = 1 / (2 sqrt(n))`` and ``|w| <= sqrt(n)``, False if the
        weights or a norm are too large, None if the draws do not decide it.
    n_features : int
        The smallest number of features of an example that were not zero in the truth or a draw.
    n_differing : int
        The largest number of features in which a draw differs from the truth; 1 or less in the
        setting of Claim iii.
    largest_difference : float
        The largest difference of a feature; at most ``b / |P|`` in that of Claim iv.
    claim_iii, claim_iv : bool
        Whether n and the draws agree with the claim, for any integer b. Draws can refute a claim
        about all structures, not prove it. Claim iii is about uniform proposals.
    """

    holds: bool | None
    limit: float
    worst: float
    mean: float
    error: float
    norms: np.ndarray
    n_features: int
    n_differing: int
    largest_difference: float
    claim_iii: bool
    claim_iv: bool
    n_draws: int
    confidence: float

    def __str__(self) -> str:
        verdict = {True: "holds", False: "does not hold", None: "is not decided"}[self.holds]
        return (
            f"Assumption B {verdict} at these weights: the expected features differ from those of "
            f"the truth by {self.worst:.3g} ± {self.error:.2g} at most and {self.mean:.3g} on "
            f"average; {self.limit:.3g} is allowed. The condition of Claim iii is "
            f"{'not refuted' if self.claim_iii else 'not met'}, that of Claim iv "
            f"{'not refuted' if self.claim_iv else 'not met'}."
        )


def check_low_norm(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_draws: int = 200,
    greedy: bool | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
) -> LowNorm:
    """Check Assumption B, and Claims iii and iv, for the proposals of a fitted model.

    The mean of m draws is within ``gamma (1 + sqrt(2 log(n / (1 - confidence)))) / sqrt(m)`` of the
    expected features of all n examples (McDiarmid's inequality); gamma bounds the norm of features.

    Parameters
    ----------
    model : LatentPredictor
    X, y : lists
        The training examples.
    n_draws : int, default=200
        Proposals of each example.
    greedy : bool, optional
        Climb or not; by default as the model does.
    confidence : float, default=0.95
    random_state : int, RandomState or None
    """
    problem = pack(model, X, y)
    check_integer("n_draws", n_draws, 1)
    check_probability("confidence", confidence)
    rng, n, width = check_random_state(random_state), problem.n_examples, problem.n_weights
    size = max(1, _BLOCK // width)
    parts = [
        _differences(
            model, problem.take(np.arange(first, min(first + size, n))), n_draws, greedy, rng
        )
        for first in range(0, n, size)
    ]
    norms = np.concatenate([part[0] for part in parts])
    seen, differing = min(part[1] for part in parts), max(part[2] for part in parts)
    largest = max(part[3] for part in parts)
    spread = 1.0 + math.sqrt(2.0 * math.log(n / (1.0 - confidence)))
    error, limit = problem.gamma * spread / math.sqrt(n_draws), 0.5 / math.sqrt(n)
    worst = float(norms.max())
    few = float(np.linalg.norm(model.coef_)) <= math.sqrt(n)
    decided = True if worst + error <= limit else (False if worst - error > limit else None)
    counts = np.arange(max(1, seen), width + 1)  # what |P| can be
    sparse = n <= counts / (4.0 * max(1.0, math.ceil(largest - 1e-9)) ** 2)
    dense = n <= counts / (4.0 * np.maximum(1.0, np.ceil(largest * counts - 1e-9)) ** 2)
    return LowNorm(
        holds=decided if few else False,
        limit=limit,
        worst=worst,
        mean=float(norms.mean()),
        error=error,
        norms=norms,
        n_features=seen,
        n_differing=differing,
        largest_difference=largest,
        claim_iii=differing <= 1 and bool(sparse.any()),
        claim_iv=bool(dense.any()),
        n_draws=n_draws,
        confidence=confidence,
    )


def _differences(
    model: Any, problem: Any, n_draws: int, greedy: bool | None, rng: np.random.RandomState
) -> tuple[np.ndarray, int, int, float]:
    """Norms of mean differences, features that were seen, and how many differ how much at most."""
    width, everyone = problem.n_weights, problem.everyone()
    truth = _dense(problem.rows(problem.complete(model.coef_, False, everyone), everyone), width)
    total, seen = np.zeros_like(truth), truth != 0
    differing, largest = 0, 0.0
    for found in _draws(model, problem, n_draws, greedy, rng):
        features = _dense(problem.rows(found, everyone), width)
        difference = np.abs(truth - features)
        differing = max(differing, int((difference > 1e-12).sum(axis=1).max()))
        largest = max(largest, float(difference.max()))
        seen |= features != 0
        total += features
    norms = np.linalg.norm(truth - total / n_draws, axis=1)
    return norms, int(seen.sum(axis=1).min()), differing, largest


def _dense(rows: Any, width: int) -> np.ndarray:
    """Rows of features as an array (n, width)."""
    n, columns = rows.indices.shape
    inside = np.arange(columns) < rows.counts[:, None]
    out = np.zeros((n, width))
    np.add.at(out, (np.nonzero(inside)[0], rows.indices[inside]), rows.values[inside])
    return out
