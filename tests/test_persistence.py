"""Model files: every value comes back, damage is noticed, nothing unsafe is loaded."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import sys
import types
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import maxmargin
from maxmargin import persistence
from maxmargin.persistence import Decoder, Encoder, ModelFileError, load, register, save


class TinyClassifier(ClassifierMixin, BaseEstimator):
    """Nearest class mean: the smallest estimator with parameters, labels and arrays."""

    __module__ = "maxmargin.tiny"

    def __init__(self, shrink=0.0, callback=None, option=None):
        self.shrink = shrink
        self.callback = callback
        self.option = option

    def fit(self, X, y):
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.means_ = np.array([X[codes == k].mean(axis=0) for k in range(len(self.classes_))])
        self.means_ *= 1.0 - self.shrink
        self._dual = (np.eye(len(y)), 3)
        self._scratch = object()
        return self

    def decision_function(self, X):
        return X @ self.means_.T - 0.5 * (self.means_**2).sum(axis=1)

    def predict(self, X):
        return self.classes_[self.decision_function(X).argmax(axis=1)]


@pytest.fixture
def tiny(monkeypatch):
    """TinyClassifier as if it were a public estimator of the library, fitted."""
    module = types.ModuleType("maxmargin.tiny")
    module.TinyClassifier = TinyClassifier
    module.join = os.path.join  # something that a module imports from elsewhere
    monkeypatch.setitem(sys.modules, "maxmargin.tiny", module)
    monkeypatch.setattr(maxmargin, "TinyClassifier", TinyClassifier, raising=False)
    names = [*getattr(maxmargin, "__all__", []), "TinyClassifier"]
    monkeypatch.setattr(maxmargin, "__all__", names, raising=False)
    monkeypatch.setattr(maxmargin, "__version__", "0.1.0", raising=False)
    return TinyClassifier().fit(*problem())


def problem():
    random = np.random.default_rng(0)
    y = np.repeat(["ash", "birch", "elm"], 10)
    return random.normal(size=(30, 4)) + np.repeat(np.eye(3, 4) * 3, 10, axis=0), y


def round_trip(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    return Decoder(encoder.arrays.__getitem__).decode(json.loads(text))


def assert_same(first, second):
    """Equal in type, value and bits, at every depth."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype and first.shape == second.shape
        if first.dtype != object:
            assert first.tobytes() == second.tobytes()
        else:
            assert_same(first.ravel().tolist(), second.ravel().tolist())
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second):
            assert_same(one, other)
    elif isinstance(first, dict):
        assert_same(list(first.items()), list(second.items()))
    elif isinstance(first, float | np.inexact):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()
    else:
        assert first == second


# --- values ----------------------------------------------------------------------------------

VALUES = {
    "constants": [None, True, False],
    "integers": [0, -1, 2**63 - 1, 2**63, -(2**64), 10**5000],
    "floats": [0.1, -0.0, 5e-324, math.inf, -math.inf, math.nan],
    "text": ["", "søster\0\U0001f600\ud800", b"", b"\x00\xff"],
    "sequences": [(), (1, (2.0, "x")), [], [1, [None, (True,)]]],
    "sets": [set(), {1, 2, 3}, frozenset({"a", ("b", 1)})],
    "dicts": [{}, {"a": 1, 2: "b", (3, "c"): [None], None: {}, b"k": -1.5}, {"tuple": [1]}],
    "scalars": [np.float32(0.1), np.float64(np.nan), np.int8(-3), np.uint64(2**64 - 1)],
    "other scalars": [np.bool_(True), np.complex128(1 - 2j), np.datetime64("2026-01-02", "D")],
    "scalar text": [np.str_(""), np.str_("a\0"), np.bytes_(b"a\0")],
    "types": [np.dtype("<f4"), np.float32, np.str_, float],
    "arrays": [np.array(1.5), np.zeros((0, 3)), np.arange(6, dtype=">i2").reshape(2, 3)],
    "other arrays": [np.array([True, False]), np.array(["2026-01-02"], dtype="datetime64[ns]")],
    "text arrays": [np.array(["a", "bcd"]), np.array([b"a", b""]), np.array([""])],
    "label arrays": [
        np.array([1, "a", None, (2, 3), np.float32(1)], dtype=object),
        np.array([[1, "a"], [None, 2.0]], dtype=object),
        np.empty((0, 2), dtype=object),
    ],
    "lists of arrays": [[np.ones(2), np.zeros(1, dtype=np.int32)]],
}


@pytest.mark.parametrize("kind", VALUES)
def test_value_comes_back(kind):
    for value in VALUES[kind]:
        assert_same(value, round_trip(value))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    hnp.from_dtype(np.dtype(np.float32)),
    hnp.from_dtype(np.dtype(np.int64)),
)
ARRAYS = hnp.arrays(
    st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(), hnp.byte_string_dtypes()),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
)


@given(
    st.recursive(
        SCALARS | ARRAYS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(SCALARS, inner, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_any_nested_value_comes_back(value):
    assert_same(value, round_trip(value))


def test_memory_layout_of_arrays_is_kept(tiny, tmp_path):
    # Fortran order changes the order of additions in a product, hence its last bits.
    tiny.means_ = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 30)))
    save(tiny, tmp_path / "model")
    assert load(tmp_path / "model").means_.flags.f_contiguous


def test_equal_sets_give_equal_json():
    encode = Encoder().encode
    assert encode({"a", "b", "c", "d"}, "") == encode({"d", "c", "b", "a"}, "")


@pytest.mark.parametrize("cls", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_matrix_comes_back(cls, index):
    matrix = cls(sparse.random(5, 7, density=0.3, format="csr", random_state=0, dtype=np.float32))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    again = round_trip(matrix)
    assert type(again) is cls and again.shape == matrix.shape
    for name in ("data", "indices", "indptr"):
        assert_same(getattr(matrix, name), getattr(again, name))


def test_dict_vectorizer_comes_back():
    tokens = [{"word": "a", "length": 1}, {"word": "b", "cap": True}]
    vectorizer = DictVectorizer(dtype=np.float32, separator=":").fit(tokens)
    again = round_trip(vectorizer)
    assert again.get_params() == vectorizer.get_params()
    assert again.vocabulary_ == vectorizer.vocabulary_
    assert (again.transform(tokens) != vectorizer.transform(tokens)).nnz == 0


def test_random_state_comes_back_in_the_same_state():
    random = np.random.RandomState(3)
    random.normal(size=3)
    assert round_trip(random).normal() == random.normal()


class Color(NamedTuple):
    red: int
    name: np.ndarray


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    color: Color
    norm: float = dataclasses.field(init=False, default=0.0)


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(persistence, "_REGISTRY", dict(persistence._REGISTRY))


def test_registered_classes_come_back(registry):
    assert register(Color) is Color
    assert register(Point) is Point
    again = round_trip([Point(math.inf, Color(1, np.ones(2)))])[0]
    assert type(again) is Point and again.x == math.inf
    assert_same(again.color, Color(1, np.ones(2)))


def test_registering_twice_is_harmless_and_a_second_class_of_the_name_is_refused(registry):
    register(Point)
    register(Point)
    with pytest.raises(ValueError, match="Point"):
        register(dataclasses.make_dataclass("Point", ["z"]))


def test_register_refuses_what_it_cannot_take_apart(registry):
    with pytest.raises(TypeError, match="to_fields and from_fields"):
        register(datetime.date)
    register(
        datetime.date, lambda day: {"iso": day.isoformat()}, lambda f: datetime.date(2026, 1, 2)
    )
    assert round_trip(datetime.date(2026, 1, 2)) == datetime.date(2026, 1, 2)


def test_unregistered_class_in_a_file_is_named():
    with pytest.raises(ModelFileError, match="Point.*register"):
        Decoder({}.__getitem__).decode({"object": ["Point", {}]})


class Text(str):
    pass


BAD_VALUES = {
    "datetime.date": datetime.date(2026, 1, 1),
    "Color": Color(1, np.ones(1)),
    "Text": Text("a"),
    "MaskedArray": np.ma.masked_array([1.0]),
    "csc_matrix": sparse.csc_matrix((2, 2)),
    "StandardScaler": StandardScaler(),
    "f8": np.zeros(2, dtype="f8,i4"),
    "builtin_function_or_method": len,
    "datetime.timedelta": np.array([1, datetime.timedelta(1)], dtype=object),
    "object": [{"k": ({object()},)}],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_value_without_encoding_names_attribute_type_and_remedy(tiny, tmp_path, name):
    tiny.extra_ = BAD_VALUES[name]
    with pytest.raises(TypeError) as caught:
        save(tiny, tmp_path / "model")
    message = str(caught.value)
    assert "TinyClassifier.extra_" in message and name in message and "register" in message
    assert os.listdir(tmp_path) == []


def test_value_that_contains_itself(tiny, tmp_path):
    tiny.extra_ = []
    tiny.extra_.append(tiny.extra_)
    with pytest.raises(TypeError, match=r"TinyClassifier\.extra_.*contains itself"):
        save(tiny, tmp_path / "model")


# --- models ----------------------------------------------------------------------------------


def test_model_comes_back(tiny, tmp_path):
    X, _ = problem()
    tiny.set_params(shrink=0.25)
    save(tiny, tmp_path / "model.mm")
    again = load(str(tmp_path / "model.mm"))
    assert type(again) is TinyClassifier
    assert again.get_params() == tiny.get_params()
    assert_same(again.decision_function(X), tiny.decision_function(X))
    assert_same(again.predict(X), tiny.predict(X))
    assert set(vars(again)) == {"shrink", "callback", "option", "classes_", "means_"}


def test_file_is_a_zip_with_a_readable_header_and_plain_arrays(tiny, tmp_path):
    save(tiny, tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        header = json.loads(archive.read("header.json"))
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
        with archive.open(arrays[0]) as member:
            np.lib.format.read_array(member, allow_pickle=False)
    assert header == {
        "format": "maxmargin-model",
        "format_version": 1,
        "library_version": "0.1.0",
        "estimator": "TinyClassifier",
    }


def test_equal_models_give_equal_files(tiny, tmp_path):
    save(tiny, tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_dual_is_kept_only_on_request(tiny, tmp_path):
    save(tiny, tmp_path / "without")
    assert not hasattr(load(tmp_path / "without"), "_dual")
    save(tiny, tmp_path / "with", dual=True)
    assert_same(load(tmp_path / "with")._dual, tiny._dual)
    del tiny._dual
    save(tiny, tmp_path / "absent", dual=True)
    assert not hasattr(load(tmp_path / "absent"), "_dual")


@pytest.mark.parametrize("callback", [print, [print, len], lambda check: None])
def test_callbacks_are_dropped(tiny, tmp_path, callback, recwarn):
    tiny.set_params(callback=callback)
    save(tiny, tmp_path / "model")
    assert load(tmp_path / "model").callback is None
    assert tiny.callback is callback
    assert not recwarn.list


def test_other_functions_are_dropped_with_a_warning(tiny, tmp_path):
    tiny.set_params(option=len)
    with pytest.warns(UserWarning, match="'option' is a function"):
        save(tiny, tmp_path / "model")
    assert load(tmp_path / "model").option is None


def test_estimator_inside_an_estimator(tiny, tmp_path):
    outer = TinyClassifier(option=TinyClassifier(shrink=0.5)).fit(*problem())
    outer.inner_ = [tiny]
    save(outer, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.option.shrink == 0.5
    assert_same(again.inner_[0].means_, tiny.means_)


def test_unfitted_model_is_refused(tiny, tmp_path):
    with pytest.raises(NotFittedError):
        save(TinyClassifier(), tmp_path / "model")
    with pytest.raises(TypeError):
        save("not an estimator", tmp_path / "model")
    assert os.listdir(tmp_path) == []


# --- writing ---------------------------------------------------------------------------------


def test_failed_save_keeps_the_old_file_and_leaves_no_litter(tiny, tmp_path, monkeypatch):
    save(tiny, tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(*arguments, **options):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        save(tiny, tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == before


def test_saving_replaces_the_target_of_a_link_and_respects_the_umask(tiny, tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    umask = os.umask(0o027)
    try:
        save(tiny, tmp_path / "link")
    finally:
        os.umask(umask)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640
    load(tmp_path / "target")


def test_missing_folder_is_named(tiny, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder .*nowhere"):
        save(tiny, tmp_path / "nowhere" / "model")


# --- reading what should not be read ------------------------------------------------------------


def rewrite(path, **changes):
    """Replace members of a model file (by the first part of their names), or drop them (None)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for key, content in changes.items():
        name = next((name for name in members if name.startswith(key)), key)
        members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)


@pytest.fixture
def saved(tiny, tmp_path):
    save(tiny, tmp_path / "model")
    return tmp_path / "model"


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + bytes(100)])
def test_not_a_zip(tmp_path, content):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelFileError, match="model: the file is damaged"):
        load(tmp_path / "model")


def test_truncated_anywhere(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), 7):
        saved.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="damaged"):
            load(saved)


def test_any_changed_byte_is_noticed_or_harmless(saved, tiny):
    content = saved.read_bytes()
    refused = 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        saved.write_bytes(bytes(changed))
        try:
            again = load(saved)  # dates and attributes of members, for example, do not matter
        except ModelFileError:
            refused += 1
        else:
            assert again.get_params() == tiny.get_params()
            assert_same(again.means_, tiny.means_)
            assert_same(again.classes_, tiny.classes_)
    assert refused > len(content) / 2


@pytest.mark.parametrize(
    "changes",
    [
        {"header": b"{"},
        {"header": b'{"format": "maxmargin-model"}'},
        {"header": b'{"format": "maxmargin-model", "format_version": "x"}'},
        {"state": None},
        {"state": b"\xff"},
        {"state": b"[" * 100_000},
        {"state": b'{"unknown tag": 1}'},
        {"state": b'{"scalar": ["|O", "0000000000000000"]}'},
        {"state": b'{"estimator": {"class": "TinyClassifier"}}'},
        {"arrays": None},
        {"arrays": b"not an array"},
    ],
)
def test_bad_members(saved, changes):
    rewrite(saved, **changes)
    with pytest.raises(ModelFileError, match="damaged"):
        load(saved)


def test_pickles_are_refused(saved, tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    rewrite(saved, arrays=(tmp_path / "objects.npy").read_bytes())
    with pytest.raises(ModelFileError, match="damaged.*allow_pickle"):
        load(saved)


@pytest.mark.parametrize("header", [None, b"[]", b'{"format": "other"}'])
def test_zip_of_something_else(saved, header):
    rewrite(saved, header=header)
    with pytest.raises(ModelFileError, match="not a maxmargin model"):
        load(saved)


def test_newer_format_asks_for_an_upgrade(saved):
    header = {"format": "maxmargin-model", "format_version": 2, "library_version": "9.8.7"}
    rewrite(saved, header=json.dumps(header))
    with pytest.raises(ModelFileError, match=r"9\.8\.7.*format 2.*0\.1\.0.*up to 1.*pip install"):
        load(saved)


@pytest.mark.parametrize(
    "state, message",
    [
        ({"class": "Popen", "params": {}, "attributes": {}}, "no estimator 'Popen'"),
        ({"class": "save", "params": {}, "attributes": {}}, "no estimator 'save'"),
        ({"class": "TinyClassifier", "params": {"depth": 1}, "attributes": {}}, "parameter depth"),
        ({"class": "TinyClassifier", "params": {}, "attributes": {"fit": 1}}, "fitted attribute"),
    ],
)
def test_file_may_not_name_what_it_likes(saved, state, message):
    rewrite(saved, state=json.dumps({"estimator": state}))
    with pytest.raises(ModelFileError, match=message):
        load(saved)


# --- scikit-learn objects around an estimator ---------------------------------------------------


def fitted_search():
    pipeline = make_pipeline(StandardScaler(), TinyClassifier())
    search = GridSearchCV(pipeline, {"tinyclassifier__shrink": [0.0, 0.5]}, cv=3).fit(*problem())
    del search.best_estimator_[-1]._scratch
    return search


def test_pipeline_comes_back(tiny, tmp_path):
    X, _ = problem()
    pipeline = fitted_search().best_estimator_
    save(pipeline, tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(pipeline)
    assert_same(again.decision_function(X), pipeline.decision_function(X))
    assert_same(again.predict(X), pipeline.predict(X))


def test_search_points_to_its_best_estimator(tiny, tmp_path):
    # The scorers and splitters that a search holds are not among the types known to be safe.
    with pytest.raises(TypeError, match="cannot save this GridSearchCV.*best_estimator_"):
        save(fitted_search(), tmp_path / "model")


def test_pipeline_with_foreign_types_is_refused_when_saving(tiny, tmp_path):
    X, _ = problem()
    model = make_pipeline(FunctionTransformer(problem)).fit(X)
    with pytest.raises(TypeError, match="problem"):
        save(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_pipeline_with_foreign_types_is_refused_when_loading(tiny, tmp_path, monkeypatch):
    X, _ = problem()
    model = make_pipeline(FunctionTransformer(problem)).fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(persistence, "_is_ours", lambda name: True)
        save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="not safe to load: .*problem"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    "name, ours",
    [
        ("maxmargin.tiny.TinyClassifier", True),
        ("maxmargin.persistence.register", True),
        ("maxmargin.persistence.zipfile", False),
        ("maxmargin.persistence.DictVectorizer", False),
        ("maxmargin.tiny.join", False),
        ("maxmargin.no_such_module.Class", False),
        ("maxmargin.persistence.NoSuchClass", False),
        ("maxmargin_other.Class", False),
        ("os.system", False),
        ("maxmargin", False),
    ],
)
def test_only_what_the_library_defines_is_trusted(tiny, name, ours):
    assert persistence._is_ours(name) is ours


def test_missing_skops_names_the_extra(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    model = make_pipeline(StandardScaler()).fit(problem()[0])
    with pytest.raises(ImportError, match=r"Saving a Pipeline needs skops.*maxmargin\[io\]"):
        save(model, tmp_path / "model")


# --- the library's own estimators ---------------------------------------------------------------


@pytest.mark.skipif(not hasattr(maxmargin, "MulticlassClassifier"), reason="not yet written")
@pytest.mark.parametrize("dual", [False, True])
def test_multiclass_classifier(tmp_path, dual):
    X, y = problem()
    model = maxmargin.MulticlassClassifier().fit(X, y)
    save(model, tmp_path / "model", dual=dual)
    again = load(tmp_path / "model")
    assert_same(again.predict(X), model.predict(X))
    assert {name for name in vars(again) if name.endswith("_")} == {
        name for name in vars(model) if name.endswith("_")
    }


@pytest.mark.skipif(not hasattr(maxmargin, "SequenceLabeler"), reason="not yet written")
@pytest.mark.parametrize("dual", [False, True])
def test_sequence_labeler(tmp_path, dual):
    X, y = problem()
    order = np.random.default_rng(1).permutation(len(y))
    sequences, labels = np.split(X[order], [4, 12, 13]), np.split(y[order], [4, 12, 13])
    model = maxmargin.SequenceLabeler().fit(sequences, labels)
    save(model, tmp_path / "model", dual=dual)
    again = load(tmp_path / "model")
    for one, other in zip(again.predict(sequences), model.predict(sequences)):
        assert_same(one, other)
