"""The best labelling of every graph, by whatever method its shape allows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from .._kernels.jit import compiled, leaf
from .._validation import check_choice, check_integer, check_n_jobs
from ..structures.graph import Graphs
from .dual_decomposition import decompose
from .exact_search import branch_and_bound, enumerate_labels, n_labellings
from .linear_program import relax
from .local_search import climb, make_climber
from .max_flow import cut_labels, is_attractive, make_network
from .pairs import BINARY, FOREST, PAIRWISE, Pairs, pair_up
from .roof_duality import half_labels, half_score, largest_shape
from .scores import labelling_score, own_scores
from .trees import tree_labels

METHODS = (
    "auto", "tree", "max-flow", "lp", "dual-decomposition", "local-search", "exhaustive",
)  # fmt: skip
_AUTO, _TREE, _FLOW, _, _DUAL, _LOCAL, _ALL = range(len(METHODS))

_MOST_LABELLINGS = 2**20
_FEW_LABELLINGS = 2**12
_PROVEN = 1e-9


class Decoded(NamedTuple):
    """Labellings of graphs, and what is known about them.

    ``labels`` has the state of every variable, the examples one after another. ``values`` are the
    scores, minus infinity where a labelling breaks a count. No labelling scores more than
    ``bounds``; where both are equal, the labelling is proven optimal (to 1e-9, relatively).
    """

    labels: np.ndarray
    values: np.ndarray
    bounds: np.ndarray


@leaf
def _best_alone(graphs, pairs, s, unary, tables, own, labels):
    """Every variable's best state by its own scores."""
    own_scores(graphs, pairs, s, unary, tables, own)
    base = graphs.variables[s]
    for a in range(base, graphs.variables[s + 1]):
        at, best = graphs.state_at[a], 0
        for state in range(graphs.n_states[a]):
            if own[at + state] > own[at + best]:
                best = state
        labels[a - base] = best


@leaf
def simple_bound(graphs, pairs, s, unary, tables, own):
    """Sum of the best scores of all variables and tables. ``own`` is scratch."""
    own_scores(graphs, pairs, s, unary, tables, own)
    total = 0.0
    for a in range(graphs.variables[s], graphs.variables[s + 1]):
        best = -np.inf
        for state in range(graphs.n_states[a]):
            best = max(best, own[graphs.state_at[a] + state])
        total += best
    base = graphs.variables[s]
    for p in range(pairs.pairs[s], pairs.pairs[s + 1]):
        best = -np.inf
        size = graphs.n_states[base + pairs.first[p]] * graphs.n_states[base + pairs.second[p]]
        for e in range(size):
            best = max(best, tables[pairs.entry[p] + e])
        total += best
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        f = pairs.whole[w]
        if graphs.n_entries[f] > 0:
            best = -np.inf
            for e in range(graphs.n_entries[f]):
                best = max(best, tables[graphs.entry_at[f] + e])
            total += best
    return total


@compiled
def _decode_binary(
    graphs, pairs, s, unary, tables, net, climber, trial, fixed, labels, max_sweeps, max_nodes
):
    """Roof duality; what it leaves open by branch and bound, or by dual decomposition."""
    n = graphs.variables[s + 1] - graphs.variables[s]
    halves = np.empty(n, np.int8)
    _best_alone(graphs, pairs, s, unary, tables, climber.own, labels)
    undecided = half_labels(graphs, pairs, s, unary, tables, fixed, net, halves)
    for v in range(n):
        if halves[v] != 1:
            labels[v] = halves[v] // 2
    bound = half_score(graphs, pairs, s, unary, tables, halves)
    if undecided == 0:
        return bound, bound
    climb(graphs, pairs, s, unary, tables, climber, labels, True)
    value = labelling_score(graphs, pairs, s, unary, tables, labels)
    if n > max_nodes:  # a search would not get far
        other, dual = decompose(
            graphs, pairs, s, unary, tables, climber, trial, trial[n:], max_sweeps
        )
        if other > value:
            value = other
            labels[:n] = trial[n : 2 * n]
        return value, min(bound, dual)
    value, open_bound = branch_and_bound(
        graphs, pairs, s, unary, tables, net, labels, value, max_nodes
    )
    return value, min(bound, open_bound)


@compiled
def _decode_one(
    graphs, pairs, s, unary, tables, method, net, climber, trial, fixed, labels, max_sweeps,
    max_nodes,
):  # fmt: skip
    """Write the labels of one example; returns its score and an upper bound."""
    traits = pairs.traits[s]
    if method == _TREE or (method == _AUTO and traits & FOREST):
        tree_labels(graphs, pairs, s, unary, tables, climber.own, labels)
    elif method == _ALL or (
        method == _AUTO and n_labellings(graphs, s, _FEW_LABELLINGS) <= _FEW_LABELLINGS
        and not (traits & BINARY and traits & PAIRWISE)
    ):  # fmt: skip
        enumerate_labels(graphs, pairs, s, unary, tables, trial, labels)
    elif method == _FLOW or (
        method == _AUTO and traits & BINARY and traits & PAIRWISE
        and is_attractive(pairs, s, tables)
    ):  # fmt: skip
        cut_labels(graphs, pairs, s, unary, tables, fixed, net, labels)
    elif method == _LOCAL:
        _best_alone(graphs, pairs, s, unary, tables, climber.own, labels)
        climb(graphs, pairs, s, unary, tables, climber, labels, True)
        bound = simple_bound(graphs, pairs, s, unary, tables, climber.own)
        return labelling_score(graphs, pairs, s, unary, tables, labels), bound
    elif method == _AUTO and traits & BINARY and traits & PAIRWISE:
        return _decode_binary(
            graphs, pairs, s, unary, tables, net, climber, trial, fixed, labels, max_sweeps,
            max_nodes,
        )  # fmt: skip
    else:
        return decompose(graphs, pairs, s, unary, tables, climber, trial, labels, max_sweeps)
    value = labelling_score(graphs, pairs, s, unary, tables, labels)
    return value, value


@compiled
def _largest_example(graphs):
    """The largest numbers of states and factors of an example, and of states of a variable."""
    n_states, n_factors, most = 1, 1, 1
    for m in range(len(graphs.shape)):
        n_states = max(n_states, graphs.first_state[m + 1] - graphs.first_state[m])
    for s in range(len(graphs.factors) - 1):
        n_factors = max(n_factors, graphs.factors[s + 1] - graphs.factors[s])
    for k in graphs.n_states:
        most = max(most, k)
    return n_states, n_factors, most


@compiled
def _decode_range(
    graphs, pairs, unary, tables, method, max_sweeps, max_nodes, start, end, labels, values, bounds
):
    n_variables, n_pairs = largest_shape(graphs, pairs)
    n_states, n_factors, most = _largest_example(graphs)
    net = make_network(n_variables, n_pairs, 2)
    climber = make_climber(n_states, n_factors, most)
    trial = np.empty(2 * n_variables, np.int32)
    fixed = np.full(n_variables, -1, np.int8)
    for m in range(start, end):
        value, bound = _decode_one(
            graphs, pairs, graphs.shape[m],
            unary[graphs.first_state[m] : graphs.first_state[m + 1]],
            tables[graphs.first_entry[m] : graphs.first_entry[m + 1]],
            method, net, climber, trial, fixed,
            labels[graphs.first_variable[m] : graphs.first_variable[m + 1]],
            max_sweeps, max_nodes,
        )  # fmt: skip
        values[m] = value
        bounds[m] = value if bound - value <= _PROVEN * max(1.0, abs(value)) else bound


@compiled
def _round_range(graphs, pairs, unary, tables, marginals, labels, values, bounds):
    """Labels from marginals: the likeliest states, improved by local search."""
    n_states, n_factors, most = _largest_example(graphs)
    climber = make_climber(n_states, n_factors, most)
    for m in range(len(graphs.shape)):
        s = graphs.shape[m]
        base = graphs.variables[s]
        found = labels[graphs.first_variable[m] : graphs.first_variable[m + 1]]
        for a in range(base, graphs.variables[s + 1]):
            at, best = graphs.first_state[m] + graphs.state_at[a], 0
            for state in range(graphs.n_states[a]):
                if marginals[at + state] > marginals[at + best]:
                    best = state
            found[a - base] = best
        own = unary[graphs.first_state[m] : graphs.first_state[m + 1]]
        entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
        climb(graphs, pairs, s, own, entries, climber, found, True)
        values[m] = labelling_score(graphs, pairs, s, own, entries, found)
        if bounds[m] - values[m] <= _PROVEN * max(1.0, abs(values[m])):
            bounds[m] = values[m]


def _check_scores(graphs: Graphs, unary, tables) -> tuple[np.ndarray, np.ndarray]:
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
                f"{name} of graph {m} contain {values[at]}; expected finite numbers. Forbid a state "
                "by a score far below the others."
            )
        found.append(values)
    return found[0], found[1]


def _check_method(graphs: Graphs, pairs: Pairs, tables: np.ndarray, method: str) -> None:
    """Refuse a method that cannot decode one of the graphs."""
    traits = pairs.traits[graphs.shape]
    if method == "tree":
        bad = (traits & FOREST) == 0
        why = "its factors have a cycle, hold more than two variables, or are counts"
    elif method == "max-flow":
        bad = (traits & (BINARY | PAIRWISE)) != (BINARY | PAIRWISE)
        for m in np.flatnonzero(~bad):
            entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
            bad[m] = not is_attractive(pairs, graphs.shape[m], entries)
        why = (
            "a variable has not two states, a factor holds more than two variables, or a table "
            "prefers different states: t[0, 0] + t[1, 1] < t[0, 1] + t[1, 0]"
        )
    elif method == "exhaustive":
        many = [
            n_labellings(graphs, s, _MOST_LABELLINGS) > _MOST_LABELLINGS
            for s in range(len(pairs.traits))
        ]
        bad = np.array(many, dtype=bool)[graphs.shape]
        why = f"it has more than {_MOST_LABELLINGS} labellings"
    else:
        return
    if bad.any():
        m = int(np.argmax(bad))
        raise ValueError(f'method="{method}" cannot decode graph {m}: {why}. Use method="auto".')


def decode(
    graphs: Graphs,
    unary: np.ndarray,
    tables: np.ndarray,
    method: str = "auto",
    *,
    max_sweeps: int = 200,
    max_nodes: int = 1000,
    n_jobs: int | None = 1,
    pairs: Pairs | None = None,
) -> Decoded:
    """The best labelling of every graph, with an upper bound of the best score.

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
        - ``"local-search"``: fast, and with a poor bound;
        - ``"exhaustive"``: every labelling, for tiny graphs;
        - ``"auto"``: exact where the graph allows it. Other graphs with two states and pairs: roof
          duality, then branch and bound on what it leaves open. Others: dual decomposition.

        All but the exact ones improve their labellings by local search.
    max_sweeps : int
        Sweeps of the dual decomposition.
    max_nodes : int
        Relaxations that branch and bound may solve for an example; graphs with more variables
        are left to the dual decomposition.
    n_jobs : int, optional
        Threads; the result is the same for any number.
    pairs : Pairs, optional
        ``pair_up(graphs)``, to save its time when called often.

    Returns
    -------
    decoded : Decoded
        Labels, their scores and upper bounds.
    """
    check_choice("method", method, METHODS)
    check_integer("max_sweeps", max_sweeps, 1)
    check_integer("max_nodes", max_nodes, 1)
    unary, tables = _check_scores(graphs, unary, tables)
    pairs = pair_up(graphs) if pairs is None else pairs
    _check_method(graphs, pairs, tables, method)
    n = graphs.n_examples
    found = Decoded(np.zeros(graphs.n_variables, np.int32), np.empty(n), np.empty(n))
    if method == "lp":
        relaxed = relax(graphs, unary, tables, pairs=pairs)
        found.bounds[:] = relaxed.values
        _round_range(graphs, pairs, unary, tables, relaxed.unary, *found)
        return found
    n_threads = max(1, min(check_n_jobs(n_jobs), n))
    ends = np.linspace(0, n, n_threads + 1).astype(np.int64)

    def run(k: int) -> None:
        _decode_range(
            graphs, pairs, unary, tables, METHODS.index(method), max_sweeps, max_nodes,
            ends[k], ends[k + 1], *found,
        )  # fmt: skip

    if n_threads == 1:
        run(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(run, range(n_threads)))
    return found
