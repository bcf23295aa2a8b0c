"""Outputs with a latent part: features ``Phi(x, y, h)`` of an input, an output and what nobody saw.

The best explanation of an output is ``max_h w @ Phi(x, y, h)`` over the latent space H; the
prediction is the y of ``argmax_(y, h) w @ Phi(x, y, h)``. A *superset* of H may be easier to
maximise over: used for explanations in training, it only makes the training loss smaller.

A latent space says what h is and what the features are. Ready-made, with compiled oracles:

- :class:`SharedPairs` with :class:`AnyPairs` as superset, for sets of elements;
- :class:`AffineMap` for matchings of points;
- :class:`HiddenStates` for label sequences.

One of your own is an object with these methods (see ``examples/own_latent.py``):

- ``enumerate(x)``: all h for an input;
- ``features(x, y, h)``: the vector ``Phi(x, y, h)``;
- optional ``moves(x, h)``: neighbours of h (default: all others), ``draw(x, random)``: uniform
  (default: from the list), ``complete(x, y, weights)``: the best h (default: from the list).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._validation import check_integer, check_number, is_list
from .chain import pack_chains
from .matching import Coordinates, pack_matchings
from .pairs import pack_pairs
from .problem import LatentProblem
from .python import pack_python
from .spaces.labels import LabelSequence, Permutation
from .spaces.sets import Sets

__all__ = ["AffineMap", "AnyPairs", "HiddenStates", "Latent", "SharedPairs"]


class CompiledSpace(BaseEstimator):
    """A latent space whose oracles are compiled; it packs examples for them."""

    _outputs: tuple[type, str]  # what the output space must be, and its name in errors

    def pack(self, structure: Any, superset: Any, X: list, y: list | None) -> LatentProblem:
        """Check examples and pack them for the oracles."""
        kind, named = self._outputs
        own = type(self).__name__
        if not isinstance(structure, kind):
            raise TypeError(
                f"{own} needs a structure of kind {named}; received {type(structure).__name__}."
            )
        contains = self._superset()
        if superset is not None and not isinstance(superset, contains):
            raise ValueError(
                f"superset of {own} must be None or {contains.__name__}; received "
                f"{type(superset).__name__}, which does not contain the latent space."
            )
        return self._pack(structure, superset, X, y)

    def _superset(self) -> type:
        return type(self)

    def _pack(self, structure: Any, superset: Any, X: list, y: list | None) -> LatentProblem:
        raise NotImplementedError


class SharedPairs(CompiledSpace):
    """Two pairs of elements that share one: the latent space of Bello and Honorio (2018).

    For a set y of elements (the edges of a tree or graph, or the elements of a subset) and an
    input x that holds a bit for every pair of elements::

        Phi_ij(x, y, h) = 1 if (h_ij xor x_ij) and i in y and j in y, else 0

    The best h is found in O(m^2) for a set of m elements: the best element's two largest gains.
    The input is a flat array of bits for the pairs (0, 1), (0, 2), ..., or a square matrix, of
    which the upper triangle counts.
    """

    _outputs = Sets, "Arborescence, DAG or Subset"

    def _superset(self) -> type:
        return AnyPairs

    def _pack(self, structure, superset, X, y):
        return pack_pairs(structure, superset is not None, X, y)


class AnyPairs(BaseEstimator):
    """Any two pairs of elements: the superset of :class:`SharedPairs`."""


class AffineMap(CompiledSpace):
    """A linear map of the points of one side, ``[[a, b], [c, d]]`` with entries on a grid.

    For matchings of two point sets. An input is ``(left, right)``, each a pair ``(points,
    descriptors)`` of arrays (n, 2) and (n, p), or points only. Features of a matching are sums
    over its pairs (i, j) of squared distances: of each group of descriptor columns, and of the
    coordinates ``|points_i A - points_j|^2`` after the map; all negated, so that positive weights
    mean "alike". Coordinates are taken about ``centre`` and in units of ``scale``, and the map acts
    on these. What centre and scale remove, no map has to explain: with the defaults a shift or
    another size of one side changes nothing.

    Parameters
    ----------
    diagonal : tuple of float, default=(0.8, 1.0, 1.2)
        Values of a and d.
    off_diagonal : tuple of float, default=(-0.2, 0.0, 0.2)
        Values of b and c.
    groups : tuple of int, optional
        Where descriptor columns are cut into groups, each with a weight of its own; by default all
        are one group.
    centre : "mean" or (float, float), default="mean"
        The point that is subtracted from the coordinates: the mean of each point set, or a point
        in the coordinates of the input for both sides, such as the centre of the images.
    scale : "each", "pair" or float, default="each"
        What coordinates are divided by. "each": the size of each point set (root mean squared
        distance from the centre); "pair": that of both sets of an example together, so that one
        may be larger than the other; a number: a length in the units of the input, for all
        examples. Where the length differs between images, divide the points by it and pass 1.0.

    Examples
    --------
    >>> from maxmargin import AffineMap
    >>> pixels = AffineMap(centre=(360, 202), scale=100.0)  # images of 720 x 404
    >>> pixels.maps().shape
    (81, 2, 2)
    """

    _outputs = Permutation, "Permutation"

    def __init__(
        self,
        diagonal: tuple[float, ...] = (0.8, 1.0, 1.2),
        off_diagonal: tuple[float, ...] = (-0.2, 0.0, 0.2),
        groups: tuple[int, ...] | None = None,
        centre: str | tuple[float, float] = "mean",
        scale: str | float = "each",
    ):
        self.diagonal = diagonal
        self.off_diagonal = off_diagonal
        self.groups = groups
        self.centre = centre
        self.scale = scale

    def maps(self) -> np.ndarray:
        """All maps, shape (n_maps, 2, 2)."""
        for name in ("diagonal", "off_diagonal"):
            for value in getattr(self, name):
                check_number(name, value)
        grid = itertools.product(self.diagonal, self.off_diagonal, self.off_diagonal, self.diagonal)
        return np.array(list(grid), float).reshape(-1, 2, 2)

    def _pack(self, structure, superset, X, y):
        own, coordinates = self.maps(), Coordinates.of(self.centre, self.scale)
        maps = own if superset is None else _with_superset(own, superset.maps())
        if superset is not None and Coordinates.of(superset.centre, superset.scale) != coordinates:
            raise ValueError(
                "superset of AffineMap must have the same centre and scale; received centre="
                f"{superset.centre!r}, scale={superset.scale!r} and centre={self.centre!r}, "
                f"scale={self.scale!r}."
            )
        return pack_matchings(structure, maps, len(own), (self.groups, coordinates), X, y)


class HiddenStates(CompiledSpace):
    """Every label has ``n_states`` hidden sub-states; sequences of labels.

    Weights ``w_s`` for the features of a position in state s, and ``t_rs`` for neighbouring
    states; state s belongs to the label ``s // n_states``::

        w @ Phi(x, y, h) = sum_t x_t @ w_(s_t) + sum_t t_(s_t, s_(t+1))

    An input is an array (length, n_features). Best outputs and explanations by Viterbi.
    """

    _outputs = LabelSequence, "LabelSequence"

    def __init__(self, n_states: int = 2):
        self.n_states = n_states

    def _pack(self, structure, superset, X, y):
        states = check_integer("n_states", self.n_states, 1)
        if superset is not None and superset.n_states != states:
            raise ValueError("superset of HiddenStates must have the same n_states.")
        return pack_chains(structure, states, X, y)


class Latent(BaseEstimator):
    """Outputs of a space together with a latent space, and maybe a superset of the latter.

    Parameters
    ----------
    structure : space
        :class:`Arborescence`, :class:`DAG`, :class:`Subset`, :class:`Permutation`,
        :class:`LabelSequence`, or one of your own (see :mod:`maxmargin.latent.spaces.labels`).
    latent_space : object
        :class:`SharedPairs`, :class:`AffineMap`, :class:`HiddenStates`, or one of your own.
    superset : object, optional
        Used for explanations in training instead of the latent space, which it must contain.

    Examples
    --------
    >>> from maxmargin import AnyPairs, Arborescence, Latent, SharedPairs
    >>> latent = Latent(Arborescence(4), SharedPairs(), superset=AnyPairs())
    """

    def __init__(self, structure: Any, latent_space: Any, superset: Any = None):
        self.structure = structure
        self.latent_space = latent_space
        self.superset = superset

    def pack(self, X: Any, y: Any = None) -> LatentProblem:
        """Check inputs, and outputs if there are any, and pack them for the oracles."""
        X = _examples(X, "X")
        if y is not None:
            y = _examples(y, "y")
            if len(y) != len(X):
                raise ValueError(f"X has {len(X)} examples but y has {len(y)}; expected as many.")
        space, superset = self.latent_space, self.superset
        if isinstance(space, CompiledSpace):
            return space.pack(self.structure, superset, X, y)
        return pack_python(self.structure, space, superset, X, y)


def _examples(values: Any, name: str) -> list:
    if values is None:
        raise ValueError(f"requires {name} to be passed, but it is None")
    if not is_list(values):
        raise ValueError(
            f"{name} must be a list with one entry per example; received {type(values).__name__}."
        )
    if len(values) == 0:
        raise ValueError(f"{name} is empty; expected at least one example.")
    return [values[i] for i in range(len(values))]


def _with_superset(maps: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The maps of the latent space, then those that only the superset has."""
    known = {tuple(row) for row in maps.reshape(-1, 4)}
    found = {tuple(row) for row in more.reshape(-1, 4)}
    if not known <= found:
        raise ValueError(
            f"superset does not contain the latent space: it lacks the map "
            f"{sorted(known - found)[0]}; add its values to the grid."
        )
    rest = [row for row in more.reshape(-1, 4) if tuple(row) not in known]
    return np.concatenate([maps, np.array(rest, float).reshape(-1, 2, 2)])
