"""States of checkpoints: what a solver is to continue from must fit the problem it works on.

A solver that was just made for the problem tells which attributes there are, of which types and
shapes; what may differ from it, and within which limits, is listed here. Kernels trust all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._dual_checks import check_dual
from ._indices import check_array, check_finite_array, check_within
from ._validation import fields_of, is_array, is_float, is_integer, is_number, is_switch, is_text
from ._value_checks import list_of, record
from .solvers.corrective import KNOWN_TREES
from .solvers.problem import NOTHING
from .solvers.result import CONVERGED, FAILED, MAX_ITER, STOPPED

# Integers that grow; all others are settings of the solver.
_COUNTERS = {"calls", "fresh_at", "rounds", "trials", "stale", "looks", "idle"}
# Best values so far: infinite before there are any.
_MAY_BE_INFINITE = {
    "lowest",
    "soft_primal",
    "soft_dual",
    "hard_primal",
    "hard_dual",
    "least_apart",
    "gap",
    "guess",
}
# What a solver computes once from the problem.
_CONSTANTS = {"slots", "constants"}
# Logarithms of what may be forbidden.
_MAY_BE_FORBIDDEN = {"theta", "pairs", "logits"}
_MOST_STEPS = 1 << 53
# How a convex problem of a fit with hidden parts ends, unless it is interrupted.
_ENDINGS = {CONVERGED, FAILED, MAX_ITER, STOPPED}
# What a dual value may be above the primal one, in parts of it.
_ROUNDING = 1e-6


def check_fields(state: Any) -> None:
    """Refuse a state whose fields are of other types; what is in them is checked later."""
    kinds = (tuple, tuple, int, list, float, list)
    for name, value, kind in zip(state._fields, state, kinds, strict=True):
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be a {kind.__name__}; received {type(value).__name__}")


def check_fit_state(state: Any, climb: Any, n_solved: int = 0) -> None:
    """Refuse a state that does not fit a solver at its start, and its problem, after some convex
    problems that are done.

    Raises
    ------
    ValueError
        If anything is missing, of another type or shape, out of range, or contradicts the rest.
    """
    check_fields(state)
    if len(state.solved) != n_solved:
        raise ValueError(f"it has {len(state.solved)} rounds; expected {n_solved}")
    _check_state(state.solver, climb.gathered(), climb.problem)
    _check_apart([state.solver])
    _check_loop(state, climb.problem)


def check_solved(solved: Any, problem: Any) -> None:
    """Refuse what no convex problem of a fit with hidden parts can have ended with."""
    if type(solved).__name__ != "Solved":
        raise ValueError(f"a round must be a Solved; received {type(solved).__name__}")
    _vector("the weights of a round", solved.weights, problem.n_weights)
    for name in ("primal", "dual", "gap", "oracle_error", "passes", "seconds"):
        _check_number(name, solved._asdict()[name])
    _check_count("oracle_calls", solved.oracle_calls)
    least = -_ROUNDING * abs(solved.primal)
    if min(solved.gap, solved.primal - solved.dual) < least or solved.seconds < 0.0:
        raise ValueError(f"a round has the gap {solved.gap}, or took {solved.seconds} seconds")
    if solved.status not in _ENDINGS:
        raise ValueError(f"a round ended as {str(solved.status)[:40]!r}")
    if type(solved.bounds) is not dict or type(solved.rng) is not np.random.RandomState:
        raise ValueError("a round has no bounds, or no random numbers")
    for name, value in solved.bounds.items():
        _check_number(str(name)[:40], value, infinite=True)
    list_of(record("Check"))(solved.checks, {})
    if solved.dual_state is not None:
        check_dual(solved.dual_state, problem)


def _check_state(value: Any, fresh: Any, problem: Any) -> None:
    """A state of a solver has the fields of the one at the start, each in its range."""
    if type(value) is not type(fresh):
        raise ValueError("it was made by another solver, or by another version of it")
    for name, item, known in zip(fresh._fields, value, fresh, strict=True):
        special = _SPECIAL.get(name)
        if name == "inner":
            _check_state(item, known, problem)
        elif special is not None:
            special(item, known, problem)
        else:
            _compare(name, item, known)
    _check_together(value, problem)


def _compare(name: str, value: Any, fresh: Any) -> None:
    """A value has the type and shape of the one that a new solver has, and is in its range."""
    if is_array(fresh):
        check_array(name, value, fresh.dtype, fresh.shape)
        if fresh.dtype.kind == "f":
            check_finite_array(name, value)
        if (fresh.dtype.kind != "f" or name in _CONSTANTS) and not np.array_equal(value, fresh):
            raise ValueError(f"{name} is not that of the problem")
    elif is_switch(fresh) or is_text(fresh) or fresh is None:
        if type(value) is not type(fresh) or value != fresh:
            raise ValueError(f"{name} must be {fresh!r}; received {str(value)[:40]!r}")
    elif is_integer(fresh):
        _check_count(name, value)
        if name not in _COUNTERS and value != fresh:
            raise ValueError(f"{name} must be {fresh}; received {value}")
    elif is_number(fresh):
        _check_number(name, value, name in _MAY_BE_INFINITE)
        if name in _CONSTANTS and value != fresh:
            raise ValueError(f"{name} must be {fresh}; received {value}")
    elif type(value) is not type(fresh):
        raise ValueError(
            f"{name} must be a {type(fresh).__name__}; received {type(value).__name__}"
        )
    elif not isinstance(fresh, np.random.RandomState):  # those are checked when they are read
        names = (name,) * len(fresh) if name in _CONSTANTS else fields_of(fresh)
        for part, item, known in zip(names or (name,) * len(fresh), value, fresh, strict=True):
            _compare(part, item, known)


def _check_count(name: str, value: Any) -> None:
    if not is_integer(value) or not 0 <= int(value) < _MOST_STEPS:
        raise ValueError(f"{name} must be a count; received {str(value)[:40]!r}")


def _check_number(name: str, value: Any, infinite: bool = False) -> None:
    fits = is_float(value)  # an integer may be too large for arithmetic
    if not fits or math.isnan(value) or not (infinite or math.isfinite(value)):
        raise ValueError(f"{name} must be a number; received {str(value)[:40]!r}")


# --- attributes that are not as long as at the start ----------------------------------------


def _vector(name: str, value: Any, *lengths: int) -> None:
    check_array(name, value, np.float64, (None,))
    if len(value) not in lengths:
        raise ValueError(f"{name} must have {lengths[-1]} entries; received {len(value)}")
    check_finite_array(name, value)


def _check_pending(value: Any, fresh: Any, problem: Any) -> None:
    n = problem.n_examples
    check_array("pending", value, np.int64, (None,))
    if len(value) > n:
        raise ValueError(f"pending must have at most {n} entries; received {len(value)}")
    check_within("pending", value, 0, n)


def _check_draws(value: Any, fresh: Any, problem: Any) -> None:
    check_array("draws", value, np.float64, (None,))
    if not ((value >= 0.0) & (value < 1.0)).all():
        raise ValueError("draws must be at least 0 and less than 1")


def _check_tree(value: Any, fresh: Any, problem: Any) -> None:
    """Partial sums, exactly: those of a kernel that added up the same numbers."""
    n = problem.n_examples
    _vector("tree", value, 0, 2 << max(1, int(n - 1).bit_length()))
    half = len(value) // 2
    sums = value[2::2] + value[3::2]
    if (value < 0.0).any() or value[half + n :].any() or (value[1:half] != sums).any():
        raise ValueError("tree does not hold the sums of its leaves")


def _check_mean(value: Any, fresh: Any, problem: Any) -> None:
    """The arrays of an average; :func:`_check_together` compares them with those averaged."""
    if type(value) is not tuple:
        raise ValueError("mean must be a tuple of arrays")
    for array in value:
        check_array("mean", array, np.float64, (None,) * np.ndim(array))
        check_finite_array("mean", array)


def _check_direction(value: Any, fresh: Any, problem: Any) -> None:
    _vector("direction", value, 0, problem.n_weights)


def _check_state_of_dual(value: Any, fresh: Any, problem: Any) -> None:
    if type(value) is not type(fresh):
        raise ValueError(f"the dual state must be {type(fresh).__name__}")
    if fresh is None:
        return
    check_dual(value, problem)
    if type(value).__name__ == "Beliefs":
        check_array("tables", value.tables, np.float64, fresh.tables.shape)


def _check_pairs(value: Any, fresh: Any, problem: Any) -> None:
    n = problem.n_weights
    if type(value) is not tuple or len(value) > _MOST_PAIRS:
        raise ValueError(f"pairs must be at most {_MOST_PAIRS} pairs")
    for step, change, inverse in value:
        _vector("pairs", step, n)
        _vector("pairs", change, n)
        _check_number("pairs", inverse)


def _check_trace(value: Any, fresh: Any, problem: Any) -> None:
    if type(value) is not tuple:
        raise ValueError("trace must be a tuple")
    for passes, gap in value:
        _check_number("trace", passes)
        _check_number("trace", gap, infinite=True)


def _check_point(value: Any, fresh: Any, problem: Any) -> None:
    if value is None and fresh is None:
        return
    if type(value).__name__ != "DualPoint":
        raise ValueError(f"a dual point must be a DualPoint; received {type(value)}")
    _check_number("concave", value.concave)
    _vector("weights", value.weights, problem.n_weights)


def _check_truths(value: Any, fresh: Any, problem: Any) -> None:
    """Rows of features; where explanations are fixed they are those of the problem."""
    if type(value) is not type(fresh):
        raise ValueError("truths must be rows of features")
    for name, array, known in zip(fresh._fields, value, fresh, strict=True):
        check_array(f"{name} of truths", array, known.dtype, known.shape)
    check_within("indices of truths", value.indices, 0, problem.n_weights)
    check_within("counts of truths", value.counts, 0, value.indices.shape[1] + 1)
    check_finite_array("values of truths", value.values)
    if problem.certifies != NOTHING and not all(map(np.array_equal, value, fresh)):
        raise ValueError("truths are not those of the problem")


def _check_trees(value: Any, fresh: Any, problem: Any) -> None:
    """Heads of trees: words of their sentence, or its root."""
    check_array("trees", value, fresh.dtype, fresh.shape)
    words = np.diff(problem.structure.indptr)[:, None, None, None]
    if (value < 0).any() or (value > words).any():
        raise ValueError("trees must be heads within their sentence")


def _check_tree_counts(value: Any, fresh: Any, problem: Any) -> None:
    check_array("tree_counts", value, fresh.dtype, fresh.shape)
    check_within("tree_counts", value, 0, KNOWN_TREES + 1)


def _check_centred(value: Any, fresh: Any, problem: Any) -> None:
    if value != -1:
        _check_count("centred_at", value)


def _check_search(value: Any, fresh: Any, problem: Any) -> None:
    if value is None:
        return
    if type(value).__name__ != "Search":
        raise ValueError("search must be None or a line search")
    found = value._asdict()
    for name in ("value", "slope", "step"):
        _check_number(name, found[name])
    _check_count("trials", value.trials)
    for name in ("low", "high"):
        point = found[name]
        if point is None and name == "high":
            continue
        if type(point) is not tuple or len(point) != 3:
            raise ValueError(f"{name} of a line search must have three numbers")
        for item in point:  # values far off may be infinite, or none at all
            if not is_number(item):
                raise ValueError(f"{name} of a line search must have three numbers")
        _check_number(name, point[0])


def _check_oracle(value: Any, fresh: Any, problem: Any) -> None:
    """What an oracle remembers: arrays as long as at the start; its parameters do not change."""
    if type(value) is not type(fresh):
        raise ValueError("it was made with another oracle")
    if fresh is None:
        return
    for name, item, known in zip(fresh._fields, value, fresh, strict=True):
        if not is_array(known):
            if type(item) is not type(known) or item != known:
                raise ValueError(f"{name} must be {known!r}; received {str(item)[:40]!r}")
        elif known.dtype.kind != "f":
            _compare(name, item, known)
        else:
            check_array(name, item, known.dtype, known.shape)
            forbidden = (item == -np.inf) if name in _MAY_BE_FORBIDDEN else False
            check_finite_array(name, np.where(forbidden, 0.0, item))


def _check_parts(value: Any, fresh: Any, problem: Any) -> None:
    """States of parts: each part checks its own when it takes it."""
    if type(value) is not tuple or len(value) != len(fresh):
        raise ValueError(f"it was made with another number of parts than {len(fresh)}")
    problem.crew.restore(value)


def check_part_state(value: Any, fresh: Any, problem: Any) -> None:
    """Refuse a state that a part cannot continue from."""
    if type(value) is not type(fresh):
        raise ValueError("the state of a part is missing")
    _check_count("rounds", value.rounds)
    _check_mean(value.mean, fresh.mean, problem)
    _check_state(value.inner, fresh.inner, problem)


_MOST_PAIRS = 10
_SPECIAL: dict[str, Callable[[Any, Any, Any], None]] = {
    "pending": _check_pending,
    "draws": _check_draws,
    "tree": _check_tree,
    "mean": _check_mean,
    "direction": _check_direction,
    "pairs": _check_pairs,
    "trace": _check_trace,
    "best": _check_point,
    "bound": _check_point,
    "search": _check_search,
    "dual": _check_state_of_dual,
    "centred_at": _check_centred,
    "oracle": _check_oracle,
    "truths": _check_truths,
    "trees": _check_trees,
    "tree_counts": _check_tree_counts,
    "parts": _check_parts,
}


# --- what belongs together, and what does not -----------------------------------------------


def _check_apart(waiting: list[Any]) -> None:
    """No array is in two places: kernels write to some, and trust the others to stay."""
    met: set[int] = set()
    while waiting:
        value = waiting.pop()
        match value:
            case np.ndarray():
                if value.size and id(value) in met:
                    raise ValueError("an array is in two places")
                met.add(id(value))
            case dict():
                waiting.extend(value.values())
            case list() | tuple():
                waiting.extend(value)
            case _ if hasattr(value, "__dict__"):
                waiting.extend(vars(value).values())


def _check_together(state: Any, problem: Any) -> None:
    """What the fields of one state say of each other."""
    found = state._asdict()
    calls = state.calls
    for name in ("fresh_at", "centred_at"):
        if found.get(name, 0) > calls:
            raise ValueError(f"{name} must be at most calls = {calls}")
    draws = found.get("draws", ())
    if len(draws) and (len(draws) != len(found["pending"]) or not len(found["tree"])):
        raise ValueError("draws, pending and tree are not those of one round")
    if found.get("search") is not None and len(found["direction"]) != problem.n_weights:
        raise ValueError("direction is missing")
    if len(found.get("correction", ())) and calls and not found["mass"][0] > 0.0:
        raise ValueError("mass must be positive")
    if not found.get("kappa", 1.0) > 0.0:
        raise ValueError("kappa must be positive")
    if found.get("inertia", 0.0) < 0.0 or not 0.0 < found.get("ratio", 1.0) <= 1.0:
        raise ValueError("inertia must be at least 0, and ratio between 0 and 1")
    if "mean" in found:
        _check_average(found)


def _check_average(found: dict[str, Any]) -> None:
    """An average has the shapes of what it averages, and a weight."""
    if (found["rounds"] > 0) != (len(found["mean"]) > 0) or (
        found["rounds"] and not found["mass"] > 0.0
    ):
        raise ValueError("mean, mass and rounds are not those of one average")
    inner = found["inner"]
    shapes = [(len(inner.weights),)]
    if "predictions" in fields_of(inner.dual):
        shapes.append(inner.dual.predictions.shape)
    if found["mean"] and [array.shape for array in found["mean"]] != shapes:
        raise ValueError("mean has another shape than what it averages")


def _check_loop(state: Any, problem: Any) -> None:
    """Best weights and checks so far: what the loop around the solver knows."""
    if len(state.best) != 8:
        raise ValueError("best must be what the loop has seen: eight values")
    weights, primal, lowest, dual, error, size, score, stale = state.best
    _vector("the best weights", weights, problem.n_weights)
    _check_number("the best primal value", primal)
    _check_number("the lowest primal value", lowest)
    _check_number("the best dual value", dual, infinite=True)
    _check_number("the oracle error", error)
    _check_number("the size of the objective", size)
    if score is not None:
        _check_number("the validation score", score)
    _check_count("the checks without progress", stale)
    if error < 0.0 or size < 0.0 or not dual - lowest <= _ROUNDING * abs(lowest):
        raise ValueError(f"the dual value {dual} is above the primal value {lowest}")
    if lowest > primal or (score is None and problem.certifies != NOTHING and lowest < primal):
        raise ValueError(f"the lowest primal value {lowest} is not that of the best weights")
    _check_count("checked_calls", state.checked_calls)
    if state.checked_calls > state.solver.calls:
        raise ValueError("the last check came after the last step")
    list_of(record("Check"))(state.history, {})
    if not state.history or state.history[-1].oracle_calls != state.checked_calls:
        raise ValueError("the last check is not in the history")
    _check_number("seconds", state.seconds)
    if state.seconds < 0.0:
        raise ValueError(f"seconds must be at least 0; received {state.seconds}")
