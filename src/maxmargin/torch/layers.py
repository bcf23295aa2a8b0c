"""Functions of scores: the best output, marginals, sums over all outputs, draws.

Each takes scores in any form that the losses take, and returns results in the same form. One call
of a compiled kernel processes the whole batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._validation import check_choice, check_integer, check_number
from ._batch import Batch
from ._regularized import regularized
from .structures import REGULARIZERS, Structure, structure_of


def _read(
    scores: Any, structure: Structure | str, mask: Any, offsets: Any, sums: bool
) -> tuple[Structure, Batch]:
    kind = structure_of(structure)
    if sums:
        kind.refuse("crf")
    batch = kind.batch(scores, None, mask, offsets)
    if sums:
        kind.check_sums(batch)
    return kind, batch


def decode(
    scores: Any, structure: Structure | str, *, mask: Tensor | None = None, offsets: Any = None
) -> Any:
    """The best output of each example.

    Parameters
    ----------
    scores : tensor, list of tensors, or ChainScores
    structure : Structure or str
    mask, offsets : optional
        As in the losses.

    Returns
    -------
    labels in the form of the scores; padding is -1 (False for subsets)
    """
    kind, batch = _read(scores, structure, mask, offsets, sums=False)
    return kind.decode(batch)


def marginals(
    scores: Any, structure: Structure | str, *, mask: Tensor | None = None, offsets: Any = None,
    transitions: bool = False, regularizer: str = "entropy", strength: float = 1.0,
) -> Any:  # fmt: skip
    """Marginals of the parts: those of a CRF, or of another smooth loss.

    They maximise ``v @ mu - Omega(mu)``; by default they are the marginal probabilities when
    outputs have probability ``exp(score) / Z``. Differentiable. Padding has probability 0.

    Parameters
    ----------
    scores, structure, mask, offsets
        As in :func:`decode`.
    transitions : bool, default=False
        Of a chain, return also the expected number of each transition, of shape (n, K, K).
    regularizer, strength
        Omega, as in :class:`FenchelYoungLoss`.
    """
    check_choice("regularizer", regularizer, REGULARIZERS)
    check_number("strength", strength, above=0)
    structure_of(structure).refuse_regularizer(regularizer)
    kind, batch = _read(scores, structure, mask, offsets, sums=True)
    if regularizer != "entropy":
        rows, weights = regularized(batch.structure, batch, regularizer, strength)
    else:
        rows, weights = kind.marginals(batch if strength == 1.0 else batch.over(strength))
    found = kind.parts(batch, rows.to(batch.device))
    if not transitions:
        return found
    pairs = kind.transitions(batch, weights)
    return found, pairs.to(rows.dtype).to(batch.device)


def log_partition(
    scores: Any, structure: Structure | str, *, mask: Tensor | None = None, offsets: Any = None
) -> Tensor:
    """``log sum_y exp(v @ phi(y))`` of each example; twice differentiable."""
    kind, batch = _read(scores, structure, mask, offsets, sums=True)
    return kind.log_partition(batch)


def entropy(
    scores: Any, structure: Structure | str, *, mask: Tensor | None = None, offsets: Any = None
) -> Tensor:
    """Entropy, in nats, of the distribution over the outputs of each example; differentiable."""
    kind, batch = _read(scores, structure, mask, offsets, sums=True)
    return kind.entropy(batch)


def sample(
    scores: Any, structure: Structure | str, *, n_samples: int = 1, mask: Tensor | None = None,
    offsets: Any = None, generator: torch.Generator | None = None,
) -> list[Any]:  # fmt: skip
    """Outputs drawn with probability ``exp(score) / Z``, exactly and independently.

    Parameters
    ----------
    scores, structure, mask, offsets
        As in :func:`decode`.
    n_samples : int, default=1
    generator : torch.Generator, optional
        Source of the random numbers.

    Returns
    -------
    list of n_samples batches of labels, each as :func:`decode` returns them
    """
    check_integer("n_samples", n_samples, 1)
    kind, batch = _read(scores, structure, mask, offsets, sums=True)
    return [kind.draw(batch, generator) for _ in range(n_samples)]


def topk(
    scores: Any, structure: Structure | str, k: int, *, mask: Tensor | None = None,
    offsets: Any = None,
) -> tuple[list[Any], Tensor]:  # fmt: skip
    """The k best outputs of each example, best first, exactly; not for factor graphs.

    Returns
    -------
    labels : list of k batches, each as :func:`decode` returns them
        Where an example has fewer outputs, the labels are -1 (False for subsets).
    values : tensor of shape (n, k)
        Their scores; minus infinity where there is no output.
    """
    check_integer("k", k, 1)
    kind, batch = _read(scores, structure, mask, offsets, sums=False)
    return kind.topk(batch, k)
