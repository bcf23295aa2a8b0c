"""Values of model files: each comes back in type and bits, or is refused by name."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import struct
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer
from sklearn.preprocessing import StandardScaler

from maxmargin import Check, _codec
from maxmargin._codec import Decoder, Encoder, ModelFileError, register
from samebits import assert_same


def round_trip(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    return Decoder(encoder.arrays.__getitem__).decode(json.loads(text))


OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]  # NaNs have payloads
VALUES = {
    "constants": [None, True, False],
    "integers": [0, -1, 2**63 - 1, 2**63, -(2**64), 10**5000],
    "floats": [0.1, -0.0, 5e-324, math.inf, -math.inf, math.nan, OTHER_NAN],
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


@settings(max_examples=40)
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
    monkeypatch.setattr(_codec, "_REGISTRY", dict(_codec._REGISTRY))


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
        datetime.date,
        lambda day: {"iso": day.isoformat()},
        lambda fields: datetime.date.fromisoformat(fields["iso"]),
    )
    assert round_trip(datetime.date(2026, 1, 2)) == datetime.date(2026, 1, 2)


def test_classes_of_the_library_need_no_registration(registry):
    _codec._REGISTRY.pop("Check", None)
    check = Check(1.0, 0.5, 2.0, 1.5, 0.5, 0.0, 7)
    assert_same(round_trip(check), check)


def test_names_of_the_library_are_taken(registry):
    _codec._REGISTRY.pop("Check", None)
    with pytest.raises(ValueError, match="already registered under the name Check"):
        register(dataclasses.make_dataclass("Check", ["z"]))


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
def test_value_without_encoding_names_attribute_type_and_remedy(name):
    with pytest.raises(TypeError) as caught:
        Encoder().encode(BAD_VALUES[name], "Model.extra_")
    message = str(caught.value)
    assert "Model.extra_" in message and name in message and "register" in message
