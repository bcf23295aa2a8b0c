"""Matchings of points under a latent map: packed examples and their oracles."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._validation import check_number, check_usable, is_plain_list, is_text
from ..structures.take import ragged
from .kernels.matching import (
    MatchData,
    best_matches,
    complete_matches,
    list_matches,
    match_rows,
    sample_matches,
)
from .problem import INDICATOR, SCORE, SLACK, Found, LatentProblem, Rows
from .spaces.labels import Permutation

_MOST_LISTED = 7  # points a side, for searches through all permutations


class Coordinates(NamedTuple):
    """How the coordinates of both point sets are made comparable before a map acts on them."""

    centre: tuple[float, float] | None  # None: the mean of each point set
    scale: float | str

    @classmethod
    def of(cls, centre: Any, scale: Any) -> Coordinates:
        """Check the parameters of :class:`maxmargin.AffineMap`."""
        if not is_text(scale):
            scale = check_number("scale", scale, above=0)
        elif scale not in ("each", "pair"):
            raise ValueError(f"scale must be 'each', 'pair' or a number > 0; received {scale!r}.")
        if is_text(centre) and centre == "mean":
            return cls(None, scale)
        point = np.empty(0) if is_text(centre) else np.asarray(centre, object)
        if point.shape != (2,):
            raise ValueError(f"centre must be 'mean' or a point (x, y); received {centre!r}.")
        return cls((check_number("centre", point[0]), check_number("centre", point[1])), scale)

    def apply(self, left: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
        """Coordinates of both sides about the centre, in units of the scale."""
        sides = [
            points - (points.mean(axis=0) if self.centre is None else np.array(self.centre))
            for points in (left, right)
        ]
        if self.scale == "each":
            units = [_mean_size(points) for points in sides]
        elif self.scale == "pair":
            units = [_mean_size(np.concatenate(sides))] * 2
        else:
            units = [float(self.scale)] * 2
        pairs = zip(sides, units, strict=True)
        return [points / unit if unit > 0 else points for points, unit in pairs]


def _mean_size(points: np.ndarray) -> float:
    """Root of the mean squared distance from the centre."""
    return float(np.sqrt((points**2).sum(axis=1).mean()))


def pack_matchings(
    structure: Permutation,
    maps: np.ndarray,
    n_latent: int,
    options: tuple[tuple[int, ...] | None, Coordinates],
    X: list,
    y: list | None,
) -> MatchProblem:
    """Check point sets and permutations, and compute the features of all pairs."""
    if n_latent == 0:
        raise ValueError("the latent space is empty for X[0]: the grid of the map has no values.")
    sides = [_sides(x, f"X[{i}]") for i, x in enumerate(X)]
    width = sides[0][0][1].shape[1]
    for i, side in enumerate(sides):
        for k in range(2):
            if side[k][1].shape[1] != width:
                raise ValueError(
                    f"X[{i}][{k}] has {side[k][1].shape[1]} descriptor columns but X[0][0] has "
                    f"{width}; expected as many everywhere."
                )
    sizes = np.array([len(left[0]) for left, _ in sides], np.int64)
    for i, size in enumerate(sizes):
        if structure.n is not None and size != structure.n:
            raise ValueError(f"X[{i}] has {size} points a side; expected {structure.n}.")
    truth = np.zeros((len(X), sizes.max()), np.int32)
    if y is not None:
        for i, output in enumerate(y):
            truth[i, : sizes[i]] = Permutation(int(sizes[i])).check(output, f"y[{i}]")
    groups, coordinates = options
    cuts = [0, *(groups or ()), width]
    fixed = [_fixed(left[1], right[1], cuts) for left, right in sides]
    moved = [_moved(coordinates.apply(left[0], right[0]), maps) for left, right in sides]
    n_fixed = fixed[0].shape[-1]
    data = MatchData(
        sizes,
        np.concatenate([part.ravel() for part in fixed]),
        np.concatenate([[0], np.cumsum(sizes**2 * n_fixed)[:-1]]).astype(np.int64),
        np.concatenate([part.ravel() for part in moved]),
        np.concatenate([[0], np.cumsum(sizes**2 * len(maps))[:-1]]).astype(np.int64),
        len(maps),
        n_fixed,
        1,
    )
    return MatchProblem(data, maps, n_latent, truth)


def _sides(x: Any, where: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points and descriptors of both sides."""
    if not is_plain_list(x) or len(x) != 2:
        raise ValueError(
            f"{where} must be a pair (left, right) of point sets; received {type(x).__name__}."
        )
    out = []
    for k, side in enumerate(x):
        place = f"{where}[{k}]"
        parts = side if is_plain_list(side) and len(side) == 2 else (side, None)
        if parts[1] is not None and np.ndim(parts[0]) == 1:  # two points as a nested list
            parts = (side, None)
        points = _numbers(parts[0], place, 2)
        descriptors = (
            np.zeros((len(points), 0)) if parts[1] is None else _numbers(parts[1], place, None)
        )
        if len(descriptors) != len(points):
            raise ValueError(
                f"{place} has {len(points)} points but {len(descriptors)} descriptors; expected "
                "as many."
            )
        out.append((points, descriptors))
    if len(out[0][0]) != len(out[1][0]):
        raise ValueError(
            f"{where} has {len(out[0][0])} points on one side and {len(out[1][0])} on the other; "
            "a matching needs as many."
        )
    if len(out[0][0]) < 2:
        raise ValueError(f"{where} has {len(out[0][0])} points a side; expected at least 2.")
    return out


def _numbers(values: Any, where: str, columns: int | None) -> np.ndarray:
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or (columns is not None and array.shape[1] != columns):
        raise ValueError(
            f"{where} must hold an array of shape (n_points, {columns or 'n_descriptors'}); "
            f"received shape {array.shape}."
        )
    check_usable(array, where)
    return array


def _fixed(left: np.ndarray, right: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Minus the squared distances of groups of descriptors, (n, n, n_groups)."""
    tables = []
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        difference = left[:, None, first:last] - right[None, :, first:last]
        if last > first:
            tables.append(-(difference**2).sum(axis=-1))
    return np.stack(tables, axis=-1) if tables else np.zeros((len(left), len(right), 0))


def _moved(sides: list[np.ndarray], maps: np.ndarray) -> np.ndarray:
    """Minus the squared distances of coordinates under all maps, (n_maps, n, n)."""
    left, right = sides
    difference = (left @ maps)[:, :, None, :] - right[None, None, :, :]
    return -(difference**2).sum(axis=-1)


class MatchProblem(LatentProblem):
    """Compiled oracles of :class:`maxmargin.AffineMap`."""

    def __init__(self, data: MatchData, maps: np.ndarray, n_latent: int, Y: np.ndarray):
        self.data, self.maps, self.n_latent, self.Y = data, maps, n_latent, Y
        self.n_examples = len(data.sizes)
        self.n_weights = self.width = data.n_fixed + data.n_moved
        self.has_superset = len(maps) > n_latent
        largest = int(data.sizes.max())
        self.n_structures = math.factorial(largest) * float(n_latent) if largest < 150 else math.inf
        self.n_superset = float(len(maps))
        self.gamma = self._largest_norm()
        self._table: np.ndarray | None = None  # all permutations, once they are needed

    def take(self, examples: np.ndarray) -> MatchProblem:
        data, packed = self.data, self.data._asdict()
        found: dict[str, Any] = {}
        for name in ("fixed", "moved"):
            values = packed[name]
            indptr = np.append(packed[f"{name}_start"], len(values))
            places, after = ragged(indptr, examples)
            found |= {name: values[places], f"{name}_start": after[:-1]}
        part = data._replace(sizes=data.sizes[examples], **found)
        return MatchProblem(part, self.maps, self.n_latent, self.Y[examples])

    def _largest_norm(self) -> float:
        """Bound on the norm of the features: each is at most its largest pair times the points."""
        data, largest = self.data, 0.0
        for i, size in enumerate(data.sizes):
            fixed = data.fixed[data.fixed_start[i] :][: size * size * data.n_fixed]
            moved = data.moved[data.moved_start[i] :][: size * size * data.n_choices]
            tops = [np.abs(fixed.reshape(-1, data.n_fixed)).max(axis=0)] if data.n_fixed else []
            tops.append(np.abs(moved).max(keepdims=True))
            largest = max(largest, float(size * np.linalg.norm(np.concatenate(tops))))
        return largest

    def complete(self, weights: np.ndarray, relaxed: bool, examples: np.ndarray) -> Found:
        latents = np.zeros(self.n_examples, np.int64)
        allowed = len(self.maps) if relaxed else self.n_latent
        if not weights[self.data.n_fixed :].any():
            # All maps have the same score, as at the start of training: take the nearest. With an
            # arbitrary one as the first explanation w = 0 can be a local optimum.
            weights = np.ones_like(weights)
        complete_matches(self.data, self.Y, weights, allowed, examples, latents)
        return Found(self.Y, latents, np.zeros(self.n_examples))

    def guess(self, relaxed: bool, rng: np.random.RandomState) -> Found:
        latents = rng.randint(len(self.maps) if relaxed else self.n_latent, size=self.n_examples)
        return Found(self.Y, latents, np.zeros(self.n_examples))

    def _empty(self) -> Found:
        latents = np.zeros(self.n_examples, np.int64)
        return Found(np.zeros_like(self.Y), latents, np.zeros(self.n_examples))

    def _draw(self, found, weights, references, objective, examples, how):
        draws = (int(how.n_samples), how.greedy, int(how.seed))
        data = (self.data, self.Y, weights, references, objective, self.n_latent)
        sample_matches(*data, draws, examples, tuple(found))

    def _maximise(self, found, weights, references, objective, examples, listed):
        if objective in (SLACK, INDICATOR) or listed:
            data = (self.data, self._listed(), self.Y, weights, references, objective)
            list_matches(*data, self.n_latent, examples, tuple(found))
            return
        bonus = objective != SCORE
        best_matches(self.data, self.Y, weights, self.n_latent, bonus, examples, *found)

    def _listed(self) -> np.ndarray:
        sizes = self.data.sizes
        if sizes.min() != sizes.max() or sizes.max() > _MOST_LISTED:
            raise ValueError(
                "slack re-scaling (or a bound) over all matchings goes through all permutations, "
                f"and needs examples of the same size of at most {_MOST_LISTED} points; received "
                f"sizes {sizes.min()} to {sizes.max()}. Use trainer='random' or 'lssvm'."
            )
        if self._table is None:
            self._table = np.array(list(Permutation(int(sizes[0])).enumerate()), np.int32)
        return self._table

    def rows(self, found: Found, examples: np.ndarray) -> Rows:
        values = np.zeros((self.n_examples, self.n_weights))
        match_rows(self.data, found.outputs, found.latents, examples, values)
        indices = np.tile(np.arange(self.n_weights, dtype=np.int32), (self.n_examples, 1))
        return Rows(indices, values, np.full(self.n_examples, self.n_weights, np.int32))

    def outputs(self, found: Found) -> list[Any]:
        return [
            row[:size].astype(np.int64)
            for row, size in zip(found.outputs, self.data.sizes, strict=True)
        ]

    def latents(self, found: Found) -> list[Any]:
        return [self.maps[h] for h in found.latents]

    def uniform_beta(self) -> float:
        """Claim ii of the paper."""
        return 2.0 / 3.0
