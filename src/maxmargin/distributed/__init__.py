"""Train on partitions of the data: on a Dask or Ray cluster, in threads, or from files."""

from .shards import Shards, hashed
from .training import decode, fit, partial_fit, predict, score

__all__ = ["Shards", "decode", "fit", "hashed", "partial_fit", "predict", "score"]
