"""Structured losses and layers for PyTorch on the compiled oracles of this library.

Needs the extra ``torch``: ``pip install "maxmargin[torch]"``.
"""

from __future__ import annotations

from .._optional import require

require("torch", "torch", "maxmargin.torch")

from .chain import Chain, ChainScores  # noqa: E402
from .chain_crf import ChainCRF  # noqa: E402
from .fenchel_young import FenchelYoungLoss  # noqa: E402
from .graphs import FactorGraphs, GraphScores  # noqa: E402
from .labeler import NeuralSequenceLabeler  # noqa: E402
from .layers import decode, entropy, log_partition, marginals, sample, topk  # noqa: E402
from .losses import Bracket, CRFLoss, MaxMarginLoss, MaxMinLoss  # noqa: E402
from .structures import (  # noqa: E402
    Arborescence,
    Multiclass,
    Multilabel,
    Ordinal,
    Permutation,
    Subset,
)

__all__ = [
    "Arborescence", "Bracket", "CRFLoss", "Chain", "ChainCRF", "ChainScores", "FactorGraphs",
    "FenchelYoungLoss", "GraphScores", "MaxMarginLoss", "MaxMinLoss", "Multiclass", "Multilabel",
    "NeuralSequenceLabeler", "Ordinal", "Permutation", "Subset", "decode", "entropy",
    "log_partition", "marginals", "sample", "topk",
]  # fmt: skip
