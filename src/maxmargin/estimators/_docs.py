"""Docstring parts that the estimators share."""

from __future__ import annotations

import re

KERNEL = """\
    kernel : {"linear", "rbf", "poly", "precomputed"}, kernel or callable, default="linear"
        The inner product ``k(x, z)`` of two %(rows)s that takes the place of ``x @ z``:
        "rbf" is ``exp(-gamma |x - z|^2)``, "poly" is
        ``(gamma x @ z + coef0) ** degree``%(precomputed)s.
        A name stands for the default parameters, others are given by a value: ``RBF(gamma=0.5)``,
        ``Polynomial(degree=2, coef0=1.0)``, which can be searched over (``kernel__gamma``).
        A function gets two matrices of %(rows)s and returns the matrix of the kernel of all pairs.
        "linear" trains weights of the features, all others coefficients of the training %(rows)s.
        Kernel values in training take at most 200 megabytes, or ``cache_size`` of the value."""

KERNEL_ATTRIBUTES = """\
    dual_coef_ : array of shape (n_support, n_classes)
        With a kernel other than "linear": the scores of x are
        ``sum_j dual_coef_[j] k(support_vectors_[j], x) + intercept_``. Only training %(rows)s whose
        dual variable is not at their true output are kept.
    support_ : array of shape (n_support,)
        Which %(where)s they are.
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        Their features; empty for a precomputed kernel."""

PARAMETERS = """\
    alpha : float, "auto", "cv", TimesAuto or CrossValidated, default="auto"
        Strength of the regularisation in ``alpha/2 |w|^2 + mean surrogate``. In terms of a C that
        multiplies the *sum* of the losses, ``alpha = 1 / (C * total weight)``. "auto" is
        %(alpha_note)s
        "cv" chooses the strength by cross-validation along a path of 20 strengths;
        :class:`CrossValidated` has its options (grid, folds, ``scoring="span_f1"``).
    tol : float, default=0.01
        Stop when the duality gap is at most ``tol * primal``: the objective is then proven to be
        within that fraction of the optimum.
    max_iter : int%(max_iter)s
        Passes over the data at most%(max_iter_note)s; a fit that ends there warns with the gap that
        it reached.
    solver : {%(solvers)s} or a solver, default="auto"
        Block-coordinate Frank-Wolfe with exact steps, accelerated, or plain (for a CRF this is
        SDCA); the same with steps between remembered outputs (max-margin only); the stochastic
        subgradient method as a baseline; or L-BFGS (CRF only, linear kernel), which keeps no dual
        and uses ``n_jobs`` threads.%(solver_note)s "auto" is %(auto)s; for a CRF
        it is "lbfgs" if there are no more features than rows, otherwise "bcfw". A solver is a value
        such as ``Averaged(Accelerated(BlockFrankWolfe(order="active")))``, whose parameters can be
        searched over (``solver__power``); ``Checked("auto", every=5)`` evaluates the certificate
        every five passes.
    fit_intercept : bool, default=True
        Whether each class has a constant term; it is penalised like a weight of a feature that
        is always 1.
    class_weight : dict, "balanced" or None, default=None
        %(class_weight_note)s "balanced" is
        %(balanced_note)s Classes that a dict leaves out get 1, with a warning.
    classes : sequence, optional
        All labels, also those that do not occur in ``y``%(classes_note)s
    warm_start : bool, default=False
        Start from the dual solution of the previous fit; right also when parameters or data have
        changed, useful when they changed a little. Otherwise every fit starts clean.
    early_stopping : bool or EarlyStopping, default=False
        Hold out some of the examples, keep the weights that score best on them, and stop when they
        do not improve any more; True is ``EarlyStopping(validation_fraction=0.1,
        n_iter_no_change=5)``: a tenth of the examples, and five checks without progress.
    n_jobs : int, optional
        Threads. Any number gives the same result: with a number, threads visit batches of examples
        together, or examples are in partitions (:class:`~maxmargin.Partitioned`), as chosen from
        the data; with None the examples are visited one by one.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows progress: a bar on a terminal, log messages elsewhere.
    callbacks : callable or list of callables, optional
        Called at every check with passes, seconds, primal, dual, gap; ``return False`` stops.
        Callbacks of scikit-learn (1.9 or newer) are set by ``set_callbacks``."""

SIZE_OF_FEATURES = """\
``s / (5 * total weight)``, or ``s / (20 * total weight)`` for a CRF, where s is the mean squared
        norm of the examples. The constant of an intercept is part of the norm, and squared norms
        above 20 count as 20."""

ATTRIBUTES = """\
    primal_, dual_, gap_ : float
        The certificate: ``primal_`` is the objective at the weights, no weights have a smaller one
        than ``dual_``, and ``gap_`` is the difference.
    oracle_error_ : float
        The part of the gap that may be due to inexact oracles; 0 where they are exact.
    status_ : str
        "converged" (``gap_ <= tol * primal_``), "max_iter", "early_stopped", "stopped" (by a
        callback), "interrupted", "stalled" where rounding errors left no better step, or "failed"
        where numbers overflowed.
    n_iter_ : int
        Passes over the data.
    n_oracle_calls_ : int
    history_ : list of Check
        Primal, dual, gap and time at every check; ``pandas.DataFrame(model.history_)`` works.
    dual_nbytes_ : int
        Memory of the dual state at the end of the fit.
    alpha_ : float
        The strength of the regularisation that was used.
    cv_results_ : dict
        With ``alpha="cv"``: scores and certificates along the path, named as in scikit-learn."""


AGREEMENT_ATTRIBUTES = """\
    bounds_ : dict
        %(bounds_note)sWhat is certified, by name. ``hard_primal - hard_dual = hard_gap`` bounds the
        distance to the optimum of the problem in which variables and factors agree, with every
        ``agreement`` of :class:`~maxmargin.SoftAgreement`; the softer ones add ``soft_primal``,
        ``soft_dual``, ``soft_gap`` and ``rho``, and bounds known in advance, usually far
        larger: ``agreement_bound`` on what the softness changes, and ``hard_suboptimality``, both
        infinite where there are counts; ``curvature``, ``expected_error``, ``expected_gap``,
        ``steps_to_gap``, ``rho_to_hard_gap`` and ``steps_to_hard_gap`` say how Algorithm 1 of
        Meshi et al. converges (see docs/graphs.md). After a fit with hidden labels all
        belong to the last convex problem."""

HIDDEN = """\
    hidden : {"auto", True, False} or Hidden, default="auto"
        Whether labels in ``y`` may be hidden: None, and -1 if all other labels are non-negative
        integers; what ``classes`` names is a label in any case. "auto" is True, with a warning if
        -1 is found (beside one other class only, -1 is a class). Hidden labels are variables of the
        model that nobody observed, and no mistakes: see docs/hidden.md. Without hidden labels it
        makes no difference to a fit.%(hidden_extra)s
        With y the known labels, h the hidden ones and L the loss over known labels, divided by the
        number of all, training minimises
        ``S(x, y) = max_z [ L(z, y) + score(x, z) ] - max_h score(x, y, h)``
        (max-min likewise)%(hidden_note)s. That is not convex: it is solved by rounds that complete
        the hidden labels and then train on them, and the objective never rises.
        ``Hidden(starts=5)`` starts from five completions, and the lowest objective wins."""

# "balanced" where the weights of classes are margins.
BALANCED_MARGINS = """the
        fourth root of ``n / (n_classes * count)``, the best ratio of margins (Cao et al. 2019)."""
UNPROVEN = """
    unproven_completions_ : int
        Of how many examples the last completion is not proven to be the best. The objective counts
        the completions that were found: it is an upper bound where they are not."""

HIDDEN_ATTRIBUTES = """\
    objective_ : float
        Only after a fit with hidden labels: the objective with hidden labels at their best. Then
        ``primal_``, ``dual_`` and ``gap_`` are those of the last convex problem, an upper bound on
        the objective in which hidden labels are fixed; ``gap_`` tells how well that was solved, and
        nothing about other completions. ``status_`` is "stationary" instead of "converged".
    rounds_ : list of Round
        Objective, certificate and time after every round of such a fit; none for a CRF.
    start_objectives_ : array
        Objectives reached from each start.%(unproven_note)s"""

_PARTS = {
    "hidden": HIDDEN,
    "hidden_attributes": HIDDEN_ATTRIBUTES,
    "parameters": PARAMETERS,
    "attributes": ATTRIBUTES,
    "kernel": KERNEL,
    "kernel_attributes": KERNEL_ATTRIBUTES,
    "agreement_attributes": AGREEMENT_ATTRIBUTES,
}
_PRECOMPUTED = """, and
        with "precomputed" X is the matrix of all of them, (n_examples, n_training)"""


def _leave_out(parameters: str, names: tuple[str, ...]) -> str:
    """The list of parameters without those that an estimator does not have."""
    entries = re.split(r"\n(?=    \w)", parameters)
    return "\n".join(entry for entry in entries if entry.split(" :")[0].strip() not in names)


def documented(*, without: tuple[str, ...] = (), **values: str):
    """Class decorator: fill the shared parts into a docstring."""

    def fill(cls):
        parts = {
            "auto": '"accelerated"',
            "solvers": '"auto", "accelerated", "bcfw", "pairwise", "subgradient", "lbfgs"',
            "solver_note": "",
            "class_weight_note": "Factor of the weights of examples by their true class;",
            "balanced_note": "inversely proportional to the frequency.",
            "alpha_note": SIZE_OF_FEATURES,
            "classes_note": ".",
            "rows": "examples",
            "where": "rows of X",
            "bounds_note": "",
            "hidden_note": "",
            "hidden_extra": "",
            "unproven_note": "",
            "max_iter": ", default=1000",
            "max_iter_note": "",
            "precomputed": _PRECOMPUTED,
            **values,
        }
        text = cls.__doc__
        for name, part in _PARTS.items():
            part = _leave_out(part % parts, without)
            text = text.replace(f"    %({name})s", part)
        cls.__doc__ = text
        return cls

    return fill
