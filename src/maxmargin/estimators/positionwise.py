"""Transformers of scikit-learn on sequences: their positions are the rows of one matrix."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._validation import is_class, is_frame, is_plain_list, method_of
from ..features.column_names import keep_names, names_known, warn_names
from ..features.sequences import Sequences, holds_dicts, open_sequences, take_list
from ..tasks.parts import check_lengths, flatten_labels


class PositionWise(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Applies a transformer to every position of every sequence.

    The positions of all sequences are stacked, transformed as the rows of one matrix, and cut into
    sequences again. So anything that works on rows works on sequences: scaling, selection of
    features, approximations of kernels (``Nystroem``), hashing of feature dicts.

    Parameters
    ----------
    transformer : transformer
        Any transformer of scikit-learn that gives one row for each row. It is cloned, not changed.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
        Number of features of a position; not there for feature dicts.
    feature_names_in_ : array of str
        Names of the columns, if sequences are data frames.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import Nystroem
    >>> from sklearn.pipeline import make_pipeline
    >>> from maxmargin import PositionWise, SequenceLabeler
    >>> rng = np.random.RandomState(0)
    >>> X = [rng.randn(length, 3) for length in (4, 6, 5, 7)]
    >>> y = [(abs(x[:, 0]) > 0.7).astype(int) for x in X]
    >>> features = PositionWise(Nystroem(n_components=10, random_state=0))
    >>> model = make_pipeline(features, SequenceLabeler(random_state=0)).fit(X, y)
    >>> [len(labels) for labels in model.predict(X)]
    [4, 6, 5, 7]
    """

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> PositionWise:
        """Fit the transformer to all positions.

        Parameters
        ----------
        X : list of sequences
            Each a (T, d) array, a CSR matrix, or a list of T feature dicts.
        y : list of sequences of T labels, optional
            For transformers that need them; they get the labels of all positions.
        **fit_params : dict
            Handed on to the transformer.
        """
        self._check_transformer()
        sequences = take_list(X)
        stacked, indptr, names = _stack(sequences)
        labels = None if y is None else _labels(y, sequences, indptr)
        self.transformer_ = clone(self.transformer)
        self.transformer_.fit(stacked, labels, **fit_params)
        self.__dict__.pop("n_features_in_", None)  # of an earlier fit
        if not is_plain_list(stacked):
            self.n_features_in_ = stacked.shape[1]
        keep_names(self, names)
        return self

    def transform(self, X: Any) -> list[Any]:
        """Transform all positions.

        Returns
        -------
        list of arrays or CSR matrices, one for each sequence, with as many rows as positions
        """
        check_is_fitted(self, "transformer_")
        stacked, indptr, names = _stack(take_list(X), names_known(self))
        self._check_kind(stacked)
        warn_names(self, names)
        found = self.transformer_.transform(stacked)
        if is_frame(found):
            found = found.to_numpy()
        found = found.tocsr() if sp.issparse(found) else np.asarray(found)
        if found.ndim != 2 or found.shape[0] != indptr[-1]:
            raise ValueError(
                f"{type(self.transformer_).__name__} must give one row for each of the "
                f"{indptr[-1]} positions; received shape {found.shape}."
            )
        return [found[a:b] for a, b in zip(indptr[:-1], indptr[1:], strict=True)]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features that come out, as the transformer says."""
        check_is_fitted(self, "transformer_")
        return self.transformer_.get_feature_names_out(input_features)

    def _check_transformer(self) -> None:
        methods = [method_of(self.transformer, name) for name in ("fit", "transform")]
        if None in methods or is_class(self.transformer):
            raise TypeError(
                "transformer must be a transformer with fit and transform, such as "
                f"StandardScaler(); received {self.transformer!r}."
            )

    def _check_kind(self, stacked: Any) -> None:
        n_features = vars(self).get("n_features_in_")
        if is_plain_list(stacked):
            if n_features is not None:
                raise ValueError(
                    "X[0] holds feature dicts, but PositionWise was fitted on arrays; pass arrays "
                    f"of shape (length, {n_features})."
                )
        elif n_features is None:
            raise ValueError(
                "X[0] is no list of feature dicts, but PositionWise was fitted on them; pass lists "
                "of dicts."
            )
        elif stacked.shape[1] != n_features:
            raise ValueError(
                f"X[0] has {stacked.shape[1]} features, but PositionWise was fitted with "
                f"{n_features}."
            )


def _stack(
    sequences: list, known: list[str] | None = None
) -> tuple[Any, np.ndarray, list[str] | None]:
    """All positions, an array, a CSR matrix or a list of dicts, where each sequence starts, and
    names of columns, which must be those ``known``."""
    if not holds_dicts(sequences):
        opened: Sequences = open_sequences(sequences, names=known)
        return opened.stack(), opened.indptr, opened.names
    lengths = [len(x) for x in sequences]
    if 0 in lengths:
        raise ValueError(
            f"X[{lengths.index(0)}] is an empty sequence; every sequence needs at least one "
            "position. Leave it out."
        )
    return list(chain.from_iterable(sequences)), np.concatenate([[0], np.cumsum(lengths)]), None


def _labels(y: Any, sequences: list, indptr: np.ndarray) -> Any:
    labels, lengths = flatten_labels(y, sequences)
    check_lengths(lengths, indptr)
    return labels
