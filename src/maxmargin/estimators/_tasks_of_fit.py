"""Callbacks of scikit-learn 1.9: a fit is a task, and each check ends a part of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """In the place of that of scikit-learn, without ``set_callbacks``."""

    with_callbacks = None


class Tasks:
    """Calls the hooks of ``set_callbacks``: a task for the fit, and one for the work up to a check.

    It is a callback of the solver itself: what it returns stops the fit if a hook asks for it.
    """

    def __init__(self, estimator: Any, arguments: dict[str, Any]) -> None:
        self._estimator = estimator
        self._data = {name: arguments.get(name) for name in ("X", "y")}
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)
        self._begin()

    def _begin(self) -> None:
        self._part = self._fit.subcontext(task_name="check")
        self._part.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def _end(self) -> bool:
        return bool(self._part.call_on_fit_task_end(estimator=self._estimator, **self._data))

    def __call__(self, check: Any) -> bool:
        stop = self._end()
        self._begin()
        return not stop

    def close(self) -> None:
        """The fit is done."""
        self._end()
        self._fit.call_on_fit_task_end(estimator=self._estimator, **self._data)


def with_tasks(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that calls the hooks of ``set_callbacks``, where there are any."""
    if with_callbacks is None:
        return fit
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def heard(self, *args, **kwargs):
        if "_skl_callbacks" not in vars(self) or self._tasks is not None:
            return fit(self, *args, **kwargs)
        return told(self, *args, **kwargs)

    @with_callbacks
    def told(self, *args, **kwargs):
        self._tasks = Tasks(self, signature.bind(self, *args, **kwargs).arguments)
        try:
            fit(self, *args, **kwargs)
            self._tasks.close()
        finally:
            self._tasks = None
        return self

    return heard
