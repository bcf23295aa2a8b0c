"""Roof duality of all examples of packed graphs: a driver of the oracle that solvers ask."""

from __future__ import annotations

import numpy as np
from experiments.baselines.lp_kernel import relax_example

from maxmargin._kernels.jit import compiled
from maxmargin.graphs.inference.max_flow import make_network
from maxmargin.graphs.inference.plan import list_examples, make_plan
from maxmargin.graphs.inference.roof_duality import Relaxed, largest_shape


@compiled
def _relax_all(plan, examples, unary, tables, unary_out, tables_out, values):
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    halves = np.empty(n_variables, np.int8)
    fixed = np.full(n_variables, -1, np.int8)
    for m in range(len(examples.shape)):
        states = slice(examples.state[m], examples.state[m + 1])
        entries = slice(examples.entry[m], examples.entry[m + 1])
        values[m] = relax_example(
            plan, examples.shape[m], unary[states], tables[entries], fixed, net, halves,
            unary_out[states], tables_out[entries],
        )  # fmt: skip


def roof_duality(graphs, unary, tables):
    """Relaxation of binary pairwise graphs over the local polytope, solved exactly."""
    unary = np.ascontiguousarray(unary, dtype=np.float64)
    tables = np.ascontiguousarray(tables, dtype=np.float64)
    found = Relaxed(np.empty_like(unary), np.empty_like(tables), np.empty(len(graphs.shape)))
    _relax_all(make_plan(graphs), list_examples(graphs), unary, tables, *found)
    return found
