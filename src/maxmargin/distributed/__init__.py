"""Train on partitions of the data: on a Dask or Ray cluster, in threads, or from files."""

from .shards import Shards
from .training import decode, fit, partial_fit, predict, score

__all__ = ["Shards", "decode", "fit", "partial_fit", "predict", "score"]
