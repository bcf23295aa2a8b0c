"""Multilabel classification: any subset of the labels, with or without interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn.utils.validation import check_is_fitted

from .._labels import MARGIN_POWER, class_costs
from .._validation import check_choice, check_n_jobs, check_sample_weight, is_name, is_text
from ..graphs.inference.decode import Decoded, decode
from ..graphs.inference.plan import make_plan
from ..graphs.label_graph import BOTH_ON, INTERACTIONS, effect_of_presence, label_graphs
from ..graphs.problem import GraphProblem
from ..solvers.problem import Problem
from ..structures.multilabel import HIDDEN, Multilabel, label_weights
from ..structures.traits import GRAPH
from ..surrogates.smooth_max_min import label_logits
from ..tasks import task_of
from ..tasks.label_sets import (
    encode_label_sets,
    in_format,
    read_known_entries,
    read_label_sets,
)
from ._base import with_parameters
from ._docs import UNPROVEN, documented
from ._flat import _SCORES_AT_ONCE, FlatClassifier
from ._graph_data import clamp
from ._hidden_label_sets import HiddenLabelSets, known_counts, leave_out_hidden, usual_state
from ._label_edges import check_edges, find_edges
from ._probability import of_likelihood

# Passes at most. Those over a graph cost more, and the last per cent of its gap gain nothing.
_MAX_ITER, _MAX_ITER_GRAPH = 1000, 200
_SUMS = (
    "labels that interact: it needs a sum over all labellings, which no graph with cycles allows "
    "in reasonable time. Use edges='none', or surrogate='max-margin' or 'max-min'."
)
_INTERACTING = GRAPH._replace(refuses={"crf": _SUMS, "smooth-max-min": _SUMS})


@documented(
    auto='"accelerated" without edges, "soft" if labels interact',
    solvers='"auto", "accelerated", "bcfw", "pairwise", "subgradient", "lbfgs", "soft"',
    solver_note="""
        "soft" is soft agreement, the one for labels that interact; the others are for
        ``edges="none"``. With all pairs of labels and ``interactions="both-on"`` "auto" is
        ``Accelerated(VertexFrankWolfe())``, unless the regularisation is very weak.""",
    max_iter=", optional",
    max_iter_note=" (by default 1000, and 200 if labels interact)",
    bounds_note="Empty unless labels interact. ",
    hidden_extra="""
        Entries of the matrix ``y`` are hidden where they are None, -1 or masked, and with True
        also where they are NaN. Without edges they cost nothing, the problem stays convex, and the
        following does nothing.""",
    unproven_note=UNPROVEN,
    alpha_note="""``n_labels * s / (5 * total weight)``, or ``s / (20 * total weight)`` for a CRF,
        where s is the mean squared norm of the examples. The constant of an intercept is part of
        the norm, and squared norms above 20 count as 20.""",
    class_weight_note="Factor of the loss of each label;",
    balanced_note="""a
        factor of its two states, present and absent: the fourth root of ``n / (2 * count)``, the
        best ratio of two margins (Cao et al. 2019). A CRF has no loss, and takes none.""",
    classes_note=(
        "; for\n        an indicator matrix the names of its columns, by default 0, 1, ... or those"
        " of a data\n        frame."
    ),
)
@with_parameters
class MultiLabelClassifier(FlatClassifier, HiddenLabelSets):
    """Gives each example any subset of the labels, linear or with a kernel, with a certificate.

    The score of a set of labels ``y`` (1 where a label is present, 0 where it is absent) is, with
    ``v_l = coef_l @ x + b_l``::

        sum_l (y_l - 1/2) v_l  +  sum_e T_e[y_i, y_j]        for the edges e = (i, j) of ``edges``

    and training minimises, with w all weights together and Delta the mean Hamming loss::

        alpha/2 |w|^2 + 1/n sum_i S(x_i, y_i)

        max-margin:  S(x, y) = max_z [ Delta(z, y) + score(x, z) ] - score(x, y)
        max-min:     S(x, y) = max_mu [ min_nu E Delta(nu, mu) + score(x, mu) ] - score(x, y)

    If the edges have cycles, the maximum is relaxed to the local polytope: distributions over
    labels and pairs of labels that agree with each other. The relaxed objective is an upper bound
    on the exact one, and the certificate is that of the relaxed problem.

    Without edges the labels share nothing but alpha, the solver and its certificate; with signs
    ``s_l`` (1 present, -1 absent), S is a sum over labels::

        max-margin:  max(0, 1/L - s_l v_l)
        max-min:     max(0, -s_l v_l, (1/L - s_l v_l) / 2)
        crf:         log(1 + exp(-s_l v_l))

    where the CRF is a logistic regression for each label, and gives probabilities, as does
    "smooth-max-min", max-min with entropy (see :class:`MulticlassClassifier`). ``w`` holds one
    weight vector for the presence and one for the absence of each label; ``coef`` is their
    difference, ``|w|^2 = |coef|^2 / 2 + |T|^2`` (see ``interactions`` for another choice).

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf", "smooth-max-min"}, default="max-margin"
        The last two are for ``edges="none"``, and "auto" means that with them. Or
        :class:`SmoothMaxMin`.
    edges : {"auto", "none", "full", "tree"} or list of pairs, default="auto"
        Which labels interact: every pair has a table of four weights, by the presence of both.
        "full" is all pairs; "tree" the spanning tree of the labels with the largest mutual
        information (Chow and Liu); a list names pairs of labels as they are in ``classes_``, so
        by the numbers of the columns if ``y`` is an indicator matrix without names. Each pair
        once, in either order. "auto" is "full" up to 30 labels (if the dual state fits in 1 GiB)
        and "tree" above. Interactions make whole sets right more often; for the share of right
        labels alone they matter less.
    interactions : {"full", "both-on"}, default="full"
        The weights of an edge. "full" is a table of four, by the presence of both labels.
        "both-on" is the model of Meshi et al.: one weight per edge, for both labels being present,
        ``T = [[0, 0], [0, t]]``, and one vector per label, for its presence, so that
        ``|w|^2 = |coef|^2 + |T|^2``. Without edges it makes no difference.
    %(hidden)s
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    coef_ : array of shape (n_labels, n_features)
        Weights of presence minus those of absence; with ``kernel="linear"`` only.
    intercept_ : array of shape (n_labels,)
    edges_ : array of shape (n_edges, 2)
        The pairs of labels that interact, by their numbers in ``classes_``.
    interactions_ : array of shape (n_edges, 2, 2)
        Their tables: ``interactions_[e, a, b]`` is the weight of the first label of the pair being
        absent (a = 0) or present (a = 1) together with the second one so (b).
    %(kernel_attributes)s
    %(agreement_attributes)s
    %(attributes)s
    %(hidden_attributes)s

    References
    ----------
    Meshi, Srebro, Hazan. Efficient training of structured SVMs via soft constraints. AISTATS 2015.
    Chow, Liu. Approximating discrete probability distributions with dependence trees. 1968.

    Examples
    --------
    >>> from maxmargin import MultiLabelClassifier
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [{"round"}, {"red"}, {"red", "round"}, set()]
    >>> MultiLabelClassifier(alpha=0.01, random_state=0).fit(X, y).predict(X)
    [('round',), ('red',), ('red', 'round'), ()]
    """

    edges: Any = "auto"
    interactions: str = "full"
    max_iter: Any = None
    class_weight: Any = None
    classes: Any = None

    _traits = None  # labels that interact are another structure
    _switches = HiddenLabelSets._switches

    def _needs_all_data(self) -> list[str]:
        if not is_text(self.edges) or self.edges in ("none", "full"):
            return []
        return [f"edges={self.edges!r} chooses pairs of labels: use 'none', 'full' or a list"]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiLabelClassifier:
        """Train on examples and their sets of labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
        y : array or sparse matrix of shape (n_examples, n_labels), or list of collections
            Zeros and ones (or bools), a column per label; or, for each example, a set, list or
            tuple of hashable labels. Labels that all or no examples have are allowed.
        sample_weight : array of shape (n_examples,), optional
            Weights of the examples; 2 is the same as having an example twice.
        """
        settings = self._check_settings()
        check_edges(self.edges)
        check_choice("interactions", self.interactions, INTERACTIONS)
        X = self._validate_X(X, reset=True)
        sets = read_label_sets(y, X.shape[0], self.hidden)
        weights = check_sample_weight(sample_weight, X.shape[0])
        classes, indicator = encode_label_sets(sets, self.classes, weights > 0)
        usual = indicator
        if (indicator == HIDDEN).any():
            weights = leave_out_hidden(indicator, weights)
            usual = usual_state(indicator, weights)
        costs = self._costs(classes, indicator, weights)
        may_interact = self._surrogate.cost.name not in _INTERACTING.refuses
        edges = find_edges(self.edges, classes, usual, weights, may_interact)
        self._check_solver(_INTERACTING if len(edges) else Multilabel.traits())
        if self.max_iter is None and len(edges):
            settings = settings._replace(max_iter=_MAX_ITER_GRAPH)
        train, held_out = self._split(np.flatnonzero(weights > 0), settings.rng)
        rows = self._training_rows(X, train)
        alpha = self._alpha_for(weights[train], rows.squares, len(classes))
        make = self._graph_problem if len(edges) else self._separable_problem
        common = rows, alpha, weights[train], settings.n_threads
        problem = make(edges, indicator[train], costs / len(classes), *common)
        self.classes_ = classes
        self.y_format_ = sets.format
        self.edges_ = edges

        def keep(weights_now: np.ndarray) -> None:
            self._keep_weights(problem, weights_now, X, train)

        def score() -> float:
            return self._score_sets(X[held_out], indicator[held_out], weights[held_out])

        def hidden(validate: Any) -> Any:
            alone = self._separable_problem(edges, part, costs / len(classes), *common)
            return self._solve_hidden(problem, alone, part, X, train, settings, validate)

        part = indicator[train]
        latent = len(edges) and (part == HIDDEN).any()
        self._solve_and_keep(
            problem, settings, keep, score if len(held_out) else None, hidden if latent else None
        )
        return self

    def _check_max_iter(self) -> int:
        return _MAX_ITER if self.max_iter is None else super()._check_max_iter()

    def _separable_problem(self, edges, indicator, costs, rows, alpha, weights, n_threads):
        structure = Multilabel(indicator.ravel(), indicator.shape[1], costs)
        surrogate = self._surrogate
        if self._is_smooth_max_min:  # of the size of the loss of a label
            surrogate = surrogate._replace(strength=surrogate.strength / indicator.shape[1])
        return Problem(structure, surrogate, rows, alpha, weights, n_threads)

    def _graph_problem(self, edges, indicator, costs, rows, alpha, weights, n_threads):
        n, L = indicator.shape
        return GraphProblem(
            label_graphs(edges, L, n, self.interactions),
            rows,
            np.ones((1, 1)),
            np.where(indicator == HIDDEN, 0, indicator).ravel(),  # hidden ones are completed later
            np.where(indicator == HIDDEN, 0.0, np.where(indicator, costs[1], costs[0])).ravel(),
            alpha=alpha,
            sample_weight=weights,
            max_min=not self._surrogate.cost.linear,
            n_threads=n_threads,
        )

    def _keep_weights(self, problem: Any, weights: np.ndarray, X: Any, train: np.ndarray) -> None:
        self.interactions_ = np.zeros((len(self.edges_) if problem.traits.graph else 0, 2, 2))
        if not problem.traits.graph:
            columns = label_weights(weights, len(self.classes_))
        elif self.interactions == BOTH_ON:
            columns, tables = problem.split(weights)
            self.interactions_[:, 1, 1] = tables[0]
        else:
            matrix, tables = problem.split(weights)
            self.interactions_[:] = tables.reshape(-1, 2, 2)
            columns = matrix[:, 1::2] - matrix[:, ::2]
        self._keep_columns(columns, X, train)

    def _costs(self, classes: np.ndarray, indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Cost of a mistake on each label where it is absent, and where it is present."""
        cost = self._surrogate.cost
        if (self._is_smooth_max_min or cost.likelihood) and self.class_weight is not None:
            raise ValueError(
                f"surrogate={cost.name!r} of label sets needs class_weight=None; received "
                f"{self.class_weight!r}. Use surrogate='max-margin' or 'max-min' with weights, or "
                "sample_weight."
            )
        if not is_name(self.class_weight, "balanced"):
            factors = class_costs(self.class_weight, classes, np.ones(len(classes)))
            return np.stack([factors, factors])
        counts = known_counts(indicator, weights)
        seen = counts > 0
        n_states = np.maximum(1, seen.sum(axis=0))
        factors = counts.sum(axis=0) / (n_states * np.where(seen, counts, 1.0))
        return np.where(seen, factors, 1.0) ** MARGIN_POWER

    def _best(self, X: Any) -> np.ndarray:
        """Indicator of the best sets of labels."""
        return self._decode(X).labels

    def _decode(self, X: Any, known: np.ndarray | None = None) -> Decoded:
        """The best sets of labels, some rows at a time: scores of all would need n x (L + E).

        ``known`` has the states of entries that are known already, HIDDEN elsewhere.
        """
        L, n_edges = len(self.classes_), len(self.edges_)
        step = max(1, _SCORES_AT_ONCE // (2 * L + 4 * n_edges))
        plan = make_plan(label_graphs(self.edges_, L, 1)) if n_edges else None
        parts = []
        for first in range(0, X.shape[0], step):
            scores = self._scores(X[first : first + step])
            n = len(scores)
            given = None if known is None else known[first : first + step]
            if plan is None:
                labels = (scores > 0.0).astype(np.int8)
                if given is not None:
                    labels = np.where(given == HIDDEN, labels, given).astype(np.int8)
                values = ((labels - 0.5) * scores).sum(axis=1)
                parts.append((labels, values, values))
                continue
            unary = np.stack([-0.5 * scores, 0.5 * scores], axis=2).ravel()
            tables = np.tile(self.interactions_.ravel(), n)
            graphs = label_graphs(self.edges_, L, n)
            if given is not None:
                free = np.stack([given != 1, given != 0], axis=2).reshape(-1, 2)
                unary = clamp(unary.reshape(-1, 2), tables, free, graphs).ravel()
            found = decode(graphs, unary, tables, plan=plan, n_jobs=check_n_jobs(self.n_jobs))
            parts.append((found.labels.reshape(n, L).astype(np.int8), found.values, found.bounds))
        labels, values, bounds = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Decoded(labels, values, bounds)

    def _score_sets(self, X: Any, indicator: np.ndarray, weights: Any) -> float:
        right = ((self._best(X) == indicator) | (indicator == HIDDEN)).all(axis=1)
        return float(np.average(right, weights=weights))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the labels: presence minus absence, so that positive ones are predicted.

        If labels interact, it is the difference that the presence of a label makes to the score of
        the whole set, with all other labels as they are predicted.

        Returns
        -------
        ndarray of shape (n_examples, n_labels)
        """
        check_is_fitted(self, "intercept_")
        X = self._validate_X(X, reset=False)
        scores = self._scores(X)
        if not len(self.edges_):
            return scores
        return scores + effect_of_presence(self.edges_, self.interactions_, self._best(X))

    def _checked_scores(self, X: Any) -> np.ndarray:
        return self.decision_function(X)

    def _logits(self, scores: np.ndarray) -> np.ndarray:
        """Log odds of presence."""
        if not self._is_smooth_max_min:
            return scores
        cost = 1.0 / scores.shape[1]
        return label_logits(scores, cost, self._surrogate.strength * cost)

    @of_likelihood
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability that each label is present.

        For ``surrogate="crf"`` and ``"smooth-max-min"`` only.

        Returns
        -------
        ndarray of shape (n_examples, n_labels)
        """
        return self.predict_marginals(X)

    @of_likelihood
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of :meth:`predict_proba`, also where the probabilities are too small."""
        return log_expit(self._logits(self.decision_function(X)))

    def predict_marginals(self, X: Any) -> np.ndarray:
        """``1 / (1 + exp(-score))`` of each label.

        With ``surrogate="crf"``, and with "smooth-max-min", whose formula is its own, these are the
        probabilities of :meth:`predict_proba`. The other surrogates do not estimate probabilities:
        there they are scores between 0 and 1 in the order of the labels' scores, and not
        calibrated.

        Returns
        -------
        ndarray of shape (n_examples, n_labels)
        """
        return expit(self._logits(self.decision_function(X)))

    def predict(self, X: Any, *, partial_y: Any = None) -> Any:
        """Labels of each example, in the format of the y that the model was trained on.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
        partial_y : array of shape (n_examples, n_labels), optional
            Entries that are known already, 0 or 1; None, NaN, -1 or masked where they are not.

        Returns
        -------
        ndarray or sparse array of shape (n_examples, n_labels), or list of tuples of labels
        """
        check_is_fitted(self, "intercept_")
        return self.decode(X, partial_y=partial_y).labels

    def decode(self, X: Any, *, partial_y: Any = None) -> Decoded:
        """Labels of each example with their scores, and upper bounds on the best scores.

        Parameters
        ----------
        X, partial_y
            As in :meth:`predict`; bounds are those of sets with the known entries.

        Returns
        -------
        decoded : Decoded
            ``labels`` as :meth:`predict` returns them, ``values`` and ``bounds`` of shape
            (n_examples,). Where ``values == bounds``, no other set of labels scores more.
        """
        check_is_fitted(self, "intercept_")
        X = self._validate_X(X, reset=False)
        known = None
        if partial_y is not None:
            known = read_known_entries(partial_y, X.shape[0], len(self.classes_))
        found = self._decode(X, known)
        return found._replace(labels=in_format(found.labels, self.y_format_, self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the examples whose whole set of labels is right (subset accuracy).

        Labels that the model does not know count as errors, with a warning. Hidden entries are
        right in any case (unless ``hidden=False``); examples of only such entries do not count.
        """
        return task_of(self).score(X, y, sample_weight)
