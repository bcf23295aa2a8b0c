"""Factor graphs: scores of states and of table entries, losses by soft agreement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._validation import check_integer, is_text
from ..graphs._soft_kernel import start_beliefs
from ..graphs.factor_graph import FactorGraph
from ..graphs.given_scores import agree
from ..graphs.graph import COUNT, GraphData, Graphs
from ..graphs.inference.decode import decode
from ..graphs.inference.drivers import score_labels
from ..graphs.inference.plan import FOREST, list_examples, make_plan
from ..graphs.kernels.agreement import Beliefs, Penalty, make_room
from ..graphs.packing import pack_for_scores, take_graphs
from ._autograd import loss_values
from ._batch import Batch, Found
from ._forms import Layout, as_rows, check_device, check_finite, check_scores, read_labels
from ._structure import Structure
from ._threads import over_examples

# Default number of rounds over the variables and factors of a graph per visit.
_ROUNDS = 20
# Penalty on disagreement, in units of the cost of a variable plus the deviation of the scores.
_STIFFNESS = 0.3
_OFFSETS = ("first_state", "first_mass", "first_message", "first_message")  # of Beliefs, by field
_NO_ROWS, _CONSTANT = np.empty(0), np.ones((1, 1))


class GraphScores(NamedTuple):
    """Scores of factor graphs.

    ``states`` are the scores of all states, variable after variable: one flat tensor, graph after
    graph, or a list with a tensor per graph, of any shape. ``tables`` are those of the entries of
    all tables in the same form, factors in the order in which they were added, and the last
    variable of a factor changing fastest. ``examples`` are the numbers of the graphs in the list of
    the structure; by default all of them in order.
    """

    states: Any
    tables: Any = None
    examples: Any = None


class PackedBatch(NamedTuple):
    """Graphs of a batch, and where the scores of states and tables are among those of a graph."""

    graphs: Graphs
    examples: np.ndarray
    truth: np.ndarray
    costs: np.ndarray  # of each variable
    states: np.ndarray
    tables: np.ndarray


class Store:
    """Beliefs and multipliers of all graphs, kept between visits."""

    def __init__(self, graphs: Graphs):
        ends = graphs._asdict()
        self.beliefs = Beliefs(*(np.zeros(int(ends[name][-1])) for name in _OFFSETS))
        self.seen = np.zeros(graphs.n_examples, bool)

    def take(
        self, graphs: Graphs, places: dict[str, np.ndarray], examples: np.ndarray, truth: np.ndarray
    ) -> Beliefs:
        """Copies of the beliefs of some graphs; at the truth where a graph was not visited yet."""
        start, seen, ends = start_beliefs(graphs, truth), self.seen[examples], graphs._asdict()
        found = []
        for kept, fresh, name in zip(self.beliefs, start, _OFFSETS):
            own = np.repeat(seen, np.diff(ends[name]))
            found.append(np.where(own, kept[places[name]], fresh))
        return Beliefs(*found)

    def put(self, found: Beliefs, places: dict[str, np.ndarray], examples: np.ndarray) -> None:
        """Keep the beliefs of some graphs."""
        for kept, new, name in zip(self.beliefs, found, _OFFSETS):
            kept[places[name]] = new
        self.seen[examples] = True


class FactorGraphs(Structure):
    """Factor graphs, which may have cycles: a value with the list of graphs of a data set.

    Scores are :class:`GraphScores`; targets are the states of all variables, flat or a list. The
    loss is the share of wrong variables. Losses are those of the relaxation to the local polytope,
    which is exact on graphs of pairs without cycles: the value is an upper bound, and its gradient
    that of the marginals that soft agreement has reached. Beliefs and messages of each graph are
    kept, so that they converge from epoch to epoch. ``return_bracket=True`` also decodes a
    labelling, whose value is a lower bound.

    Parameters
    ----------
    graphs : list of FactorGraph
        Variables and factors. Their features and ties are not used: every entry has its score.
    rounds : int, default=20
        Rounds over the variables and factors of a graph per visit.

    Examples
    --------
    >>> import torch
    >>> from maxmargin import FactorGraph
    >>> from maxmargin.torch import FactorGraphs, GraphScores, MaxMarginLoss
    >>> graph = FactorGraph([[0.0]] * 3, n_states=2).add_tables([(0, 1), (1, 2), (0, 2)])
    >>> loss = MaxMarginLoss(FactorGraphs([graph]))
    >>> states, tables = torch.zeros(6, requires_grad=True), torch.zeros(12, requires_grad=True)
    >>> round(loss(GraphScores(states, tables), torch.tensor([0, 1, 1])).item(), 6)
    1.0
    """

    name = "graph"
    surrogates = ("max-margin", "max-min")

    def __init__(self, graphs: Any, rounds: int = _ROUNDS):
        if is_text(graphs) or not isinstance(graphs, Sequence) or not len(graphs):
            raise TypeError(
                f"graphs must be a list of FactorGraph, not empty; received {graphs!r}."
            )
        for i, graph in enumerate(graphs):
            if not isinstance(graph, FactorGraph):
                raise TypeError(
                    f"graphs[{i}] must be a FactorGraph; received {type(graph).__name__}."
                )
        self.rounds = check_integer("rounds", rounds, 1)
        self.graphs = pack_for_scores(graphs)
        self._n_states = np.concatenate([graph.n_states for graph in graphs])
        self._plan = make_plan(self.graphs)
        self._stores: dict[bool, Store] = {}

    def forget(self) -> None:
        """Forget beliefs and messages: the next visit of each graph starts at its true states."""
        self._stores.clear()

    # --- reading ------------------------------------------------------------------------------

    def _examples(self, examples: Any) -> np.ndarray:
        n = self.graphs.n_examples
        if examples is None:
            return np.arange(n)
        found = np.asarray(examples.cpu() if isinstance(examples, Tensor) else examples)
        if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
            raise ValueError(f"examples must be a vector of integers; received {examples!r}.")
        if found.min() < 0 or found.max() >= n:
            raise ValueError(
                f"examples must be numbers of graphs, from 0 to {n - 1}; received {found.min()} to "
                f"{found.max()}."
            )
        if len(np.unique(found)) < len(found):
            raise ValueError("examples of one batch must be different.")
        return found.astype(np.int64)

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        if not isinstance(scores, GraphScores):
            raise TypeError(f"scores must be GraphScores; received {type(scores).__name__}.")
        if mask is not None or offsets is not None:
            raise ValueError("graphs need neither mask nor offsets: their sizes are known.")
        examples = self._examples(scores.examples)
        graphs, places = take_graphs(self.graphs, examples)
        states = _flat("states", scores.states, np.diff(graphs.first_state))
        empty = states.new_zeros(0) if scores.tables is None else scores.tables
        tables = _flat("tables", empty, np.diff(graphs.first_entry))
        check_device("tables", tables, states.device)
        if tables.dtype != states.dtype:
            raise TypeError(f"tables are {tables.dtype}, but states are {states.dtype}.")
        sizes = np.diff(graphs.first_state) + np.diff(graphs.first_entry)
        at_states = np.arange(len(states)) + np.repeat(
            graphs.first_entry[:-1], np.diff(graphs.first_state)
        )
        at_tables = np.arange(len(tables)) + np.repeat(
            graphs.first_state[1:], np.diff(graphs.first_entry)
        )
        order = np.argsort(np.concatenate([at_states, at_tables]))
        joined = torch.cat([states, tables])[torch.from_numpy(order).to(states.device)]
        values = as_rows(joined, 1)
        layout = Layout("list" if isinstance(scores.states, Sequence) else "flat", sizes)
        check_finite(values, layout.places, sizes)
        lengths = np.diff(graphs.first_variable)
        truth = np.zeros(int(lengths.sum()), np.int32)
        if targets is not None:
            form = "list" if isinstance(targets, Sequence) else "flat"
            most = self._n_states[places["first_variable"]]
            truth = read_labels("targets", targets, Layout(form, lengths), joined.device, 0, most)
            self._check_counts(graphs, truth)
        costs = np.repeat(1.0 / lengths, lengths)
        packed = PackedBatch(graphs, examples, truth, costs, at_states, at_tables)
        work = 20.0 * self.rounds * float(sizes.sum())
        return Batch(packed, joined, values, layout, sizes, work)

    def _check_counts(self, graphs: Graphs, truth: np.ndarray) -> None:
        if not (graphs.kind == COUNT).any():
            return
        n, values = graphs.n_examples, np.empty(graphs.n_examples)
        nothing = np.zeros(int(graphs.first_state[-1])), np.zeros(int(graphs.first_entry[-1]))
        score_labels(self._plan, list_examples(graphs), np.arange(n), *nothing, truth, values)
        if values.min() == -np.inf:
            bad = int(np.flatnonzero(values == -np.inf)[0])
            raise ValueError(f"targets of example {bad} violate a count of its graph.")

    # --- losses -------------------------------------------------------------------------------

    def max_margin(self, batch, factors):
        """Structured hinge losses of the relaxation."""
        return loss_values(batch, lambda scale: self._losses(batch, scale, False, 0), factors)

    def max_min(self, batch, factors, iterations):
        """Max-min losses of the relaxation."""
        return loss_values(
            batch, lambda scale: self._losses(batch, scale, True, iterations), factors
        )

    def _losses(
        self, batch: Batch, factors: np.ndarray | None, max_min: bool, rounds: int
    ) -> Found:
        packed, scores = batch.structure, batch.values.reshape(-1).astype(np.float64)
        truth, mu = np.empty_like(scores), np.empty_like(scores)
        at_truth = start_beliefs(packed.graphs, packed.truth)
        truth[packed.states], truth[packed.tables] = at_truth.variables, at_truth.tables
        upper, lower = np.empty(batch.n), np.full(batch.n, -np.inf)
        traits = self._plan.traits[packed.graphs.shape]
        exact = ((traits & FOREST) > 0) & (not max_min)
        for which, solve in ((exact, self._exact), (~exact, self._soft)):
            if which.any():
                part = _Part(self, packed, np.flatnonzero(which), scores, mu)
                upper[which], lower[which] = solve(part, max_min, rounds, batch.bracket)
        rows = mu - truth
        if factors is not None:
            rows *= np.repeat(factors, batch.rows)
        return Found(upper, lower, rows[:, None].astype(batch.values.dtype), batch.weights)

    def _exact(self, part: _Part, max_min: bool, rounds: int, bracket: bool) -> Any:
        """Graphs of pairs without cycles: the best labelling is the solution."""
        found = part.decoded(self._plan, part.losses())
        best = start_beliefs(part.graphs, found.labels)
        part.keep(best)
        value = found.values - part.true_scores()
        return value, value

    def _soft(self, part: _Part, max_min: bool, rounds: int, bracket: bool) -> Any:
        """Other graphs: rounds of soft agreement from the beliefs of the last visit."""
        store = self._stores.setdefault(max_min, Store(self.graphs))
        beliefs = store.take(part.graphs, part.places, part.examples, part.truth)
        penalty = Penalty(_STIFFNESS, 0.0, max_min, True, True, rounds or self.rounds)
        n = len(part.examples)
        upper, messages = np.empty(n), np.zeros(len(beliefs.eta))
        data = GraphData(
            part.graphs, _NO_ROWS, _CONSTANT, part.truth, part.costs, np.ones(n), np.zeros(n)
        )

        def work(first: int, last: int) -> None:
            room = make_room(part.graphs)
            agree(
                data, part.states, part.tables, beliefs, penalty, messages, upper, first, last, room
            )

        over_examples(work, n, penalty.rounds * 20.0 * len(beliefs.tables))
        store.put(beliefs, part.places, part.examples)
        part.keep(beliefs)
        if not bracket:
            return upper, np.full(n, -np.inf)
        # a single labelling has no max-min loss
        found = part.decoded(self._plan, 0.0 if max_min else part.losses())
        lower = found.values - part.true_scores()
        if not max_min:
            upper = np.minimum(upper, found.bounds - part.true_scores())
        return np.maximum(upper, lower), lower

    # --- outputs ------------------------------------------------------------------------------

    def best(self, batch):
        """Labels of the best labelling found: exact where the graph allows it."""
        packed, scores = batch.structure, batch.values.reshape(-1).astype(np.float64)
        found = decode(packed.graphs, scores[packed.states], scores[packed.tables], plan=self._plan)
        if found.values.min() == -np.inf:
            bad = int(np.flatnonzero(found.values == -np.inf)[0])
            raise ValueError(f"No labelling of example {bad} was found that satisfies its counts.")
        return found.labels

    def topk(self, batch, k):
        """Refuse: the local polytope has no exact argmax."""
        raise ValueError("topk takes structures with an exact decode; factor graphs have none.")

    def form(self, batch, labels):
        """States of all variables, flat or a list as the scores."""
        found = torch.from_numpy(labels.astype(np.int64)).to(batch.device)
        if batch.layout.form == "flat":
            return found
        return list(found.split(np.diff(batch.structure.graphs.first_variable).tolist()))


class _Part:
    """Some graphs of a batch, with their scores."""

    def __init__(
        self, kind: FactorGraphs, packed: PackedBatch, which: np.ndarray, scores: np.ndarray,
        mu: np.ndarray,
    ):  # fmt: skip
        _, inside = take_graphs(packed.graphs, which)
        self.examples = packed.examples[which]
        self.graphs, self.places = take_graphs(kind.graphs, self.examples)
        self.truth = packed.truth[inside["first_variable"]]
        self.costs = packed.costs[inside["first_variable"]]
        self.n_states = kind._n_states[self.places["first_variable"]]
        self.at_states = packed.states[inside["first_state"]]
        self.at_tables = packed.tables[inside["first_entry"]]
        self.states, self.tables = scores[self.at_states], scores[self.at_tables]
        self.mu = mu
        self.at_truth = start_beliefs(self.graphs, self.truth)

    def losses(self) -> np.ndarray:
        """Loss of each state of each variable."""
        return np.repeat(self.costs, self.n_states) * (1.0 - self.at_truth.variables)

    def true_scores(self) -> np.ndarray:
        """Score of the true states of each graph."""
        n = len(self.examples)
        total = np.zeros(n)
        for scores, phi, firsts in (
            (self.states, self.at_truth.variables, self.graphs.first_state),
            (self.tables, self.at_truth.tables, self.graphs.first_entry),
        ):
            total += np.bincount(np.repeat(np.arange(n), np.diff(firsts)), scores * phi, n)
        return total

    def decoded(self, plan: Any, losses: Any) -> Any:
        """The best labellings with losses added to the scores."""
        return decode(self.graphs, self.states + losses, self.tables, plan=plan)

    def keep(self, beliefs: Beliefs) -> None:
        """Write the marginals of states and tables."""
        self.mu[self.at_states], self.mu[self.at_tables] = beliefs.variables, beliefs.tables


def _flat(name: str, given: Any, sizes: np.ndarray) -> Tensor:
    """One flat tensor of scores; ``sizes`` are the numbers of each graph."""
    if isinstance(given, Tensor):
        flat = check_scores(name, given, 1)
        if len(flat) != sizes.sum():
            raise ValueError(
                f"{name} must hold {sizes.sum()} numbers for these graphs; received {len(flat)}."
            )
        return flat
    if is_text(given) or not isinstance(given, Sequence) or len(given) != len(sizes):
        raise ValueError(f"{name} must be a flat tensor or a list of {len(sizes)} tensors.")
    for i, (each, size) in enumerate(zip(given, sizes)):
        if not isinstance(each, Tensor) or each.numel() != size:
            raise ValueError(
                f"{name}[{i}] must be a tensor of {size} numbers; received "
                f"{tuple(each.shape) if isinstance(each, Tensor) else each!r}."
            )
        check_scores(f"{name}[{i}]", each, each.ndim)
    return torch.cat([each.reshape(-1) for each in given])
