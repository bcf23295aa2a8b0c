"""Work that may crash or hang, in a child process; and small data for every estimator."""

from __future__ import annotations

import math
import os
import pickle
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin import (
    AffineMap,
    GraphLabeler,
    GridLabeler,
    LabelRanker,
    Latent,
    LatentPredictor,
    Matcher,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    Permutation,
    SequenceLabeler,
    StructuredPredictor,
    SubsetSelector,
    TreeParser,
)


def in_child(work: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What ``work`` returns in a forked process; an exception of it is raised here.

    Compiled code of this process is there, too. A child that is killed by a signal, or that needs
    more seconds of a processor, is an AssertionError; on a busy machine it may take longer.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        limit = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        try:
            answer: Any = (True, work())
        except BaseException as error:
            answer = (False, error)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
        os._exit(0)
    os.close(writing)
    data, deadline = b"", time.monotonic() + 20.0 * seconds
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise AssertionError(f"still waiting for something after {20 * seconds:g} s")
            part = pipe.read(1 << 16)
            if not part:
                break
            data += part
    _, status = os.waitpid(pid, 0)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    assert not late, f"still running after {seconds:g} s"
    assert not os.WIFSIGNALED(status), f"killed by signal {os.WTERMSIG(status)}"
    good, value = pickle.loads(data)
    if not good:
        raise value
    return value


class Case(NamedTuple):
    """An estimator with data of a chosen magnitude."""

    make: Callable[..., Any]
    data: Callable[[float], tuple[Any, Any]]


def _random() -> np.random.RandomState:
    return np.random.RandomState(0)


def _flat(scale):
    random = _random()
    return random.randn(12, 3) * scale, np.arange(12) % 3


def _label_sets(scale):
    random = _random()
    return random.randn(10, 3) * scale, random.randint(0, 2, (10, 3))


def _sequences(scale):
    random = _random()
    X = [random.randn(n, 3) * scale for n in (1, 3, 4, 2)]
    return X, [np.arange(len(x)) % 3 for x in X]


def _graphs(scale):
    random = _random()
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    X = [(random.randn(4, 3) * scale, edges) for _ in range(4)]
    return X, [np.array([0, 1, 2, 0])] * 4


def _grids(scale):
    random = _random()
    return [random.randn(2, 3, 2) * scale for _ in range(3)], [np.array([[0, 1, 0], [1, 1, 0]])] * 3


def _rankings(scale):
    random = _random()
    return random.randn(9, 3) * scale, np.argsort(random.randn(9, 4), axis=1)


def _matchings(scale):
    random = _random()
    X = [random.randn(n, n, 2) * scale for n in (3, 3, 4, 2)]
    return X, [random.permutation(len(x)) for x in X]


def _trees(scale):
    random = _random()
    X = [random.randn(n + 1, n, 3) * scale for n in (2, 3, 4)]
    return X, [[0, 1], [2, 0, 2], [0, 1, 1, 3]]


def _subsets(scale):
    random = _random()
    X = [random.randn(n, 3) * scale for n in (4, 5, 6, 5)]
    return X, [[0, 1], [1, 3], [2, 5], [0, 4]]


class OneOfThree:
    """A structure in plain Python."""

    def joint_feature(self, x, y):
        return np.outer(x, np.eye(3)[y]).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def argmax(self, x, weights, truth=None):
        scores = x @ weights.reshape(-1, 3)
        if truth is not None:
            scores += np.arange(3) != truth
        return int(scores.argmax())


def _latent_matchings(scale):
    random = _random()
    X = [
        ((random.randn(3, 2), random.randn(3, 2) * scale),
         (random.randn(3, 2), random.randn(3, 2) * scale))
        for _ in range(4)
    ]  # fmt: skip
    return X, [random.permutation(3) for _ in range(4)]


def _case(cls, data, **params):
    return Case(lambda **more: cls(**{"max_iter": 20, **params, **more}), data)


_SURROGATES = ("max-margin", "max-min", "crf")


def cases() -> dict[str, Case]:
    """A case for every estimator and surrogate, and for every solver that is not the default."""
    found = {}
    for surrogate in _SURROGATES:
        for name, cls, data in (
            ("multiclass", MulticlassClassifier, _flat),
            ("ordinal", OrdinalClassifier, _flat),
            ("label sets", MultiLabelClassifier, _label_sets),
            ("sequences", SequenceLabeler, _sequences),
            ("trees", TreeParser, _trees),
            ("subsets", SubsetSelector, _subsets),
        ):
            params = {"edges": "none"} if cls is MultiLabelClassifier else {}
            found[f"{name} {surrogate}"] = _case(cls, data, surrogate=surrogate, **params)
        for kernel in ("rbf", "poly"):
            found[f"multiclass {surrogate} {kernel}"] = _case(
                MulticlassClassifier, _flat, surrogate=surrogate, kernel=kernel
            )
    for surrogate in ("max-margin", "max-min"):
        for name, cls, data in (
            ("label graphs", MultiLabelClassifier, _label_sets),
            ("graphs", GraphLabeler, _graphs),
            ("grids", GridLabeler, _grids),
            ("rankings", LabelRanker, _rankings),
            ("matchings", Matcher, _matchings),
        ):
            params = {"edges": "full"} if cls is MultiLabelClassifier else {}
            found[f"{name} {surrogate}"] = _case(cls, data, surrogate=surrogate, **params)
    found["plain Python"] = _case(StructuredPredictor, _flat, structure=OneOfThree())
    for trainer in ("lssvm", "all", "random"):
        latent = Latent(Permutation(3), AffineMap())
        found[f"latent {trainer}"] = Case(
            lambda latent=latent, trainer=trainer, **more: LatentPredictor(
                latent, trainer, n_iter=5, **more
            ),
            _latent_matchings,
        )
    for name, cls, data, surrogate, solver in (
        ("multiclass", MulticlassClassifier, _flat, "max-margin", "pairwise"),
        ("multiclass", MulticlassClassifier, _flat, "max-margin", "subgradient"),
        ("multiclass", MulticlassClassifier, _flat, "crf", "bcfw"),
        ("sequences", SequenceLabeler, _sequences, "max-margin", "bcfw"),
        ("sequences", SequenceLabeler, _sequences, "max-margin", "flow"),
        ("sequences", SequenceLabeler, _sequences, "crf", "bcfw"),
    ):
        found[f"{name} {surrogate} {solver}"] = _case(cls, data, surrogate=surrogate, solver=solver)
    return found


class Outcome(NamedTuple):
    """How a fit ended."""

    status: str
    numbers: tuple[float, ...]  # primal, dual, gap
    tol: float
    warnings: list[str]  # of numpy
    weights_finite: bool


def outcome(case: Case, scale: float, **params) -> Outcome:
    """Fit and predict; every warning of numpy is kept."""
    X, y = case.data(scale)
    model = case.make(random_state=0, **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
        model.predict(X)
    numeric = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    arrays = [v for k, v in vars(model).items() if k in ("coef_", "dual_coef_", "intercept_")]
    finite = all(np.isfinite(array).all() for array in arrays)
    numbers = tuple(float(getattr(model, name)) for name in ("primal_", "dual_", "gap_"))
    return Outcome(model.status_, numbers, model.tol, numeric, finite)
