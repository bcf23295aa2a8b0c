"""The training problem that an estimator would hand to its solver, without solving it."""

from __future__ import annotations

from typing import Any


class _Caught(Exception):
    """Carries the problem out of ``fit``."""


def problem_of(model: Any, X: Any, y: Any) -> Any:
    """Validate and pack the data as ``model.fit(X, y)`` does, and return the problem."""

    def catch(problem, *rest):
        raise _Caught(problem)

    model._solve = catch
    try:
        model.fit(X, y)
    except _Caught as caught:
        return caught.args[0]
    finally:
        del model._solve
    raise RuntimeError("fit did not call its solver")
