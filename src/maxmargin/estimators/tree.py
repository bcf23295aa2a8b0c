"""Dependency parsing: the best directed spanning tree over the words of a sentence."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._validation import (
    check_integer,
    check_n_jobs,
    check_sample_weight,
    is_auto,
    is_name,
    is_plain_list,
    is_text,
)
from ..features.arcs import parse_template
from ..features.rows import HASHED
from ..solvers.auto import asks_for_parts
from ..solvers.groups import for_groups
from ..solvers.problem import Problem
from ..strengths import SHARE
from ..structures.arborescence import Arborescence, arc_marginals, arc_scores
from ..structures.second_order import SecondOrder
from ..structures.take import ragged
from ..tasks import task_of
from ..tasks.trees import HIDDEN, split_arcs, take_heads
from ..tasks.unknown import warn_without_labels
from ._base import Settings, with_parameters
from ._best_outputs import best_outputs
from ._docs import documented
from ._tree_data import DEFAULT_BITS, FeatureSpec, Sentences, known_arcs, parse, word_costs
from ._tree_hidden import HiddenHeads
from ._tree_labels import LabelModel, check_labels, train_labels
from ._tree_plans import FirstOrderPlan, SecondOrderPlan, check_complete, make_plan

_MOST_BITS = 30


@documented(
    without=("fit_intercept", "class_weight", "classes"),
    auto="""\"accelerated\" on
        arrays, pairwise steps on words with ``order=1``, "bcfw" with ``order=2``""",
    solver_note=" A CRF of trees has no other than the last.",
    alpha_note="""with arrays of features C = 1 for the loss summed over the words: the mean number
        of words of a sentence over the total weight; with words a fifth of the number of features
        of an arc times that. For a CRF 1 over the total weight.""",
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
    ``L(y, z)`` the number of words with a wrong head over the mean number of words of a sentence::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_z [ L(z, y) + v(z) ] - v(y)
        max-min:     S(v, y) = max_mu [ min_z E_mu L(z, .) + mu @ v ] - v(y)
        crf:         S(v, y) = log sum_z exp(v(z)) - v(y) = -log p(y | x)

    over all trees z, also those whose arcs cross, and distributions mu over them. Sums over trees
    are determinants (matrix-tree theorem). Some heads need not be known: see ``hidden``.

    With ``order=2`` pairs of arcs have features and scores, too: siblings, two neighbouring
    dependents of a word on one side, and grandparents, a word with its head and the head of that.
    Trees are then projective (no arcs cross), and the best one is found exactly by dynamic
    programming. A small model of single arcs, trained first, leaves each word the candidate heads
    that it scores best; the outputs z of training are all projective trees of these, with the true
    arcs, and the true tree itself.

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
    hash_bits : int or "auto", default="auto"
        Features are hashed into ``2 ** hash_bits`` weights. "auto" is 20, and less where the arcs
        of the training sentences have less than a quarter as many features; a treebank of 10,000
        sentences is worth 24, with ``order=2`` more so.
    order : {1, 2}, default=1
        Whether scores are of single arcs, or of siblings and grandparents as well (sentences of
        words and ``surrogate="max-margin"`` only).
    n_candidates : int, default=8
        Heads per word that are possible with ``order=2``.
    labels : bool or MulticlassClassifier, default=False
        Whether arcs have labels, names of relations such as "nsubj": then y and predictions are
        pairs (head, label). They are predicted in a second step, by a classifier of the words of
        a tree, trained on the true trees with a certificate of its own (``label_model_``); the
        parser is trained for the heads alone. A classifier given here is cloned.
    %(hidden)s
    %(parameters)s

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights of the features of an arc.
    templates_ : list of str
        The templates in use; empty where X holds arrays.
    between_ : str or None
    pruner_ : TreeParser or None
        With ``order=2``, the model that chooses candidate heads.
    second_templates_ : pair of lists of str, or None
        Templates of siblings and of grandparents.
    label_model_ : MulticlassClassifier or None
        The classifier of labels, with its certificate; its classes are the labels.
    label_templates_ : list of str or None
    label_columns_ : array of int or None
        Hashed features that the columns of ``label_model_`` stand for.
    n_features_in_ : int
        Number of features of an arc; of weights, if these are hashed.
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
    hash_bits: Any = "auto"
    order: int = 1
    n_candidates: int = 8
    labels: Any = False

    _switches = ("warm_start", "single_root")
    _of_partitions: ClassVar[dict[str, Any]] = {"hash_bits": DEFAULT_BITS}
    _traits = Arborescence.traits()

    # --- settings ---------------------------------------------------------------------------

    def _check_settings(self) -> Settings:
        settings = super()._check_settings()
        bits = self.hash_bits
        if not is_auto("hash_bits", bits) and check_integer("hash_bits", bits, 1) > _MOST_BITS:
            raise ValueError(f"hash_bits must be at most {_MOST_BITS}; received {bits}.")
        if check_integer("order", self.order, 1) > 2:
            raise ValueError(f"order must be 1 or 2; received {self.order!r}.")
        if self.order == 2:
            self._check_solver(SecondOrder.traits())
            if self._n_partitions not in (None, 1) or asks_for_parts(self.solver):
                raise ValueError(
                    "order=2 does not train in partitions; use order=1, or n_partitions=1."
                )
        check_integer("n_candidates", self.n_candidates, 1)
        check_labels(self.labels)
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

    def _needs_all_data(self) -> list[str]:
        found = []
        if self.order == 2:
            found.append("order=2 chooses candidate heads by a first model: use order=1")
        if self.labels:
            found.append("labels are trained after the heads: use labels=False")
        return found

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
            number of a word, counted from 1, as in CoNLL-U. With ``labels`` a pair (head, label),
            or y may be a list of :class:`maxmargin.conllu.Sentence`.
        sample_weight : array of shape (n,), optional
            Weights of the sentences; 2 is the same as having a sentence twice.
        """
        settings = self._check_settings()
        sentences = Sentences.of(X)
        has_labels = bool(self.labels)
        heads, labels = split_arcs(y, has_labels)
        truth = take_heads(heads, sentences.lengths, self.single_root, may_hide=bool(self.hidden))
        weights = check_sample_weight(sample_weight, len(sentences.lengths), "sentence")
        check_complete(self, sentences, truth)
        known = np.add.reduceat(truth != HIDDEN, sentences.indptr[:-1]) > 0
        warn_without_labels(np.flatnonzero(~known), "sentence")
        if not (known & (weights > 0)).any():
            raise ValueError("y: no head of any sentence with a weight is known; expected some.")
        used = np.flatnonzero((weights > 0) & known)
        train, held_out = self._split(used, settings.rng)
        of_words = ragged(sentences.indptr, train)[0]
        part, shares = sentences.take(train), weights[train]
        plan = make_plan(self, sentences, part, truth[of_words], shares)
        kept = sentences.take(held_out), truth[ragged(sentences.indptr, held_out)[0]]
        self._train(plan, part, truth[of_words], shares, settings, kept)
        self._keep_plan(plan)
        model = None
        if has_labels:
            model = train_labels(
                self.labels, self.surrogate, self.random_state, part, truth[of_words],
                labels[of_words], shares,
            )  # fmt: skip
        self._keep_labels(model)
        return self

    def _train(
        self, plan: Any, part: Sentences, truth: np.ndarray, shares: np.ndarray,
        settings: Settings, held_out: tuple[Sentences, np.ndarray],
    ) -> None:  # fmt: skip
        mean_length = self._mean_length or float(np.average(part.lengths, weights=shares))
        costs = word_costs(truth, mean_length)
        structure, rows = plan.pack(part, np.maximum(truth, 0), costs)
        # Features that are hashed are indicators: every arc has about the same number of them.
        size = SHARE * rows.squares[0] if rows.weighs == HASHED else 1.0
        alpha = self._alpha_for(shares, None, size * part.lengths)
        problem = Problem(structure, self._surrogate, rows, alpha, shares, settings.n_threads)
        validate = self._validation(plan, *held_out) if len(held_out[1]) else None
        if (truth == HIDDEN).any():
            result = self._solve_hidden(problem, truth, settings, validate)
        else:
            result = self._solve(problem, settings, validate)
        self.coef_ = result.weights

    def _keep_plan(self, plan: Any) -> None:
        self.templates_ = list(plan.spec.templates)
        self.between_ = plan.spec.between
        self.n_features_in_ = plan.spec.n_features
        self.pruner_ = plan.pruner
        self.second_templates_: Any = [list(each) for each in plan.second] or None

    def _keep_labels(self, model: LabelModel | None) -> None:
        self.label_model_ = model.classifier if model else None
        self.label_templates_: Any = model.templates if model else None
        self.label_columns_: Any = model.columns if model else None

    def _validation(self, plan: Any, kept: Sentences, truth: np.ndarray) -> Any:
        """Share of right heads on held-out sentences, by the weights of the moment."""
        structure, rows = plan.pack(kept)
        known = truth != HIDDEN
        n_threads = check_n_jobs(self.n_jobs)

        def right(weights: np.ndarray) -> float:
            return float(np.mean((parse(structure, rows, weights, n_threads) == truth)[known]))

        return right

    # --- prediction -------------------------------------------------------------------------

    def _plan(self) -> Any:
        """The plan of the fit."""
        bits = self.n_features_in_.bit_length() - 1
        spec = FeatureSpec(tuple(self.templates_), self.between_, bits, self.n_features_in_)
        if vars(self).get("pruner_") is None:  # files of older models have none
            return FirstOrderPlan(spec, self.single_root)
        return SecondOrderPlan(
            spec, self.single_root, self.second_templates_, self.pruner_, int(self.n_candidates)
        )

    def _read(self, X: Any) -> Sentences:
        """Sentences for prediction, of the kind of the training."""
        check_is_fitted(self, "coef_")
        sentences = Sentences.of(X)
        if sentences.are_words != bool(self.templates_):
            wanted = "sentences of words" if self.templates_ else "arrays of arc features"
            raise ValueError(f"X must hold {wanted}, as in training.")
        if not sentences.are_words:
            self._check_width(sentences.examples[0].shape[1], "features per arc")
        return sentences

    def _open(self, X: Any, asked: str, partial_y: Any = None) -> tuple[Arborescence, Any]:
        """The structure of sentences and the features of their arcs, where these are all parts."""
        sentences, plan = self._read(X), self._plan()
        if plan.pruner is not None:
            raise ValueError(
                f"{asked} needs a model of single arcs; this one was trained with order=2."
            )
        allowed = None
        if partial_y is not None:
            known = take_heads(partial_y, sentences.lengths, self.single_root, name="partial_y")
            allowed = known_arcs(known, sentences.lengths)
        return plan.pack(sentences, allowed=allowed)

    def predict(self, X: Any, *, partial_y: Any = None) -> list[Any]:
        """The best tree of each sentence.

        Parameters
        ----------
        X : list of sentences
        partial_y : list of lists of heads, optional
            Heads that are already known, None (or -1) where they are not; None for a sentence of
            which nothing is known. Not with ``order=2``.

        Returns
        -------
        list of arrays of shape (m,), or of lists of m pairs
            The head of each word: 0 for the root, otherwise the number of a word, counted from 1.
            With ``labels`` pairs (head, label).
        """
        sentences = self._read(X)
        if partial_y is None:
            structure, rows = self._plan().pack(sentences)
        else:
            structure, rows = self._open(sentences, "partial_y", partial_y)
        found = parse(structure, rows, self.coef_, check_n_jobs(self.n_jobs)).astype(np.int64)
        heads = np.split(found, structure.indptr[1:-1])
        if vars(self).get("label_model_") is None:
            return heads
        model = LabelModel(self.label_model_, self.label_templates_, self.label_columns_)
        labels = np.split(model.predict(sentences, found), structure.indptr[1:-1])
        pairs = zip(heads, labels, strict=True)
        return [list(zip(some.tolist(), names.tolist(), strict=True)) for some, names in pairs]

    def _arc_scores(self, structure: Any, rows: Any) -> np.ndarray:
        """Scores of all arcs, flat."""
        scores = np.empty(int(structure.parts_indptr[-1]))

        def work(first: int, last: int) -> None:
            arc_scores(structure, rows, self.coef_, first, last, scores)

        for_groups(work, len(structure.indptr) - 1, check_n_jobs(self.n_jobs))
        return scores

    def decision_function(self, X: Any) -> list[np.ndarray]:
        """Scores of all arcs.

        Returns
        -------
        list of arrays of shape (m + 1, m)
            ``[h, d]`` is the score of node h as the head of word d + 1, minus infinity where that
            is the word itself.
        """
        structure, rows = self._open(X, "decision_function")
        tables = _tables(self._arc_scores(structure, rows), structure)
        for table in tables:
            m = table.shape[1]
            table[np.arange(1, m + 1), np.arange(m)] = -np.inf
        return tables

    def predict_topk(self, X: Any, k: int) -> list[list[tuple[np.ndarray, float]]]:
        """The k best trees of each sentence, best first, exactly; not with ``order=2``.

        Parameters
        ----------
        X : list of sentences
        k : int
            At least 1. Time grows with k times the number of words.

        Returns
        -------
        list of lists of (heads, score)
            Fewer than k where there are fewer trees.
        """
        structure, rows = self._open(X, "predict_topk")
        return best_outputs(structure, self._arc_scores(structure, rows), k)

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
        structure, rows = self._open(X, "predict_marginals", partial_y)
        marginals = np.empty(int(structure.parts_indptr[-1]))
        values = np.empty(len(structure.indptr) - 1)

        def work(first: int, last: int) -> None:
            arc_marginals(structure, rows, self.coef_, first, last, marginals, values)

        for_groups(work, len(values), check_n_jobs(self.n_jobs))
        return _tables(marginals, structure)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of words with the right head (UAS), sentences weighted by their length; with
        ``labels``, of words with the right head and label (LAS).

        Words whose head is not known do not count.
        """
        return task_of(self).score(X, y, sample_weight)


def _tables(flat: np.ndarray, structure: Arborescence) -> list[np.ndarray]:
    """Arcs of each sentence, head by dependent."""
    parts = np.split(flat, structure.parts_indptr[1:-1])
    lengths = np.diff(structure.indptr)
    return [part.reshape(m, m + 1).T.copy() for part, m in zip(parts, lengths, strict=True)]
