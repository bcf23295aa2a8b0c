"""Sweeps over all variables that minimise messages: see :mod:`.triangles`."""

from __future__ import annotations

from ..._kernels.jit import compiled, leaf, seldom
from .._soft_check import copy_messages
from .._tighten_kernel import minimise_messages
from ..kernels.agreement import subtract_messages

_CHECK_EVERY = 5  # sweeps between two checks of the bound
_PROGRESS = 1e-7  # from one check to the next, relative to the bound


@compiled
@seldom
def lower_bounds(graphs, unary, tables, messages, max_sweeps, room, values):
    """Minimise messages, write the bounds, and add the messages to the scores of the states."""
    for m in range(graphs.shape.shape[0]):
        own = unary[graphs.first_state[m] : graphs.first_state[m + 1]]
        entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
        best = _bound(graphs, m, own, entries, messages, room)
        for sweep in range(1, max_sweeps + 1):
            minimise_messages(graphs, m, own, entries, messages, 0.0, room)
            if sweep % _CHECK_EVERY == 0 or sweep == max_sweeps:
                now = _bound(graphs, m, own, entries, messages, room)
                done = best - now <= _PROGRESS * max(1.0, abs(best))
                best = min(best, now)
                if done:
                    break
        values[m] = best
        s = graphs.shape[m]
        for a in range(graphs.variables[s], graphs.variables[s + 1]):
            _add_messages(graphs, m, a, messages, own[graphs.state_at[a] :])


@leaf
def _add_messages(graphs, m, a, messages, out):
    for h in range(graphs.held_at[a], graphs.held_at[a + 1]):
        at = graphs.first_message[m] + graphs.message_at[graphs.held[h]]
        for j in range(graphs.n_states[a]):
            out[j] += messages[at + j]


@leaf
def _bound(graphs, m, unary, tables, messages, room):
    """Sum of the maxima of all variables and factors of an example."""
    s = graphs.shape[m]
    total = 0.0
    for a in range(graphs.variables[s], graphs.variables[s + 1]):
        k = graphs.n_states[a]
        for j in range(k):
            room.values[j] = unary[graphs.state_at[a] + j]
        _add_messages(graphs, m, a, messages, room.values)
        total += _largest(room.values, k)
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        size = graphs.n_entries[f]
        table = tables[graphs.entry_at[f] : graphs.entry_at[f] + size]
        copy_messages(graphs, messages, m, f, room.delta)
        subtract_messages(graphs, m, f, room.delta, table, room.theta)
        total += _largest(room.theta, size)
    return total


@leaf
def _largest(values, n):
    top = values[0]
    for j in range(1, n):
        top = max(top, values[j])
    return top
