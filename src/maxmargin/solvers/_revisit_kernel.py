"""The compiled pass over the stored outputs (atoms) of examples."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.atoms import remove_atom
from .._kernels.jit import compiled, seldom
from ..structures import chain_revisit, tree_revisit  # noqa: F401  (answers, for the kernel)


@compiled
@seldom
def revisit_sizes(structure, rows, most):
    """Sizes of what is prepared for an example with up to ``most`` outputs."""
    return generic.revisit_room(structure, rows, most)


@compiled
def revisit_steps(structure, rows, scales, order, weights, atoms):
    """Visit examples with several atoms: move mass between these, without a call of the oracle.
    Atoms without mass are removed."""
    most = 1
    for i in order:
        most = max(most, atoms.count[i])
    # Zero as far as tables of an example reach: the rest may be as long as the weights.
    table = np.empty(generic.work_size(structure, rows))
    table[: generic.largest_block(structure)] = 0.0
    n_lists, longest, n_products = generic.revisit_room(structure, rows, most)
    scratch = (
        np.empty((n_lists, longest), np.int32),
        np.empty(most, np.int64),
        np.empty((n_products, n_products)),
        np.empty((2, most)),
        table,
    )
    for step in range(order.shape[0]):
        i = order[step]
        if step + 1 < order.shape[0]:
            generic.prefetch_block(structure, rows, order[step + 1])
        low, high = generic.label_range(structure, i)
        count, first = atoms.count[i], atoms.labels_start[i]
        outputs = atoms.labels[first : first + count * (high - low)].reshape(count, high - low)
        shares = atoms.weight[atoms.start[i] : atoms.start[i] + count]
        generic.prepare_revisit(structure, rows, i, outputs, scratch)
        generic.revisit(structure, rows, weights, i, scales[i], outputs, shares, scratch)
        for a in range(count - 1, -1, -1):
            if shares[a] == 0.0:
                remove_atom(atoms, i, a, high - low)
