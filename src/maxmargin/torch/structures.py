"""What an output is: values that say how scores and targets of a batch are read.

A structure holds parameters only. Losses and functions take it by name (``"chain"``) or as a value
(``Chain(constraints="bio", classes=[...])``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._validation import check_integer, check_loss_matrix, check_switch
from ..oracles.closed_form import Formula
from ..structures.arborescence import pack_trees
from ..structures.losses import AbsoluteLoss, LabelLoss, MatrixLoss, ZeroOneLoss
from ..structures.multiclass import Multiclass as PackedClasses
from ..structures.multilabel import HIDDEN
from ..structures.multilabel import Multilabel as PackedLabels
from ..structures.permutation import Matching
from ..structures.subset import Subset as PackedSubset
from ..surrogates.crf import Crf
from ._autograd import Entropy, LogPartition, Marginals, SurrogateValues
from ._batch import Batch
from ._forms import (
    Layout,
    check_finite,
    check_scores,
    describe,
    read_labels,
    read_layout,
    to_cpu,
)

_NONE = np.empty(0, np.int64)


def label_loss(loss: Any, n_classes: int) -> LabelLoss:
    """The loss of one label: a name or a matrix, rows predicted and columns true."""
    if isinstance(loss, str):
        kinds = {"0-1": ZeroOneLoss, "absolute": AbsoluteLoss}
        if loss not in kinds:
            raise ValueError(f"loss must be '0-1', 'absolute' or a matrix; received {loss!r}.")
        return kinds[loss](np.ones(n_classes), True)
    matrix = loss.detach().cpu().numpy() if isinstance(loss, Tensor) else loss
    return MatrixLoss(check_loss_matrix(matrix, n_classes))


class Structure:
    """Base of the structures: how scores and targets of a batch are read."""

    name: str
    surrogates: tuple[str, ...] = ("max-margin", "max-min", "crf")

    def refuse(self, surrogate: str) -> None:
        """Refuse a surrogate that this structure does not have."""
        if surrogate not in self.surrogates:
            have = ", ".join(repr(name) for name in self.surrogates)
            raise ValueError(f"{self.name} has no {surrogate!r} loss; it has {have}.")

    def batch(self, scores: Any, targets: Any, mask: Any, offsets: Any) -> Batch:
        """Read scores, and targets unless they are None."""
        raise NotImplementedError

    def max_min_oracle(self, packed: Any, iterations: int) -> Any:
        """What answers for max-min; 0 iterations are the default."""
        return Formula(False)

    def form(self, batch: Batch, labels: np.ndarray) -> Any:
        """Labels of all examples, in the form of the scores."""
        found = torch.from_numpy(labels.astype(np.int64)).to(batch.device)
        return batch.layout.per_position(found, -1)

    def parts(self, batch: Batch, rows: Tensor) -> Any:
        """Values of all rows of scores, in the form of the scores."""
        if batch.layout.form == "list":
            pieces = rows.split(batch.rows.tolist())
            return [self.shaped(piece, int(n)) for piece, n in zip(pieces, batch.layout.lengths)]
        return rows.reshape(batch.shape)

    def shaped(self, rows: Tensor, length: int) -> Tensor:
        """The rows of one example in the shape of its scores."""
        return rows

    # --- what follows from the sums over all outputs ------------------------------------------

    def crf(self, batch: Batch) -> Tensor:
        """Negative log likelihood of each example."""
        return SurrogateValues.apply(batch.values, batch.weights, batch, Formula(False), Crf())[0]

    def log_partition(self, batch: Batch) -> Tensor:
        """Log partition function of each example."""
        return LogPartition.apply(batch.values, batch.weights, batch)

    def marginals(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Marginals of the rows, and of the weights of each example."""
        return Marginals.apply(batch.values, batch.weights, batch)

    def entropy(self, batch: Batch) -> Tensor:
        """Entropy of the distribution of each example."""
        return Entropy.apply(batch.values, batch.weights, batch)

    def draw(self, batch: Batch, generator: torch.Generator | None) -> Any:
        """An output of each example."""
        size = (batch.n, int(batch.layout.lengths.max()))
        uniforms = torch.rand(size, generator=generator, dtype=torch.float64)
        return self.form(batch, batch.draw(uniforms))

    def decode(self, batch: Batch) -> Any:
        """The best output of each example."""
        labels, values = batch.decode()
        if bool((values == -np.inf).any()):
            bad = int(torch.nonzero(values == -np.inf)[0, 0])
            raise ValueError(f"The constraints allow no output of example {bad}.")
        return self.form(batch, labels)


def _no_weights(values: Tensor) -> Tensor:
    return values.new_zeros((1, 0))


def _refuse_ragged(name: str, mask: Any, offsets: Any) -> None:
    if mask is not None or offsets is not None:
        raise ValueError(f"{name} scores have one row per example; mask and offsets do not apply.")


def _table(name: str, scores: Any) -> tuple[Tensor, Layout]:
    """Scores of examples that all have the same parts: a row each."""
    check_scores("scores", scores, 2)
    if min(scores.shape) == 0:
        raise ValueError(f"scores are empty: they have shape {tuple(scores.shape)}.")
    values = to_cpu(scores).contiguous()
    n = int(values.shape[0])
    check_finite(values, _NONE, np.ones(n, np.int64))
    return values, Layout("padded", np.ones(n, np.int64), 1)


class Multiclass(Structure):
    """One of K classes: scores of shape (n, K), targets of shape (n,).

    Parameters
    ----------
    loss : {"0-1", "absolute"} or matrix of shape (K, K), default="0-1"
        Loss of predicting the row when the column is true; for max-margin and max-min.
    """

    name = "multiclass"

    def __init__(self, loss: Any = "0-1"):
        self.loss = loss

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        _refuse_ragged(self.name, mask, offsets)
        values, layout = _table(self.name, scores)
        n, k = values.shape
        truth = np.zeros(n, np.int32)
        if targets is not None:
            given = targets[:, None] if isinstance(targets, Tensor) and targets.ndim == 1 else None
            if given is None:
                raise ValueError(
                    f"targets must be a tensor of shape ({n},); received {describe(targets)}."
                )
            truth = read_labels("targets", given, layout, scores.device, 0, k)
        packed = PackedClasses(truth, k, label_loss(self.loss, k))
        return Batch(
            packed, values, _no_weights(values), _NONE, layout.lengths, layout, 10.0 * n * k,
            tuple(scores.shape), scores.device,
        )  # fmt: skip

    # Plain torch does the sums over classes, and differentiates them.

    def crf(self, batch):
        """Cross entropy."""
        truth = torch.from_numpy(batch.structure.truth.astype(np.int64))
        return nn.functional.cross_entropy(batch.values, truth, reduction="none")

    def log_partition(self, batch):
        """Log of the sum of exponentials."""
        return batch.values.logsumexp(1)

    def marginals(self, batch):
        """Softmax."""
        return batch.values.softmax(1), batch.weights

    def entropy(self, batch):
        """Entropy of the softmax."""
        logs = batch.values.log_softmax(1)
        return -(logs.exp() * logs).sum(1)

    def draw(self, batch, generator):
        """A class of each example."""
        return torch.multinomial(batch.values.detach().softmax(1), 1, generator=generator)[:, 0].to(
            batch.device
        )

    def form(self, batch, labels):
        """One class per example."""
        return torch.from_numpy(labels.astype(np.int64)).to(batch.device)


class Ordinal(Multiclass):
    """One of K ordered classes: as :class:`Multiclass`, with the absolute loss."""

    name = "ordinal"

    def __init__(self, loss: Any = "absolute"):
        super().__init__(loss)


class Multilabel(Structure):
    """Any subset of L labels: scores of shape (n, L), that of presence less that of absence.

    Targets have shape (n, L): 1 present, 0 absent, -1 not known, which costs nothing.

    Parameters
    ----------
    costs : array of shape (2, L), optional
        Cost of a mistake on a label that is absent, that is present. Default: 1/L each.
    """

    name = "multilabel"

    def __init__(self, costs: Any = None):
        self.costs = costs

    def _costs(self, n_labels: int) -> np.ndarray:
        if self.costs is None:
            return np.full((2, n_labels), 1.0 / n_labels)
        costs = np.array(self.costs, np.float64)
        if costs.shape != (2, n_labels) or not (np.isfinite(costs) & (costs > 0)).all():
            raise ValueError(
                f"costs must be positive numbers of shape (2, {n_labels}); received shape "
                f"{costs.shape}."
            )
        return costs

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        _refuse_ragged(self.name, mask, offsets)
        values, layout = _table(self.name, scores)
        n, k = values.shape
        truth = np.zeros(n * k, np.int32)
        if targets is not None:
            wide = Layout("padded", np.full(n, k), k)
            truth = read_labels("targets", targets, wide, scores.device, -1, 2)
            truth[truth < 0] = HIDDEN
        packed = PackedLabels(truth, k, self._costs(k))
        # The compiled structure has opposite scores of presence and absence, of unit norm.
        return Batch(
            packed, values * np.sqrt(0.5), _no_weights(values), _NONE, layout.lengths, layout,
            10.0 * n * k, tuple(scores.shape), scores.device,
        )  # fmt: skip

    # Labels are independent given the scores, so plain torch does the sums.

    def _logits(self, batch: Batch) -> Tensor:
        return batch.values * np.sqrt(2.0)

    def crf(self, batch):
        """Sum of the binary cross entropies of the labels that are known."""
        truth = torch.from_numpy(batch.structure.truth).reshape(batch.shape)
        known = truth != HIDDEN
        target = (truth == 1).to(batch.values.dtype)
        each = nn.functional.binary_cross_entropy_with_logits(
            self._logits(batch), target, reduction="none"
        )
        return (each * known).sum(1)

    def log_partition(self, batch):
        """Sum over labels; absence has score 0."""
        return nn.functional.softplus(self._logits(batch)).sum(1)

    def marginals(self, batch):
        """Probabilities of presence."""
        return self._logits(batch).sigmoid(), batch.weights

    def entropy(self, batch):
        """Sum of the entropies of the labels."""
        logits = self._logits(batch)
        return (nn.functional.softplus(logits) - logits * logits.sigmoid()).sum(1)

    def draw(self, batch, generator):
        """0 or 1 for each label."""
        likely = self._logits(batch).detach().sigmoid()
        return torch.bernoulli(likely, generator=generator).long().to(batch.device)

    def form(self, batch, labels):
        """0 or 1 for each label."""
        return torch.from_numpy(labels.astype(np.int64)).reshape(batch.shape).to(batch.device)


class _Square(NamedTuple):
    """Parts of tables of different sizes, flat."""

    values: Tensor
    places: np.ndarray
    rows: np.ndarray
    layout: Layout
    shape: tuple[int, ...]


def _read_tables(scores: Any, extra: int, mask: Any, offsets: Any) -> _Square:
    """Tables of n rows and n + extra columns, as a list, padded, or flat."""
    layout = read_layout("scores", scores, 2, mask, offsets)
    lengths = layout.lengths
    sizes = lengths * (lengths + extra)
    shape: tuple[int, ...] = ()
    places = _NONE
    rows = sizes
    if layout.form == "list":
        for i, each in enumerate(scores):
            _check_table(f"scores[{i}]", each, int(lengths[i]), extra)
        values = torch.cat([each.reshape(-1) for each in scores])
    else:
        if layout.form == "flat":
            check_scores("scores", scores, 1)
            if len(scores) != sizes.sum():
                raise ValueError(
                    f"scores must hold {sizes.sum()} numbers, {extra and 'n (n + 1)' or 'n * n'} "
                    f"for each example of n positions by offsets; received {len(scores)}."
                )
        else:
            _check_table("scores", scores[0], layout.padded_to, extra)
            longest = layout.padded_to
            rows = np.full(layout.n, longest * (longest + extra))
            if layout.mask is not None:
                columns = np.arange(longest + extra) < lengths[:, None] + extra
                places = np.flatnonzero(layout.mask[:, :, None] & columns[:, None, :])
        shape = tuple(scores.shape)
        values = scores.reshape(-1)
    values = to_cpu(values).contiguous()[:, None]
    check_finite(values, places, sizes)
    return _Square(values, places, rows, layout, shape)


def _check_table(name: str, table: Tensor, n: int, extra: int) -> None:
    if tuple(table.shape) != (n, n + extra):
        raise ValueError(
            f"{name} must have shape ({n}, {n + extra}) for {n} positions; received "
            f"{tuple(table.shape)}."
        )


def _device(scores: Any) -> torch.device:
    return scores.device if isinstance(scores, Tensor) else scores[0].device


class Permutation(Structure):
    """Permutations (rankings, matchings): scores ``[row, column]``, targets the column of each row.

    The loss is the share of rows with a wrong column. There is no CRF: its partition function is
    the permanent of a matrix.
    """

    name = "permutation"
    surrogates = ("max-margin", "max-min")

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        read = _read_tables(scores, 0, mask, offsets)
        layout, lengths = read.layout, read.layout.lengths
        if targets is None:
            truth = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
        else:
            most = np.repeat(lengths, lengths)
            truth = read_labels("targets", targets, layout, _device(scores), 0, most)
            _check_permutations(truth, layout)
        pairs = np.concatenate([[0], np.cumsum(lengths**2)]).astype(np.int64)
        packed = Matching(truth, layout.indptr, pairs, int(lengths.max()), np.ones(layout.n))
        return Batch(
            packed, read.values, _no_weights(read.values), read.places, read.rows, layout,
            20.0 * float((lengths**3).sum()), read.shape, _device(scores),
        )  # fmt: skip

    def shaped(self, rows, length):
        """A square table."""
        return rows.reshape(length, length)

    def max_min_oracle(self, packed, iterations):
        """Proximal steps to the saddle point."""
        from .._kernels.saddle import Proximal
        from ..oracles.saddle import saddle_pairs

        return saddle_pairs(np.diff(packed.indptr), Proximal(iterations or 100, 1e-6))


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
        layout, lengths = read.layout, read.layout.lengths
        if targets is None:
            truth = np.zeros(int(lengths.sum()), np.int32)
        else:
            most = np.repeat(lengths + 1, lengths)
            truth = read_labels("targets", targets, layout, _device(scores), 0, most)
            _check_trees(truth, layout, self.single_root)
        packed = pack_trees(truth, layout.indptr, self.single_root)
        return Batch(
            packed, read.values, _no_weights(read.values), read.places, read.rows, layout,
            3.0 * float((lengths**3).sum()), read.shape, _device(scores),
        )  # fmt: skip

    def shaped(self, rows, length):
        """Words by heads."""
        return rows.reshape(length, length + 1)

    def max_min_oracle(self, packed, iterations):
        """The double oracle."""
        from ..oracles.double_oracle import TreeGame

        return TreeGame(iterations or 100, 1e-6)


def _check_trees(heads: np.ndarray, layout: Layout, single_root: bool) -> None:
    """Refuse heads with cycles, or with several roots where there must be one."""
    owners = np.repeat(np.arange(layout.n), layout.lengths)
    base = layout.indptr[:-1][owners]
    at_root = heads == 0
    above = np.where(at_root, -1, base + heads - 1)
    for _ in range(int(np.ceil(np.log2(layout.lengths.max() + 1)))):  # twice as far each time
        above = np.where(above >= 0, above[above], -1)
    if (above >= 0).any():
        bad = int(owners[np.flatnonzero(above >= 0)[0]])
        raise ValueError(f"targets of example {bad} are no tree: their heads have a cycle.")
    roots = np.bincount(owners[at_root], minlength=layout.n)
    if single_root and (roots != 1).any():
        bad = int(np.flatnonzero(roots != 1)[0])
        raise ValueError(
            f"targets of example {bad} have {roots[bad]} words with head 0; expected one, or use "
            "Arborescence(single_root=False)."
        )


class Subset(Structure):
    """Subsets of a given size: scores of the elements, targets True for the chosen ones.

    The loss is the share of chosen elements that are missed.

    Parameters
    ----------
    size : int or sequence of int, optional
        Size of the subsets, where no targets tell it.
    """

    name = "subset"

    def __init__(self, size: Any = None):
        self.size = size

    def _sizes(self, layout: Layout) -> np.ndarray:
        if self.size is None:
            raise ValueError("Subset needs size= where there are no targets: how many to choose.")
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
            values = torch.cat(list(scores))
        else:
            values = scores.reshape(-1)
        device = _device(scores)
        if layout.form == "flat" and len(values) != layout.lengths.sum():
            raise ValueError(
                f"scores must hold {layout.lengths.sum()} numbers by offsets; received "
                f"{len(values)}."
            )
        values = to_cpu(values).contiguous()[:, None]
        check_finite(values, layout.places, layout.lengths)
        if targets is None:
            sizes = self._sizes(layout)
            truth = np.concatenate([np.arange(s) for s in sizes])
        else:
            chosen = read_labels("targets", targets, layout, device, 0, 2)
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
        rows = np.full(layout.n, layout.padded_to) if layout.form == "padded" else layout.lengths
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else ()
        return Batch(
            packed, values, _no_weights(values), layout.places, rows, layout,
            10.0 * float((sizes * layout.lengths).sum()), shape, device,
        )  # fmt: skip

    def shaped(self, rows, length):
        """One number per element."""
        return rows[:, 0]

    def form(self, batch, labels):
        """True for the chosen elements, in the form of the scores."""
        packed = batch.structure
        chosen = np.zeros(int(packed.elements[-1]), bool)
        chosen[labels + np.repeat(packed.elements[:-1], np.diff(packed.indptr))] = True
        return batch.layout.per_position(torch.from_numpy(chosen).to(batch.device), False)


def structure_of(structure: Any) -> Structure:
    """A structure, by its name or as a value."""
    from .chain import Chain

    kinds = {
        kind.name: kind
        for kind in (Multiclass, Ordinal, Multilabel, Chain, Permutation, Arborescence, Subset)
    }
    if isinstance(structure, Structure):
        return structure
    if not isinstance(structure, str) or structure not in kinds:
        raise ValueError(
            f"structure must be one of {', '.join(map(repr, kinds))} or such a value; received "
            f"{structure!r}."
        )
    return kinds[structure]()


__all__ = [
    "Arborescence", "Multiclass", "Multilabel", "Ordinal", "Permutation", "Structure", "Subset",
]  # fmt: skip
