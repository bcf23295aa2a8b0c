"""Values of a model file: to JSON and plain arrays, and back.

In JSON, ``None``, booleans, strings, 64-bit integers, finite floats and lists stand for
themselves; every other value is an object with one key, its tag: ``{"tuple": [1, 2]}``.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import struct
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction import DictVectorizer

from ._indices import check_csr, check_random_state
from ._validation import fields_of, is_array, is_class

# Where a class must be defined to be one of ours.
TRUSTED_PACKAGE = "maxmargin."
_FOREIGN_ESTIMATORS = {"DictVectorizer": DictVectorizer}
_SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset}
_TYPES = {"bool": bool, "int": int, "float": float, "str": str}
# Tags that need nothing but their own content.
_SIMPLE_TAGS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "nan": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "str_": np.str_,
    "bytes_": lambda text: np.bytes_(bytes.fromhex(text)),
    "scalar": lambda pair: np.frombuffer(bytes.fromhex(pair[1]), dtype=pair[0])[0],
    "dtype": np.dtype,
    "type": lambda name: _TYPES.get(name) or np.dtype(name).type,
}

T = TypeVar("T", bound=type)


class ModelFileError(ValueError):
    """A model file is damaged, is something else, or is newer than this library."""


# --- classes that a model file may contain -------------------------------------------------


class _Codec(NamedTuple):
    cls: type
    to_fields: Callable[[Any], dict[str, Any]]
    from_fields: Callable[[dict[str, Any]], Any]


_REGISTRY: dict[str, _Codec] = {}
# Our own classes, registered when first met: importing them takes the compiler's time.
_OWN = {
    "Check": "solvers.result",
    "Round": "solvers.rounds",
    "Blocks": "_kernels.blocks",
    "Atoms": "_kernels.atoms",
    "Kernel": "features.kernel_values",
    "Flows": "_kernels.flows",
    "Beliefs": "graphs.kernels.agreement",
    "PairMarginals": "graphs.kernels.half_integral",
    "Layout": "graphs.packing",
    "PartitionedDual": "solvers.parts",
}


def register(
    cls: T,
    to_fields: Callable[[Any], dict[str, Any]] | None = None,
    from_fields: Callable[[dict[str, Any]], Any] | None = None,
) -> T:
    """Let instances of a class be part of a model file; usable as a decorator.

    Parameters
    ----------
    cls : type
        A NamedTuple or dataclass, or any class if the functions are given. Its name goes into
        files, so it must be unique and stay as it is.
    to_fields, from_fields : callable, optional
        From an instance to a dict of encodable values, and back.

    Returns
    -------
    cls : type
        The class itself.
    """
    _registered(cls.__name__)  # a name of ours is taken
    if to_fields is None or from_fields is None:
        if dataclasses.is_dataclass(cls):
            names = [field.name for field in dataclasses.fields(cls) if field.init]
        elif not (names := list(fields_of(cls))):
            raise TypeError(
                f"{cls.__name__} is neither a NamedTuple nor a dataclass; "
                "give register() both to_fields and from_fields"
            )
        to_fields, from_fields = _by_name(cls, names)
    if _REGISTRY.setdefault(cls.__name__, _Codec(cls, to_fields, from_fields)).cls is not cls:
        raise ValueError(f"another class is already registered under the name {cls.__name__}")
    return cls


def _by_name(cls: type, names: Sequence[str]) -> tuple[Callable, Callable]:
    """Functions from an instance to its named fields, and back."""
    return lambda value: {n: getattr(value, n) for n in names}, lambda fields: cls(**fields)


def _registered(name: str) -> _Codec | None:
    """How to take apart and rebuild the class of this name, or None."""
    if name in _OWN and name not in _REGISTRY:
        cls: Any = getattr(import_module(f".{_OWN[name]}", __package__), name)
        _REGISTRY[name] = _Codec(cls, *_by_name(cls, cls._fields))
    return _REGISTRY.get(name)


def _sparse_fields(matrix: Any) -> dict[str, Any]:
    return {
        "data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr,
        "shape": matrix.shape,
    }  # fmt: skip


def _sparse_from(cls: type, data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    check_csr(data, indices, indptr, shape)
    matrix = cls((data, indices, indptr), shape=shape)
    matrix.indices, matrix.indptr = indices, indptr  # scipy may have narrowed the index type
    return matrix


def _random_state_from(fields: dict[str, Any]) -> np.random.RandomState:
    check_random_state(fields)
    random = np.random.RandomState()
    random.set_state(fields)
    return random


register(sparse.csr_matrix, _sparse_fields, lambda f: _sparse_from(sparse.csr_matrix, **f))
register(sparse.csr_array, _sparse_fields, lambda f: _sparse_from(sparse.csr_array, **f))
register(np.random.RandomState, lambda r: r.get_state(legacy=False), _random_state_from)


def native_class(name: str) -> type[BaseEstimator] | None:
    """The estimator class that a model file may name so, or None."""
    import maxmargin

    if name in _FOREIGN_ESTIMATORS:
        return _FOREIGN_ESTIMATORS[name]
    found: Any = getattr(maxmargin, name, None) if name in maxmargin.__all__ else None
    ours = is_class(found) and issubclass(found, BaseEstimator)
    return found if ours and found.__module__.startswith(TRUSTED_PACKAGE) else None


# --- values to JSON and back ---------------------------------------------------------------


class Encoder:
    """Turns values into JSON, and collects the arrays they contain in ``arrays``, by name."""

    def __init__(self, dual: bool = False) -> None:
        self.dual = dual
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return the JSON of a value; ``where`` names it in an error."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            # Python refuses to convert the decimal digits of huge integers, not hexadecimal ones.
            return value if value.bit_length() < 64 else {"int": hex(value)}
        if kind is float:
            if math.isnan(value):  # there are many, and each has its bits
                return {"nan": struct.pack(">d", value).hex()}
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self.encode(item, where) for item in value]
        if kind in _SEQUENCES.values():
            items = [self.encode(item, where) for item in value]
            # The order of a set changes between processes; a model should give the same file.
            return {kind.__name__: items if kind is tuple else sorted(items, key=json.dumps)}
        if kind is dict:
            pairs = [[self.encode(k, where), self.encode(v, where)] for k, v in value.items()]
            return {"dict": pairs}
        if issubclass(kind, np.generic) or kind in (np.ndarray, np.memmap):
            return self._encode_numpy(value, where)
        return self._encode_object(value, kind, where)

    def _encode_numpy(self, value: Any, where: str) -> Any:
        match value:
            case np.str_():
                return {"str_": "".join(value)}  # str(value) would lose final zeros
            case np.bytes_():
                return {"bytes_": value.hex()}
        array = np.asarray(value)
        if array.dtype == object:
            return {"objects": [list(array.shape), [self.encode(v, where) for v in array.flat]]}
        if array.dtype.kind not in "biufcmMSU":
            raise _no_encoding(f"numpy {array.dtype}", where)
        if not is_array(value):
            return {"scalar": [array.dtype.str, array.tobytes().hex()]}
        name = f"arrays/{len(self.arrays)}.npy"
        self.arrays[name] = array
        return {"array": name}

    def _encode_object(self, value: Any, kind: type, where: str) -> Any:
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, np.dtype) and value.kind in "biufcmMSUO":
            return {"dtype": value.str}
        if kind is type and value in _TYPES.values():
            return {"type": value.__name__}
        if kind is type and issubclass(value, np.generic):
            return {"type": np.dtype(value).str}
        codec = _registered(kind.__name__)
        if codec is not None and codec.cls is kind:
            return {"object": [kind.__name__, self._fields(codec.to_fields(value), where)]}
        if isinstance(value, BaseEstimator) and native_class(kind.__name__) is kind:
            return {"estimator": self._encode_estimator(value, where)}
        raise _no_encoding(f"{kind.__module__}.{kind.__qualname__}", where)

    def _encode_estimator(self, model: BaseEstimator, where: str) -> dict[str, Any]:
        params = {k: _without_functions(k, v) for k, v in model.get_params(deep=False).items()}
        fitted = {key: value for key, value in vars(model).items() if is_fitted_name(key)}
        state: dict[str, Any] = {"class": type(model).__name__}
        state["params"] = self._fields(params, where)
        state["attributes"] = self._fields(fitted, where)
        if self.dual and "_dual" in vars(model):
            state["dual"] = self.encode(vars(model)["_dual"], f"{where}._dual")
        return state

    def _fields(self, fields: dict[str, Any], where: str) -> dict[str, Any]:
        nodes = {}
        for name, value in fields.items():
            try:
                nodes[name] = self.encode(value, f"{where}.{name}")
            except RecursionError:
                message = f"cannot save {where}.{name}: it contains itself, or is nested too deeply"
                raise TypeError(message) from None
        return nodes


def _no_encoding(kind: str, where: str) -> TypeError:
    return TypeError(
        f"cannot save {where}: it holds a value of type {kind}. Model files take None, bool, int, "
        "float, str, bytes, tuples, lists, dicts, sets, numpy scalars and arrays, and CSR "
        "matrices. Convert the value (labels, for example, to str), or make its class known with "
        "maxmargin.persistence.register"
    )


def is_fitted_name(name: str) -> bool:
    """Whether an attribute of this name is left by a fit."""
    return name.endswith("_") and not name.startswith("__")


def _without_functions(name: str, value: Any) -> Any:
    parts = value if type(value) in (list, tuple) else [value]
    if not any(callable(part) and not is_class(part) for part in parts):
        return value
    if "callback" not in name:
        message = f"parameter {name!r} is a function and is not saved; loading gives None"
        warnings.warn(message, UserWarning, stacklevel=2)
    return None


class Decoder:
    """Turns the JSON of an :class:`Encoder` back into values; arrays are read by name."""

    def __init__(self, read_array: Callable[[str], np.ndarray]) -> None:
        self.read_array = read_array

    def decode(self, node: Any) -> Any:
        """Return the value that a piece of JSON stands for."""
        if type(node) is list:
            return [self.decode(item) for item in node]
        if type(node) is not dict:
            return node
        ((tag, content),) = node.items()
        if tag in _SIMPLE_TAGS:
            return _SIMPLE_TAGS[tag](content)
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](self.decode(item) for item in content)
        if tag == "dict":
            return {self.decode(key): self.decode(value) for key, value in content}
        if tag == "array":
            return self.read_array(content)
        if tag == "objects":
            return self._objects(content)
        if tag == "object":
            return self._object(content)
        if tag == "estimator":
            return self._estimator(content)
        raise ValueError(f"unknown tag {tag!r}")

    def _objects(self, content: list[Any]) -> np.ndarray:
        shape, items = content
        flat = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            flat[i] = self.decode(item)
        return flat.reshape(shape)

    def _object(self, content: list[Any]) -> Any:
        name, fields = content
        codec = _registered(name)
        if codec is None:
            raise ModelFileError(
                f"it holds a {name}, a class that is not registered in this program; import the "
                "module that passes it to maxmargin.persistence.register"
            )
        return codec.from_fields(self._fields(fields))

    def _estimator(self, content: dict[str, Any]) -> BaseEstimator:
        cls = native_class(content["class"])
        if cls is None:
            raise ModelFileError(f"this maxmargin has no estimator {content['class']!r}")
        unknown = sorted(set(content["params"]) - set(cls._get_param_names()))
        if unknown:
            raise ModelFileError(
                f"{cls.__name__} of this maxmargin has no parameter {', '.join(unknown)}; another "
                "version wrote the file: fit the model again"
            )
        model = cls(**self._fields(content["params"]))
        for name, value in self._fields(content["attributes"]).items():
            if not is_fitted_name(name):
                raise ModelFileError(f"{name!r} cannot be a fitted attribute")
            if not isinstance(getattr(cls, name, None), property):  # it follows from the others
                setattr(model, name, value)
        if "dual" in content:
            model._dual = self.decode(content["dual"])
        return model

    def _fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in fields.items()}
