"""Choose the solver for a name and a problem; "auto" is the fastest one in benchmarks.

The choice depends on the surrogate, the traits of the structure, whether weights are coefficients
of a kernel, and sizes (see :class:`~maxmargin.solvers.outline.Outline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any

from sklearn.base import clone

from .._validation import is_text
from ..features.rows import FeatureRows
from ..graphs.soft import SoftAgreement
from ..graphs.vertices import VertexFrankWolfe, label_curvature
from .acceleration import Accelerated
from .averaging import Averaged
from .base import Solver
from .checked import Checked
from .corrective import Corrective
from .flow import Flow
from .frank_wolfe import BlockFrankWolfe
from .interior import Interior
from .lbfgs import LBFGS
from .partitions import Partitioned, PartitionedAscent, PartitionedGradients
from .subgradient import Subgradient

# Rounds over the variables and factors of a graph in a visit; where pairs share weights, more.
_ROUNDS, _TIED_ROUNDS = 2, 4
# Curvature of a label up to which steps towards vertices are faster than soft agreement. To 1 %
# with its certificate: yeast at alpha = 0.001 (0.67) 0.92 and 0.93 s, scene 0.55 and 0.30 s.
_VERTEX_CURVATURE = 1.0
# Weights of the iterates in averages: of steps, and of rounds.
_STEP_POWER, _ROUND_POWER = 3.0, 8.0
# The same of rounds of parts, whose iterates swing more.
_PARTS_POWER = 3.0
# Tolerance below which a few Newton steps are faster than many passes.
_NEWTON_TOL = 1e-3
# The same for joint corrections of all mixtures of trees.
_CORRECTED_TOL = 1e-4
# Flows of sequences are faster for tolerances below the first, strengths ``alpha n`` below the
# second, a share of the mean squared norm of an example, and up to as many examples. On 3000
# sentences of CoNLL-2000 to a gap of 0.1 %, flows against pairwise steps take 7 s and 4 s at the
# default strength (a fifth), 11 s each at a tenth of it, 13 s and 46 s at a fortieth; on all 8936
# at a hundredth 156 s and 47 s.
_FLOW_TOL, _FLOW_STRENGTH, _FLOW_EXAMPLES = 5e-3, 0.01, 5000
# Up to this larger tolerance they are faster if the strength times the number of examples is below
# the second number, and up to as many examples. To 1 %, 1000 sentences at a tenth of the default
# strength (product 1.6): 1.6 s and 2.7 s; 2000 (3.2): 3.2 and 4.4 s; 3000 (4.7): 7.5 and 6.1 s, at
# a thirtieth (1.4): 7.7 and 12.9 s; 4500 at a thirtieth (2.1): 18.5 and 15.7 s. Tags of 1500
# sentences of EWT (2.7): 1.8 and 5.4 s; of 3500 at a thirtieth (2.5): 5.1 and 10.7 s.
_LOOSE_FLOW_TOL, _LOOSE_FLOW_PRODUCT, _LOOSE_FLOW_EXAMPLES = 0.02, 4.0, 4000
# Strength of a CRF of sequences, in the same unit, above which plain steps are faster than L-BFGS.
# Handwritten words to 1 %, 6251 and 626 of them: at 0.0044 2.7 and 5.0 s, 0.21 and 0.26 s; at half
# of it 4.9 and 6.1 s, 0.35 and 0.38 s; at a quarter 8.3 and 7.7 s, 0.58 and 0.44 s.
_BLOCK_STRENGTH = 0.002
# Only with many weights: a round of an acceleration reads far more weights than the examples have.
_MANY_WEIGHTS = 1 << 16
# Number of parts for threads, and the number of examples from which they are faster.
_PARTITIONS, _FEWEST_IN_PARTS = 2, 1000


def choose(problem: Any) -> Solver:
    """The solver that was fastest in benchmarks for such a problem."""
    if problem.traits.graph:
        return _by_vertices(problem) or _soft(problem)
    if problem.cost.smooth:
        by_gradients = _by_gradients(problem) and not _suits_blocks(problem)
        return LBFGS() if by_gradients else _plain(problem)
    if problem.no_oracle:
        return _flow(problem)
    if _suits_flow(problem):
        return _flow(problem)
    if problem.from_scratch and problem.tolerance < _NEWTON_TOL and not Interior().missing(problem):
        return Interior()
    if problem.from_scratch and problem.tolerance < _CORRECTED_TOL:
        corrective = Corrective(_accelerated(problem))
        if not corrective.missing(problem):
            return corrective
    # Acceleration changes all weights in every round: too many where features are hashed, unless
    # the oracle of max-min takes even longer.
    if not (problem.hashes_features and problem.cost.linear):
        return _accelerated(problem)
    # On 300 sentences of EWT this has a gap of 1 % after 42 s; "bcfw" has 7.7 % after 21 s.
    return _revisiting(problem) if problem.traits.revisits else _plain(problem)


def _by_gradients(problem: Any) -> bool:
    """Whether L-BFGS is the faster solver of a smooth problem in threads or parts."""
    hidden = problem.clamped is not None and not problem.in_kernel_space
    return bool(problem.cost.smooth and (problem.no_oracle or hidden or problem.suits_gradients))


def _suits_blocks(problem: Any) -> bool:
    """Whether steps of blocks train a CRF of sequences faster than L-BFGS in one thread."""
    known = problem.n_weights > 0 and problem.traits.entropy_apart and problem.cost.likelihood
    if not known or problem.clamped is not None or not problem.dual_fits:
        return False
    strength = problem.alpha * problem.total_weight
    return strength > _BLOCK_STRENGTH * problem.mean_square()


def _suits_flow(problem: Any) -> bool:
    known = problem.n_weights > _MANY_WEIGHTS and not problem.in_kernel_space
    if not known or problem.tolerance >= _LOOSE_FLOW_TOL or Flow().missing(problem):
        return False
    most, limit = _FLOW_EXAMPLES, _FLOW_STRENGTH
    if problem.tolerance >= _FLOW_TOL:
        most = _LOOSE_FLOW_EXAMPLES
        limit = min(limit, _LOOSE_FLOW_PRODUCT / problem.n_examples)
    strength = problem.alpha * problem.total_weight
    return problem.n_examples <= most and strength < limit * problem.mean_square()


def _averaged(solver: Solver, problem: Any) -> Solver:
    """Add an average, except with a kernel: it would keep every row ever used, and gains little."""
    return solver if problem.in_kernel_space else Averaged(solver, _ROUND_POWER)


def _accelerated(problem: Any) -> Solver:
    # Where a block has an exact maximum, steps between outputs have no use.
    pairwise = problem.has_outputs and not problem.traits.exact_blocks
    steps = "pairwise" if pairwise else "plain"
    return _averaged(Accelerated(BlockFrankWolfe(problem.order, steps)), problem)


def _flow(problem: Any) -> Solver:
    return _averaged(Accelerated(Flow(problem.order)), problem)


def _plain(problem: Any, steps: str = "plain") -> Solver:
    power = None if problem.in_kernel_space else _STEP_POWER
    return BlockFrankWolfe(problem.order, steps, step_average=power)


def _revisiting(problem: Any) -> Solver:
    return _averaged(BlockFrankWolfe(problem.order, "pairwise"), problem)


def _soft(problem: Any) -> Solver:
    power = None if problem.in_kernel_space else _STEP_POWER
    rounds = _TIED_ROUNDS if problem.tied_pairs else _ROUNDS
    return Accelerated(SoftAgreement(rounds=rounds, order=problem.order, average=power))


def _by_vertices(problem: Any) -> Solver | None:
    """Steps towards vertices where one weight per pair joins all labels of a set."""
    found = Accelerated(VertexFrankWolfe(average=_STEP_POWER))
    suits = problem.both_on_pairs and not found.missing(problem)
    return found if suits and label_curvature(problem) <= _VERTEX_CURVATURE else None


def choose_for_parts(problem: Any) -> Solver:
    """The same among the solvers that can train in parts; always accelerated, as parts need it."""
    if not problem.traits.graph and _by_gradients(problem):
        return LBFGS()
    found = _soft(problem) if problem.traits.graph else choose(problem)
    if not (found.sums_gradients or found.accelerated):
        found = _accelerated(problem)
    return found.set_params(power=_PARTS_POWER) if isinstance(found, Averaged) else found


def partitions_for(problem: Any) -> int:
    """Default number of parts for several threads; depends on the data only.

    With sparse features two parts need more than twice the passes of one, as measured, and L-BFGS
    uses threads within its passes.
    """
    if not _has_dense_rows(problem) or problem.n_examples < _FEWEST_IN_PARTS:
        return 1
    return 1 if choose(problem).sums_gradients else _PARTITIONS


def batch_for(problem: Any) -> int:
    """Default number of examples that several threads visit together; depends on the data only.

    With dense features all examples of a batch move the same weights: parts are faster there.
    """
    if _has_dense_rows(problem) or problem.n_examples < _FEWEST_IN_PARTS:
        return 1
    innermost = list(_layers(choose(problem)))[-1]
    return problem.traits.batch if innermost.visits_in_batches(problem) else 1


def _has_dense_rows(problem: Any) -> bool:
    rows = None if problem.in_python or problem.in_kernel_space else problem.rows
    return isinstance(rows, FeatureRows) and rows.is_dense


def _layers(solver: Any) -> Iterator[Solver]:
    """A solver and those within it, down to the innermost one or a name."""
    while solver is not None and not is_text(solver):
        yield solver
        solver = solver.inner


def asks_for_parts(solver: Any) -> bool:
    """Whether a solver trains in several parts."""
    return any(layer.partitioned and layer.n_partitions != 1 for layer in _layers(solver))


def in_parts(solver: Any, n_parts: int) -> Any:
    """A solver in parts, unless it is partitioned itself."""
    layers = list(_layers(solver))
    if any(layer.partitioned for layer in layers):
        return solver
    if layers and layers[0].check_every is not None:  # Checked stays outermost
        return clone(solver).set_params(solver=in_parts(solver.inner, n_parts))
    return Partitioned(solver, n_parts)


def for_threads(solver: Any, problem: Any) -> Any:
    """A solver for several threads: a name that leaves the choice open is in parts where that is
    faster, or the problem is prepared for visits of batches."""
    if not is_text(solver):
        return solver
    by_choice = solver in ("auto", "accelerated")
    if solver == "auto" and not problem.traits.graph and _by_gradients(problem):
        return LBFGS()  # its passes use all threads
    problem.batch = batch_for(problem) if by_choice else 1
    return in_parts(solver, partitions_for(problem) if by_choice else 1)


def _cut(solver: Solver, n_parts: int, passes: int) -> Solver:
    """The solver with its innermost one in parts; averages within it become outermost."""
    power = None
    *wrappers, solver = _layers(solver)
    if solver.sums_gradients:
        return PartitionedGradients(n_parts)
    name = _OWN_AVERAGES.get(type(solver))
    if name is not None:
        power = solver.get_params(deep=False)[name]
        solver = clone(solver)
        if type(solver) is BlockFrankWolfe:
            solver.set_params(step_average=None)
    found: Solver = PartitionedAscent(solver, n_parts, passes)
    for wrapper in reversed(wrappers):
        found = clone(wrapper).set_params(solver=found)
    averaged = any(isinstance(wrapper, Averaged) for wrapper in wrappers)
    return found if power is None or averaged else Averaged(found, power)


_OWN_AVERAGES: dict[type, str] = {BlockFrankWolfe: "step_average", SoftAgreement: "average"}
_MEANINGS: dict[str, Callable[[Any], Solver]] = {
    "auto": choose,
    "accelerated": _accelerated,
    "bcfw": _plain,
    "pairwise": lambda problem: _plain(problem, "pairwise"),
    "flow": _flow,
    "subgradient": lambda problem: Subgradient(),
    "lbfgs": lambda problem: LBFGS(),
    "soft": _soft,
}


@singledispatch
def make_solver(solver: Any, problem: Any) -> Solver:
    """The solver for a problem that a name or a value stands for; also for names within wrappers.

    A wrapper around a name replaces the wrapper of the same kind of that solver:
    ``Averaged("auto", power=2)`` has one average.
    """
    layers = list(_layers(solver))[1:]
    if solver.inner is None:
        return clone(solver)
    checked = next((layer for layer in layers if layer.check_every is not None), None)
    if checked is not None:
        raise ValueError(
            f"Checked goes around all other wrappers: write Checked({type(solver).__name__}(...), "
            f"every={checked.check_every!r}); received {solver!r}."
        )
    found = make_solver(solver.inner, problem)
    if all(layer.partitioned for layer in layers):  # a name, in parts or not
        found = _without(found, type(solver))
    return clone(solver).set_params(solver=found)


@make_solver.register
def _by_name(solver: str, problem: Any) -> Solver:
    return _MEANINGS[solver](problem)


@make_solver.register
def _checked(solver: Checked, problem: Any) -> Solver:
    return make_solver(solver.solver, problem)


@make_solver.register
def _partitioned(given: Partitioned, problem: Any) -> Solver:
    """The solver for :class:`Partitioned`: parts within all wrappers."""
    alone = given.n_partitions == 1
    if alone and problem.engine is None:
        return make_solver(given.solver, problem)
    one = ("auto",) if _by_gradients(problem) else ()
    by_choice = is_text(given.solver) and given.solver in (one if alone else ("auto", "bcfw"))
    found = choose_for_parts(problem) if by_choice else make_solver(given.solver, problem)
    return _cut(found, int(given.n_partitions), int(given.local_passes))


def _without(solver: Solver, kind: type) -> Solver:
    """A solver without its wrapper of a kind, if it has one."""
    wrappers = [layer for layer in _layers(solver) if type(layer) is kind]
    return wrappers[0].inner if wrappers else solver


def refuse_missing(given: Solver | str, problem: Any, owner: str) -> Solver:
    """The solver for a problem; raises ValueError if the problem lacks what it needs.

    Parameters
    ----------
    given : Solver or str
        As the user wrote it.
    problem : Outline
        A problem, or what is known of it before its data are read.
    owner : str
        The estimator, for errors.
    """
    surrogate = problem.cost.name
    if surrogate in problem.traits.refuses:
        raise ValueError(
            f"surrogate={surrogate!r} is not available for {problem.traits.refuses[surrogate]}"
        )
    solver = make_solver(given, problem)
    missing = solver.missing(problem)
    if missing:
        space = ", a kernel" if problem.in_kernel_space else ""
        raise ValueError(
            f"solver={given!r} does not go with this {owner}: it needs {' and '.join(missing)}; "
            f"received surrogate={surrogate!r}{space}."
        )
    return solver
