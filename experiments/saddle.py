"""The paper's own training of M4N for one label: generalised BCFW and saddle-point mirror-prox.

The library never calls this oracle for one label, where the max-min problem has a closed form;
here it is what is studied. All in the notation of ``docs/mathematics.md``: scores ``v = W'x``,
loss matrix ``A`` (symmetric), ``mu`` the dual variables, ``nu`` the adversary of the loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from maxmargin._kernels.simplex import lower_envelope_step


class Settings(NamedTuple):
    """How to train."""

    alpha: float
    passes: int
    oracle_iterations: int
    warm: bool
    line_search: bool


class Trace(NamedTuple):
    """What happened, pass by pass."""

    oracle_error: np.ndarray  # mean width of the bracket around the oracle's value
    primal: np.ndarray  # at the averaged weights
    dual: np.ndarray  # at the dual variables
    averaged: np.ndarray  # weights (n_features, n_classes) after the last pass


@njit(cache=True)
def _multiply_exp(point, gradient, step, out):
    """``out ~ point * exp(step * gradient)``, on the simplex: one step of mirror descent."""
    # A floor keeps a point that underflowed alive; the bracket stays true whatever the point is.
    largest = -np.inf
    for k in range(point.shape[0]):
        out[k] = np.log(max(point[k], 1e-300)) + step * gradient[k]
        largest = max(largest, out[k])
    total = 0.0
    for k in range(point.shape[0]):
        out[k] = np.exp(out[k] - largest)
        total += out[k]
    for k in range(point.shape[0]):
        out[k] /= total


@njit(cache=True)
def mirror_prox(A, scores, iterations, step, mu, nu, mean_mu, mean_nu):
    """Mirror-prox from the pair (mu, nu), which it uses up; its answer are the means.

    Returns the bracket ``upper >= max_mu min_nu nu'A mu + v'mu >= lower`` of the answer.
    """
    k = scores.shape[0]
    half_mu, half_nu, next_mu = np.empty(k), np.empty(k), np.empty(k)
    mean_mu[:] = 0.0
    mean_nu[:] = 0.0
    for _ in range(iterations):
        _multiply_exp(mu, A.T @ nu + scores, step, half_mu)
        _multiply_exp(nu, A @ mu, -step, half_nu)
        _multiply_exp(mu, A.T @ half_nu + scores, step, next_mu)
        _multiply_exp(nu, A @ half_mu, -step, nu)
        mu[:] = next_mu
        mean_mu += half_mu / iterations
        mean_nu += half_nu / iterations
    upper = (A.T @ mean_nu + scores).max()
    lower = (A @ mean_mu).min() + mean_mu @ scores
    return upper, lower


@njit(cache=True)
def _surrogates(A, X, y, W):
    """Mean max-min surrogate of the absolute loss, in closed form, over all examples."""
    total = 0.0
    for i in range(X.shape[0]):
        scores = W.T @ X[i]
        best = -np.inf
        for a in range(A.shape[0]):
            for b in range(a + 1):
                best = max(best, 0.5 * (scores[a] + scores[b] + A[a, b]))
        total += best - scores[y[i]]
    return total / X.shape[0]


@njit(cache=True)
def _train(X, y, A, alpha, passes, iterations, warm, line_search, orders):
    n, k = X.shape[0], A.shape[0]
    step = 1.0 / (2.0 * A.max())
    W, averaged = np.zeros((X.shape[1], k)), np.zeros((X.shape[1], k))
    mu = np.zeros((n, k))
    for i in range(n):
        mu[i, y[i]] = 1.0
    pairs = np.full((n, 2, k), 1.0 / k)
    answer, adversary = np.empty(k), np.empty(k)
    errors, primal, dual = np.zeros(passes), np.zeros(passes), np.zeros(passes)
    t = 0
    for p in range(passes):
        for i in orders[p]:
            scores = W.T @ X[i]
            if not warm:
                pairs[i] = 1.0 / k
            upper, lower = mirror_prox(
                A, scores, iterations, step, pairs[i, 0], pairs[i, 1], answer, adversary
            )
            pairs[i, 0] = answer  # where the next visit starts
            pairs[i, 1] = adversary
            errors[p] += (upper - lower) / n
            direction = answer - mu[i]
            gamma = 2.0 * n / (t + 2.0 * n)
            if line_search:
                curvature = X[i] @ X[i] * (direction @ direction) / (alpha * n)
                gamma = lower_envelope_step(A @ mu[i], A @ direction, direction @ scores, curvature)
            mu[i] += gamma * direction
            for f in range(X.shape[1]):
                W[f] -= gamma * X[i, f] / (alpha * n) * direction
            averaged += 2.0 / (t + 2.0) * (W - averaged)
            t += 1
        primal[p] = 0.5 * alpha * (averaged**2).sum() + _surrogates(A, X, y, averaged)
        dual[p] = -0.5 * alpha * (W**2).sum()
        for i in range(n):
            dual[p] += (A @ mu[i]).min() / n
    return errors, primal, dual, averaged


def train(X: np.ndarray, y: np.ndarray, A: np.ndarray, settings: Settings, seed: int) -> Trace:
    """Generalised block-coordinate Frank-Wolfe, a new permutation of the examples each pass."""
    rng = np.random.RandomState(seed)
    orders = np.array([rng.permutation(len(X)) for _ in range(settings.passes)])
    found = _train(
        np.ascontiguousarray(X, dtype=np.float64),
        np.asarray(y, dtype=np.int64),
        np.ascontiguousarray(A, dtype=np.float64),
        settings.alpha,
        settings.passes,
        settings.oracle_iterations,
        settings.warm,
        settings.line_search,
        orders,
    )
    return Trace(*found)
