"""Labels for the nodes of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._labels import margin_costs
from .._validation import check_choice, check_n_jobs, is_nan
from ..graphs.factor_graph import TIES
from ..graphs.features import EDGE, NodeGraph, node_starts, read_graphs, stack_features
from ..graphs.inference.decode import Decoded, decode
from ..graphs.packing import pack_graphs
from ..graphs.problem import GraphProblem
from ..solvers.auto import make_solver
from ..structures.masks import known_positions
from ..structures.traits import GRAPH
from ..tasks import task_of
from ._base import Settings, with_parameters
from ._docs import BALANCED_MARGINS, UNPROVEN, documented
from ._graph_counts import check_truth, implied, without_known
from ._graph_data import (
    HIDDEN,
    PARTS,
    LabelledGraphs,
    check_kept,
    check_labels_of_kinds,
    check_layout,
    check_state_size,
    chunk_bounds,
    clamp,
    column_scores,
    label_graphs,
    table_scores,
    take_parts,
    training_layout,
    with_states,
)
from ._hidden_graphs import HiddenNodes
from ._kernel import KernelModel
from ._node_kinds import NodeKinds, find_kinds
from ._sequence_data import cut, flatten_position_weights

# Scores held at a time while predicting: 64 MB.
_SCORES_AT_ONCE = 1 << 23

GRAPH_DOCS: dict[str, Any] = {
    "solvers": '"auto", "soft"',
    "auto": '"soft", the only one for graphs',
    "class_weight_note": "Factor of the loss at a node by its true label;",
    "balanced_note": BALANCED_MARGINS,
    "alpha_note": """``s / (5 * total weight)``, where s is the mean over graphs of the squared
        norms of their labelled nodes, summed. The constant of an intercept is part of the norm, and
        squared norms above 20 count as 20.""",
    "max_iter": ", default=100",
    "unproven_note": UNPROVEN,
    "rows": "nodes",
    "where": "nodes of all graphs, one below the other,",
    "precomputed": """, and with
        "precomputed" the features of a node are those for all training nodes""",
}


@documented(**GRAPH_DOCS)
@with_parameters
class GraphLabeler(KernelModel, HiddenNodes):
    """Labels the nodes of graphs: trees, grids, superpixels, anything with edges.

    The score of labels ``y`` for a graph with node features ``x_v`` and edge features ``f_e`` is::

        sum_v (W x_v + b)[y_v]  +  sum_(e = (u, v)) (T_0 + sum_k f_ek T_k)[y_u, y_v]

    and training minimises, with w all weights together and L the mean Hamming loss over the
    labelled nodes::

        alpha/2 |w|^2 + 1/n sum_i S(x_i, y_i)

        max-margin:  S(x, y) = max_z [ L(z, y) + score(x, z) ] - score(x, y)
        max-min:     S(x, y) = max_mu [ min_nu E L(nu, mu) + score(x, mu) ] - score(x, y)

    On graphs with cycles the maximum is relaxed to the local polytope: distributions over the
    labels of nodes and of edges that agree with each other. The relaxed objective is an upper
    bound on the exact one, equal on trees, and the certificate is that of the relaxed problem.

    An edge ``(u, v)`` is ordered: with ``pairwise="full"`` its table is read at the label of u,
    then that of v, so edges need a direction that means something (left to right, child to
    parent, smaller to larger). With "potts" and "symmetric" the order makes no difference. Each
    pair of nodes may have one edge, in one direction; a second one is refused.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min"}, default="max-margin"
        Max-min is the consistent correction of max-margin.
    pairwise : {"full", "symmetric", "potts"}, default="full"
        What the tables of edges look like: a weight for each ordered pair of labels, for each
        unordered pair, or one for equal labels. Each edge feature has a table of its own, besides
        the constant one.
    void : hashable, optional
        The label in ``y`` of nodes whose label is not known. In training they are left out
        together with their edges; in prediction they are nodes like all others; scores do not
        count them. (A hidden node is something else: it stays in the graph, and its neighbours
        see it.)
    %(hidden)s
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    group_classes_ : dict
        Labels of each group of nodes: one group, None, unless factor graphs have others.
    coef_ : array of shape (n_classes, n_features)
        With ``kernel="linear"`` only. With several groups, a row for each label of each group, in
        the order that ``layout_`` tells.
    intercept_ : array of shape (n_classes,)
    pairwise_coef_ : array of shape (1 + n_edge_features, n_classes, n_classes)
        Tables of the edges: the constant one, then that of each feature. Not for factor graphs.
    factor_coef_ : array of shape (1 + n_edge_features, n_weights)
        The weights in these tables, each once; for factor graphs those of all groups, which
        ``layout_`` tells the columns of.
    n_features_in_, n_edge_features_ : int
    %(kernel_attributes)s
    %(agreement_attributes)s
    %(attributes)s
    %(hidden_attributes)s

    References
    ----------
    Meshi, Srebro, Hazan. Efficient training of structured SVMs via soft constraints. AISTATS 2015.

    Examples
    --------
    Two triangles; the third node of the second one is unclear by itself:

    >>> from maxmargin import GraphLabeler
    >>> edges = [(0, 1), (1, 2), (0, 2)]
    >>> X = [([[1.0], [0.8], [0.9]], edges), ([[-1.0], [-0.7], [-0.9]], edges)]
    >>> y = [["land", "land", "land"], ["sea", "sea", "sea"]]
    >>> model = GraphLabeler(pairwise="potts", random_state=0).fit(X, y)
    >>> model.predict([([[-1.0], [-1.0], [0.1]], edges)])[0].tolist()
    ['sea', 'sea', 'sea']
    """

    pairwise: str = "full"
    void: Any = None
    max_iter: int = 100
    class_weight: Any = None
    classes: Any = None

    _traits = GRAPH
    _unit = "graph"
    _groups: ClassVar[tuple[str, ...]] = (EDGE,)  # of the tables of edges

    # --- how graphs come and go -------------------------------------------------------------

    def _read(self, X: Any) -> list[NodeGraph]:
        return read_graphs(X)

    def _flat(self, values: Any, graphs: list[NodeGraph], name: str) -> Any:
        """A list with one sequence for each graph, an entry a node."""
        return values

    def _in_shape(self, values: np.ndarray, graphs: list[NodeGraph]) -> list[np.ndarray]:
        return cut(values, node_starts(graphs))

    # --- training ---------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        sample_weight: Any = None,
        *,
        node_weight: Any = None,
    ) -> GraphLabeler:
        """Train on graphs and the labels of their nodes.

        Parameters
        ----------
        X : list of n graphs
            Tuples ``(node_features, edges)`` or ``(node_features, edges, edge_features)``: an
            array or CSR matrix of shape (n_nodes, n_features), integers of shape (n_edges, 2), and
            numbers of shape (n_edges, n_edge_features). Or :class:`~maxmargin.FactorGraph`, for
            tables over more than two nodes, counts, chains and trees, and for groups of nodes
            with their own weights and labels; its variables must have as many states as their
            group has labels (declare ``classes={group: labels}`` if some do not occur in y).
        y : list of n sequences of n_nodes hashable labels
            None (or -1 beside non-negative integers) where not known: see ``hidden``.
        sample_weight : array of shape (n,), optional
            Weights of the graphs; 2 is the same as having a graph twice.
        node_weight : list of n arrays of shape (n_nodes,), optional
            Factors of the loss at each node; 0 where a mistake does not matter.
        """
        settings = self._check_settings()
        self._check_graph_settings()
        graphs = self._read(X)
        y = self._flat(y, graphs, "y")
        data, classes = label_graphs(
            graphs, y, self.classes, self.void, sample_weight, self._unit, self.hidden
        )
        loss = self._losses(data, classes, node_weight)
        kinds = find_kinds(graphs, data.truth, classes, self.classes)
        kinds.check(graphs)
        data = with_states(data, kinds)
        layout, n_edge_features = training_layout(graphs, len(classes), self.pairwise)
        check_truth(graphs, data.indptr, data.truth, kinds)
        train, held_out = self._split(data.used(), settings.rng)
        self.classes_, self.layout_, self.n_edge_features_ = classes, layout, n_edge_features
        self.group_classes_ = dict(kinds.group_classes)
        stacked = stack_features(graphs)
        self.n_features_in_ = stacked.shape[1]
        latent = self.hidden and any(
            (data.truth[data.nodes(i)] == HIDDEN).any() for i in train.tolist()
        )
        start = self._start_hidden(data, train, stacked, loss, settings) if latent else None
        problem, rows_used = self._problem(data, train, stacked, loss, settings)

        def keep(weights: np.ndarray) -> None:
            self._set_weights(problem, weights, stacked, rows_used)

        def score() -> float:
            return self._share_right(data, held_out)

        def hidden(validate: Any) -> Any:
            assert start is not None
            where = stacked, rows_used
            return self._solve_hidden(data, train, problem, where, start, settings, validate)

        self._solve_and_keep(
            problem, settings, keep, score if len(held_out) else None, hidden if latent else None
        )
        return self

    def _check_graph_settings(self) -> None:
        check_choice("pairwise", self.pairwise, TIES)
        try:
            hash(self.void)
        except TypeError:
            raise ValueError(f"void must be a label, hashable; received {self.void!r}.") from None
        if is_nan(self.void):
            raise ValueError(
                "void may not be NaN, which is not equal to itself; expected a label such as -1 or "
                "'?'. Replace NaN in y by it."
            )

    def _losses(self, data: LabelledGraphs, classes: np.ndarray, node_weight: Any) -> np.ndarray:
        """Loss of a mistake at each node; that of a graph is a mean over its labelled nodes."""
        costs = margin_costs(self.class_weight, classes, data.counts(len(classes)))
        sizes = np.diff(data.indptr)
        loss = np.where(data.truth >= 0, costs[data.truth], 0.0)
        if node_weight is not None:
            node_weight = self._flat(node_weight, data.graphs, "node_weight")
            loss = loss * flatten_position_weights(
                node_weight, sizes, self._unit, PARTS[self._unit]
            )
        return loss / np.repeat(np.maximum(1, data.n_kept()), sizes)

    def _problem(
        self, data: LabelledGraphs, train: np.ndarray, X: Any, loss: np.ndarray, settings: Settings
    ) -> tuple[GraphProblem, np.ndarray]:
        """The problem on the labelled nodes of some graphs, and the rows of X that it uses."""
        parts = take_parts(data, train, len(self.classes_), self.pairwise)
        packed, features = pack_graphs(parts.graphs, self.layout_)
        weights = data.weights[train]
        rows = self._training_rows(X, parts.rows)
        of_nodes = rows.squares[parts.row_of_node]
        ends = np.concatenate([[0], np.cumsum(parts.sizes)])
        problem = GraphProblem(
            packed,
            rows,
            features,
            np.maximum(data.truth[parts.nodes], 0),  # hidden ones are completed later
            loss[parts.nodes],
            alpha=self._alpha_for(weights, of_nodes, parts.sizes, ends),
            sample_weight=weights,
            max_min=not self._surrogate.cost.linear,
            n_threads=settings.n_threads,
        )
        solver = make_solver(self.solver, problem)
        check_state_size(solver.adapted(problem).graphs)
        return problem, parts.rows

    def _set_weights(
        self, problem: GraphProblem, weights: np.ndarray, X: Any, rows_used: np.ndarray
    ) -> None:
        matrix, factors = problem.split(weights)
        self._keep_columns(matrix, X, rows_used)
        self.factor_coef_ = factors.copy()
        self._keep_tables()

    def _keep_tables(self) -> None:
        """Unfold the weights of edges into tables."""
        K = len(self.classes_)
        if "pairwise_coef_" in vars(self):
            del self.pairwise_coef_
        known = self.layout_.factor.items()
        plain = all(key[1] in self._groups and len(at[1]) == 4 * K * K for key, at in known)
        if not known or not plain:  # those of a factor graph
            return
        found = []
        for first, ties, n_tied in self.layout_.factor.values():
            columns = self.factor_coef_[:, first : first + n_tied]
            padded = np.concatenate([columns, np.zeros((len(columns), 1))], axis=1)
            found.append(padded[:, np.frombuffer(ties, np.int32)].reshape(-1, K, K))
        self.pairwise_coef_ = np.concatenate(found)

    # --- prediction -------------------------------------------------------------------------

    def _read_again(self, X: Any) -> list[NodeGraph]:
        """Graphs for prediction; refuse those that do not fit the model."""
        check_is_fitted(self, "factor_coef_")
        graphs = self._read(X)
        width = graphs[0].features.shape[1]
        self._check_kernel_width(width)
        self._check_width(width, f"{PARTS[self._unit]} features")
        self._kinds().check(graphs)
        return graphs

    def _kinds(self) -> NodeKinds:
        """Labels of the kinds of nodes; all the same in models of versions without kinds."""
        only = dict.fromkeys(self.layout_.unary, self.classes_)
        return NodeKinds(self.classes_, vars(self).get("group_classes_", only))

    def _decode(
        self, graphs: list[NodeGraph], known: np.ndarray | None = None, method: str = "auto"
    ) -> Decoded:
        """States of all nodes with the best labels, with values and bounds per graph."""
        starts = node_starts(graphs)
        kinds = self._kinds()
        parts = []
        for first, last in chunk_bounds(graphs, len(self.classes_), _SCORES_AT_ONCE):
            some = graphs[first:last]
            factors = [graph.factor_graph(len(self.classes_), self.pairwise) for graph in some]
            check_layout(factors, self.layout_)
            if known is not None:
                factors = [
                    without_known(graph, known[starts[first + k] : starts[first + k + 1]])
                    for k, graph in enumerate(factors)
                ]
            packed, _ = pack_graphs(factors, self.layout_)
            of_node = kinds.of(some)
            unary = column_scores(some, self._scores)
            unary = kinds.scores(unary, of_node, self.layout_.unary)
            tables = table_scores(factors, self.layout_, self.factor_coef_)
            if known is not None:
                unary = clamp(unary, tables, known[starts[first] : starts[last]], packed)
            flat = kinds.flat(unary, of_node)
            found = decode(packed, flat, tables, method, n_jobs=check_n_jobs(self.n_jobs))
            if known is not None:
                check_kept(found, known[starts[first] : starts[last]], packed, first)
            parts.append(found)
        return Decoded(*(np.concatenate(found) for found in zip(*parts, strict=True)))

    def _known(self, partial_y: Any, graphs: list[NodeGraph]) -> np.ndarray | None:
        if partial_y is None:
            return None
        flat = self._flat(partial_y, graphs, "partial_y")
        lengths = np.diff(node_starts(graphs))
        mask = known_positions(flat, lengths, self.classes_)
        if not len(mask):
            return None
        kinds = self._kinds()
        of_node = kinds.of(graphs)
        states = kinds.masks(mask, of_node)
        check_labels_of_kinds(states, mask, of_node, kinds, node_starts(graphs))
        return implied(graphs, node_starts(graphs), states, kinds)

    def decode(self, X: Sequence[Any], *, partial_y: Any = None, method: str = "auto") -> Decoded:
        """The best labels with their scores, and upper bounds on the best scores.

        Exact where the graphs allow it: trees, two labels with tables that prefer equal ones, and
        usually two labels with any tables. Otherwise by dual decomposition and local search.

        Parameters
        ----------
        X : list of graphs
        partial_y : list, optional
            Labels already known, None where they are not: ``[[None, "sea", None], None]``.
        method : str, default="auto"
            How: see :func:`maxmargin.graphs.inference.decode.decode`. "triangles" has lower upper
            bounds where edges form triangles, with more than two labels also than "auto".

        Returns
        -------
        decoded : Decoded
            ``labels`` as :meth:`predict` returns them, ``values`` and ``bounds`` of shape (n,).
            Where ``values == bounds``, no other labels score more.
        """
        graphs = self._read_again(X)
        found = self._decode(graphs, self._known(partial_y, graphs), method)
        labels: Any = self._in_shape(self.classes_[self._codes(found.labels, graphs)], graphs)
        return found._replace(labels=labels)

    def _codes(self, states: np.ndarray, graphs: list[NodeGraph]) -> np.ndarray:
        kinds = self._kinds()
        return kinds.codes(states, kinds.of(graphs))

    def predict(self, X: Sequence[Any], *, partial_y: Any = None) -> list[np.ndarray]:
        """The best labels of each graph's nodes.

        Parameters
        ----------
        X : list of graphs
        partial_y : list, optional
            Labels already known, as in :meth:`decode`.
        """
        return list(self.decode(X, partial_y=partial_y).labels)

    def _share_right(self, data: LabelledGraphs, which: np.ndarray) -> float:
        """Share of the labelled nodes of some graphs that are labelled right."""
        found = self._decode([data.graphs[i] for i in which]).labels
        truth = np.concatenate([data.truth[data.nodes(i)] for i in which])
        weights = np.repeat(data.weights[which], np.diff(data.indptr)[which])
        known = truth >= 0
        return float(np.average(found[known] == truth[known], weights=weights[known]))

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Share of the labelled nodes that are labelled right; graphs count by ``sample_weight``.

        Void and hidden nodes are not counted. Labels that the model does not know count as errors,
        with a warning.
        """
        return task_of(self).score(X, y, sample_weight)
