"""Graphs with hidden labels: how they are completed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graphs.graph import Graphs
from ..graphs.inference import drivers
from ..graphs.inference.decode import decode
from ..graphs.inference.plan import list_examples, make_plan
from ..graphs.packing import Layout, pack_graphs
from ..graphs.problem import GraphProblem
from ..solvers.loop import run
from ..solvers.rounds import HiddenParts
from ._base import Settings
from ._graph_counts import without_known
from ._graph_data import LabelledGraphs, Parts, clamp, table_scores, take_parts
from ._hidden import HiddenLabels
from .values import Hidden

# Relative gap of the training on known labels from which the first completion comes.
_START_TOL = 0.1


class HiddenGraphs(HiddenParts):
    """The latent model of graphs: a completion is the states of all variables.

    On graphs with cycles the best completion may not be found for sure: then an example keeps its
    old one unless the new one scores more, and ``unproven`` counts the examples whose completion
    is not proven to be the best.

    Parameters
    ----------
    problem : GraphProblem
        With a loss that is 0 at hidden variables.
    known : bool array of shape (n_variables, n_states)
        Which states are possible: only the known one where there is one.
    scores_of : callable
        Scores of the states, shape (n_variables, n_states), and of the tables at some weights.
    make_stepper : callable
        A solver for a problem and a dual state.
    numbers : array
        The user's number of each example, for errors.
    free : Graphs, optional
        The graphs to decode, with counts over hidden variables only.
    flat : callable
        Scores of the states one after another, from a table that may be wider.
    """

    def __init__(
        self,
        problem: GraphProblem,
        known: np.ndarray,
        scores_of: Callable,
        make_stepper: Callable,
        numbers: np.ndarray,
        free: Graphs | None = None,
        flat: Callable[[np.ndarray], np.ndarray] = np.ravel,
    ):
        super().__init__(problem, make_stepper)
        self.known = known
        self.unproven = 0
        self._scores_of = scores_of
        self._numbers = numbers
        self._flat = flat
        self._free = problem.graphs if free is None else free
        self._free_plan = make_plan(self._free)
        self._plan = self._free_plan if free is None else make_plan(problem.graphs)
        self._examples = list_examples(problem.graphs)

    def complete(self, weights: np.ndarray, before: Any) -> np.ndarray:
        """The best labels found that agree with those known."""
        unary, tables = self._scores_of(weights)
        return self.complete_scores(unary, tables, before)

    def complete_scores(self, unary: np.ndarray, tables: np.ndarray, before: Any) -> np.ndarray:
        """The same for given scores."""
        clamped = self._flat(clamp(unary, tables, self.known, self._free))
        found = decode(
            self._free, clamped, tables, plan=self._free_plan, n_jobs=self.problem.n_threads
        )
        labels = found.labels
        self._check_kept(labels, found.values)
        self.unproven = int((found.bounds > found.values).sum())
        if before is not None:
            old = self._values(unary, tables, before)
            kept = np.repeat(found.values <= old, np.diff(self._examples.variable))
            labels = np.where(kept, before, labels).astype(np.int32)
            if np.array_equal(labels, before):
                return before
        return labels

    def _check_kept(self, labels: np.ndarray, values: np.ndarray) -> None:
        starts = self._examples.variable
        broken = ~self.known[np.arange(len(labels)), labels]
        bad = np.add.reduceat(broken, starts[:-1]).astype(bool) | ~np.isfinite(values)
        if bad.any():
            i = int(self._numbers[int(np.argmax(bad))])
            raise ValueError(
                f"no labels of the hidden nodes of y[{i}] were found that go together with the "
                f"known ones and all counts of X[{i}]. Correct the labels, or relax at_least and "
                "at_most of add_count."
            )

    def _values(self, unary: np.ndarray, tables: np.ndarray, labels: np.ndarray) -> np.ndarray:
        values = np.empty(self.problem.n_examples)
        everything = np.arange(self.problem.n_examples)
        flat = np.ascontiguousarray(self._flat(unary))
        drivers.score_labels(self._plan, self._examples, everything, flat, tables, labels, values)
        return values

    def truth_scores(self, weights: np.ndarray, completion: np.ndarray) -> np.ndarray:
        """Scores of some labels."""
        unary, tables = self._scores_of(weights)
        return self._values(unary, tables, completion)


class HiddenGraphLabels(HiddenLabels):
    """What estimators of graphs with hidden labels share."""

    def _solve_graphs(
        self, model: HiddenGraphs, start: tuple, settings: Settings, validate: Any
    ) -> Any:
        """Train from completions by scores of states and tables, then by these with noise."""

        def starts():
            unary, tables = start
            yield model.complete_scores(unary, tables, None)
            for _ in range(1, Hidden.of(self.hidden).starts):
                noise = settings.rng.standard_normal(unary.shape)
                yield model.complete_scores(unary + unary.std() * noise, tables, None)

        result = self._solve_latent(model, starts(), model.problem, settings, validate)
        self.unproven_completions_ = model.unproven
        return result


class HiddenNodes(HiddenGraphLabels):
    """The part of :class:`GraphLabeler` that trains with hidden labels."""

    classes_: np.ndarray
    layout_: Layout
    factor_coef_: np.ndarray
    pairwise_coef_: np.ndarray
    _problem: Callable
    pairwise: str
    _scores: Callable
    _set_weights: Callable
    _kinds: Callable

    def _start_hidden(
        self, data: LabelledGraphs, train: np.ndarray, X: Any, loss: np.ndarray, settings: Settings
    ) -> tuple:
        """Scores of nodes and tables by a model of the known labels alone: hidden ones void."""
        problem, rows_used = self._problem(data.without_hidden(), train, X, loss, settings)
        stepper = self._stepper(problem, settings, dual_state=None)
        found = run(stepper, tol=max(settings.tol, _START_TOL), max_iter=settings.max_iter)
        self._set_weights(problem, found.weights, X, rows_used)
        return self._training_scores(take_parts(data, train, len(self.classes_), self.pairwise), X)

    def _training_scores(self, parts: Parts, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores of the states of the nodes in use, and of the tables, by the weights kept."""
        everything = len(parts.rows) == X.shape[0]
        columns = self._scores(X if everything else X[parts.rows])[parts.row_of_node]
        kinds = self._kinds()
        scores = kinds.scores(columns, kinds.of_variables(parts.graphs), self.layout_.unary)
        return scores, table_scores(parts.graphs, self.layout_, self.factor_coef_)

    def _solve_hidden(
        self,
        data: LabelledGraphs,
        train: np.ndarray,
        problem: GraphProblem,
        where: tuple,
        start: tuple,
        settings: Settings,
        validate: Any,
    ) -> Any:
        X, rows_used = where
        parts = take_parts(data, train, len(self.classes_), self.pairwise)
        truth = data.truth[parts.nodes]
        kinds = self._kinds()
        of_node = kinds.of_variables(parts.graphs)
        known = kinds.known(truth, of_node)
        ends = np.cumsum([graph.n_variables for graph in parts.graphs])[:-1]
        free = [
            without_known(graph, mask)
            for graph, mask in zip(parts.graphs, np.split(known, ends), strict=True)
        ]

        def scores_of(weights):
            self._set_weights(problem, weights, X, rows_used)
            return self._training_scores(parts, X)

        packed = pack_graphs(free, self.layout_)[0]
        model = HiddenGraphs(
            problem, known, scores_of, self._make_stepper(settings), train, packed,
            lambda table: kinds.flat(table, of_node),
        )  # fmt: skip
        return self._solve_graphs(model, start, settings, validate)
