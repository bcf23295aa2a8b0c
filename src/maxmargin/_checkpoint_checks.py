"""States of checkpoints: what a solver is to continue from must fit the problem it works on.

A solver that was just made for the problem tells which attributes there are, of which types and
shapes; what may differ from it, and within which limits, is listed here. Kernels trust all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from ._dual_checks import check_dual
from ._indices import check_array, check_finite_array, check_within
from ._value_checks import list_of, record

# Integers that grow; all others are settings of the solver.
_COUNTERS = {"oracle_calls", "_fresh_at", "_round", "_centred_at", "_rounds_done", "trials"}
# Numbers that never change.
_SETTINGS = {"power", "rate", "temperature"}
# Best values so far: infinite before there are any.
_MAY_BE_INFINITE = {"_soft_primal", "_soft_dual", "_hard_primal", "_least_apart"}
# Logarithms of what may be forbidden.
_MAY_BE_FORBIDDEN = {"theta", "pairs", "logits"}
_MOST_STEPS = 1 << 53
# What a dual value may be above the primal one, in parts of it.
_ROUNDING = 1e-6


def solver_attributes(stepper: Any) -> dict[str, Any]:
    """What a checkpoint keeps of a solver."""
    hidden = {"problem", "advance", "check"}
    return {k: v for k, v in vars(stepper).items() if k not in hidden and not callable(v)}


def check_fields(state: Any) -> None:
    """Refuse a state whose fields are of other types; what is in them is checked later."""
    kinds = (dict, dict, tuple, int, list, float)
    for name, value, kind in zip(state._fields, state, kinds, strict=True):
        if type(value) is not kind:
            raise ValueError(f"{name} must be a {kind.__name__}; received {type(value).__name__}")


def check_fit_state(state: Any, stepper: Any) -> None:
    """Refuse a state that does not fit a stepper at its start, and its problem.

    Raises
    ------
    ValueError
        If anything is missing, of another type or shape, out of range, or contradicts the rest.
    """
    fresh = solver_attributes(stepper)
    check_fields(state)
    if set(state.stepper) != set(fresh):
        raise ValueError("it was made by another solver, or by another version of it")
    for name, value in state.stepper.items():
        special = _SPECIAL.get(name)
        if special is None:
            _compare(name, value, fresh[name])
        else:
            special(value, stepper)
    _check_apart([state.stepper, state.surrogate])
    _check_together(state.stepper, stepper.problem)
    _check_surrogate(state.surrogate, getattr(stepper.problem, "surrogate", None))
    _check_loop(state, stepper.problem)


def _compare(name: str, value: Any, fresh: Any) -> None:
    """A value has the type and shape of the one that a new solver has, and is in its range."""
    if isinstance(fresh, np.ndarray):
        check_array(name, value, fresh.dtype, fresh.shape)
        if fresh.dtype.kind == "f":
            check_finite_array(name, value)
        elif not np.array_equal(value, fresh):
            raise ValueError(f"{name} is not that of the problem")
    elif isinstance(fresh, (bool, np.bool_, str)) or fresh is None:
        if type(value) is not type(fresh) or value != fresh:
            raise ValueError(f"{name} must be {fresh!r}; received {str(value)[:40]!r}")
    elif isinstance(fresh, Integral):
        _check_count(name, value)
        if name not in _COUNTERS and value != fresh:
            raise ValueError(f"{name} must be {fresh}; received {value}")
    elif isinstance(fresh, Real):
        _check_number(name, value, name in _MAY_BE_INFINITE)
        if name in _SETTINGS and value != fresh:
            raise ValueError(f"{name} must be {fresh}; received {value}")
    elif type(value) is not type(fresh):
        raise ValueError(
            f"{name} must be a {type(fresh).__name__}; received {type(value).__name__}"
        )
    elif not isinstance(fresh, np.random.RandomState):  # those are checked when they are read
        _compare_parts(name, value, fresh)


def _compare_parts(name: str, value: Any, fresh: Any) -> None:
    parts, known = _parts(value), _parts(fresh)
    if set(parts) != set(known):
        raise ValueError(f"{name} must have {sorted(map(str, known))}")
    for part, item in parts.items():
        _compare(str(part), item, known[part])


def _parts(value: Any) -> dict[Any, Any]:
    if isinstance(value, (tuple, list)):
        named = getattr(value, "_fields", range(len(value)))
        return dict(zip(named, value, strict=True))
    return dict(vars(value))


def _check_count(name: str, value: Any) -> None:
    fits = isinstance(value, Integral) and not isinstance(value, bool)
    if not fits or not 0 <= int(value) < _MOST_STEPS:
        raise ValueError(f"{name} must be a count; received {str(value)[:40]!r}")


def _check_number(name: str, value: Any, infinite: bool = False) -> None:
    fits = isinstance(value, (float, np.floating))  # an integer may be too large for arithmetic
    if not fits or math.isnan(value) or not (infinite or math.isfinite(value)):
        raise ValueError(f"{name} must be a number; received {str(value)[:40]!r}")


# --- attributes that are not as long as at the start ----------------------------------------


def _vector(name: str, value: Any, *lengths: int) -> None:
    check_array(name, value, np.float64, (None,))
    if len(value) not in lengths:
        raise ValueError(f"{name} must have {lengths[-1]} entries; received {len(value)}")
    check_finite_array(name, value)


def _check_pending(value: Any, stepper: Any) -> None:
    n = stepper.problem.n_examples
    check_array("_pending", value, np.int64, (None,))
    if len(value) > n:
        raise ValueError(f"_pending must have at most {n} entries; received {len(value)}")
    check_within("_pending", value, 0, n)


def _check_draws(value: Any, stepper: Any) -> None:
    check_array("_draws", value, np.float64, (None,))
    if not ((value >= 0.0) & (value < 1.0)).all():
        raise ValueError("_draws must be at least 0 and less than 1")


def _check_tree(value: Any, stepper: Any) -> None:
    """Partial sums, exactly: those of a kernel that added up the same numbers."""
    n = stepper.problem.n_examples
    _vector("_tree", value, 0, 2 << max(1, int(n - 1).bit_length()))
    half = len(value) // 2
    sums = value[2::2] + value[3::2]
    if (value < 0.0).any() or value[half + n :].any() or (value[1:half] != sums).any():
        raise ValueError("_tree does not hold the sums of its leaves")


def _check_mean_weights(value: Any, stepper: Any) -> None:
    _vector("_mean_weights", value, 0, stepper.problem.n_weights)


def _check_mean_messages(value: Any, stepper: Any) -> None:
    _vector("_mean_messages", value, 0, len(stepper.dual_state.eta))


def _check_mean_predictions(value: Any, stepper: Any) -> None:
    check_array("_mean_predictions", value, np.float64, (None, None))
    if value.shape not in ((0, 0), stepper.dual_state.predictions.shape):
        raise ValueError("_mean_predictions has another shape than the predictions")
    check_finite_array("_mean_predictions", value)


def _check_direction(value: Any, stepper: Any) -> None:
    _vector("_direction", value, 0, stepper.problem.n_weights)


def _check_state_of_dual(value: Any, stepper: Any) -> None:
    if type(value) is not type(stepper.dual_state):
        raise ValueError(f"the dual state must be {type(stepper.dual_state).__name__}")
    check_dual(value, stepper.problem)
    if type(value).__name__ == "Beliefs":
        check_array("tables", value.tables, np.float64, stepper.dual_state.tables.shape)


def _check_pairs(value: Any, stepper: Any) -> None:
    n = stepper.problem.n_weights
    if type(value) is not list or len(value) > stepper._memory:
        raise ValueError("_pairs must be a list of as many pairs as are remembered")
    for step, change, inverse in value:
        _vector("_pairs", step, n)
        _vector("_pairs", change, n)
        _check_number("_pairs", inverse)


def _check_trace(value: Any, stepper: Any) -> None:
    if type(value) is not list:
        raise ValueError("_trace must be a list")
    for passes, gap in value:
        _check_number("_trace", passes)
        _check_number("_trace", gap, infinite=True)


def _check_hard(value: Any, stepper: Any) -> None:
    if value is None:
        return
    if type(value).__name__ != "HardDual":
        raise ValueError(f"_hard must be None or a HardDual; received {type(value).__name__}")
    _check_number("concave", value.concave)
    _vector("weights", value.weights, stepper.problem.n_weights)


def _check_search(value: Any, stepper: Any) -> None:
    from .solvers.lbfgs import Search

    if value is None:
        return
    if type(value) is not Search or set(vars(value)) != set(vars(Search(0.0, 0.0, 1.0))):
        raise ValueError("_search must be None or a line search")
    for name in ("value", "slope", "step"):
        _check_number(name, getattr(value, name))
    _check_count("trials", value.trials)
    for name in ("low", "high"):
        point = getattr(value, name)
        if point is None and name == "high":
            continue
        if type(point) is not tuple or len(point) != 3:
            raise ValueError(f"{name} of a line search must have three numbers")
        for item in point:  # values far off may be infinite, or none at all
            if not isinstance(item, Real):
                raise ValueError(f"{name} of a line search must have three numbers")
        _check_number(name, point[0])


_SPECIAL: dict[str, Callable[[Any, Any], None]] = {
    "_pending": _check_pending,
    "_draws": _check_draws,
    "_tree": _check_tree,
    "_mean_weights": _check_mean_weights,
    "_mean_messages": _check_mean_messages,
    "_mean_predictions": _check_mean_predictions,
    "_direction": _check_direction,
    "_pairs": _check_pairs,
    "_trace": _check_trace,
    "_hard": _check_hard,
    "_search": _check_search,
    "dual_state": _check_state_of_dual,
}


# --- what belongs together, and what does not -----------------------------------------------


def _check_apart(waiting: list[Any]) -> None:
    """No array is in two places: kernels write to some, and trust the others to stay."""
    met: set[int] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, np.ndarray):
            if value.size and id(value) in met:
                raise ValueError("an array is in two places")
            met.add(id(value))
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, (list, tuple)):
            waiting.extend(value)
        elif hasattr(value, "__dict__"):
            waiting.append(vars(value))


def _check_together(found: dict[str, Any], problem: Any) -> None:
    calls = found["oracle_calls"]
    for name in ("_fresh_at", "_centred_at"):
        if found.get(name, 0) > calls:
            raise ValueError(f"{name} must be at most oracle_calls = {calls}")
    draws = found.get("_draws", ())
    if len(draws) and (len(draws) != len(found["_pending"]) or not len(found["_tree"])):
        raise ValueError("_draws, _pending and _tree are not those of one round")
    if found.get("_search") is not None and len(found["_direction"]) != problem.n_weights:
        raise ValueError("_direction is missing")
    means = [len(found[name]) > 0 for name in found if name.startswith("_mean_") and
             isinstance(found[name], np.ndarray)]  # fmt: skip
    if len(set(means)) > 1 or (found.get("_rounds_done", 0) and not all(means)):
        raise ValueError("the averages of weights and messages are not those of one round")
    if len(found.get("averaged", ())) and calls and not found["_mass"][0] > 0.0:
        raise ValueError("_mass must be positive")
    penalty = found.get("penalty")
    if penalty is not None and not penalty.kappa > 0.0:
        raise ValueError("kappa must be positive")


def _check_surrogate(found: Any, surrogate: Any) -> None:
    fresh = surrogate_arrays(surrogate)
    if set(found) != set(fresh):
        raise ValueError("it was made with another surrogate")
    for name, known in fresh.items():
        value = check_array(name, found[name], known.dtype, known.shape)
        if name == "visits":
            check_within(name, value, 0, _MOST_STEPS)
        elif known.dtype.kind != "f":
            _compare(name, value, known)
        elif name in _MAY_BE_FORBIDDEN:
            check_finite_array(name, np.where(value == -np.inf, 0.0, value))
        else:
            check_finite_array(name, value)


def surrogate_arrays(surrogate: Any) -> dict[str, np.ndarray]:
    """The arrays in which a surrogate remembers its last answers."""
    fields = {name: getattr(surrogate, name) for name in getattr(surrogate, "_fields", ())}
    return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}


def _check_loop(state: Any, problem: Any) -> None:
    """Best weights and checks so far: what the loop around the solver knows."""
    if len(state.best) != 4:
        raise ValueError("best must be weights, primal, dual and oracle error")
    weights, primal, dual, error = state.best
    _vector("the best weights", weights, problem.n_weights)
    _check_number("the best primal value", primal)
    _check_number("the best dual value", dual, infinite=True)
    _check_number("the oracle error", error)
    if error < 0.0 or not dual - primal <= _ROUNDING * abs(primal):
        raise ValueError(f"the dual value {dual} is above the primal value {primal}")
    _check_count("checked_calls", state.checked_calls)
    if state.checked_calls > state.stepper["oracle_calls"]:
        raise ValueError("the last check came after the last step")
    list_of(record("Check"))(state.history, {})
    if not state.history or state.history[-1].oracle_calls != state.checked_calls:
        raise ValueError("the last check is not in the history")
    _check_number("seconds", state.seconds)
    if state.seconds < 0.0:
        raise ValueError(f"seconds must be at least 0; received {state.seconds}")
