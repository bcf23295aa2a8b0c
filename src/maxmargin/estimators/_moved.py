"""Parameters that estimators once had and values have now: the new spelling of an old one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from sklearn.base import clone

from .._validation import is_switch, is_text
from ..features.kernel_kinds import RBF, KernelValue, Polynomial
from ..solvers import moved as solvers
from .values import EarlyStopping, HammingLoss, Hidden, Neighbors

Params = Mapping[str, Any]
# Names that other libraries use, and what to write for them.
_ELSEWHERE = {
    "C": "alpha = 1 / (n * C), with n the number of examples or the sum of sample_weight",
    "c2": "alpha = 2 * c2 / n, with n the number of sequences",
    "lambda_": "alpha = lambda_",
}


class Group(NamedTuple):
    """Parameters that moved together: the parameter ``into`` which they moved, their default
    values, and the function that makes its value of them.

    The function gets the name of the estimator, all its parameters, and those of the group that
    were given, and whether it is to show them even if they made no difference.
    """

    into: str
    defaults: Params
    value: Callable[[str, Params, Params, bool], Any]


def _solver(estimator: str, params: Params, given: Params, show: bool) -> Any:
    return solvers.translated(estimator, params, given)


def _kernel(estimator: str, params: Params, given: Params, show: bool) -> Any:
    kernel = params.get("kernel", "linear")
    if show and is_text(kernel) and kernel == "linear":  # which has none of them
        found: KernelValue = RBF() if set(given) <= {"gamma", "cache_size"} else Polynomial()
    else:
        found = KernelValue.of(kernel)
    own = found.get_params(deep=False)
    used = {name: value for name, value in given.items() if name in own}
    return clone(found).set_params(**used) if used else kernel


def _early_stopping(estimator: str, params: Params, given: Params, show: bool) -> Any:
    wanted = params.get("early_stopping", False)
    if not wanted and not show:
        return wanted
    return clone(EarlyStopping.of(True if is_switch(wanted) else wanted)).set_params(**given)


def _hidden(estimator: str, params: Params, given: Params, show: bool) -> Any:
    wanted = params.get("hidden", "auto")
    return Hidden(given["hidden_starts"]) if wanted or show else wanted


def _loss(estimator: str, params: Params, given: Params, show: bool) -> Any:
    loss = HammingLoss.of(params.get("loss", "hamming"))
    return clone(loss).set_params(normalize=given["normalize_loss"])


def _neighbors(estimator: str, params: Params, given: Params, show: bool) -> Any:
    return clone(Neighbors.of(params.get("neighbors", 4))).set_params(**given)


GROUPS = (
    Group("solver", solvers.MOVED, _solver),
    Group("kernel", {"gamma": "scale", "degree": 3, "coef0": 0.0, "cache_size": 200}, _kernel),
    Group("early_stopping", {"validation_fraction": 0.1, "n_iter_no_change": 5}, _early_stopping),
    Group("hidden", {"hidden_starts": 1}, _hidden),
    Group("loss", {"normalize_loss": False}, _loss),
    Group("neighbors", {"directions": "separate"}, _neighbors),
)


def refuse_moved(
    error: type[Exception], estimator: str, own: Collection[str], changed: Params, params: Params
) -> None:
    """Refuse old parameters among those ``changed``, with their new spelling.

    ``own`` are the names of the parameters that the estimator has now, and ``params`` all that are
    set, which the new spelling depends on.
    """
    for name, remedy in _ELSEWHERE.items():
        if name in changed and name not in own:
            raise error(
                f"Invalid parameter {name!r} for {estimator}, whose regularisation is alpha: write "
                f"{remedy}."
            )
    old, new = [], []
    for group in GROUPS:
        given = {name: changed[name] for name in group.defaults if name in changed}
        given = {name: value for name, value in given.items() if name not in own}
        if given and group.into in own:
            value = group.value(estimator, params, given, True)
            old += [f"{name}={value!r}" for name, value in given.items()]
            new.append(f"{group.into}={' '.join(repr(value).split())}")
    if old:
        raise error(f"{estimator}({', '.join(old)}) moved: write {', '.join(new)}")


def with_values(cls: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for an estimator, those that moved as values."""
    own = cls._get_param_names()
    found = dict(params)
    for group in GROUPS:
        old = [name for name in group.defaults if name in params and name not in own]
        if not old or group.into not in own:
            continue
        defaults = {**group.defaults, **solvers.OWN_DEFAULTS.get(cls.__name__, {})}
        given = {name: params[name] for name in old if not _same(params[name], defaults[name])}
        if given:
            found[group.into] = group.value(cls.__name__, params, given, False)
        for name in old:
            del found[name]
    return found


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
