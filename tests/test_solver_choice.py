"""What names of solvers mean for a problem, and what became of parameters that moved."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from maxmargin import (
    LBFGS,
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    Checked,
    Flow,
    GraphLabeler,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    SoftAgreement,
    load,
    save,
)
from maxmargin.solvers.auto import choose, make_solver
from maxmargin.solvers.base import NAMES
from maxmargin.solvers.outline import Outline
from maxmargin.structures.arborescence import Arborescence
from maxmargin.structures.chain import Chain
from maxmargin.structures.multiclass import Multiclass
from maxmargin.structures.permutation import Matching, Ranking
from maxmargin.structures.subset import Subset
from maxmargin.structures.traits import GRAPH, PYTHON
from maxmargin.surrogates.crf import Crf
from maxmargin.surrogates.max_margin import MaxMargin
from maxmargin.surrogates.max_min import MaxMin

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(30, 3)
Y = (X @ RANDOM.randn(3, 3)).argmax(axis=1)


def accelerated(inner):
    return Averaged(Accelerated(inner), 8.0)


PAIRWISE = BlockFrankWolfe(steps="pairwise")
CHOICES = [
    (MaxMargin(), Multiclass.traits(), False, accelerated(BlockFrankWolfe("active"))),
    (MaxMargin(), Multiclass.traits(), True, Accelerated(BlockFrankWolfe("active"))),
    (MaxMin(), Multiclass.traits(), False, accelerated(BlockFrankWolfe("active"))),
    (Crf(), Multiclass.traits(), False, LBFGS()),
    (Crf(), Multiclass.traits(), True, BlockFrankWolfe("active")),
    (MaxMargin(), Chain.traits(), False, accelerated(PAIRWISE)),
    (MaxMin(), Chain.traits(), False, accelerated(Flow())),
    (MaxMin(), Chain.traits(), True, Accelerated(Flow())),
    (MaxMargin(), Ranking.traits(), False, accelerated(BlockFrankWolfe("active", "pairwise"))),
    (MaxMin(), Matching.traits(), False, accelerated(BlockFrankWolfe())),
    (MaxMin(), Arborescence.traits(), False, accelerated(BlockFrankWolfe())),
    (Crf(), Arborescence.traits(), False, LBFGS()),
    (Crf(), Subset.traits(), False, LBFGS()),
    (MaxMargin(), GRAPH, False, Accelerated(SoftAgreement())),
    (MaxMin(), GRAPH, True, Accelerated(SoftAgreement(average=None))),
    (MaxMargin(), PYTHON, False, accelerated(BlockFrankWolfe())),
]


@pytest.mark.parametrize("surrogate, traits, kernel, solver", CHOICES)
def test_auto_is_one_function_of_the_problem(surrogate, traits, kernel, solver):
    problem = Outline(surrogate, traits, kernel)
    assert repr(choose(problem)) == repr(solver)
    assert choose(problem).missing(problem) == []


@pytest.mark.parametrize(
    ("n_weights", "tol", "strength", "n_examples", "solver"),
    [
        (1 << 20, 1e-3, 0.005, 50, Flow()),
        (1 << 20, 1e-3, 0.005, 5001, PAIRWISE),
        (1 << 20, 1e-3, 0.2, 50, PAIRWISE),
        (1 << 20, 1e-2, 0.005, 50, Flow()),
        (1 << 20, 1e-2, 0.005, 1000, PAIRWISE),
        (1 << 20, 1e-1, 0.005, 50, PAIRWISE),
        (1 << 10, 1e-3, 0.005, 50, PAIRWISE),
    ],
)
def test_when_flows_are_chosen(n_weights, tol, strength, n_examples, solver):
    problem = Outline(MaxMargin(), Chain.traits())
    problem.n_weights, problem.tolerance = n_weights, tol
    problem.alpha, problem.total_weight = strength * 3.0 / 50.0, 50.0
    problem.n_examples = n_examples
    problem.mean_square = lambda: 3.0
    assert repr(make_solver("auto", problem)) == repr(accelerated(solver))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_solver_with_usable_parameters(name):
    make_solver(name, Outline(MaxMargin(), Chain.traits())).validate()


@pytest.mark.parametrize(
    "given, wanted",
    [
        (Averaged("auto", power=2.0), Averaged(Accelerated(PAIRWISE), 2.0)),
        (Accelerated("auto", inertia=3.0), Accelerated(PAIRWISE, inertia=3.0)),
        (Averaged(Accelerated("auto")), accelerated(PAIRWISE)),
        (Averaged("bcfw"), Averaged(BlockFrankWolfe(step_average=3.0))),
        (Accelerated("flow"), Accelerated(Flow())),
        (Checked("auto", every=5), accelerated(PAIRWISE)),
        (Checked(Averaged("auto", power=1.0)), Averaged(Accelerated(PAIRWISE), 1.0)),
    ],
)
def test_a_wrapper_around_a_name_takes_the_place_of_its_own(given, wanted):
    before = repr(given)
    assert repr(make_solver(given, Outline(MaxMargin(), Chain.traits()))) == repr(wanted)
    assert repr(given) == before


def test_checked_goes_around_everything_else():
    model = MulticlassClassifier(solver=Averaged(Checked("auto", every=2)))
    with pytest.raises(ValueError, match=r"write Checked\(Averaged\(...\), every=2\)"):
        model.fit(X, Y)


def test_refused_before_a_look_at_the_data():
    for model in (
        SequenceLabeler("max-min", solver="bcfw"),
        SequenceLabeler("crf", solver=Checked("flow")),
        GraphLabeler("crf"),
        GraphLabeler(solver="pairwise"),
        MulticlassClassifier("crf", solver="lbfgs", kernel="rbf"),
    ):
        with pytest.raises(ValueError, match=r"does not go with this|is not available for"):
            model.fit(None, None)


# --- parameters that moved ------------------------------------------------------------------


def with_old_params(path, **old):
    """The model file as a version wrote it that had these parameters."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    state = json.loads(members["state.json"])
    state["estimator"]["params"].update(old)
    members["state.json"] = json.dumps(state).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_model_files_with_parameters_of_other_versions_are_refused(tmp_path):
    path = tmp_path / "model.mm"
    save(MulticlassClassifier(random_state=0).fit(X, Y), path)
    with_old_params(path, order="active", average=True)
    with pytest.raises(ValueError, match="has no parameter average, order; another version"):
        load(path)


def test_bounds_come_from_the_result():
    model = MultiLabelClassifier(edges="full", random_state=0)
    labels = RANDOM.randint(0, 2, (30, 3))
    assert model.fit(X, labels).bounds_["hard_gap"] >= 0.0
    assert model.set_params(edges="none").fit(X, labels).bounds_ == {}
    assert MulticlassClassifier(random_state=0).fit(X, Y).bounds_ == {}
