"""Parameters that moved from estimators to solvers: the new form of an old one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._validation import is_name, is_switch, is_text
from ..graphs.soft import SoftAgreement
from ..oracles.values import DoubleOracle, MirrorProx, Proximal
from .acceleration import Accelerated
from .averaging import Averaged
from .base import Solver
from .checked import Checked
from .flow import Flow
from .frank_wolfe import BlockFrankWolfe

# Names and default values before the move; some estimators had other defaults.
MOVED: dict[str, Any] = {
    "order": "permutation",
    "average": True,
    "check_every": None,
    "agreement": "multipliers",
    "rho": "auto",
    "smoothing": 0.0,
    "steps": "exact",
    "oracle": "proximal",
    "oracle_iterations": 10,
    "line_search": True,
    "projection": "sinkhorn",
}
_ACTIVE = {"order": "active"}
OWN_DEFAULTS: dict[str, dict[str, Any]] = {
    "MulticlassClassifier": _ACTIVE,
    "OrdinalClassifier": _ACTIVE,
    "MultiLabelClassifier": _ACTIVE,
    "LabelRanker": _ACTIVE,
    "SequenceLabeler": {"oracle": None, "oracle_iterations": "auto"},
    "TreeParser": {"oracle_iterations": 100},
}
_GRAPHS = ("GraphLabeler", "GridLabeler")
_FLAT = ("MulticlassClassifier", "OrdinalClassifier", "MultiLabelClassifier")
_SOFT = ("agreement", "rho", "smoothing", "steps")


def translated(estimator: str, params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The solver that some parameters of an estimator meant before they moved."""
    solver = params.get("solver", "auto")
    if is_text(solver) and set(given) - {"check_every"}:
        solver = _value(estimator, solver, params, given)
    every = given.get("check_every")
    return solver if every is None else Checked(solver, every)


def _value(estimator: str, name: str, params: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """A solver by its name, with old parameters."""
    order = given.get("order", OWN_DEFAULTS.get(estimator, MOVED).get("order", "permutation"))
    surrogate = params.get("surrogate", "max-margin")
    steps, rounds = _powers(given.get("average", True), params.get("kernel", "linear"))
    if name == "soft" or (name == "auto" and _has_graph(estimator, surrogate, params, given)):
        soft = {key: given[key] for key in _SOFT if key in given}
        return Accelerated(SoftAgreement(**soft, order=order, average=steps))
    if name in ("subgradient", "lbfgs"):
        return name
    oracle = _oracle(estimator, given)
    line_search = given.get("line_search", True)
    if name == "auto" and (surrogate == "crf" or "mirror-prox" in given.values()):
        name = "bcfw"
    if name in ("bcfw", "pairwise"):
        pairwise = "pairwise" if name == "pairwise" else "plain"
        return BlockFrankWolfe(
            order, pairwise, step_average=steps, oracle=oracle, line_search=line_search
        )
    if name == "flow" or (estimator == "SequenceLabeler" and surrogate == "max-min"):
        inner: Solver = Flow(order)
    else:
        in_python = estimator == "StructuredPredictor"
        has_outputs = surrogate == "max-margin" and estimator not in _FLAT and not in_python
        inner = BlockFrankWolfe(order, "pairwise" if has_outputs else "plain", oracle=oracle)
    return Accelerated(inner) if rounds is None else Averaged(Accelerated(inner), rounds)


def _powers(average: Any, kernel: Any) -> tuple[float | None, float | None]:
    """Powers of the averages of steps and of rounds."""
    if not is_switch(average):
        return average, average
    linear = is_name(kernel, "linear")
    return (3.0, 8.0) if average and linear else (None, None)


def _has_graph(
    estimator: str, surrogate: str, params: Mapping[str, Any], given: Mapping[str, Any]
) -> bool:
    if estimator == "MultiLabelClassifier":
        edges = params.get("edges", "auto")
        none = surrogate == "crf" or is_name(edges, "none")
        return not none or any(name in given for name in _SOFT)
    return estimator in _GRAPHS


def _oracle(estimator: str, given: Mapping[str, Any]) -> Any:
    iterations = given.get("oracle_iterations")
    if given.get("oracle") == "mirror-prox" or "projection" in given:
        projection = given.get("projection", "sinkhorn")
        return MirrorProx("auto" if iterations is None else iterations, projection)
    if iterations is None:
        return "auto"
    if estimator == "SequenceLabeler":
        return MirrorProx(iterations)
    return DoubleOracle(iterations) if estimator == "TreeParser" else Proximal(iterations)
