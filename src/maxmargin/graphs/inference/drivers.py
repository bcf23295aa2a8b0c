"""Each decoding method over some examples.

All take ``plan, examples``, the indices of the examples, the scores, and write labels, values and
upper bounds. Scratch is allocated once per call.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import compiled, inner, leaf, seldom
from .dual_decomposition import decompose
from .exact_search import branch_and_bound, enumerate_labels
from .local_search import climb, make_climber
from .max_flow import cut_labels, is_attractive, make_network
from .roof_duality import half_labels, half_score, largest_shape
from .scores import labelling_score, own_scores
from .trees import tree_labels


@inner
def _largest_example(plan, examples):
    """The largest numbers of states and factors of an example, and of states of a variable."""
    n_states, n_factors, most = 1, 1, 2
    for m in range(len(examples.shape)):
        n_states = max(n_states, examples.state[m + 1] - examples.state[m])
    for s in range(len(plan.factors) - 1):
        n_factors = max(n_factors, plan.factors[s + 1] - plan.factors[s])
    for k in plan.n_states:
        most = max(most, k)
    return n_states, n_factors, most


@inner
def _scores_of(examples, m, unary, tables):
    """The example's own scores."""
    return (
        unary[examples.state[m] : examples.state[m + 1]],
        tables[examples.entry[m] : examples.entry[m + 1]],
    )


@compiled
def decode_trees(plan, examples, which, unary, tables, labels, values, bounds):
    """Forests, exactly."""
    belief = np.empty(_largest_example(plan, examples)[0])
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        s = examples.shape[m]
        tree_labels(plan, s, own, entries, belief, found)
        values[m] = bounds[m] = labelling_score(plan, s, own, entries, found)


@compiled
def decode_flows(plan, examples, which, unary, tables, labels, values, bounds):
    """Two states and pairs that prefer equal states, exactly."""
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 1)
    fixed = np.full(n_variables, -1, np.int8)
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        s = examples.shape[m]
        cut_labels(plan, s, own, entries, fixed, net, found)
        values[m] = bounds[m] = labelling_score(plan, s, own, entries, found)


@compiled
@seldom
def decode_all(plan, examples, which, unary, tables, labels, values, bounds):
    """Tiny examples, by enumeration of all labellings."""
    trial = np.empty(largest_shape(plan)[0], np.int32)
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        values[m] = enumerate_labels(plan, examples.shape[m], own, entries, trial, found)
        bounds[m] = values[m]


@compiled
def improve_labels(plan, examples, which, unary, tables, labels, values):
    """Local search from the given labels."""
    n_states, n_factors, most = _largest_example(plan, examples)
    climber = make_climber(n_states, n_factors, most)
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        s = examples.shape[m]
        climb(plan, s, own, entries, climber, found)
        values[m] = labelling_score(plan, s, own, entries, found)


@compiled
@seldom
def decode_duals(plan, examples, which, unary, tables, max_sweeps, labels, values, bounds):
    """Any examples, by dual decomposition."""
    scores = np.empty(_largest_example(plan, examples)[2])
    trial = np.empty(largest_shape(plan)[0], np.int32)
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        values[m], bounds[m] = decompose(
            plan, examples.shape[m], own, entries, scores, trial, found, max_sweeps
        )


@compiled
@seldom
def decode_roofs(plan, examples, which, unary, tables, labels, values, bounds, is_open):
    """Two states and pairs, by roof duality. Undecided variables keep their labels."""
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    fixed = np.full(n_variables, -1, np.int8)
    halves = np.empty(n_variables, np.int8)
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        s = examples.shape[m]
        half_labels(plan, s, own, entries, fixed, net, halves)
        bounds[m] = half_score(plan, s, own, entries, halves)
        for v in range(len(found)):
            is_open[examples.variable[m] + v] = halves[v] == 1
            if halves[v] != 1:
                found[v] = halves[v] // 2
        values[m] = labelling_score(plan, s, own, entries, found)


@compiled
@seldom
def decode_branches(plan, examples, which, unary, tables, max_nodes, labels, values, bounds):
    """Branch and bound from the given labels and values."""
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        s = examples.shape[m]
        _, bound = branch_and_bound(plan, s, own, entries, net, found, values[m], max_nodes)
        values[m] = labelling_score(plan, s, own, entries, found)
        bounds[m] = bound


@compiled
def score_labels(plan, examples, which, unary, tables, labels, values):
    """Scores of the given labels."""
    for m in which:
        own, entries = _scores_of(examples, m, unary, tables)
        found = labels[examples.variable[m] : examples.variable[m + 1]]
        values[m] = labelling_score(plan, examples.shape[m], own, entries, found)


@compiled
def likeliest_states(plan, examples, scores, labels):
    """The state with the largest score, of every variable."""
    for m in range(len(examples.shape)):
        base = plan.variables[examples.shape[m]]
        for k in range(examples.variable[m + 1] - examples.variable[m]):
            at, best = examples.state[m] + plan.state_at[base + k], 0
            for state in range(plan.n_states[base + k]):
                if scores[at + state] > scores[at + best]:
                    best = state
            labels[examples.variable[m] + k] = best


@leaf
def _largest(values, start, end):
    best = -np.inf
    for k in range(start, end):
        best = max(best, values[k])
    return best


@compiled
@seldom
def simple_bounds(plan, examples, which, unary, tables, bounds):
    """Sum of the best scores of all variables and tables."""
    scratch = np.empty(_largest_example(plan, examples)[0])
    for m in which:
        s = examples.shape[m]
        base = plan.variables[s]
        own, entries = _scores_of(examples, m, unary, tables)
        own_scores(plan, s, own, entries, scratch)
        total = 0.0
        for a in range(base, plan.variables[s + 1]):
            total += _largest(scratch, plan.state_at[a], plan.state_at[a] + plan.n_states[a])
        for p in range(plan.pairs[s], plan.pairs[s + 1]):
            size = plan.n_states[base + plan.first[p]] * plan.n_states[base + plan.second[p]]
            total += _largest(entries, plan.entry[p], plan.entry[p] + size)
        for w in range(plan.wholes[s], plan.wholes[s + 1]):
            f = plan.whole[w]
            if plan.n_entries[f] > 0:
                total += _largest(entries, plan.entry_at[f], plan.entry_at[f] + plan.n_entries[f])
        bounds[m] = total


@compiled
@seldom
def find_attractive(plan, examples, which, tables, found):
    """Mark examples whose pairs all prefer equal states."""
    for m in which:
        entries = tables[examples.entry[m] : examples.entry[m + 1]]
        found[m] = is_attractive(plan, examples.shape[m], entries)
