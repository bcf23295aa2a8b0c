"""Latent spaces in plain Python: the same questions, answered by calling the user's methods."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from .._validation import check_methods, check_usable, is_array, method_of
from .kernels.pair_map import worth
from .problem import Found, LatentProblem, Random, Rows

_SPACE_METHODS = ("draw", "moves", "enumerate", "distortion", "check")
_LATENT_METHODS = ("enumerate", "features")
# Latent variables up to which membership is checked by listing them.
_SMALL = 10_000
# Examples whose moves are checked.
_TRIED = 3


def pack_python(
    structure: Any, latent: Any, superset: Any, X: list, y: list | None
) -> PythonLatentProblem:
    """Check the methods, the outputs, the latent spaces and the features."""
    check_methods("structure", structure, _SPACE_METHODS)
    check_methods("latent_space", latent, _LATENT_METHODS)
    if superset is not None and method_of(superset, "enumerate") is None:
        raise TypeError(f"superset must have the method enumerate; {superset!r} lacks it.")
    return PythonLatentProblem(structure, latent, superset, X, y)


class PythonLatentProblem(LatentProblem):
    """Oracles by enumeration and by local moves, in interpreted code."""

    def __init__(self, structure: Any, latent: Any, superset: Any, X: list, y: list | None):
        self.structure, self.latent, self.superset, self.X = structure, latent, superset, X
        self.has_superset = superset is not None
        self.n_examples = len(X)
        for_input = method_of(structure, "for_input") or (lambda x: structure)
        self.spaces = [for_input(x) for x in X]
        # What users may leave out; by default the listed latent variables do.
        self._moves, self._draw_latent = method_of(latent, "moves"), method_of(latent, "draw")
        self._complete = method_of(latent, "complete"), method_of(superset, "complete")
        self.hidden = [list(latent.enumerate(x)) for x in X]
        self.relaxed = [list(superset.enumerate(x)) for x in X] if superset else self.hidden
        for i, hidden in enumerate(self.hidden):
            if not hidden:
                raise ValueError(
                    f"the latent space is empty for X[{i}]: latent_space.enumerate(X[{i}]) gave "
                    "nothing; expected at least one h."
                )
            self._check_superset(i)
        self.truth: list[Any] | None = None
        if y is not None:
            self.truth = [self.spaces[i].check(output, f"y[{i}]") for i, output in enumerate(y)]
        self.n_weights = self.width = self._check_features()
        for i in range(min(_TRIED, self.n_examples)):
            self._check_moves(i)
        self.n_structures = math.inf
        self.n_superset = float(max(len(relaxed) for relaxed in self.relaxed))

    def take(self, examples: np.ndarray) -> PythonLatentProblem:
        part = copy.copy(self)
        part.n_examples = len(examples)
        for name in ("X", "spaces", "hidden", "relaxed", "truth"):
            values = vars(self)[name]
            if values is not None:
                setattr(part, name, [values[i] for i in examples])
        return part

    @property
    def gamma(self) -> float:  # type: ignore[override]
        """Largest norm among the features of the true outputs."""
        if self.truth is None:
            return math.nan
        return max(
            float(np.linalg.norm(self._phi(i, output, h)))
            for i, output in enumerate(self.truth)
            for h in self.hidden[i]
        )

    def _check_superset(self, i: int) -> None:
        if self.superset is None or len(self.relaxed[i]) > _SMALL:
            return
        for h in self.hidden[i]:
            if not _among(h, self.relaxed[i]):
                raise ValueError(
                    f"superset does not contain the latent space of X[{i}]: it lacks {h!r}."
                )

    def _any_output(self, i: int) -> Any:
        return self.truth[i] if self.truth is not None else self.spaces[i].draw(0)

    def _check_features(self) -> int:
        length = None
        for i in range(self.n_examples):
            vector = np.asarray(
                self.latent.features(self.X[i], self._any_output(i), self.hidden[i][0]), float
            )
            length = len(vector) if length is None and vector.ndim == 1 else length
            if vector.ndim != 1 or len(vector) != length:
                raise ValueError(
                    f"latent_space.features(X[{i}], y[{i}], h) must be a vector of length "
                    f"{length}; received shape {vector.shape}."
                )
            check_usable(vector, f"latent_space.features(X[{i}], y[{i}], h)")
        return int(length or 0)

    def _check_moves(self, i: int) -> None:
        """Moves of the first examples must stay in their spaces."""
        for neighbour in self.spaces[i].moves(self._any_output(i)):
            try:
                self.spaces[i].check(neighbour, "the neighbour")
            except ValueError as error:
                raise ValueError(
                    f"structure.moves leaves the space: for X[{i}] it gave {neighbour!r}; {error}"
                ) from None
        if self._moves is not None and len(self.hidden[i]) <= _SMALL:
            for h in self._moves(self.X[i], self.hidden[i][0]):
                if not _among(h, self.hidden[i]):
                    raise ValueError(
                        f"latent_space.moves leaves the latent space: for X[{i}] it gave {h!r}, "
                        f"which latent_space.enumerate(X[{i}]) does not list."
                    )

    def _phi(self, i: int, output: Any, h: Any) -> np.ndarray:
        vector = np.asarray(self.latent.features(self.X[i], output, h), float)
        if vector.shape != (self.n_weights,):
            raise ValueError(
                f"latent_space.features(X[{i}], y, h) must be a vector of length {self.n_weights} "
                f"for all y and h; received shape {vector.shape} for y = {output!r}, h = {h!r}."
            )
        return vector

    def _best(self, i: int, output: Any, weights: np.ndarray, relaxed: bool) -> Any:
        complete = self._complete[int(relaxed)]
        if complete is not None:
            return complete(self.X[i], output, weights)
        candidates = self.relaxed[i] if relaxed else self.hidden[i]
        scores = [weights @ self._phi(i, output, h) for h in candidates]
        return candidates[int(np.argmax(scores))]

    def _empty(self) -> Found:
        empty = np.empty(self.n_examples, object)
        return Found(empty, empty.copy(), np.zeros(self.n_examples))

    def complete(self, weights: np.ndarray, relaxed: bool, examples: np.ndarray) -> Found:
        found = self._empty()
        for i in examples:
            found.outputs[i] = self._any_output(i)
            found.latents[i] = self._best(i, found.outputs[i], weights, relaxed)
        return found

    def guess(self, relaxed: bool, rng: np.random.RandomState) -> Found:
        found = self._empty()
        for i, hidden in enumerate(self.relaxed if relaxed else self.hidden):
            found.outputs[i] = self._any_output(i)
            found.latents[i] = hidden[rng.randint(len(hidden))]
        return found

    def _draw(self, found, weights, references, objective, examples, how):
        for i in examples:
            candidates = self._random(i, weights, how)
            self._keep_best(i, found, weights, references[i], objective, candidates)

    def _maximise(self, found, weights, references, objective, examples, listed):
        for i in examples:
            outputs = self.spaces[i].enumerate()
            candidates = ((y, self._best(i, y, weights, False)) for y in outputs)
            self._keep_best(i, found, weights, references[i], objective, candidates)

    def _keep_best(self, i: int, found, weights, reference, objective, candidates) -> None:
        top = -np.inf
        for output, h in candidates:
            score = float(weights @ self._phi(i, output, h))
            d = 0.0
            if self.truth is not None:
                d = float(self.spaces[i].distortion(self.truth[i], output))
            value = float(worth(objective, score, d, reference))
            if value > top:
                top = value
                found.outputs[i], found.latents[i], found.losses[i] = output, h, d

    def _random(self, i: int, weights: np.ndarray, how: Random) -> Any:
        for t in range(how.n_samples):
            random = np.random.RandomState([how.seed % 2**32, i, t])
            output = self.spaces[i].draw(random)
            if self._draw_latent is not None:
                h = self._draw_latent(self.X[i], random)
            else:
                h = self.hidden[i][random.randint(len(self.hidden[i]))]
            yield self._climb(i, output, h, weights) if how.greedy else (output, h)

    def _climb(self, i: int, output: Any, h: Any, weights: np.ndarray) -> tuple[Any, Any]:
        """Local changes while the score rises strictly."""
        value = float(weights @ self._phi(i, output, h))
        while True:
            before = value
            for other in self.spaces[i].moves(output):
                score = float(weights @ self._phi(i, other, h))
                if score > value:
                    output, value = other, score
            changes = self.hidden[i] if self._moves is None else self._moves(self.X[i], h)
            for other in changes:
                score = float(weights @ self._phi(i, output, other))
                if score > value:
                    h, value = other, score
            if value == before:
                return output, h

    def rows(self, found: Found, examples: np.ndarray) -> Rows:
        values = np.zeros((self.n_examples, self.n_weights))
        for i in examples:
            values[i] = self._phi(i, found.outputs[i], found.latents[i])
        indices = np.tile(np.arange(self.n_weights, dtype=np.int32), (self.n_examples, 1))
        return Rows(indices, values, np.full(self.n_examples, self.n_weights, np.int32))

    def outputs(self, found: Found) -> list[Any]:
        return list(found.outputs)

    def latents(self, found: Found) -> list[Any]:
        return list(found.latents)


def _among(value: Any, values: list) -> bool:
    """Membership also for arrays."""
    if is_array(value):
        return any(np.array_equal(value, other) for other in values)
    return value in values
