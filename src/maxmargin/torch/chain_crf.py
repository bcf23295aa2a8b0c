"""A linear-chain CRF head with the interface of pytorch-crf's ``CRF``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._validation import check_choice, check_integer
from ._batch import Batch
from ._forms import Layout
from .chain import Chain, ChainScores
from .layers import marginals
from .losses import equal_factors

_REDUCTIONS = ("none", "sum", "mean", "token_mean")


class ChainCRF(nn.Module):
    """Linear-chain CRF over emissions of a network: transitions, start and end as parameters.

    Constructor, methods and names of parameters are those of pytorch-crf's ``CRF``, whose state
    dicts load.

    Parameters
    ----------
    num_tags : int
        Number of labels.
    batch_first : bool, default=False
        Whether emissions have shape (n, T, K) rather than (T, n, K).
    constraints, classes : optional
        Which labels may follow each other, begin and end, as in :class:`Chain`. They hold in
        training and in decoding.

    Examples
    --------
    >>> import torch
    >>> from maxmargin.torch import ChainCRF
    >>> crf = ChainCRF(3, batch_first=True)
    >>> emissions, tags = torch.randn(2, 5, 3), torch.zeros(2, 5, dtype=torch.long)
    >>> loss = -crf(emissions, tags, reduction="mean")
    >>> loss.backward()
    >>> [len(labels) for labels in crf.decode(emissions)]
    [5, 5]
    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        constraints: Any = None,
        classes: Sequence[Any] | None = None,
    ):
        super().__init__()
        self.num_tags = check_integer("num_tags", num_tags, 1)
        self.batch_first = bool(batch_first)
        self.structure = Chain(constraints=constraints, classes=classes)
        self.structure.of_size(num_tags)
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from -0.1 to 0.1."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        """Parameters, as torch prints them."""
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}"

    def _first(self, tensor: Tensor | None) -> Tensor | None:
        """Examples first."""
        return tensor if tensor is None or self.batch_first else tensor.transpose(0, 1)

    def scores(self, emissions: Tensor) -> ChainScores:
        """Emissions, examples first, with the parameters: scores for any loss or layer."""
        if emissions.ndim != 3 or emissions.shape[2] != self.num_tags:
            raise ValueError(
                f"emissions must have three dimensions, the last one {self.num_tags}; received "
                f"shape {tuple(emissions.shape)}."
            )
        given = self._first(emissions)
        return ChainScores(given, self.transitions, self.start_transitions, self.end_transitions)

    def _batch(self, emissions: Tensor, tags: Tensor | None, mask: Tensor | None) -> Batch:
        scores = self.scores(emissions)
        return self.structure.batch(scores, self._first(tags), self._first(mask), None)

    def forward(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: str = "sum"
    ) -> Tensor:
        """Log likelihood of labels; its negative is the loss to minimise.

        Parameters
        ----------
        emissions : tensor of shape (T, n, K), or (n, T, K) with ``batch_first``
        tags : integer tensor of shape (T, n) or (n, T)
        mask : bool tensor of the shape of tags, optional
            True for positions of the sequence, False for padding, which comes last.
        reduction : {"sum", "mean", "token_mean", "none"}, default="sum"
        """
        check_choice("reduction", reduction, _REDUCTIONS)
        batch = self._batch(emissions, tags, mask)
        if reduction == "none":
            return -self.structure.crf(batch, None)[0]
        count = {"sum": 1, "mean": batch.n, "token_mean": batch.layout.size}[reduction]
        return self.structure.crf(batch, equal_factors(batch.n, -1.0 / count))[0]

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:
        """The best labels of each sequence."""
        with torch.no_grad():
            batch = self._batch(emissions, None, mask)
        return _cut(batch.layout, self.structure.best(batch))

    def topk(
        self, emissions: Tensor, k: int, mask: Tensor | None = None
    ) -> list[list[tuple[list[int], float]]]:
        """The k best labellings of each sequence with their probabilities, best first."""
        check_integer("k", k, 1)
        with torch.no_grad():
            batch = self._batch(emissions, None, mask)
            log_sums = self.structure.log_partition(batch).double()
            labels, values = self.structure.topk(batch, k)
            likely = (values.double() - log_sums[:, None]).exp().tolist()
        listed = [_listed(batch.layout, each) for each in labels]
        return [
            [(listed[place][i], p) for place, p in enumerate(likely[i]) if p > 0.0 or place == 0]
            for i in range(batch.n)
        ]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities of the labels at all positions, in the shape of the emissions."""
        found = marginals(self.scores(emissions), self.structure, mask=self._first(mask))
        return found if self.batch_first else found.transpose(0, 1)

    def span_probabilities(
        self,
        emissions: Tensor,
        spans: Sequence[tuple[int, int, Sequence[int]]],
        mask: Tensor | None = None,
    ) -> Tensor:
        """Joint probabilities of given labels at the consecutive positions of spans.

        Parameters
        ----------
        emissions, mask
            As in :meth:`forward`.
        spans : list of (sequence, first position, labels)

        Returns
        -------
        tensor of shape (number of spans,)
        """
        with torch.no_grad():
            batch = self._batch(emissions, None, mask)
            log_sums = self.structure.log_partition(batch)
            owners = _check_spans(spans, batch.layout, self.num_tags)
            if not len(owners):
                return log_sums.new_zeros(0)
            lengths, starts = batch.layout.lengths[owners], batch.layout.indptr[owners]
            rows = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, lengths)])
            allowed = np.ones((len(rows), self.num_tags), bool)
            for begin, (_, first, labels) in zip(np.cumsum(lengths) - lengths, spans):
                at = begin + first + np.arange(len(labels))
                allowed[at] = False
                allowed[at, np.asarray(labels)] = True
            places = batch.places[rows] if len(batch.places) else rows
            copies = torch.from_numpy(batch.values[places]).to(batch.device)
            offsets = Layout("flat", lengths).indptr
            scores = self.scores(emissions)._replace(emissions=copies)
            held = self.structure.batch(scores, None, None, offsets, allowed)
            inside = self.structure.log_partition(held)
            return (inside - log_sums[torch.from_numpy(owners)]).exp()


def _check_spans(spans: Any, layout: Layout, n_labels: int) -> np.ndarray:
    """The sequences of spans; raises ValueError for positions or labels out of range."""
    for place, (sequence, first, labels) in enumerate(spans):
        if not 0 <= sequence < layout.n:
            raise ValueError(
                f"spans[{place}] names sequence {sequence}; expected 0 to {layout.n - 1}."
            )
        length = int(layout.lengths[sequence])
        if first < 0 or not len(labels) or first + len(labels) > length:
            raise ValueError(
                f"spans[{place}] covers positions {first} to {first + len(labels) - 1} of sequence "
                f"{sequence}, which has {length}."
            )
        if not all(0 <= label < n_labels for label in labels):
            raise ValueError(
                f"spans[{place}] must have labels from 0 to {n_labels - 1}; received {labels!r}."
            )
    return np.array([span[0] for span in spans], np.int64)


def _cut(layout: Layout, labels: np.ndarray) -> list[list[int]]:
    flat = labels.tolist()
    ends = layout.indptr.tolist()
    return [flat[a:b] for a, b in zip(ends[:-1], ends[1:])]


def _listed(layout: Layout, labels: Tensor) -> list[list[int]]:
    return [row[:n] for row, n in zip(labels.tolist(), layout.lengths.tolist())]
