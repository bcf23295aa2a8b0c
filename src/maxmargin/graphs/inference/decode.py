"""The best labelling of every graph, by a method that its shape allows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from ..._validation import check_choice, check_integer, check_n_jobs
from ..graph import Graphs
from . import drivers
from .linear_program import relax
from .parts import open_parts
from .plan import BINARY, FOREST, PAIRWISE, Examples, Plan, list_examples, make_plan
from .triangles import tighten

METHODS = (
    "auto", "tree", "max-flow", "lp", "dual-decomposition", "triangles", "local-search",
    "exhaustive",
)  # fmt: skip

_MOST_LABELLINGS = 20  # of an exhaustive search, log2
_FEW_LABELLINGS = 12
_PROVEN = 1e-9


class Decoded(NamedTuple):
    """Labellings of graphs, with their scores and upper bounds.

    ``labels`` has the state of every variable, the examples concatenated. ``values`` are the
    scores, minus infinity where a labelling violates a count. ``bounds`` are upper bounds on the
    score of any labelling; where both are equal, the labelling is proven optimal (to 1e-9,
    relatively).
    """

    labels: np.ndarray
    values: np.ndarray
    bounds: np.ndarray


class _Job(NamedTuple):
    """The examples to decode, and the arrays for the results."""

    plan: Plan
    examples: Examples
    unary: np.ndarray
    tables: np.ndarray
    found: Decoded
    n_threads: int

    def run(self, driver: Callable[..., Any], which: np.ndarray, *more: Any) -> None:
        """Run a driver over some examples, in threads that write to disjoint entries."""
        if not len(which):
            return

        def part(numbers: np.ndarray) -> None:
            driver(self.plan, self.examples, numbers, self.unary, self.tables, *more)

        if self.n_threads == 1 or len(which) == 1:
            part(which)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            list(pool.map(part, np.array_split(which, self.n_threads)))

    def likeliest(self, scores: np.ndarray) -> None:
        """Start from the state with the largest score of every variable."""
        drivers.likeliest_states(self.plan, self.examples, scores, self.found.labels)


def _n_labellings(plan: Plan) -> np.ndarray:
    """Number of labellings of each shape, log2."""
    return np.diff(np.concatenate([[0.0], np.cumsum(np.log2(plan.n_states))])[plan.variables])


def _attractive(job: _Job, which: np.ndarray) -> np.ndarray:
    found = np.zeros(len(job.examples.shape), bool)
    drivers.find_attractive(job.plan, job.examples, which, job.tables, found)
    return found


def _decode_duals(job: _Job, which: np.ndarray, max_sweeps: int) -> None:
    """Dual decomposition, then local search where that left a gap."""
    labels, values, bounds = job.found
    job.run(drivers.decode_duals, which, max_sweeps, *job.found)
    still = which[bounds[which] > values[which]]
    job.run(drivers.improve_labels, still, labels, values)


def _decode_binary(job: _Job, which: np.ndarray, max_sweeps: int, max_nodes: int) -> None:
    """Roof duality; then branch and bound on each connected part of the undecided variables."""
    labels, values, bounds = job.found
    is_open = np.zeros(len(labels), bool)
    job.likeliest(job.unary)
    job.run(drivers.decode_roofs, which, labels, values, bounds, is_open)
    parts = open_parts(job.plan, job.examples, job.unary, job.tables, labels, is_open)
    if parts is None:
        return
    n = len(parts.owner)
    found = Decoded(labels[parts.variable], np.empty(n), np.empty(n))
    inner = _Job(parts.plan, parts.examples, parts.unary, parts.tables, found, job.n_threads)
    inner.run(drivers.score_labels, np.arange(n), found.labels, found.values)
    rest = values.copy()  # the score of the decided variables
    np.subtract.at(rest, parts.owner, found.values)
    large = np.diff(parts.examples.variable) > max_nodes
    _decode_duals(inner, np.flatnonzero(large), max_sweeps)
    small = np.flatnonzero(~large)
    inner.run(drivers.improve_labels, small, found.labels, found.values)
    inner.run(drivers.decode_branches, small, max_nodes, *found)
    labels[parts.variable] = found.labels
    owners = np.unique(parts.owner)
    job.run(drivers.score_labels, owners, labels, values)
    np.add.at(rest, parts.owner, found.bounds)
    bounds[owners] = np.minimum(bounds[owners], rest[owners])


def _decode_auto(job: _Job, max_sweeps: int, max_nodes: int) -> None:
    """The method that each example's graph allows."""
    shape = job.examples.shape
    traits = job.plan.traits[shape]
    forest = (traits & FOREST) > 0
    binary = ~forest & ((traits & (BINARY | PAIRWISE)) == (BINARY | PAIRWISE))
    attractive = binary & _attractive(job, np.flatnonzero(binary))
    tiny = ~forest & ~binary & (_n_labellings(job.plan)[shape] <= _FEW_LABELLINGS)
    roof = np.flatnonzero(binary & ~attractive)
    if len(roof):  # first, because it starts from labels of all examples
        _decode_binary(job, roof, max_sweeps, max_nodes)
    job.run(drivers.decode_trees, np.flatnonzero(forest), *job.found)
    job.run(drivers.decode_flows, np.flatnonzero(attractive), *job.found)
    job.run(drivers.decode_all, np.flatnonzero(tiny), *job.found)
    _decode_duals(job, np.flatnonzero(~(forest | binary | tiny)), max_sweeps)


def _decode_by(job: _Job, graphs: Graphs, method: str, max_sweeps: int) -> None:
    """All examples by one method."""
    labels, values, bounds = job.found
    everything = np.arange(graphs.n_examples)
    if method == "tree":
        job.run(drivers.decode_trees, everything, *job.found)
    elif method == "max-flow":
        job.run(drivers.decode_flows, everything, *job.found)
    elif method == "exhaustive":
        job.run(drivers.decode_all, everything, *job.found)
    elif method == "dual-decomposition":
        _decode_duals(job, everything, max_sweeps)
    elif method == "local-search":
        job.run(drivers.simple_bounds, everything, bounds)
        job.likeliest(job.unary)
        job.run(drivers.improve_labels, everything, labels, values)
    else:
        if method == "triangles":
            relaxed: Any = tighten(graphs, job.unary, job.tables, max_sweeps)
        else:
            relaxed = relax(graphs, job.unary, job.tables, plan=job.plan)
        bounds[:] = relaxed.values
        job.likeliest(relaxed.unary)
        job.run(drivers.improve_labels, everything, labels, values)


def _check_scores(graphs: Graphs, unary: Any, tables: Any) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for name, values, firsts in (
        ("unary", unary, graphs.first_state),
        ("tables", tables, graphs.first_entry),
    ):
        values = np.ascontiguousarray(values, dtype=np.float64)
        if values.shape != (firsts[-1],):
            raise ValueError(
                f"{name} must have shape ({firsts[-1]},), a score for each "
                f"{'state' if name == 'unary' else 'entry of a table'} of the graphs; received "
                f"shape {values.shape}."
            )
        if not np.isfinite(values).all():
            at = int(np.argmax(~np.isfinite(values)))
            m = int(np.searchsorted(firsts, at, side="right")) - 1
            raise ValueError(
                f"{name} of graph {m} contain {values[at]}; expected finite numbers. Forbid a "
                "state by a score far below the others."
            )
        found.append(values)
    return found[0], found[1]


def _check_method(job: _Job, method: str) -> None:
    """Refuse a method that cannot decode one of the graphs."""
    shape = job.examples.shape
    traits = job.plan.traits[shape]
    if method == "tree":
        fits = (traits & FOREST) > 0
        why = "its factors have a cycle, hold more than two variables, or are counts"
    elif method == "max-flow":
        fits = (traits & (BINARY | PAIRWISE)) == (BINARY | PAIRWISE)
        fits &= _attractive(job, np.flatnonzero(fits))
        why = (
            "a variable does not have two states, a factor holds more than two variables or is a "
            "count, or a table prefers different states: t[0, 0] + t[1, 1] < t[0, 1] + t[1, 0]"
        )
    elif method == "exhaustive":
        fits = _n_labellings(job.plan)[shape] <= _MOST_LABELLINGS
        why = f"it has more than {2**_MOST_LABELLINGS} labellings"
    else:
        return
    if not fits.all():
        m = int(np.argmin(fits))
        raise ValueError(f'method="{method}" cannot decode graph {m}: {why}. Use method="auto".')


def decode(
    graphs: Graphs,
    unary: Any,
    tables: Any,
    method: str = "auto",
    *,
    max_sweeps: int = 200,
    max_nodes: int = 1000,
    n_jobs: int | None = 1,
    plan: Plan | None = None,
) -> Decoded:
    """The best labelling of every graph, with an upper bound on the best score.

    Parameters
    ----------
    graphs : Graphs
    unary, tables : arrays of float
        Scores of the states of all examples, and of the entries of their tables.
    method : str
        - ``"tree"``: exact, graphs without cycles, linear time;
        - ``"max-flow"``: exact, two states and tables that prefer equal states;
        - ``"lp"``: relaxation over the local polytope by HiGHS (needs the extra ``lp``), rounded;
        - ``"dual-decomposition"``: messages, for any graph, also large ones;
        - ``"triangles"``: messages between pairs and clusters of three, for graphs of tables: the
          lowest bound where triangles are frustrated, and slower;
        - ``"local-search"``: fast, and with a poor bound;
        - ``"exhaustive"``: every labelling, for tiny graphs;
        - ``"auto"``: exact where the graph allows it. Other graphs with two states and pairs: roof
          duality, then branch and bound on each connected part of the undecided variables. Others:
          dual decomposition.

        All but the exact ones improve their labellings by local search.
    max_sweeps : int
        Sweeps of the dual decomposition, or of messages with clusters of three.
    max_nodes : int
        Largest number of relaxations that branch and bound solves per part of a graph; parts with
        more variables are decoded by dual decomposition.
    n_jobs : int, optional
        Threads; the result is the same for any number.
    plan : Plan, optional
        ``make_plan(graphs)``, to save its time when called often.

    Returns
    -------
    decoded : Decoded
        Labels, their scores and upper bounds.
    """
    check_choice("method", method, METHODS)
    check_integer("max_sweeps", max_sweeps, 1)
    check_integer("max_nodes", max_nodes, 1)
    unary, tables = _check_scores(graphs, unary, tables)
    n = graphs.n_examples
    found = Decoded(np.zeros(graphs.n_variables, np.int32), np.empty(n), np.empty(n))
    plan = make_plan(graphs) if plan is None else plan
    job = _Job(plan, list_examples(graphs), unary, tables, found, check_n_jobs(n_jobs))
    _check_method(job, method)
    if method == "auto":
        _decode_auto(job, max_sweeps, max_nodes)
    else:
        _decode_by(job, graphs, method, max_sweeps)
    reached = np.where(np.isfinite(found.values), found.values, 0.0)
    close = found.bounds - reached <= _PROVEN * np.maximum(1.0, np.abs(reached))
    close &= np.isfinite(found.values)
    found.bounds[close] = found.values[close]
    return found
