"""Dependency parsing: the best directed spanning tree over the words of a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._validation import (
    check_integer,
    check_n_jobs,
    check_sample_weight,
    is_name,
    is_plain_list,
    is_text,
)
from ..features.arcs import parse_template
from ..solvers.groups import for_groups
from ..solvers.problem import Problem
from ..structures.arborescence import Arborescence, arc_marginals, arc_scores, pack_trees
from ..structures.take import ragged
from ..tasks import task_of
from ..tasks.trees import HIDDEN, take_heads
from ..tasks.unknown import warn_without_labels
from ._base import Settings, with_parameters
from ._docs import documented
from ._tree_data import FeatureSpec, Sentences, known_arcs, parse, word_costs
from ._tree_hidden import HiddenHeads

_MOST_BITS = 30


@documented(
    without=("fit_intercept", "class_weight", "classes"),
    auto="""\"accelerated\" on
        arrays and "bcfw" on words""",
    solver_note=" A CRF of trees has no other than the last.",
    alpha_note="""C = 1 for the loss summed over the words: the mean number of words of a sentence
        over the total weight, or 1 over it for a CRF.""",
    hidden_note="""; a CRF minimises the negative log likelihood of the known labels,
        ``log sum_z exp(score(x, z)) - log sum_h exp(score(x, y, h))``, by gradients, one start""",
    extra="""\
    oracle_iterations : int, default=100
        Most iterations of the double oracle that solves the game of max-min: in each, both players
        learn a tree. It ends earlier where the answer is exact, and the certificate includes what
        an answer lacks.""",
)
@with_parameters
class TreeParser(HiddenHeads):
    """Finds the head of every word of a sentence: a dependency tree.

    Nodes are an artificial root 0 and the words 1, ..., m. An arc from head h to word d has
    features ``psi_hd`` and scores ``v_hd = w @ psi_hd``; a tree y scores ``sum_d v_(y_d, d)``, and
    the best one is found by the algorithm of Chu, Liu and Edmonds. Training minimises, with
    ``L(y, z)`` the share of words with a wrong head::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_z [ L(z, y) + v(z) ] - v(y)
        max-min:     S(v, y) = max_mu [ min_z E_mu L(z, .) + mu @ v ] - v(y)
        crf:         S(v, y) = log sum_z exp(v(z)) - v(y) = -log p(y | x)

    over all trees z, also those whose arcs cross, and distributions mu over them. Sums over trees
    are determinants (matrix-tree theorem). Some heads need not be known: see ``hidden``.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf"}, default="max-margin"
    single_root : bool, default=True
        Whether exactly one word has the root as its head.
    templates : "auto" or list of str, default="auto"
        Features of arcs between words: ``"form upos | upos+1"`` is the conjunction of form and tag
        of the head with the tag of the word after the dependent, once by itself and once with
        direction and distance. "auto" are those of :data:`maxmargin.features.arcs.TEMPLATES` whose
        attributes all words have.
    between : str or None, default="upos"
        Attribute whose values between head and dependent are features, too.
    hash_bits : int, default=20
        Features are hashed into ``2 ** hash_bits`` weights.
    %(hidden)s
    %(parameters)s

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights of the features of an arc.
    templates_ : list of str
        The templates in use; empty where X holds arrays.
    between_ : str or None
    n_features_in_ : int
        Number of features of an arc, or ``2 ** hash_bits``.
    %(attributes)s
    %(hidden_attributes)s

    Examples
    --------
    >>> from maxmargin import TreeParser
    >>> X = [
    ...     [("dogs", "NOUN"), ("bark", "VERB")],
    ...     [("the", "DET"), ("cat", "NOUN"), ("ran", "VERB")],
    ... ]
    >>> y = [[2, 0], [2, 3, 0]]
    >>> model = TreeParser(hash_bits=10, random_state=0).fit(X, y)
    >>> model.predict([[("the", "DET"), ("dogs", "NOUN"), ("ran", "VERB")]])[0].tolist()
    [2, 3, 0]
    """

    single_root: bool = True
    templates: Any = "auto"
    between: str | None = "upos"
    hash_bits: int = 20

    _switches = ("warm_start", "single_root")
    _traits = Arborescence.traits()

    # --- settings ---------------------------------------------------------------------------

    def _check_settings(self) -> Settings:
        settings = super()._check_settings()
        bits = check_integer("hash_bits", self.hash_bits, 1)
        if bits > _MOST_BITS:
            raise ValueError(f"hash_bits must be at most {_MOST_BITS}; received {bits}.")
        if self.between is not None and not is_text(self.between):
            raise ValueError(
                f"between must be the name of an attribute or None; received {self.between!r}."
            )
        listed = () if is_name(self.templates, "auto") else self.templates
        if not is_plain_list(listed) or not self.templates:
            raise ValueError(
                f"templates must be 'auto' or a list of templates; received {self.templates!r}."
            )
        for template in listed:
            parse_template(template)
        return settings

    # --- training ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TreeParser:
        """Train on sentences and their trees.

        Parameters
        ----------
        X : list of n sentences
            Each a :class:`maxmargin.conllu.Sentence`, a list of words (str), of pairs (form, tag)
            or of dicts of attributes; or the features of all arcs: an array of shape
            (m + 1, m, n_features), or a CSR matrix of its (m + 1) m rows.
        y : list of n lists of m heads
            ``y[i][d]`` is the head of word d + 1 of sentence i: 0 for the root, otherwise the
            number of a word, counted from 1, as in CoNLL-U.
        sample_weight : array of shape (n,), optional
            Weights of the sentences; 2 is the same as having a sentence twice.
        """
        settings = self._check_settings()
        sentences = Sentences(X)
        heads = take_heads(y, sentences.lengths, self.single_root, may_hide=bool(self.hidden))
        weights = check_sample_weight(sample_weight, len(sentences.lengths), "sentence")
        spec = sentences.spec(self.templates, self.between, int(self.hash_bits))
        known = np.add.reduceat(heads != HIDDEN, sentences.indptr[:-1]) > 0
        warn_without_labels(np.flatnonzero(~known), "sentence")
        if not (known & (weights > 0)).any():
            raise ValueError("y: no head of any sentence with a weight is known; expected some.")
        used = np.flatnonzero((weights > 0) & known)
        train, held_out = self._split(used, settings.rng)
        part, shares = sentences.take(train), weights[train]
        truth = heads[ragged(sentences.indptr, train)[0]]
        structure = pack_trees(
            np.maximum(truth, 0), part.indptr, self.single_root, word_costs(truth, part.lengths)
        )
        problem = Problem(
            structure,
            self._surrogate,
            part.rows(spec),
            self._alpha_for(shares, None, part.lengths),
            shares,
            settings.n_threads,
        )
        validate = None
        if len(held_out):
            kept = sentences.take(held_out)
            validate = self._validation(kept, spec, heads[ragged(sentences.indptr, held_out)[0]])
        if (truth == HIDDEN).any():
            result = self._solve_hidden(problem, truth, settings, validate)
        else:
            result = self._solve(problem, settings, validate)
        self.coef_ = result.weights
        self.templates_ = list(spec.templates)
        self.between_ = spec.between
        self.n_features_in_ = spec.n_features
        return self

    def _validation(self, kept: Sentences, spec: FeatureSpec, truth: np.ndarray) -> Any:
        """Share of right heads on held-out sentences, by the weights of the moment."""
        rows, structure = kept.rows(spec), pack_trees(truth, kept.indptr, self.single_root)
        known = truth != HIDDEN
        n_threads = check_n_jobs(self.n_jobs)

        def right(weights: np.ndarray) -> float:
            return float(np.mean((parse(structure, rows, weights, n_threads) == truth)[known]))

        return right

    # --- prediction -------------------------------------------------------------------------

    def _open(self, X: Any, partial_y: Any = None) -> tuple[Arborescence, Any]:
        """Sentences for prediction: their structure and the features of their arcs."""
        check_is_fitted(self, "coef_")
        sentences = Sentences(X)
        if sentences.are_words != bool(self.templates_):
            wanted = "sentences of words" if self.templates_ else "arrays of arc features"
            raise ValueError(f"X must hold {wanted}, as in training.")
        if not sentences.are_words:
            self._check_width(sentences.examples[0].shape[1], "features per arc")
        bits = self.n_features_in_.bit_length() - 1
        spec = FeatureSpec(tuple(self.templates_), self.between_, bits, self.n_features_in_)
        allowed = None
        if partial_y is not None:
            known = take_heads(partial_y, sentences.lengths, self.single_root, name="partial_y")
            allowed = known_arcs(known, sentences.lengths)
        truth = np.empty(0, np.int32)
        structure = pack_trees(truth, sentences.indptr, self.single_root, allowed=allowed)
        return structure, sentences.rows(spec)

    def predict(self, X: Any, *, partial_y: Any = None) -> list[np.ndarray]:
        """The best tree of each sentence.

        Parameters
        ----------
        X : list of sentences
        partial_y : list of lists of heads, optional
            Heads that are already known, None (or -1) where they are not; None for a sentence of
            which nothing is known.

        Returns
        -------
        list of arrays of shape (m,)
            The head of each word: 0 for the root, otherwise the number of a word, counted from 1.
        """
        structure, rows = self._open(X, partial_y)
        found = parse(structure, rows, self.coef_, check_n_jobs(self.n_jobs))
        return np.split(found.astype(np.int64), structure.indptr[1:-1])

    def decision_function(self, X: Any) -> list[np.ndarray]:
        """Scores of all arcs.

        Returns
        -------
        list of arrays of shape (m + 1, m)
            ``[h, d]`` is the score of node h as the head of word d + 1, minus infinity where that
            is the word itself.
        """
        structure, rows = self._open(X)
        scores = np.empty(int(structure.parts_indptr[-1]))

        def work(first: int, last: int) -> None:
            arc_scores(structure, rows, self.coef_, first, last, scores)

        for_groups(work, len(structure.indptr) - 1, check_n_jobs(self.n_jobs))
        tables = _tables(scores, structure)
        for table in tables:
            m = table.shape[1]
            table[np.arange(1, m + 1), np.arange(m)] = -np.inf
        return tables

    def predict_marginals(self, X: Any, *, partial_y: Any = None) -> list[np.ndarray]:
        """Probabilities of all arcs when a tree has the probability ``exp(score) / Z``.

        This is the model of a CRF; with the other surrogates the numbers are no calibrated
        probabilities.

        Parameters
        ----------
        X : list of sentences
        partial_y : list of lists of heads, optional
            Known heads, as in :meth:`predict`: the probabilities are those of trees that agree.

        Returns
        -------
        list of arrays of shape (m + 1, m)
            Every column, the heads of a word, sums to 1.
        """
        structure, rows = self._open(X, partial_y)
        marginals = np.empty(int(structure.parts_indptr[-1]))
        values = np.empty(len(structure.indptr) - 1)

        def work(first: int, last: int) -> None:
            arc_marginals(structure, rows, self.coef_, first, last, marginals, values)

        for_groups(work, len(values), check_n_jobs(self.n_jobs))
        return _tables(marginals, structure)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of words with the right head (UAS), sentences weighted by their length.

        Words whose head is not known do not count.
        """
        return task_of(self).score(X, y, sample_weight)


def _tables(flat: np.ndarray, structure: Arborescence) -> list[np.ndarray]:
    """Arcs of each sentence, head by dependent."""
    parts = np.split(flat, structure.parts_indptr[1:-1])
    lengths = np.diff(structure.indptr)
    return [part.reshape(m, m + 1).T.copy() for part, m in zip(parts, lengths, strict=True)]
