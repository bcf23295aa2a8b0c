"""What can be promised with latent variables and random structures: distortion, bounds, beta.

The *Gibbs decoder* predicts with random weights ``w' ~ N(a w, I)``, where
``a = gamma sqrt(8 log(r n / |w|^2))``, gamma bounds the norm of the features and r the number of
structures (y, h) of an example. Theorems 1 to 3 of the paper bound its expected distortion on new
data. The bounds hold for all weights at once; with the sizes of everyday problems they are often
above 1 and then say nothing, which the result tells.

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

from .._validation import check_choice, check_integer, check_number
from .assumptions import check_low_norm, check_probability, pack

__all__ = [
    "GeneralisationBound",
    "GibbsDistortion",
    "generalisation_bound",
    "gibbs_distortion",
    "largest_norm",
    "sample_size",
]

# As in ``kernels/pair_map.py``, which is imported when it is needed only: it takes time.
_INDICATOR = 3  # d if the margin is at most 1, else 0; see ``worth``


def largest_norm(gamma: float, beta: float) -> float:
    """Norm of the weights below which the formula of :func:`sample_size` holds.

    ``|w|^2 < 1 / (128 gamma^2 log(1 / (1 - beta)))``.
    """
    return 1.0 / math.sqrt(-128.0 * gamma**2 * math.log1p(-beta)) if beta > 0 else math.inf


def sample_size(n: int, norm: float, gamma: float, beta: float) -> float:
    """The size of T(w, x) in Theorem 3, NaN outside of the formula's domain.

    ``ceil( 1/2 log n / log(1 / (beta + exp(-1 / (128 gamma^2 |w|^2)))) )``

    Parameters
    ----------
    n : int
        Number of training examples.
    norm, gamma : float
        Norm of the weights, and a bound on the norm of the features.
    beta : float
        With ``P[distortion = 1] >= 1 - beta`` for a proposal (Assumption A).

    Examples
    --------
    >>> from maxmargin.certificates import sample_size
    >>> sample_size(100, 0.0, 2.0, 2 / 3)
    6
    >>> sample_size(100, 1.0, 2.0, 2 / 3)
    nan
    """
    if not 0.0 <= beta < 1.0 or norm >= largest_norm(gamma, beta):
        return math.nan
    base = _miss(norm, gamma, beta)
    return max(1, math.ceil(0.5 * math.log(n) / -math.log(base))) if base > 0 else 1


def _miss(norm: float, gamma: float, beta: float) -> float:
    return beta + (math.exp(-1.0 / (128.0 * gamma**2 * norm**2)) if norm > 0 else 0.0)


def _structures(problem: Any, n_structures: float | None) -> float:
    r = problem.n_structures if n_structures is None else n_structures
    if not math.isfinite(r):
        raise ValueError(
            "the number of structures (y, h) of an example is not known; pass n_structures, an "
            "upper bound."
        )
    return float(r)


# --- Gibbs decoder ------------------------------------------------------------------------------


@dataclass(frozen=True)
class GibbsDistortion:
    """Mean distortion of predictions with perturbed weights, and its confidence interval.

    ``low`` and ``high`` are about the randomness of the weights only, at the examples given.
    """

    value: float
    low: float
    high: float
    scale: float  # a of N(a w, I)
    n_draws: int
    confidence: float


def gibbs_distortion(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_draws: int = 200,
    confidence: float = 0.95,
    n_structures: float | None = None,
    random_state: Any = None,
) -> GibbsDistortion:
    """Monte-Carlo estimate of the Gibbs decoder's distortion on examples.

    Each draw predicts all examples exactly with ``w' ~ N(a w, I)``; the interval is Student's for
    the mean of the draws.

    Parameters
    ----------
    model : LatentPredictor
        Fitted.
    X, y : lists
        Examples and their true outputs.
    n_draws : int, default=200
    confidence : float, default=0.95
    n_structures : float, optional
        Upper bound on the number of (y, h), where it is not known.
    random_state : int, RandomState or None
    """
    problem = pack(model, X, y)
    check_integer("n_draws", n_draws, 2)
    check_probability("confidence", confidence)
    rng = check_random_state(random_state)
    scale = _gibbs_scale(problem, model.coef_, _structures(problem, n_structures))
    nothing, everyone = np.zeros(problem.n_examples), problem.everyone()
    means = np.empty(n_draws)
    for k in range(n_draws):
        weights = scale * model.coef_ + rng.standard_normal(len(model.coef_))
        means[k] = problem.search(weights, nothing, 0, everyone, "exact").losses.mean()
    half = stats.t.ppf(0.5 + 0.5 * confidence, n_draws - 1) * means.std(ddof=1) / n_draws**0.5
    mean = float(means.mean())
    low, high = max(0.0, mean - float(half)), min(1.0, mean + float(half))
    return GibbsDistortion(mean, low, high, scale, n_draws, confidence)


def _gibbs_scale(problem: Any, weights: np.ndarray, r: float) -> float:
    square = float(weights @ weights)
    if square == 0.0:
        return 0.0
    return problem.gamma * math.sqrt(8.0 * max(0.0, _log_ratio(r, problem.n_examples, square)))


def _log_ratio(r: float, n: int, square: float) -> float:
    return math.log(r) + math.log(n) - math.log(square)


# --- bounds -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneralisationBound:
    """A bound on the Gibbs decoder's expected distortion on new data.

    Attributes
    ----------
    theorem : int
    value : float
        The sum of ``terms``.
    vacuous : bool
        Whether the value is 1 or more: distortions are never larger, so it says nothing.
    holds : bool
        Whether the theorem's conditions on constants are met; if not, see ``conditions``.
    terms, constants : dict
        What the value is made of.
    conditions : dict of str to bool
        Assumption B (low norm) of Theorem 3 is checked at the weights of the model by
        :func:`check_low_norm`, and is met only if the draws show it. Assumption C (order) is a
        property of the proposals: those of the library have it, and tests check it.
    """

    theorem: int
    value: float
    vacuous: bool
    holds: bool
    terms: dict[str, float]
    constants: dict[str, float]
    conditions: dict[str, bool]

    @property
    def confidence(self) -> float:
        """Probability with which the bound is right: 1 - delta/2, or 1 - delta of Theorem 3."""
        delta = self.constants["delta"]
        return 1.0 - (delta if self.theorem == 3 else 0.5 * delta)

    def __str__(self) -> str:
        text = (
            f"Theorem {self.theorem}: with probability {100 * self.confidence:.4g}% the "
            f"expected distortion of the Gibbs decoder is at most {self.value:.4g}"
        )
        text += ", which is vacuous." if self.vacuous else "."
        failed = [name for name, met in self.conditions.items() if not met]
        return text + (f" Conditions not met: {'; '.join(failed)}." if failed else "")


def generalisation_bound(
    model: Any,
    X: Any,
    y: Any,
    theorem: int = 1,
    *,
    delta: float = 0.05,
    beta: float | None = None,
    n_samples: int | None = None,
    n_structures: float | None = None,
    n_superset: float | None = None,
    n_nonzero: int | None = None,
    random_state: Any = None,
) -> GeneralisationBound:
    """Theorem 1, 2 or 3 of the paper at the weights of a model, on its training examples.

    With ``D = 4 |w|^2 gamma^2 log(r n / |w|^2) + log(2 n / delta)`` the bound is::

        1, 2:  mean_i max d 1[margin <= 1] + |w|^2 / n + sqrt(D / (2 (n - 1)))
        3:     the same + sqrt(1/n) + 3 sqrt((s (log l + 2 log(n r)) + log(4 / delta)) / n)
               + sqrt((2 s + 1) log(l (n r' + 1) + 1) log(n + 1)^3 / n)
                 / log(1 / (beta + exp(-1 / (128 gamma^2 |w|^2))))

    The maximum is over all structures (1, 2) or random ones (3), the margin with the latent space
    (1) or the superset (2, 3); r is the number of structures (y, h) of an example, gamma a bound on
    the norm of their features, s a bound on the number of weights that are not zero, l the number
    of features, r' the size of the superset. Theorems 1 and 2 hold with probability 1 - delta/2,
    Theorem 3 with probability 1 - delta.

    Parameters
    ----------
    model : LatentPredictor
    X, y : lists
        The training examples.
    theorem : {1, 2, 3}
    delta : float, default=0.05
        The delta of the theorems: the bound is wrong with probability at most delta/2 (1, 2) or
        delta (3).
    beta : float, optional
        Of Assumption A, for theorem 3; by default that of uniform proposals where it is known.
        Greedy proposals have another one, and the condition is then reported as not met: see
        :func:`estimate_beta` for the proposals in use.
    n_samples : int, optional
        Size of the random sets; by default that of the theorem, or 100 outside of its domain.
    n_structures, n_superset : float, optional
        Upper bounds on the numbers of (y, h) and of superset elements, where they are not known.
    n_nonzero : int, optional
        The s of theorem 3: the largest number of weights that are not zero. The theorem wants it
        fixed before training, so that the default is the number of weights, and not what training
        has left.
    random_state : int, RandomState or None
    """
    check_choice("theorem", str(theorem), ("1", "2", "3"))
    check_probability("delta", delta)
    problem = pack(model, X, y)
    n, w = problem.n_examples, model.coef_
    if n < 2:
        raise ValueError(f"the bounds need at least 2 examples; received {n}.")
    r, square, gamma = _structures(problem, n_structures), float(w @ w), problem.gamma
    constants = {"n": n, "norm": math.sqrt(square), "gamma": gamma, "r": r, "delta": delta}
    ratio = max(0.0, _log_ratio(r, n, square)) if square > 0 else 0.0  # below 0 if |w|^2 > r n
    deviation = 4.0 * square * gamma**2 * ratio
    how: Any = "exact"
    extra: dict[str, float] = {}
    conditions = {"|w|^2 <= n": square <= n}
    if theorem == 3:
        how, extra = _random_terms(
            model, problem, constants, conditions, beta, n_samples, n_superset, n_nonzero,
            random_state,
        )  # fmt: skip
        low = check_low_norm(model, X, y, random_state=random_state)
        conditions["Assumption B (low norm) at these weights"] = low.holds is True
    relaxed = theorem > 1 and problem.has_superset
    everyone = problem.everyone()
    truths = problem.rows(problem.complete(w, relaxed, everyone), everyone)
    found = problem.search(w, truths.scores(w), _INDICATOR, everyone, how)
    rows = problem.rows(found, everyone)
    inside = truths.scores(w) - rows.scores(w) <= 1.0
    terms = {
        "empirical": float((found.losses * inside).mean()),
        "norm": square / n,
        "deviation": math.sqrt((deviation + math.log(2.0 * n / delta)) / (2.0 * (n - 1))),
        **extra,
    }
    value = sum(terms.values())
    holds = all(conditions.values())
    return GeneralisationBound(theorem, value, value >= 1.0, holds, terms, constants, conditions)


def _random_terms(
    model, problem, constants, conditions, beta, n_samples, n_superset, n_nonzero, random_state
) -> tuple[Any, dict[str, float]]:
    """The random sets of Theorem 3 and the terms that they cost."""
    from .problem import Random

    n, norm, gamma = constants["n"], constants["norm"], constants["gamma"]
    if model.greedy:
        conditions["beta is that of the proposals in use"] = beta is not None
    beta = problem.uniform_beta() if beta is None else check_number("beta", beta, at_least=0)
    size = sample_size(n, norm, gamma, beta)
    used = n_samples or (100 if math.isnan(size) else int(size))
    features, r = problem.n_weights, constants["r"]
    sparsity = features if n_nonzero is None else check_integer("n_nonzero", n_nonzero, 1)
    wide = problem.n_superset if n_superset is None else float(n_superset)
    constants.update(
        beta=beta, T=used, T_formula=size, s=sparsity, l=features, r_superset=wide,
        largest_norm=largest_norm(gamma, beta) if beta < 1 else 0.0,
    )  # fmt: skip
    conditions["|w| < 1 / sqrt(128 gamma^2 log(1/(1-beta)))"] = not math.isnan(size)
    conditions["|T| is that of the theorem"] = used == size
    conditions["at most s weights are not zero"] = bool(np.count_nonzero(model.coef_) <= sparsity)
    limit = 0.45 * math.hypot(math.sqrt(features) * math.sqrt(r + 1.0), 1.0)
    conditions["2 s + 1 <= 9/20 sqrt(l (r + 1) + 1)"] = 2 * sparsity + 1 <= limit
    terms = {
        "samples": math.sqrt(1.0 / n),
        "orderings": 3.0
        * math.sqrt(
            (
                sparsity * (math.log(features) + 2.0 * math.log(n * r))
                + math.log(4.0 / constants["delta"])
            )
            / n
        ),
    }
    miss = _miss(norm, gamma, beta)
    complexity = (2 * sparsity + 1) * math.log(features * (n * wide + 1.0) + 1.0)
    terms["random sets"] = (
        math.sqrt(complexity * math.log(n + 1.0) ** 3 / n) / -math.log(miss)
        if 0 < miss < 1
        else math.inf
    )
    seed = int(check_random_state(random_state).randint(2**31))
    return Random(used, seed, bool(model.greedy)), terms
