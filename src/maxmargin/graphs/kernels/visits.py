"""Steps of all factors of an example, by the class of its graphs."""

from __future__ import annotations

from ..._kernels.jit import implements
from ..graph import COUNT, TABLE, BinaryGraphs, Graphs, PairGraphs
from .agreement import is_short, move_multipliers, table_step
from .binary_pairs import binary_pairs_step
from .global_factors import count_step, frank_wolfe_factor
from .pair_tables import pair_table_step
from .potts import potts_step
from .ranges import GAP, RESIDUAL


def visit_factors(graphs, data, beliefs, weights, penalty, m, wants_gap, room):
    """Steps of the factors of an example, those of the share of a thread; ``found`` of the scratch
    receives the sums of gaps and of squared disagreement.

    Gaps may be omitted where ``wants_gap`` is false. ``graphs`` are those of the data.
    """


@implements(visit_factors, BinaryGraphs)
def _visit_binary(graphs, data, beliefs, weights, penalty, m, wants_gap, room):
    binary_pairs_step(data, beliefs, weights, penalty, m, wants_gap, room)


@implements(visit_factors, PairGraphs)
def _visit_pairs(graphs, data, beliefs, weights, penalty, m, wants_gap, room):
    s = graphs.shape[m]
    features, scale = data.features, data.scales[m]
    total, residual = 0.0, 0.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if is_short(graphs, f):
            gap, apart = potts_step(
                graphs, features, beliefs, weights, scale, penalty, m, f, wants_gap, room
            )
            total += gap
            residual += apart
            continue
        total += pair_table_step(graphs, features, beliefs, weights, scale, penalty, m, f, room)
        if penalty.augmented:
            residual += move_multipliers(graphs, beliefs, penalty.kappa, m, f)
    room.found[0, GAP] = total
    room.found[0, RESIDUAL] = residual


@implements(visit_factors, Graphs)
def _visit_any(graphs, data, beliefs, weights, penalty, m, wants_gap, room):
    s = graphs.shape[m]
    if graphs.binary_pairs[s] and penalty.exact and data.features.shape[1] == 1:
        binary_pairs_step(data, beliefs, weights, penalty, m, wants_gap, room)
        return
    features, scale = data.features, data.scales[m]
    total, residual = 0.0, 0.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if is_short(graphs, f):
            gap, apart = potts_step(
                graphs, features, beliefs, weights, scale, penalty, m, f, wants_gap, room
            )
            total += gap
            residual += apart
            continue
        if graphs.kind[f] == COUNT:
            total += count_step(graphs, beliefs, penalty, m, f, room)
        elif graphs.kind[f] != TABLE or not penalty.exact:
            total += frank_wolfe_factor(data, beliefs, weights, penalty, m, f, room)
        elif penalty.sigma == 0.0 and graphs.scope_at[f + 1] - graphs.scope_at[f] == 2:
            total += pair_table_step(graphs, features, beliefs, weights, scale, penalty, m, f, room)
        else:
            total += table_step(data, beliefs, weights, penalty, m, f, room)
        if penalty.augmented:
            residual += move_multipliers(graphs, beliefs, penalty.kappa, m, f)
    room.found[0, GAP] = total
    room.found[0, RESIDUAL] = residual
