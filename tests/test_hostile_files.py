"""Changed model files and checkpoints are refused, or harmless: no crash, no hang, no nonsense."""

from __future__ import annotations

import json
import os
import random
import struct
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marks import split
from maxmargin import (
    Accelerated,
    BlockFrankWolfe,
    GraphLabeler,
    LabelRanker,
    ModelFileError,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    SubsetSelector,
    load,
    save,
)
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from samebits import problem

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(os.name != "posix", reason="needs fork"),
]
if os.name == "posix":
    from hostile_files import array_edits, json_edits, members_of, npy, outcomes, write_members

WINE, CLASSES = load_wine(return_X_y=True)
WINE = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)
WORDS = [WINE[k : k + 4] for k in range(0, 80, 4)]
TAGS = [CLASSES[k : k + 4] for k in range(0, 80, 4)]
LABEL_SETS = np.stack([CLASSES == 0, CLASSES == 1, WINE[:, 0] > 0], axis=1).astype(int)


@pytest.fixture(scope="module")
def flat():
    return MulticlassClassifier(random_state=0, warm_start=True).fit(*problem())


@pytest.fixture
def saved(flat, tmp_path):
    save(flat, tmp_path / "model", dual=True)
    return tmp_path / "model"


def refused(path, match, **options):
    with pytest.raises(ModelFileError, match=match):
        load(path, **options)


# --- sizes -------------------------------------------------------------------------------------


def test_content_may_not_be_larger_than_the_limit(saved):
    needed = sum(len(content) for content in members_of(saved).values())
    refused(saved, rf"unpacks to {needed} bytes.*max_bytes={needed}", max_bytes=needed - 1)
    load(saved, max_bytes=needed)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="max_bytes"):
            load(saved, max_bytes=wrong)


def declare(path, name, size):
    """Write another size of a member into the two headers of an archive."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        central = content.index(name.encode(), archive.start_dir) - 46
    struct.pack_into("<I", content, central + 24, size)
    struct.pack_into("<I", content, member.header_offset + 22, size)
    path.write_bytes(bytes(content))


def test_declared_sizes_are_added_up_before_anything_is_read(saved):
    write_members(saved, members_of(saved))
    declare(saved, "arrays/0.npy", 3 << 30)
    refused(saved, "unpacks to 32.* bytes, and the limit is 1073741824")


@pytest.mark.parametrize("name", ["arrays/0.npy", "state.json", "header.json"])
def test_members_are_read_no_further_than_declared(saved, name):
    # Two gigabytes in two megabytes, of a member that declares a thousand bytes.
    members = members_of(saved)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = packer.compress(bytes(1 << 22)) + packer.flush(zlib.Z_FULL_FLUSH)  # may be repeated
    bomb = 512 * zeros + packer.flush()
    with zipfile.ZipFile(saved, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, bomb if each == name else content)
    content = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        member, start = archive.getinfo(name), archive.start_dir
    central = content.index(name.encode(), start) - 46
    for at, method in ((central + 10, central + 24), (member.header_offset + 8,) * 2):
        struct.pack_into("<H", content, at, zipfile.ZIP_DEFLATED)
        if method != at:
            struct.pack_into("<I", content, method, 1000)
    saved.write_bytes(bytes(content))

    def act(_):
        load(saved)
        return "loaded"

    assert outcomes([(name, {})], act) == {name: "refused"}


@pytest.mark.parametrize("shape", ["(4000000000,)", "(-1,)", "(3, 10)", "()"])
def test_headers_of_arrays_are_compared_with_the_bytes_there_are(saved, shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"
    members = members_of(saved)
    name = next(name for name in members if name.endswith(".npy"))
    write_members(saved, members | {name: header + bytes(64)})
    refused(saved, "declares shape|no header")


@pytest.mark.parametrize("text", ["(" * 9000, "-" * 9000 + "1", "[", "1", "{}"])
def test_headers_of_arrays_that_are_none(saved, text):
    members = members_of(saved)
    name = next(name for name in members if name.endswith(".npy"))
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    write_members(saved, members | {name: header})
    refused(saved, "no header of an array")


@pytest.mark.more
def test_an_array_that_is_named_many_times_is_counted_every_time(saved):
    members = members_of(saved)
    state = json.loads(members["state.json"])
    members["arrays/big.npy"] = npy(np.zeros(1 << 20))
    state["estimator"]["attributes"]["more_"] = [{"array": "arrays/big.npy"}] * 200
    write_members(saved, members | {"state.json": json.dumps(state)})
    refused(saved, "unpacks to")


def test_too_many_members_and_members_of_one_name(saved, monkeypatch):
    with warnings.catch_warnings(), zipfile.ZipFile(saved, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("state.json", "1")
    refused(saved, "two members are called 'state.json'")
    monkeypatch.setattr("maxmargin._archive._MOST_MEMBERS", 3)
    refused(saved, "members; expected at most 3")


def test_json_that_is_far_larger_than_its_compressed_form(saved):
    members = members_of(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members | {"state.json": b"[" + b"[]," * (1 << 23) + b"1]"}).items():
            archive.writestr(name, content)
    refused(saved, "state.json has .* bytes, and the limit")


def test_sizes_inside_of_a_skops_model(tmp_path):
    path = tmp_path / "model"
    save(make_pipeline(StandardScaler(), MulticlassClassifier()).fit(*problem()), path)
    assert type(load(path)).__name__ == "Pipeline"
    members = members_of(path)
    inner = tmp_path / "inner"
    inner.write_bytes(members["model.skops"])
    parts = members_of(inner)
    name = next(name for name in parts if name.endswith(".npy"))
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000,), }"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    write_members(inner, parts | {name: header})
    write_members(path, members | {"model.skops": inner.read_bytes()})
    refused(path, "declares shape")


# --- what a file says it is ----------------------------------------------------------------------


@pytest.mark.parametrize("state", [3, "x", None, True, [], [1], {"tuple": []}, {"int": "0x7"}])
def test_a_value_that_is_no_estimator(saved, state):
    write_members(saved, members_of(saved) | {"state.json": json.dumps(state)})
    refused(saved, "should hold the estimator 'MulticlassClassifier'")


@pytest.mark.parametrize("version", [np.nan, "1", True, -1, 0, [1], None, 1.0, 0.5, {}])
def test_versions_that_are_none(saved, version):
    members = members_of(saved)
    header = json.loads(members["header.json"]) | {"format_version": version}
    write_members(saved, members | {"header.json": json.dumps(header)})
    refused(saved, "format_version must be an integer of at least 1")


def test_an_estimator_other_than_the_header_says(saved):
    members = members_of(saved)
    header = json.loads(members["header.json"]) | {"estimator": "Matcher"}
    write_members(saved, members | {"header.json": json.dumps(header)})
    refused(saved, "should hold the estimator 'Matcher'")


def test_a_certificate_that_contradicts_itself(saved):
    members = members_of(saved)
    state = json.loads(members["state.json"])
    state["estimator"]["attributes"]["gap_"] = 0.0
    write_members(saved, members | {"state.json": json.dumps(state)})
    refused(saved, r"gap_ .* expected primal_ - dual_")


@pytest.mark.parametrize("key, value", [("pos", -(2**31)), ("pos", 10**6), ("key", 0)])
def test_random_states(tmp_path, key, value):
    model = MulticlassClassifier(random_state=np.random.RandomState(0)).fit(*problem())
    save(model, tmp_path / "model")
    members = members_of(tmp_path / "model")
    state = json.loads(members["state.json"])
    inner = dict(state["estimator"]["params"]["random_state"]["object"][1]["state"]["dict"])
    if key == "pos":
        text = members["state.json"].replace(
            json.dumps(["pos", inner["pos"]]).encode(), json.dumps(["pos", value]).encode()
        )
        members["state.json"] = text
    else:
        members[inner["key"]["array"]] = npy(np.zeros(624, np.uint32))
    write_members(tmp_path / "model", members)
    refused(tmp_path / "model", "RandomState")


# --- models, one change at a time ----------------------------------------------------


def rings(n, seed):
    random = np.random.RandomState(seed)
    edges = np.stack([np.arange(4), (np.arange(4) + 1) % 4], axis=1)
    X = [(random.normal(size=(4, 3)), edges) for _ in range(n)]
    return X, [(features[:, 0] > 0).astype(int) for features, _ in X]


def model_cases():
    sparse_rows = sparse.csr_matrix(np.maximum(problem()[0], 0.0))
    few = {"random_state": 0, "warm_start": True, "max_iter": 3}
    dicts = [[{"word": w} for w in words] for words in (["a", "b"], ["b", "c", "a"])]
    return {
        "flat": (MulticlassClassifier(**few), *problem()),
        "sparse kernel": (
            MulticlassClassifier(kernel="rbf", **few), sparse_rows, problem()[1]
        ),
        "label sets": (MultiLabelClassifier(**few), WINE[:40], LABEL_SETS[:40]),
        "sequences": (SequenceLabeler(**few), dicts, [["x", "y"], ["y", "x", "x"]]),
        "graphs": (GraphLabeler(**few), *rings(8, 0)),
    }  # fmt: skip


SLOW_CASES = {
    "rankings": lambda: (
        LabelRanker(random_state=0, warm_start=True, max_iter=3),
        WINE[:30],
        np.argsort(np.argsort(-WINE[:30, :4], axis=1), axis=1),
    ),
    "subsets": lambda: (
        SubsetSelector(random_state=0, warm_start=True, max_iter=3),
        WORDS,
        [np.argsort(-words[:, 0])[:2] for words in WORDS],
    ),
}


def check_all_edits(model, X, y, folder, share):
    """Load, predict and refit every changed file; nothing but a refusal or an answer may come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    path = folder / "model"
    save(model, path, dual=True)
    members = members_of(path)
    labels = array_of(members, "classes_") | array_of(members, "items_")

    def act(changed):
        warnings.simplefilter("ignore")
        write_members(path, changed)
        loaded = load(path)
        try:
            loaded.predict(X)
        except ValueError:  # a model of other data may say so
            return "answered"
        loaded.fit(X, y)
        return "answered"

    arrays = list(array_edits(members))
    nodes = list(json_edits(members, lambda tree: tree["estimator"]["attributes"]))
    nodes = random.Random(0).sample(nodes, min(share, len(nodes)))
    found = outcomes([("nothing", members), *arrays, *nodes], act)
    assert found.pop("nothing") == "answered"
    bad = {name: word for name, word in found.items() if word not in ("refused", "answered")}
    assert not bad, bad
    silent = [
        name
        for name, _ in arrays
        if found[name] == "answered" and not any(name.startswith(each) for each in labels)
    ]
    return silent, found


def array_of(members, name):
    node = json.loads(members["state.json"])["estimator"]["attributes"].get(name, {})
    return {f"{node['array']} "} if isinstance(node, dict) and "array" in node else set()


@pytest.mark.parametrize("case", split(model_cases(), {*model_cases()} - {"flat", "sequences"}))
def test_changed_models(case, tmp_path):
    model, X, y = model_cases()[case]
    silent, found = check_all_edits(model, X, y, tmp_path, 50)
    assert list(found.values()).count("refused") > 0.7 * len(found)
    shapes = [name for name in silent if name.endswith(("missing", "cut", "type", "more"))]
    assert not shapes, shapes


@pytest.mark.slow
@pytest.mark.parametrize("case", [*model_cases(), *SLOW_CASES])
def test_changed_models_all(case, tmp_path):
    model, X, y = SLOW_CASES[case]() if case in SLOW_CASES else model_cases()[case]
    check_all_edits(model, X, y, tmp_path, 10**9)


def test_indices_of_sparse_matrices(tmp_path):
    model = MulticlassClassifier(kernel="rbf", random_state=0)
    model.fit(sparse.csr_matrix(np.maximum(problem()[0], 0.0)), problem()[1])
    for name, value in (("indices", 10**6), ("indices", -1), ("indptr", 10**6), ("indptr", -5)):
        before = getattr(model.support_vectors_, name).copy()
        getattr(model.support_vectors_, name)[1] = value
        save(model, tmp_path / "model")
        refused(tmp_path / "model", f"{name} of a CSR matrix")
        setattr(model.support_vectors_, name, before)


def test_edges_between_labels_that_there_are(tmp_path):
    model = MultiLabelClassifier(random_state=0, max_iter=3).fit(WINE[:40], LABEL_SETS[:40])
    for value in (3, -1, 2**40):
        model.edges_[0, 1] = value
        save(model, tmp_path / "model")
        refused(tmp_path / "model", "edges_ .*must be at least 0 and less than 3")


# --- checkpoints ----------------------------------------------------


class Killed(BaseException):
    """In the place of a signal."""


SOLVERS = {
    "blocks": (lambda: MulticlassClassifier(tol=1e-7, max_iter=4, random_state=0), WINE, CLASSES),
    "gap": (
        lambda: MulticlassClassifier(
            solver=Accelerated(BlockFrankWolfe("gap")), tol=1e-7, max_iter=4, random_state=0
        ),
        WINE,
        CLASSES,
    ),
    "lbfgs": (
        lambda: MulticlassClassifier(
            surrogate="crf", solver="lbfgs", tol=1e-9, max_iter=8, random_state=0
        ),
        WINE,
        CLASSES,
    ),
    "atoms": (lambda: SequenceLabeler(tol=1e-7, max_iter=8, random_state=0), WORDS, TAGS),
    "beliefs": (
        lambda: MultiLabelClassifier(tol=1e-7, max_iter=4, random_state=0), WINE, LABEL_SETS
    ),
}  # fmt: skip
SLOW_SOLVERS = {
    "flows": (
        lambda: SequenceLabeler(surrogate="max-min", tol=1e-7, max_iter=8, random_state=0),
        WORDS,
        TAGS,
    ),
    "saddles": (
        lambda: LabelRanker(surrogate="max-min", tol=1e-7, max_iter=8, random_state=0),
        WINE[:30],
        np.argsort(np.argsort(-WINE[:30, :4], axis=1), axis=1),
    ),
}


def checkpoint_of(make, X, y, path, at=5):
    left = [at]

    def write(state):
        left[0] -= 1
        if not left[0]:
            write_checkpoint(path, {"path": []}, state)
            raise Killed

    model = make()
    model._recorder = Recorder(write, 0.0)
    with pytest.raises(Killed):
        model.fit(X, y)


def check_checkpoint_edits(make, X, y, path, share):
    checkpoint_of(make, X, y, path)
    members = members_of(path)

    def act(changed):
        warnings.simplefilter("ignore")
        write_members(path, changed)
        model = make()
        model._recorder = Recorder(lambda state: None, np.inf, read_checkpoint(path)[1])
        model.fit(X, y)
        assert 0.0 < model.primal_ < np.inf and model.gap_ >= -1e-6 * model.primal_
        return "answered"

    arrays = list(array_edits(members))
    nodes = list(json_edits(members, lambda tree: tree))
    nodes = random.Random(0).sample(nodes, min(share, len(nodes)))
    found = outcomes([("nothing", members), *arrays, *nodes], act)
    assert found.pop("nothing") == "answered"
    bad = {name: word for name, word in found.items() if word not in ("refused", "answered")}
    assert not bad, bad
    assert list(found.values()).count("refused") > 0.6 * len(found)


@pytest.mark.parametrize("solver", split(SOLVERS, {*SOLVERS} - {"blocks"}))
def test_changed_checkpoints(solver, tmp_path):
    check_checkpoint_edits(*SOLVERS[solver], tmp_path / "c", 40)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [*SOLVERS, *SLOW_SOLVERS])
def test_changed_checkpoints_all(solver, tmp_path):
    check_checkpoint_edits(*(SOLVERS | SLOW_SOLVERS)[solver], tmp_path / "c", 10**9)


def test_a_checkpoint_of_another_problem(tmp_path):
    make, X, y = SOLVERS["blocks"]
    checkpoint_of(make, X, y, tmp_path / "c")
    state = read_checkpoint(tmp_path / "c")[1]
    for other in (X[:-1], X[:, :-1], np.concatenate([X, X])):
        model = make()
        model._recorder = Recorder(lambda state: None, np.inf, state)
        with pytest.raises(ModelFileError, match="cannot continue from the checkpoint"):
            model.fit(other, np.resize(y, len(other)))


# --- beside the model: what the command line needs ------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"version": "1"}, {"version": 0}, {"task": "magic"}, {"task": "tree"},
               {"recipe": 3}, {"baseline": None}, None, 3],
)  # fmt: skip
def test_notes_of_the_command_line(saved, change):
    pytest.importorskip("click", reason="needs the extra cli")
    from maxmargin.cli._model_file import read_model_file

    note = {"version": 1, "task": "multiclass", "recipe": {}, "baseline": {}, "data": {}}
    members = members_of(saved)
    write_members(saved, members | {"task.json": json.dumps(note)})
    assert read_model_file(str(saved)).task == "multiclass"
    changed = note | change if isinstance(change, dict) else [change]
    write_members(saved, members | {"task.json": json.dumps(changed)})
    with pytest.raises(ModelFileError, match="cannot load"):
        read_model_file(str(saved))
