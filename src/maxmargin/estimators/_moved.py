"""Names of parameters that belong to other libraries, or to values: what to write instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# Names that other libraries use, and what to write for them.
_ELSEWHERE = {
    "C": "alpha = 1 / (n * C), with n the number of examples or the sum of sample_weight",
    "c2": "alpha = 2 * c2 / n, with n the number of sequences",
    "lambda_": "alpha = lambda_",
}
# Parameters of values: the parameter that takes the value, and the value.
_OF_VALUES = {
    "order": ("solver", "BlockFrankWolfe(order={})"),
    "line_search": ("solver", "BlockFrankWolfe(line_search={})"),
    "oracle": ("solver", "BlockFrankWolfe(oracle=MirrorProx()), or another oracle"),
    "oracle_iterations": (
        "solver",
        "BlockFrankWolfe(oracle=MirrorProx({})), for trees DoubleOracle",
    ),
    "projection": ("solver", "BlockFrankWolfe(oracle=MirrorProx(projection={}))"),
    "average": ("solver", "Averaged('auto', power=8.0), or a solver without an average"),
    "check_every": ("solver", "Checked('auto', every={})"),
    "agreement": ("solver", "Accelerated(SoftAgreement(agreement={}))"),
    "rho": ("solver", "Accelerated(SoftAgreement(rho={}))"),
    "smoothing": ("solver", "Accelerated(SoftAgreement(smoothing={}))"),
    "steps": ("solver", "Accelerated(SoftAgreement(steps={}))"),
    "gamma": ("kernel", "RBF(gamma={})"),
    "degree": ("kernel", "Polynomial(degree={})"),
    "coef0": ("kernel", "Polynomial(coef0={})"),
    "cache_size": ("kernel", "RBF(cache_size={})"),
    "validation_fraction": ("early_stopping", "EarlyStopping(validation_fraction={})"),
    "n_iter_no_change": ("early_stopping", "EarlyStopping(n_iter_no_change={})"),
    "hidden_starts": ("hidden", "Hidden(starts={})"),
    "normalize_loss": ("loss", "HammingLoss(normalize={})"),
    "feature_min_count": ("state_features", "StateFeatures(min_count={})"),
    "directions": ("neighbors", "Neighbors(directions={})"),
}


def refuse_moved(
    error: type[Exception], estimator: str, own: Collection[str], given: Mapping[str, Any]
) -> None:
    """Refuse parameters of other libraries and of values among those given, with their spelling.

    ``own`` are the names of the parameters of the estimator.
    """
    others = {name: value for name, value in given.items() if name not in own}
    for name, remedy in _ELSEWHERE.items():
        if name in others:
            raise error(
                f"Invalid parameter {name!r} for {estimator}, whose regularisation is alpha: write "
                f"{remedy}."
            )
    moved = [name for name in others if name in _OF_VALUES and _OF_VALUES[name][0] in own]
    if moved:
        old = ", ".join(f"{name}={others[name]!r}" for name in moved)
        new = ", ".join(
            f"{into}={value.format(repr(others[name]))}"
            for name, (into, value) in ((name, _OF_VALUES[name]) for name in moved)
        )
        raise error(f"{estimator}({old}) moved: write {new}")
