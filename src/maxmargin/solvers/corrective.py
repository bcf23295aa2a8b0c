"""Max-min over trees by mixtures of stored trees, all optimised together.

Trees are stored for both players of every sentence. With these, the dual is a quadratic program
over mixtures (:mod:`._corrective_program`), which an interior-point method solves accurately; at
the resulting weights, the double oracle adds the trees of the saddle point of every sentence, and
trees that neither player uses are removed. So that weights stay where the stored trees describe the
objective well, the program has a proximal term around the best weights so far,

    P(w) + inertia * alpha / 2 |w - centre|^2,    w = (w(mu) + inertia * centre) / (1 + inertia),

with less inertia after every improvement and more otherwise. Where the gap of block-coordinate
steps decreases like one over the number of passes, this reaches any tolerance in some tens of
rounds; but the first rounds need weights near the optimum, which another solver finds.

References
----------
Holloway. An extension of the Frank and Wolfe method of feasible directions. Mathematical
Programming, 1974.
Lemaréchal, Nemirovskii, Nesterov. New variants of bundle methods. Mathematical Programming, 1995.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._kernels.arborescence import best_trees
from .._kernels.blocks import Blocks, whole_blocks
from .._kernels.passes import block_sizes, make_scratch
from .._validation import check_integer, check_number
from ..oracles.values import DoubleOracle
from ..structures.arborescence import MOST_TREES
from ..structures.arborescence_max_min import saddle_trees, tree_features
from ._corrective_program import Point, Program, solve_program
from .base import Solver, check_inner

# Largest number of stored trees per player: the marginals of a sentence can need hundreds.
KNOWN_TREES = 512
# Largest number of words of a sentence, and of numbers to store the trees of all sentences.
_MOST_WORDS = 40
_MOST_NUMBERS = 1 << 25
# Inertia at the start, its factors after better and after other weights, and its bounds.
_INERTIA, _LESS, _MORE = 20.0, 0.5, 1.5
_LEAST, _MOST = 1e-3, 1e3
# Least weight of an example within the program, in units of the largest.
_LEAST_COST = 1e-9
# Accuracy of the program, as a share of the gap.
_SHARE = 1e-6
# Slack of a row, in units of the largest loss, up to which it is kept.
_TIGHT = 1e-2
# Singular values below this share of the largest are zeros: the matrices hold zeros and ones.
_DEPENDENT = 1e-9
# Consecutive rounds without a smaller gap after which the first solver continues alone.
_PATIENCE = 30


class CorrectiveState(NamedTuple):
    """``inner`` finds the first weights. From then on ``trees`` are those stored for both players,
    ``shares`` the mixtures of mu; ``point`` are the weights of the last program."""

    inner: Any
    trees: np.ndarray  # (n, 2, KNOWN_TREES, longest): heads, first those of mu
    tree_counts: np.ndarray  # (n, 2)
    shares: np.ndarray  # (n, KNOWN_TREES)
    point: np.ndarray
    centre: np.ndarray  # the best weights so far
    inertia: float  # 0 as long as ``inner`` is used
    lowest: float  # primal value at the centre
    guess: float  # estimate of the gap
    calls: int
    idle: int = 0  # rounds without a smaller gap

    @property
    def weights(self) -> np.ndarray:
        return self.point if self.inertia > 0.0 else self.inner.weights

    @property
    def dual(self) -> Any:
        return self.inner.dual

    @property
    def pending(self) -> np.ndarray:
        return np.empty(0, np.int64) if self.inertia > 0.0 else self.inner.pending


class Corrective(Solver):
    """Mixtures of stored trees for max-min, optimised together; see the module.

    Parameters
    ----------
    solver : Solver or str, default="accelerated"
        Finds the first weights.
    switch : float, default=0.01
        Relative gap of that solver at which the corrections begin.
    most_trees : int, default=2000
        Largest number of trees in the mixtures of all sentences: the program has a matrix with the
        square of their number of entries.

    Notes
    -----
    A round of corrections counts as a pass. If the sentences need more than ``most_trees``, or the
    corrections do not reduce the gap, ``solver`` continues alone. The dual point from which a later
    fit can start is that of ``solver``.
    """

    def __init__(self, solver: Any = "accelerated", switch: float = 1e-2, most_trees: int = 2000):
        self.solver = solver
        self.switch = switch
        self.most_trees = most_trees

    def validate(self):
        check_inner(self.solver)
        check_number("switch", self.switch, at_least=0)
        check_integer("most_trees", self.most_trees, 1)

    def missing(self, problem):
        trees = problem.cost.name == "max-min" and problem.traits.saddle == "trees"
        if not trees or problem.in_kernel_space:
            return ["trees with surrogate='max-min'"]
        if problem.n_weights and not fits(problem):
            return [f"sentences of at most {_MOST_WORDS} words, and not too many"]
        return self.solver.missing(problem)

    def init(self, problem, start, rng):
        n, longest = problem.n_examples, problem.structure.longest
        nothing = np.zeros(problem.n_weights)
        return CorrectiveState(
            self.solver.init(problem, start, rng),
            np.zeros((n, 2, KNOWN_TREES, longest), np.int32),
            np.zeros((n, 2), np.int64),
            np.zeros((n, KNOWN_TREES)),
            nothing, nothing.copy(), 0.0, np.inf, np.inf, 0,
        )  # fmt: skip

    def advance(self, problem, state, steps):
        if state.inertia == 0.0:
            inner = self.solver.advance(problem, state.inner, steps)
            return state._replace(inner=inner, calls=state.calls + inner.calls - state.inner.calls)
        _learn_trees(problem, state)
        if state.idle >= _PATIENCE or state.tree_counts[:, 0].sum() > self.most_trees:
            return state._replace(inertia=0.0, idle=_PATIENCE)
        program = _program(problem, state)
        accuracy = max(_SHARE * state.guess, 1e-12 * state.lowest)
        found = solve_program(program, accuracy)
        _keep_trees(program, found, state)
        blocks = _blocks(problem, state)
        bare = problem.weights_of(blocks)
        point = (bare + state.inertia * state.centre) / (1.0 + state.inertia)
        values = problem.evaluate(point, blocks, None, bare, DoubleOracle().init(problem))
        calls = state.calls + problem.n_examples
        better = values.primal < state.lowest
        inertia = min(_MOST, max(_LEAST, (_LESS if better else _MORE) * state.inertia))
        lowest = min(values.primal, state.lowest)
        guess = max(lowest - values.dual, 0.0)
        smaller = guess < state.guess or better
        return state._replace(
            point=point, centre=point.copy() if better else state.centre, inertia=inertia,
            lowest=float(lowest), guess=float(min(guess, state.guess)), calls=calls,
            idle=0 if smaller else state.idle + 1,
        )  # fmt: skip

    def check(self, problem, state, at=None, dual_weights=None):
        if state.inertia > 0.0:
            blocks = _blocks(problem, state)
            oracle, bare = DoubleOracle().init(problem), problem.weights_of(blocks)
            return state, [
                (state.centre, problem.evaluate(state.centre, blocks, None, bare, oracle))
            ]
        inner, candidates = self.solver.check(problem, state.inner, at, dual_weights)
        state = state._replace(inner=inner)
        weights, found = min(candidates, key=lambda candidate: candidate[1].primal)
        gap = found.primal - max(known.dual for _, known in candidates)
        if gap <= self.switch * abs(found.primal) and state.idle < _PATIENCE:
            state = state._replace(
                point=weights.copy(), centre=weights.copy(), inertia=_INERTIA,
                lowest=float(found.primal), guess=float(gap),
            )  # fmt: skip
        return state, candidates

    def estimate(self, problem, state, apart=0.0):
        """The estimated gap after the last program."""
        if state.inertia > 0.0:
            return state.guess
        return self.solver.estimate(problem, state.inner, apart)

    def adapted(self, problem):
        return self.solver.adapted(problem)

    def refreshed(self, problem, state):
        if state.inertia > 0.0:
            return state
        inner = self.solver.refreshed(problem, state.inner)
        return state if inner is state.inner else state._replace(inner=inner)


def fits(problem: Any) -> bool:
    """Whether a problem is small enough."""
    longest = problem.structure.longest
    numbers = 2 * KNOWN_TREES * longest * problem.n_examples
    return bool(numbers <= _MOST_NUMBERS and longest <= _MOST_WORDS)


def _learn_trees(problem: Any, state: CorrectiveState) -> None:
    """Add the trees of the saddle points under the present weights, as far as there is space."""
    structure = problem.structure
    n, counts = problem.n_examples, np.zeros_like(state.tree_counts)
    trees = np.zeros((n, 2, MOST_TREES, structure.longest), np.int32)
    oracle = DoubleOracle().init(problem)
    saddle_trees(
        structure, problem.rows, state.weights, (oracle.iterations, oracle.accuracy), trees, counts,
        make_scratch(structure, problem.rows),
    )  # fmt: skip
    replies = _replies(problem, state)
    for i in range(n):
        for player in range(2):
            found = trees[i, player, : counts[i, player]]
            if player == 1:
                found = np.concatenate([found, replies[i : i + 1]])
            known = {
                tree.tobytes() for tree in state.trees[i, player, : state.tree_counts[i, player]]
            }
            for tree in found:
                if tree.tobytes() not in known and state.tree_counts[i, player] < KNOWN_TREES:
                    state.trees[i, player, state.tree_counts[i, player]] = tree
                    state.tree_counts[i, player] += 1
                    known.add(tree.tobytes())


def _replies(problem: Any, state: CorrectiveState) -> np.ndarray:
    """The best tree of the other player against the mixture of each sentence.

    Where a saddle point is not unique, that of the oracle may not have it.
    """
    structure = problem.structure
    words = np.diff(structure.indptr)
    scores = _blocks(problem, state).value * np.repeat(structure.costs, np.repeat(words + 1, words))
    if len(structure.allowed):
        scores[~structure.allowed] = -np.inf
    heads, values = np.empty(len(structure.costs), np.int32), np.empty(len(words))
    best_trees(scores, structure.indptr, structure.single_root, heads, values)
    found = np.zeros((len(words), structure.longest), np.int32)
    found[np.arange(structure.longest) < words[:, None]] = heads
    return found


def _program(problem: Any, state: CorrectiveState) -> Program:
    structure, scale = problem.structure, 1.0 + state.inertia
    counts = state.tree_counts
    most_columns, most_rows = int(counts[:, 0].max()), int(counts[:, 1].max())
    columns = np.arange(most_columns) < counts[:, :1]
    rows = np.arange(most_rows) < counts[:, 1:]
    losses = np.zeros((problem.n_examples, most_rows, most_columns))
    for i in range(problem.n_examples):
        low, high = structure.indptr[i], structure.indptr[i + 1]
        mu, nu = (state.trees[i, p, : counts[i, p], : high - low] for p in range(2))
        differ = nu[:, None, :] != mu[None, :, :]
        losses[i, : counts[i, 1], : counts[i, 0]] = differ @ structure.costs[low:high]
    costs = problem.sample_weight / problem.total_weight
    positive = np.maximum(costs, _LEAST_COST * costs.max())
    features = _features(problem, state, columns, costs)
    linear = np.zeros(columns.shape)
    linear[columns] = features @ state.centre * (state.inertia / scale)
    features = features / np.sqrt(problem.alpha * scale)
    others = columns.copy()
    others[:, 0] = False
    first = np.repeat(np.cumsum(counts[:, 0]) - counts[:, 0], counts[:, 0] - 1)
    relative = features[others[columns]] - features[first]
    gram = (relative @ relative.T).toarray()
    return Program(gram, features, linear, losses, columns, rows, positive)


def _features(problem: Any, state: CorrectiveState, columns: np.ndarray, costs: np.ndarray) -> Any:
    """``cost_i Phi(x_i) (phi(y_i) - phi(tree))`` of all columns, one per row."""
    total = np.zeros(problem.n_weights)
    direction = np.empty(int(block_sizes(problem.structure).max()))
    indices, values = [], []
    for i, a in zip(*np.nonzero(columns), strict=True):
        tree_features(problem.structure, problem.rows, i, state.trees[i, 0, a], direction, total)
        found = np.flatnonzero(total)
        indices.append(found)
        values.append(costs[i] * total[found])
        total[found] = 0.0
    indptr = np.concatenate([[0], np.cumsum([len(found) for found in indices])])
    shape = (len(indices), problem.n_weights)
    return sparse.csr_array((np.concatenate(values), np.concatenate(indices), indptr), shape=shape)


def _keep_trees(program: Program, found: Point, state: CorrectiveState) -> None:
    """Write the mixtures, without the trees that neither player uses."""
    unit = program.costs[:, None]
    used_columns = program.columns & (found.x > found.z / unit)
    # Rows that are nearly tight stay, whatever their multiplier: without them the next mixture
    # would have another best reply, and the bound would not rise.
    tight = found.slack <= _TIGHT * float(program.losses.max())
    used_rows = program.rows & ((found.nu > found.slack * unit) | tight)
    state.shares[:] = 0.0
    for i in range(len(unit)):
        for player, used, mass in (
            (0, used_columns[i], found.x[i]),
            (1, used_rows[i], found.nu[i]),
        ):
            used = used if used.any() else mass == mass.max()
            if player == 0:
                mass = _fewest(state.trees[i, 0, : len(mass)], np.where(used, mass, 0.0))
                used = mass > 0.0
            # The largest first: the program subtracts it from the others.
            places = np.flatnonzero(used)
            places = places[np.argsort(-mass[places], kind="stable")]
            state.trees[i, player, : len(places)] = state.trees[i, player, places]
            state.tree_counts[i, player] = len(places)
            if player == 0:
                state.shares[i, : len(places)] = mass[places] / mass[places].sum()


def _fewest(trees: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Shares of a few of the trees with the same marginals: Carathéodory's theorem.

    An interior-point method gives all trees of the optimal face a share, so that without this
    there would be more of them after every round.
    """
    mass, left = mass.copy(), np.flatnonzero(mass)
    words = np.arange(trees.shape[1])
    heads = np.zeros((len(left), len(words), int(trees.max(initial=0)) + 1))
    heads[np.arange(len(left))[:, None], words, trees[left]] = 1.0
    arcs = heads.reshape(len(left), -1)
    _, sizes, directions = np.linalg.svd(arcs[:, arcs.any(axis=0)].T)
    # No marginal changes along these.
    still = directions[int((sizes > _DEPENDENT * sizes[0]).sum()) :]
    while len(still):
        # The shares along it sum to zero, so some decrease, until the first of them is zero.
        direction = still[0] / np.abs(still[0]).max()
        falls = np.flatnonzero(direction > _DEPENDENT)
        ratios = mass[left[falls]] / direction[falls]
        empty = falls[np.argmin(ratios)]
        mass[left] = np.maximum(mass[left] - ratios.min() * direction, 0.0)
        mass[left[empty]] = 0.0
        # The others, such that this share stays zero.
        pivot = int(np.argmax(np.abs(still[:, empty])))
        still = still - np.outer(still[:, empty] / still[pivot, empty], still[pivot])
        still = np.delete(still, pivot, axis=0)
        still[:, empty] = 0.0
    return mass


def _blocks(problem: Any, state: CorrectiveState) -> Blocks:
    """The dual point of the mixtures."""
    structure = problem.structure
    blocks = whole_blocks(block_sizes(structure))
    blocks.value[:] = 0.0
    for i in range(problem.n_examples):
        m = int(structure.indptr[i + 1] - structure.indptr[i])
        for a in range(state.tree_counts[i, 0]):
            parts = np.arange(m) * (m + 1) + state.trees[i, 0, a, :m]
            blocks.value[blocks.start[i] + parts] += state.shares[i, a]
    return blocks
