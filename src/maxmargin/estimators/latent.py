"""Structured prediction with latent variables, exactly or over random structures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._validation import (
    check_callbacks,
    check_choice,
    check_integer,
    check_number,
    check_sample_weight,
    check_switch,
    is_text,
)
from ..latent.certificates import sample_size
from ..latent.objective import DrawnProblem, ExplainedProblem, Explanations
from ..latent.problem import EXACT, LISTED, MARGIN, SCORE, SLACK, LatentProblem, Random
from ..latent.solvers import SOLVERS, make_solver
from ..latent.variables import Latent
from ..solvers.base import Solver
from ..solvers.climb import Climb
from ..solvers.loop import run
from ..solvers.result import FAILED, MAX_ITER, STATIONARY, Result
from ..solvers.rounds import run_rounds
from ._base import _all_or_nothing
from ._warnings import warn_failure, warn_zero

TRAINERS = ("random", "all", "lssvm")
INFERENCES = ("exact", "random")
SEARCHES = (EXACT, LISTED)
# Structures of a draw where the formula of the theorem does not hold.
_MOST_SAMPLES = 100
# Searches of all examples for one convex problem at most.
_MOST_SEARCHES = 1000
# Passes of dual ascent in each round where explanations are fixed.
_PASSES = 30
# The last convex problem is solved to this share of the tolerance of the rounds.
_SHARE_OF_TOL = 0.1
# What is certified.
_CONVEX = (
    "primal_, dual_ and gap_ are those of the last convex problem, in which explanations are fixed;"
    " the objective itself is not convex, and nothing bounds it from below"
)
_RANDOM = (
    "dual_ and gap_ are NaN: the objective is not convex, and it is known over random sets of "
    "structures only, so that nothing bounds it from below"
)


@dataclass(eq=False, repr=False)
class LatentPredictor(BaseEstimator):
    """Predicts outputs that depend on variables nobody observed.

    With ``s(y, h) = w @ Phi(x, y, h)``, distortion d in [0, 1] and the explanation
    ``max_h s(y_i, h)`` of a true output, minimises ``alpha/2 |w|^2 + mean_i loss_i``::

        trainer="lssvm"   max_(y,h) [ d(y_i, y) + s(y, h) ] - max_h s(y_i, h)
        trainer="all"     max_(y,h) d(y_i, y) (1 - [ max_h' s(y_i, h') - s(y, h) ])_+
        trainer="random"  the same, with (y, h) from random sets T(w, x_i) drawn by local search,
                          and h' from the superset, if there is one

    None of them is convex: the weights are a local optimum, whatever the method. For "lssvm" and
    "all" the objective never rises from round to round. "random" needs nothing but local moves,
    and its rounds are much shorter; a new T(w, x_i) is drawn in each round at the weights of
    that round, and the worst structure of each draw is remembered.

    Parameters
    ----------
    latent : Latent
        Output space, latent space, and maybe a superset of the latter.
    trainer : {"random", "all", "lssvm"}, default="random"
    alpha : float or "auto", default="auto"
        Strength of the regularisation; "auto" is 2 / total weight, the ``|w|^2 / n`` of the
        paper's bounds.
    n_iter : int, default=30
        Rounds at most.
    n_samples : int or "formula", default=2
        Size of T(w, x). "formula" is that of Theorem 3 at the present weights; beyond its domain,
        which training soon leaves, it is capped at 100.
    n_explanations : int, optional
        Of "random": explain a true output by the best of this number of latent variables, drawn
        uniformly and anew in each round, where the best of all takes too long. The margin is then
        smaller, and the loss larger. By default the best of all.
    n_passes : int, default=3
        Of "random": passes of dual ascent in each round, over the structures that are remembered.
        Few passes explain again sooner, before the weights have settled on early explanations.
    beta : float, optional
        For the formula: a bound on the probability that a proposal's distortion is below 1. By
        default that of uniform proposals, where it is known.
    greedy : bool, default=True
        Whether random structures are improved by local moves (Algorithm 1 of the paper).
    solver : {"cccp", "subgradient"} or Solver, default="cccp"
        Dual ascent over remembered structures (``WorkingSetAscent``), or, of "random", the averaged
        stochastic subgradient method; or such a solver with parameters of its own.
    search : {"exact", "listed"}, default="exact"
        Of "all": a fast exact search, or one that goes through all outputs and latent variables.
    inference : {"exact", "random"}, default="exact"
        Predictions by an exact maximum or by the best of ``n_inference`` random structures.
    n_inference : int, default=100
    tol : float, default=0.01
        Of "lssvm" and "all": stop when a round lowers the objective by less than this share.
    n_restarts : int, default=1
        Starts of "lssvm" and "all": from zero, then from random weights; the lowest objective
        wins.
    capacity : int, default=50
        Structures remembered for an example.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
    callbacks : callable or list of callables, optional
        Called after every round with a :class:`Check` whose ``primal`` is the objective, and
        whose ``dual`` and ``gap`` are those of the convex problem of the round, minus and plus
        infinity where it has no certificate; ``return False`` stops.

    Attributes
    ----------
    coef_ : array of shape (n_weights,)
    objective_ : float
        Value of the objective; for "random" over the last draw.
    primal_, dual_, gap_ : float
        Of "lssvm" and "all": the certificate of the last *convex* problem, in which explanations
        are fixed. ``primal_`` is its value at the weights, at least ``objective_``; no weights have
        a smaller one than ``dual_``, and ``gap_`` is the difference. They say how well that problem
        was solved, and nothing about ``objective_`` at other weights. Of "random", which has no
        such certificate, ``primal_`` is ``objective_``, and ``dual_`` and ``gap_`` are NaN.
    oracle_error_ : float
        The part of the gap that is due to inexact searches: 0, or NaN for "random".
    certificate_ : str
        What ``primal_``, ``dual_`` and ``gap_`` are about, or why two of them are NaN.
    status_ : str
        "stationary" (the last convex problem is solved, and another round would gain next to
        nothing), "max_iter", "stopped", "interrupted" or "failed".
    n_iter_ : int
    n_searches_ : int
        Searches for the worst structure of an example.
    history_ : list of Check
    alpha_ : float

    References
    ----------
    Bello, Honorio. Learning latent variable structured prediction models with Gaussian
    perturbations. NeurIPS 2018. Yu, Joachims. Learning structural SVMs with latent variables. ICML
    2009.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import AnyPairs, Latent, LatentPredictor, SharedPairs, Subset
    >>> X = np.random.RandomState(0).randint(2, size=(20, 10))  # bits for the pairs of 5 elements
    >>> y = [[0, 1] if x[0] else [3, 4] for x in X]
    >>> latent = Latent(Subset(5, 2), SharedPairs(), superset=AnyPairs())
    >>> model = LatentPredictor(latent, random_state=0).fit(X, y)
    >>> len(model.predict(X[:3]))
    3
    """

    latent: Any = None
    trainer: str = "random"
    _: KW_ONLY
    alpha: float | str = "auto"
    n_iter: int = 30
    n_samples: int | str = 2
    n_explanations: int | None = None
    n_passes: int = 3
    beta: float | None = None
    greedy: bool = True
    solver: Any = "cccp"
    search: str = "exact"
    inference: str = "exact"
    n_inference: int = 100
    tol: float = 1e-2
    n_restarts: int = 1
    capacity: int = 50
    random_state: Any = None
    verbose: int = 0
    callbacks: Any = None

    # --- training ---------------------------------------------------------------------------

    @_all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LatentPredictor:
        """Train on inputs and true outputs.

        Parameters
        ----------
        X : list of n inputs, as the latent space takes them
        y : list of n outputs, as the structure takes them
        sample_weight : array of shape (n,), optional
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        problem = self.latent.pack(X, y)
        shares = check_sample_weight(sample_weight, problem.n_examples)
        self.alpha_ = 2.0 / shares.sum() if is_text(self.alpha) else float(self.alpha)
        result = self._train(problem, shares, rng)
        is_random = self.trainer == "random"
        self.coef_ = result.weights
        self.primal_ = result.primal
        self.objective_ = result.primal if result.objective is None else result.objective
        self.dual_ = math.nan if is_random else result.dual
        self.gap_ = math.nan if is_random else result.gap
        self.certificate_ = _RANDOM if is_random else _CONVEX
        self.oracle_error_ = math.nan if is_random else 0.0
        self.status_ = result.status
        # Rounds that end are not yet a last convex problem that is solved.
        if self.status_ == STATIONARY and not self.gap_ <= self.tol * abs(self.primal_):
            self.status_ = MAX_ITER
        if self.status_ == FAILED:
            warn_failure(type(self).__name__, self.primal_, self.dual_)
        if self.status_ == STATIONARY and not is_random and not self.coef_.any():
            warn_zero(type(self).__name__, 'Use trainer="random", or a model without latent '
                      'variables and surrogate="max-min".')  # fmt: skip
        self.history_ = result.history
        self.n_iter_ = max(1, round(result.history[-1].passes))
        self.n_searches_ = problem.n_searches
        return self

    def _train(
        self, problem: LatentProblem, shares: np.ndarray, rng: np.random.RandomState
    ) -> Result:
        common: dict[str, Any] = {
            "check_every": 1,
            "callbacks": check_callbacks(self.callbacks),
            "verbose": int(self.verbose),
            "name": type(self).__name__,
        }
        if self.trainer == "random":
            drawn = DrawnProblem(
                problem, self.alpha_, shares, relaxed=problem.has_superset,
                draw=lambda weights, rng: self._draw(problem, weights, rng),
                n_guesses=self.n_explanations or 0,
            )  # fmt: skip
            return run(self._climb(drawn, rng), tol=0.0, max_iter=self.n_iter, **common)
        convex = ExplainedProblem(
            problem, self.alpha_, shares, MARGIN if self.trainer == "lssvm" else SLACK,
            how=self.search if self.trainer == "all" else EXACT,
        )  # fmt: skip
        return run_rounds(
            Explanations(convex, lambda problem, dual: self._climb(problem, rng, dual)),
            self._starts(convex, rng),
            tol=_SHARE_OF_TOL * self.tol,
            least_fall=self.tol,
            max_iter=_MOST_SEARCHES,
            max_rounds=self.n_iter,
            each_round=True,
            **common,
        )

    def _starts(self, problem: ExplainedProblem, rng: np.random.RandomState) -> Iterator[Any]:
        """Explanations of weights 0, then of random ones."""
        yield problem.truths
        for _ in range(1, self.n_restarts):
            yield problem.explain(rng.standard_normal(problem.n_weights))

    def _climb(self, problem: Any, rng: np.random.RandomState, start: Any = None) -> Climb:
        return Climb(self._solver_for(problem), problem, rng=rng, start=start)

    def _solver_for(self, problem: Any) -> Solver:
        passes = self.n_passes if self.trainer == "random" else _PASSES
        return make_solver(
            self.solver, problem, self.trainer, passes=passes, capacity=self.capacity
        )

    def _draw(
        self, problem: LatentProblem, weights: np.ndarray, rng: np.random.RandomState
    ) -> Random:
        size = self._n_samples(problem, weights)
        return Random(size, int(rng.randint(2**31)), bool(self.greedy))

    def _n_samples(self, problem: LatentProblem, weights: np.ndarray) -> int:
        if not is_text(self.n_samples):
            return int(self.n_samples)
        beta = problem.uniform_beta() if self.beta is None else float(self.beta)
        size = sample_size(problem.n_examples, float(np.linalg.norm(weights)), problem.gamma, beta)
        return _MOST_SAMPLES if math.isnan(size) else int(min(max(size, 1), _MOST_SAMPLES))

    def _check_parameters(self) -> None:
        if not isinstance(self.latent, Latent):
            raise TypeError(
                f"latent must be a Latent(structure, latent_space); received {self.latent!r}."
            )
        check_choice("trainer", self.trainer, TRAINERS)
        if not isinstance(self.solver, Solver):
            check_choice("solver", self.solver, SOLVERS)
        check_choice("search", self.search, SEARCHES)
        check_choice("inference", self.inference, INFERENCES)
        check_switch("greedy", self.greedy)
        check_callbacks(self.callbacks)
        check_integer("verbose", int(self.verbose), 0)
        check_integer("n_iter", self.n_iter, 1)
        check_integer("n_passes", self.n_passes, 1)
        check_integer("n_inference", self.n_inference, 1)
        check_integer("n_restarts", self.n_restarts, 1)
        check_integer("capacity", self.capacity, 2)
        check_number("tol", self.tol, at_least=0)
        if not (is_text(self.alpha) and self.alpha == "auto"):
            check_number("alpha", self.alpha, above=0)
        if not (is_text(self.n_samples) and self.n_samples == "formula"):
            check_integer("n_samples", self.n_samples, 1)
        if self.n_explanations is not None:
            check_integer("n_explanations", self.n_explanations, 1)
            if self.trainer != "random":
                raise ValueError(
                    "n_explanations is for trainer='random'; received "
                    f"trainer={self.trainer!r}, whose objective needs the best explanation."
                )
        if self.beta is not None and check_number("beta", self.beta, at_least=0) >= 1:
            raise ValueError(f"beta must be < 1; received {self.beta!r}.")
        self._solver_for(DrawnProblem if self.trainer == "random" else ExplainedProblem)

    # --- prediction -------------------------------------------------------------------------

    def _found(self, X: Any, y: Any = None) -> tuple[LatentProblem, Any]:
        check_is_fitted(self, "coef_")
        problem = self.latent.pack(X, y)
        if problem.n_weights != len(self.coef_):
            raise ValueError(
                f"X needs {problem.n_weights} weights, but {type(self).__name__} was fitted with "
                f"{len(self.coef_)}."
            )
        how: Any = EXACT
        if self.inference == "random":
            # The same draws every time: predictions must not depend on what was asked before.
            how = Random(int(self.n_inference), 0, bool(self.greedy))
        nothing = np.zeros(problem.n_examples)
        found = problem.search(self.coef_, nothing, SCORE, problem.everyone(), how)
        return problem, found

    def predict(self, X: Any, return_latent: bool = False) -> Any:
        """The best output of each input; with ``return_latent`` also the latent variables."""
        problem, found = self._found(X)
        outputs = problem.outputs(found)
        return (outputs, problem.latents(found)) if return_latent else outputs

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of the predicted output of each input."""
        problem, found = self._found(X)
        return problem.rows(found, problem.everyone()).scores(self.coef_)

    def explain(self, X: Any, y: Any) -> list[Any]:
        """The best latent variables of given outputs."""
        check_is_fitted(self, "coef_")
        problem = self.latent.pack(X, y)
        return problem.latents(problem.complete(self.coef_, False, problem.everyone()))

    def distortions(self, X: Any, y: Any) -> np.ndarray:
        """Distortion of the prediction of each example."""
        return self._found(X, y)[1].losses

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """One minus the mean distortion of the predictions."""
        found = self._found(X, y)[1]
        weights = check_sample_weight(sample_weight, len(found.losses))
        return 1.0 - float(np.average(found.losses, weights=weights))
