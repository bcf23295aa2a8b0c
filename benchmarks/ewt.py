"""One max-margin pass over the 12,544 training sentences of UD English EWT."""

from __future__ import annotations

import numpy as np

from maxmargin import read_conllu
from maxmargin.estimators._tree_data import Sentences
from maxmargin.features.arcs import TEMPLATES
from maxmargin.solvers.problem import Problem
from maxmargin.structures.arborescence import pack_trees
from maxmargin.surrogates.max_margin import MaxMargin

from .data import data_file
from .harness import Line, Sample, seconds
from .problems import frank_wolfe


def _problem() -> tuple[Problem, int]:
    sentences = read_conllu(data_file("ud_english_ewt_train.conllu.gz"))
    opened = Sentences(sentences)
    heads = np.concatenate([sentence.heads for sentence in sentences])
    spec = opened.spec(list(TEMPLATES), "upos", 20)
    n = len(sentences)
    alpha = float(opened.lengths.mean()) / n
    structure = pack_trees(heads, opened.indptr, True)
    problem = Problem(structure, MaxMargin(), opened.rows(spec), alpha, np.ones(n))
    return problem, len(heads)


def run(repeats: int) -> list[Line]:
    """The first pass, from zero weights: score all arcs, parse with the loss added, step."""
    problem, n_words = _problem()
    n = problem.n_examples

    def one_pass(count: int) -> float:
        stepper = frank_wolfe(problem, step_average=3.0)

        def work() -> None:
            while stepper.oracle_calls < count:
                stepper.advance(1.0, count - stepper.oracle_calls)

        return seconds(work)

    one_pass(10)  # compiles
    spent = Sample([one_pass(n) for _ in range(repeats)])
    what = f"EWT: a max-margin pass over {n} sentences"
    return [
        Line("ewt", what, "s", spent),
        Line("ewt", what, "words/s", spent.rate(n_words), more_is_better=True),
    ]
