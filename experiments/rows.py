"""The 18 rows of Table 1: data, sizes, and the numbers that the paper printed.

Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_iris, load_wine

METHODS = {"M3N": "max-margin", "CRF": "crf", "M4N": "max-min"}
# The third consistent method, which the paper's theory compares with and its table does not have.
WITH_QUADRATIC = METHODS | {"QS": "quadratic"}


class Examples(NamedTuple):
    """Inputs, outputs, and how many labels (or items) there are."""

    X: Any
    y: Any
    n_labels: int

    def take(self, chosen: np.ndarray) -> Examples:
        """Some of the examples."""
        if isinstance(self.X, list):
            return Examples([self.X[i] for i in chosen], [self.y[i] for i in chosen], self.n_labels)
        return Examples(self.X[chosen], self.y[chosen], self.n_labels)


class Row(NamedTuple):
    """A line of the table; losses as printed, None where the paper has none."""

    name: str
    task: str
    load: Callable[[], Examples]
    M3N: float
    CRF: float | None
    M4N: float

    def paper(self, method: str) -> float | None:
        """What the paper prints for a method."""
        return self._asdict().get(method)

    def has(self, method: str) -> bool:
        """Whether a method is run; least squares have no transitions between labels."""
        return self.task != "sequence" if method == "QS" else self.paper(method) is not None

    @property
    def in_percent(self) -> bool:
        """Whether losses are printed in percent."""
        return self.task != "ordinal"


def load_npz(name: str) -> dict[str, np.ndarray]:
    """All arrays of a data file."""
    # Importing the benchmarks sets the number of threads to one: only when it is wanted.
    from benchmarks.data import load_npz as load

    return load(name)


def _from_sklearn(load: Callable) -> Callable[[], Examples]:
    def loader() -> Examples:
        X, y = load(return_X_y=True)
        return Examples(X, y, int(y.max()) + 1)

    return loader


def _multiclass(file: str, choose: Callable[[dict], Any] | None = None) -> Callable[[], Examples]:
    def loader() -> Examples:
        data = load_npz(file)
        X, y = data["X"].astype(np.float64), data["y"].astype(np.int64)
        if choose is not None:
            X, y = X[choose(data)], y[choose(data)]
        return Examples(X, y, int(y.max()) + 1)

    return loader


def equal_width(raw: np.ndarray, n_bins: int) -> np.ndarray:
    """Bins that divide the range of a regression target into intervals of equal length."""
    place = (raw - raw.min()) / (raw.max() - raw.min())
    return np.minimum((place * n_bins).astype(np.int64), n_bins - 1)


def closed_on_the_right(raw: np.ndarray, n_bins: int) -> np.ndarray:
    """The same with a value at the border of two intervals in the lower one."""
    borders = np.linspace(raw.min(), raw.max(), n_bins + 1)
    return np.clip(np.searchsorted(borders, raw) - 1, 0, n_bins - 1)


def _ordinal(file: str, bins: str) -> Callable[[], Examples]:
    def loader() -> Examples:
        data = load_npz(file)
        n_bins = int(data["n_bins"])
        y = data["y"].astype(np.int64)
        raw = data["y_raw"]
        if bins == "right":
            y = closed_on_the_right(raw, n_bins)
        elif bins != "frequency":
            y = equal_width(np.log(raw) if bins == "logarithm" else raw, n_bins)
        return Examples(data["X"].astype(np.float64), y, n_bins)

    return loader


def _ranking(file: str) -> Callable[[], Examples]:
    def loader() -> Examples:
        data = load_npz(file)
        rank = data["rank"].astype(np.int64)
        return Examples(data["X"].astype(np.float64), rank, rank.shape[1])

    return loader


def _ocr() -> Examples:
    from benchmarks.data import words

    every = words()
    return Examples(every.X, every.y, 26)


# Satimage is its training part and letter its first 15000 examples, as the paper's sizes say.
ROWS = (
    Row("segment", "multiclass", _multiclass("uci_segment"), 6.64, 6.43, 6.09),
    Row("iris", "multiclass", _from_sklearn(load_iris), 3.33, 3.08, 3.33),
    Row("wine", "multiclass", _from_sklearn(load_wine), 2.56, 2.14, 2.35),
    Row("vehicle", "multiclass", _multiclass("uci_vehicle"), 24.6, 25.1, 24.0),
    Row(
        "satimage",
        "multiclass",
        _multiclass("uci_satimage", lambda data: data["is_train"]),
        12.2,
        11.5,
        11.9,
    ),
    Row(
        "letter",
        "multiclass",
        _multiclass("uci_letter", lambda data: slice(15000)),
        14.6,
        13.2,
        13.5,
    ),
    Row("mfeat", "multiclass", _multiclass("uci_mfeat_fac"), 3.94, 4.35, 3.96),
    Row("wisconsin", "ordinal", _ordinal("ord_wisconsin", "width"), 1.24, 1.26, 1.26),
    Row("stocks", "ordinal", _ordinal("ord_stocks", "width"), 0.167, 0.168, 0.160),
    Row("machine", "ordinal", _ordinal("ord_machine_cpu", "width"), 0.634, 0.628, 0.628),
    Row("abalone", "ordinal", _ordinal("ord_abalone", "width"), 0.520, 0.526, 0.520),
    Row("auto", "ordinal", _ordinal("ord_auto_mpg", "width"), 0.589, 0.621, 0.585),
    Row("ocr", "sequence", _ocr, 16.2, 16.3, 16.2),
    Row("glass (ranking)", "ranking", _ranking("lr_glass"), 17.7, None, 17.4),
    Row("bodyfat (ranking)", "ranking", _ranking("lr_bodyfat"), 79.6, None, 79.6),
    Row("wine (ranking)", "ranking", _ranking("lr_wine"), 5.06, None, 4.34),
    Row("vowel (ranking)", "ranking", _ranking("lr_vowel"), 33.7, None, 32.2),
    Row("vehicle (ranking)", "ranking", _ranking("lr_vehicle"), 14.8, None, 15.0),
)

# The paper does not say how it cut the regression targets into classes. Its code refuses training
# sets without an example of each class: of machine, equal width leaves two classes empty.
OTHER_BINS = tuple(
    Row(f"{name}, equal frequency", "ordinal", _ordinal(file, "frequency"), *printed)
    for name, file, printed in (
        ("wisconsin", "ord_wisconsin", (1.24, 1.26, 1.26)),
        ("stocks", "ord_stocks", (0.167, 0.168, 0.160)),
        ("machine", "ord_machine_cpu", (0.634, 0.628, 0.628)),
        ("abalone", "ord_abalone", (0.520, 0.526, 0.520)),
        ("auto", "ord_auto_mpg", (0.589, 0.621, 0.585)),
    )
) + (
    Row("machine, log width", "ordinal", _ordinal("ord_machine_cpu", "logarithm"), 0.634, 0.628,
        0.628),
    # Rings are integers, and 15 of them are a border of intervals of equal width.
    Row("abalone, closed on the right", "ordinal", _ordinal("ord_abalone", "right"), 0.520, 0.526,
        0.520),
)  # fmt: skip

BY_NAME = {row.name: row for row in ROWS + OTHER_BINS}
