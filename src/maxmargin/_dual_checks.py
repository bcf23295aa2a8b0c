"""Dual states from files: what a kernel will trust must fit the problem it is to continue.

:func:`check_dual` raises ValueError. Without a problem it looks at what a state says of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._indices import check_array, check_finite_array, check_pool, check_within, entries_in_use

# Sums of marginals and weights of mixtures are right up to the rounding of many steps.
_ROUNDING = 1e-6


def check_dual(state: Any, problem: Any = None) -> None:
    """Refuse a dual state whose arrays do not fit each other, or the problem."""
    check = _CHECKS.get(type(state).__name__)
    if check is None:
        raise ValueError(f"a dual state cannot be a {type(state).__name__}")
    check(state, problem)
    if isinstance(state, tuple) and len({id(array) for array in state}) < len(state):
        raise ValueError("an array of the dual state is in two places")


def _check_pool_arrays(state: Any, n: int | None, used: int) -> int:
    n = len(check_array("start", state.start, np.int64, (n,)))
    check_array("count", state.count, np.int32, (n,))
    check_array("room", state.room, np.int32, (n,))
    check_array("used", state.used, np.int64, (used,))
    return n


def _check_mass(name: str, values: np.ndarray) -> None:
    check_finite_array(name, values)
    if values.size and values.min() < -_ROUNDING:
        raise ValueError(f"{name} must not be negative; received {values.min()}")


def _check_blocks(state: Any, problem: Any) -> None:
    _check_pool_arrays(state, None if problem is None else problem.n_examples, 1)
    value = check_array("value", state.value, np.float64, (None,))
    whole = not len(state.index)  # blocks of another surrogate may be stored so, too
    check_array("index", state.index, np.int32, (None if whole else len(value),))
    check_pool("the blocks", state.start, state.count, state.room, int(state.used[0]), len(value))
    sizes = None if problem is None else _block_sizes(problem)
    # Only the kernel for outputs with few parts knows no whole blocks.
    few = problem is not None and problem.traits.sparse_outputs and not problem.cost.fills_blocks
    if few and whole:
        raise ValueError("the blocks have no indices")
    if sizes is not None and whole and (state.count != sizes).any():
        raise ValueError("count must be the number of parts of each block")
    for places, owner in entries_in_use(state.start, state.count):
        _check_mass("value", value[places])
        if not whole:
            limit = _NO_LIMIT if sizes is None else sizes[owner]
            check_within("index", state.index[places], 0, limit)
    if problem is not None and type(problem.structure).__name__ != "Multilabel":
        # Outputs of an example have the same number of parts, unless some are hidden.
        truth = problem.start()
        expected = _sums(truth, truth.value)
        found = _sums(state, value)
        if type(problem.structure).__name__ == "EntropyChain":
            found -= _check_entropies(state, problem.structure.chain)
        if (np.abs(found - expected) > _ROUNDING * expected).any():
            raise ValueError("the parts of an example do not sum to their number in an output")
    if problem is not None and problem.cost.of_truth:
        _check_truths_are_best(state, problem.structure)


def _check_truths_are_best(state: Any, structure: Any) -> None:
    """Refuse distributions over classes under which another prediction has a smaller loss."""
    k = structure.n_classes
    losses = structure.loss.dense(k)
    for places, owner in entries_in_use(state.start, state.count):
        if not len(owner):
            continue
        first = int(owner[0])
        n = int(owner[-1]) - first + 1
        mu = np.zeros((n, k))
        index = state.index[places] if len(state.index) else np.tile(np.arange(k), n)
        mu[owner - first, index] = state.value[places]
        expected = mu @ losses.T
        true = expected[np.arange(n), structure.truth[first : first + n]]
        if (true > expected.min(axis=1) + _ROUNDING).any():
            raise ValueError("the true class is not the best prediction under the marginals")


def _check_entropies(state: Any, chain: Any) -> np.ndarray:
    """The last number of each block, which bounds an entropy."""
    entropies = state.value[state.start + state.count - 1]
    most = np.diff(chain.indptr) * np.log(chain.n_labels)
    if (entropies > most + _ROUNDING).any():
        raise ValueError("the entropy of a block is larger than that of any distribution")
    return entropies


def _sums(pool: Any, values: np.ndarray) -> np.ndarray:
    """The sum of the entries of each example."""
    sums = np.zeros(len(pool.start))
    for places, owner in entries_in_use(pool.start, pool.count):
        first = int(owner[0]) if len(owner) else 0
        found = np.bincount(owner - first, values[places])
        sums[first : first + len(found)] += found
    return sums


def _check_atoms(state: Any, problem: Any) -> None:
    n = _check_pool_arrays(state, None if problem is None else problem.n_examples, 2)
    check_array("labels_start", state.labels_start, np.int64, (n,))
    weight = check_array("weight", state.weight, np.float64, (None,))
    labels = check_array("labels", state.labels, np.int32, (None,))
    used, used_labels = (int(k) for k in state.used)
    check_pool("the outputs", state.start, state.count, state.room, used, len(weight))
    for places, _ in entries_in_use(state.start, state.count):
        _check_mass("weight", weight[places])
    if (np.abs(_sums(state, weight) - 1.0) > _ROUNDING).any():
        raise ValueError("the weights of the outputs of an example must sum to 1")
    if problem is None:
        return
    lengths, bounds = _labels_of(problem)
    room, count = state.room * lengths, state.count * lengths
    check_pool("the labels", state.labels_start, count, room, used_labels, len(labels))
    low = -1 if type(problem.structure).__name__ == "Multilabel" else 0  # hidden
    for places, owner in entries_in_use(state.labels_start, count):
        check_within("labels", labels[places], low, bounds[owner])


def _check_flows(state: Any, problem: Any) -> None:
    n, n_labels = None, None
    if problem is not None:
        n, n_labels = len(problem.structure.truth), problem.structure.n_labels
    n = _check_pool_arrays(state, n, 1)
    mass = check_array("mass", state.mass, np.float64, (None,))
    check_array("edge", state.edge, np.int32, (len(mass),))
    n_labels = check_array("predictions", state.predictions, np.float64, (n, n_labels)).shape[1]
    _check_mass("predictions", state.predictions.ravel())
    check_pool("the flows", state.start, state.count, state.room, int(state.used[0]), len(mass))
    for places, _ in entries_in_use(state.start, state.count):
        _check_mass("mass", mass[places])
        check_within("edge", state.edge[places], 0, n_labels**2)
    for name, sums in (("mass", _sums(state, mass)), ("predictions", state.predictions.sum(1))):
        if (np.abs(sums - 1.0) > _ROUNDING).any():
            raise ValueError(f"{name} of a position must sum to 1")


def _check_beliefs(state: Any, problem: Any) -> None:
    states = messages = None
    if problem is not None:
        states = int(problem.graphs.first_state[-1])
        messages = int(problem.graphs.first_message[-1])
    check_array("variables", state.variables, np.float64, (states,))
    check_array("tables", state.tables, np.float64, (None,))  # short or long: the solver looks
    check_array("implied", state.implied, np.float64, (messages,))
    check_array("eta", state.eta, np.float64, (messages,))
    check_finite_array("eta", state.eta)
    masses = {"variables": state.variables, "tables": state.tables, "implied": state.implied}
    for name, values in masses.items():
        _check_mass(name, values)
        if len(values) and values.max() > 1.0 + _ROUNDING:
            raise ValueError(f"{name} must be at most 1; received {values.max()}")


def _check_pair_marginals(state: Any, problem: Any) -> None:
    n, k = (None, None) if problem is None else problem.truth.reshape(problem.n_examples, -1).shape
    n, k = check_array("labels", state.labels, np.float64, (n, k)).shape
    check_array("pairs", state.pairs, np.float64, (n, k * (k - 1) // 2))
    check_array("vertices", state.vertices, np.int8, (n, k))
    check_within("vertices", state.vertices, 0, 3)
    first, second = np.triu_indices(k, 1)
    left, right = state.labels[:, first], state.labels[:, second]
    for name, values in (("labels", state.labels), ("1 - labels", 1.0 - state.labels),
                         ("pairs", state.pairs), ("labels - pairs", left - state.pairs),
                         ("labels - pairs", right - state.pairs),
                         ("1 - labels + pairs", 1.0 - left - right + state.pairs)):  # fmt: skip
        _check_mass(name, values)


def _check_means(state: Any, problem: Any) -> None:
    n = None if problem is None else problem.n_examples
    losses = check_array("losses", state.losses, np.float64, (n,))
    width = None if problem is None else problem.n_weights
    check_array("features", state.features, np.float64, (len(losses), width))
    check_finite_array("features", state.features)
    _check_mass("losses", losses)


def _check_working_set(state: Any, problem: Any) -> None:
    n, width = (None, None) if problem is None else (problem.n_examples, problem.oracle.width)
    shape = check_array("indices", state.indices, np.int32, (n, None, width)).shape
    check_array("values", state.values, np.float64, shape)
    check_array("counts", state.counts, np.int32, shape[:2])
    check_array("used", state.used, np.int32, shape[:1])
    check_within("indices", state.indices, 0, _NO_LIMIT if problem is None else problem.n_weights)
    check_within("counts", state.counts, 0, shape[2] + 1)
    check_within("used", state.used, 0, shape[1] + 1)
    check_finite_array("values", state.values)
    for name in ("losses", "factors", "mass"):
        _check_mass(name, check_array(name, state._asdict()[name], np.float64, shape[:2]))
    if (state.mass.sum(axis=1) > 1.0 + _ROUNDING).any():
        raise ValueError("the mass of the structures of an example must be at most 1")
    behind = np.arange(shape[1]) >= state.used[:, None]
    if state.mass[behind].any():
        raise ValueError("structures that are not in use have mass")


def _check_parts(state: Any, problem: Any) -> None:
    """Dual points of parts; each part checks its own when it starts from it."""
    if type(state.parts) is not tuple:
        raise ValueError("the dual points of parts must be a tuple")
    for part in state.parts:
        check_dual(part)


def _check_weights(state: np.ndarray, problem: Any) -> None:
    check_array("weights", state, np.float64, (None if problem is None else problem.n_weights,))
    check_finite_array("weights", state)


_NO_LIMIT = np.iinfo(np.int32).max
_CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "Blocks": _check_blocks,
    "Atoms": _check_atoms,
    "Flows": _check_flows,
    "Beliefs": _check_beliefs,
    "PairMarginals": _check_pair_marginals,
    "MeanBlocks": _check_means,
    "WorkingSet": _check_working_set,
    "PartitionedDual": _check_parts,
    "ndarray": _check_weights,
}


def _block_sizes(problem: Any) -> np.ndarray:
    from ._kernels.passes import block_sizes

    return block_sizes(problem.structure)


def _labels_of(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """Number of labels of an output of each example, and what each label must be below."""
    structure = problem.structure
    fresh = problem.start_atoms()  # capacity for two outputs per example, one after another
    ends = np.append(fresh.labels_start[1:], fresh.used[1])
    lengths = (ends - fresh.labels_start) // np.maximum(fresh.room, 1)
    kind = type(structure).__name__
    if kind in ("Chain", "EntropyChain"):
        chain = structure.chain if kind == "EntropyChain" else structure
        return lengths, np.full(len(lengths), chain.n_labels)
    sizes = _block_sizes(problem)
    return lengths, sizes if kind == "Subset" else sizes // np.maximum(lengths, 1)
