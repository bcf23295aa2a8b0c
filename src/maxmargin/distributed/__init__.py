"""Training on several processes or machines: partitions on Dask, on Ray, in threads, from files."""

from .shards import Shards
from .training import decode, fit, partial_fit, predict, score

__all__ = ["Shards", "decode", "fit", "partial_fit", "predict", "score"]
