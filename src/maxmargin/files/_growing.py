"""Arrays that grow at their end while a file is read."""

from __future__ import annotations

import numpy as np

# Capacity at first, in rows.
_FIRST_ROWS = 1024


class Growing:
    """An array that rows are added to; at no time there are two copies of it.

    Parameters
    ----------
    dtypes : type or sequence of types
        Values are stored in the first of these that has held all of them exactly; the last one
        must hold everything.
    width : tuple of int
        Shape of a row: () for an array of one dimension.
    """

    def __init__(self, *dtypes: type, width: tuple[int, ...] = ()) -> None:
        self._dtypes = dtypes
        self._values: np.ndarray = np.empty((_FIRST_ROWS, *width), dtypes[0])
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def extend(self, values: np.ndarray) -> None:
        """Add rows."""
        while len(self._dtypes) > 1 and not _is_exact(values, self._dtypes[0]):
            self._dtypes = self._dtypes[1:]
            self._values = self._values[: self._n].astype(self._dtypes[0])
        end = self._n + len(values)
        if end > len(self._values):
            # Large arrays are moved by the operating system, page by page, without a copy. The new
            # rows are filled with zeros and so take memory: an eighth is enough.
            self._resize(max(end, self._n + self._n // 8))
        self._values[self._n : end] = values
        self._n = end

    def finish(self) -> np.ndarray:
        """The array; nothing can be added afterwards."""
        self._resize(self._n)
        return self._values

    def _resize(self, n: int) -> None:
        self._values.resize((n, *self._values.shape[1:]), refcheck=False)


def _is_exact(values: np.ndarray, dtype: type) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        return bool((values.astype(dtype) == values).all())
