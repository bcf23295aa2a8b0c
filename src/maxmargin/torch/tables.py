"""Permutations, trees and subsets: the number of parts differs between examples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._kernels.permanent import MOST_ITEMS
from .._kernels.saddle import Proximal
from .._validation import check_integer, check_switch
from ..oracles.double_oracle import TreeGame
from ..oracles.saddle import saddle_pairs
from ..structures.arborescence import Arborescence as PackedTrees
from ..structures.arborescence import first_no_tree, pack_trees
from ..structures.permutation import Matching
from ..structures.subset import Subset as PackedSubset
from ..structures.tree_likelihood import read_trees, tree_likelihoods
from ._autograd import Marginals, loss_values
from ._batch import NO_PLACES, Batch
from ._forms import (
    Layout,
    as_rows,
    check_finite,
    check_range,
    check_scores,
    given_labels,
    read_labels,
    read_layout,
)
from ._structure import Structure

# Default number of iterations of the max-min oracles, and the width of the bracket at which they
# stop earlier.
_ITERATIONS, _ACCURACY = 100, 1e-6


class _Tables(NamedTuple):
    """Parts of tables of different sizes, flat."""

    scores: Tensor
    values: np.ndarray
    places: np.ndarray
    rows: np.ndarray
    layout: Layout
    sizes: np.ndarray  # number of parts of each example

    def check_finite(self) -> None:
        """Refuse NaN and infinity; names the example."""
        check_finite(self.values, self.places, self.sizes)


def _square(layout: Layout) -> np.ndarray:
    return layout.lengths**2


def _wide(layout: Layout) -> np.ndarray:
    return layout.lengths * (layout.lengths + 1)


def _highest(layout: Layout, extra: int) -> int | np.ndarray:
    """One more than the largest label of a position; an array where this differs."""
    if layout.form == "padded" and layout.mask is None:
        return layout.padded_to + extra
    return np.repeat(layout.lengths + extra, layout.lengths)


def _read_tables(scores: Any, extra: int, mask: Any, offsets: Any) -> _Tables:
    """Tables of n rows and n + extra columns, as a list, padded, or flat."""
    layout = read_layout("scores", scores, 2, mask, offsets)
    lengths, sizes = layout.lengths, layout.once(_wide if extra else _square)
    places, rows = NO_PLACES, sizes
    if layout.form == "list":
        for i, each in enumerate(scores):
            _check_table(f"scores[{i}]", each, int(lengths[i]), extra)
        scores = torch.cat([each.reshape(-1) for each in scores])
    elif layout.form == "flat":
        check_scores("scores", scores, 1)
        if len(scores) != sizes.sum():
            raise ValueError(
                f"scores must hold {sizes.sum()} numbers, {extra and 'n (n + 1)' or 'n * n'} "
                f"for each example of n positions by offsets; received {len(scores)}."
            )
    else:
        _check_table("scores", scores, layout.padded_to, extra)
        if layout.mask is not None:
            longest = layout.padded_to
            rows = np.full(layout.n, longest * (longest + extra))
            columns = np.arange(longest + extra) < lengths[:, None] + extra
            places = np.flatnonzero(layout.mask[:, :, None] & columns[:, None, :])
    return _Tables(scores, as_rows(scores, 1), places, rows, layout, sizes)


def _check_table(name: str, table: Tensor, n: int, extra: int) -> None:
    if table.shape[-2:] != (n, n + extra):
        raise ValueError(
            f"{name} must have shape ({n}, {n + extra}) for {n} positions; received "
            f"{tuple(table.shape[-2:])}."
        )


class Permutation(Structure):
    """Permutations (rankings, matchings): scores ``[row, column]``, targets the column of each row.

    The loss is the share of rows with a wrong column. Sums over all permutations, which a CRF
    needs, are permanents: 12 rows at most.
    """

    name = "permutation"

    def check_sums(self, batch):
        """Refuse sums over permutations of many rows."""
        large = batch.layout.lengths > MOST_ITEMS
        if large.any():
            bad = int(np.flatnonzero(large)[0])
            raise ValueError(
                f"sums over permutations are permanents, of at most {MOST_ITEMS} rows; example "
                f"{bad} has {batch.layout.lengths[bad]}. Use MaxMarginLoss or MaxMinLoss."
            )

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        read = _read_tables(scores, 0, mask, offsets)
        read.check_finite()
        layout, lengths = read.layout, read.layout.lengths
        if targets is None:
            truth = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
        else:
            most = _highest(layout, 0)
            truth = read_labels("targets", targets, layout, read.scores.device, 0, most)
            _check_permutations(truth, layout)
        pairs = np.concatenate([[0], np.cumsum(lengths**2)]).astype(np.int64)
        packed = Matching(truth, layout.indptr, pairs, int(lengths.max()), np.ones(layout.n))
        work = 20.0 * float((lengths**3).sum())
        return Batch(packed, read.scores, read.values, layout, read.rows, work, read.places)

    def shaped(self, rows, length):
        """A square table."""
        return rows.reshape(length, length)

    def max_min_oracle(self, packed, iterations):
        """Proximal steps towards the saddle point."""
        steps = Proximal(iterations or _ITERATIONS, _ACCURACY)
        return saddle_pairs(np.diff(packed.indptr), steps)


def _check_permutations(truth: np.ndarray, layout: Layout) -> None:
    owners = np.repeat(np.arange(layout.n), layout.lengths)
    seen = np.zeros(len(truth), bool)
    seen[layout.indptr[:-1][owners] + truth] = True
    if not seen.all():
        bad = int(owners[np.flatnonzero(~seen)[0]])
        raise ValueError(f"targets of example {bad} are no permutation: a column occurs twice.")


class Arborescence(Structure):
    """Dependency trees: scores ``[word, head]`` of shape (m, m + 1), head 0 being the root.

    Word d + 1 is row d, so scores at ``[d, d + 1]`` are not used. Targets are heads, from 0 to m.
    The loss is the share of wrong heads.

    Parameters
    ----------
    single_root : bool, default=True
        Whether exactly one word has head 0.
    """

    name = "arborescence"

    def __init__(self, single_root: bool = True):
        self.single_root = check_switch("single_root", single_root)

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        read = _read_tables(scores, 1, mask, offsets)
        layout = read.layout
        (_, indptr, parts, longest, _, *rest), work = layout.once(_trees)
        truth = np.zeros(layout.size, np.int32)
        packed = PackedTrees(truth, indptr, parts, longest, self.single_root, *rest)
        if targets is None:
            read.check_finite()
        else:
            given = given_labels("targets", targets, layout, read.scores.device)
            if not read_trees(packed, read.values, given):
                read.check_finite()
                check_range("targets", given, layout, 0, _highest(layout, 1))
                _check_trees(packed)
        return Batch(packed, read.scores, read.values, layout, read.rows, work, read.places)

    def crf(self, batch, factors):
        """Negative log likelihoods, by a kernel of their own."""
        losses = batch.likelihoods(tree_likelihoods)
        return loss_values(batch, losses, factors, smooth=Marginals.apply)

    def shaped(self, rows, length):
        """Words by heads."""
        return rows.reshape(length, length + 1)

    def max_min_oracle(self, packed, iterations):
        """The double oracle."""
        return TreeGame(iterations or _ITERATIONS, _ACCURACY)


def _trees(layout: Layout) -> tuple[PackedTrees, float]:
    """Trees without targets, and the number of operations of a pass."""
    packed = pack_trees(np.zeros(layout.size, np.int32), layout.indptr, True)
    return packed, 3.0 * layout.longest * float(layout.once(_wide).sum())


def _check_trees(packed: PackedTrees) -> None:
    """Refuse heads with cycles, or with several roots where there must be one."""
    bad, roots = first_no_tree(packed)
    if bad < 0:
        return
    if roots > 1:
        raise ValueError(
            f"targets of example {bad} have {roots} words with head 0; expected one, or use "
            "Arborescence(single_root=False)."
        )
    raise ValueError(f"targets of example {bad} are no tree: their heads have a cycle.")


class Subset(Structure):
    """Subsets of a given size: scores of the elements, targets True for the chosen ones.

    The loss is the share of chosen elements that are missed.

    Parameters
    ----------
    size : int or sequence of int, optional
        Size of the subsets; needed where there are no targets.
    """

    name = "subset"

    def __init__(self, size: Any = None):
        self.size = size

    def _sizes(self, layout: Layout) -> np.ndarray:
        if self.size is None:
            raise ValueError("Subset needs size= where there are no targets: the number to choose.")
        sizes = np.asarray(self.size)
        if sizes.ndim == 0:
            check_integer("size", self.size, 1)
        sizes = np.broadcast_to(sizes, (layout.n,)).astype(np.int64)
        wrong = (sizes < 1) | (sizes > layout.lengths)
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"size of example {bad} must be from 1 to {layout.lengths[bad]}; received "
                f"{sizes[bad]}."
            )
        return sizes

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        layout = read_layout("scores", scores, 1, mask, offsets)
        if layout.form == "list":
            scores = torch.cat(list(scores))
        elif layout.form == "flat":
            check_scores("scores", scores, 1)
        if layout.form == "flat" and scores.numel() != layout.lengths.sum():
            raise ValueError(
                f"scores must hold {layout.lengths.sum()} numbers by offsets; received "
                f"{scores.numel()}."
            )
        values = as_rows(scores, 1)
        check_finite(values, layout.places, layout.lengths)
        if targets is None:
            sizes = self._sizes(layout)
            truth = np.concatenate([np.arange(s) for s in sizes])
        else:
            chosen = read_labels("targets", targets, layout, scores.device, 0, 2)
            owners = np.repeat(np.arange(layout.n), layout.lengths)
            sizes = np.bincount(owners, chosen, minlength=layout.n).astype(np.int64)
            if (sizes == 0).any():
                bad = int(np.flatnonzero(sizes == 0)[0])
                raise ValueError(f"targets of example {bad} choose no element.")
            where = np.flatnonzero(chosen)
            truth = where - layout.indptr[:-1][owners[where]]
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        packed = PackedSubset(
            truth.astype(np.int32), indptr, layout.indptr, int(layout.lengths.max()),
            int(sizes.max()),
        )  # fmt: skip
        work = 10.0 * float((sizes * layout.lengths).sum())
        return Batch(packed, scores, values, layout, layout.rows, work, layout.places)

    def shaped(self, rows, length):
        """One number per element."""
        return rows[:, 0]

    def form(self, batch, labels):
        """True for the chosen elements, in the form of the scores."""
        packed = batch.structure
        chosen = np.zeros(int(packed.parts_indptr[-1]), bool)
        places = labels + np.repeat(packed.parts_indptr[:-1], np.diff(packed.indptr))
        chosen[places[labels >= 0]] = True  # below 0: there is no such output
        return batch.layout.per_position(torch.from_numpy(chosen).to(batch.device), False)
