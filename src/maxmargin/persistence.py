"""Model files without pickle: one zip archive of JSON and plain arrays.

``header.json`` says what the file is, ``state.json`` holds parameters and fitted attributes, and
``arrays/*.npy`` the arrays they refer to. Reading a file never runs code that the file brings:
it can only name estimators of this package and classes that were registered here.
"""

from __future__ import annotations

import io
import json
import os
import struct
import types
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._codec import TRUSTED_PACKAGE, Decoder, Encoder, ModelFileError, native_class, register
from ._optional import require

__all__ = ["FORMAT", "FORMAT_VERSION", "ModelFileError", "load", "register", "save"]

FORMAT = "maxmargin-model"
FORMAT_VERSION = 1

# What zipfile, json, numpy and the decoder raise when bytes are not what they should be.
DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, struct.error)
DAMAGE += (
    EOFError,
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
)


def save(model: BaseEstimator, path: str | os.PathLike[str], *, dual: bool = False) -> None:
    """Write a fitted model to a file.

    The file is complete or absent: it is written under another name and then renamed.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package, or a scikit-learn estimator around one, such as a
        Pipeline (these need the extra ``io``). Of a search, save ``best_estimator_``.
    path : str or path-like
        Where to write. An existing file is replaced.
    dual : bool, default=False
        Keep the dual state too, so that a loaded model can go on training with ``warm_start``.
        It is as large as the training problem. Inside scikit-learn objects it is always kept.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    TypeError
        If a parameter or attribute has a type without an encoding.

    Notes
    -----
    Constructor parameters that are functions, such as callbacks, are not saved: they are None in
    the loaded model. Functions other than callbacks are dropped with a warning.
    """
    write_model(model, path, dual=dual)


def write_model(
    model: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    dual: bool = False,
    notes: dict[str, Any] | None = None,
) -> None:
    """:func:`save`, with JSON documents beside the model, by the names of their members."""
    import maxmargin

    check_is_fitted(model)
    header: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION}
    header["library_version"] = maxmargin.__version__
    header["estimator"] = type(model).__name__
    members: dict[str, Any] = {"header.json": header}
    if native_class(type(model).__name__) is type(model):
        encoder = Encoder(dual=dual)
        members["state.json"] = encoder.encode(model, type(model).__name__)
        members.update(encoder.arrays)
    else:
        members["model.skops"] = _dump_with_skops(model)
    members.update(notes or {})
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            _write_member(archive, name, content)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save` wrote.

    Parameters
    ----------
    path : str or path-like
        The model file.

    Returns
    -------
    model : estimator
        Equal to the saved one: its predictions are the same bit for bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is damaged, is not a model file, or needs a newer version of this library.
    """
    return _opened(path, _read_model)


def read_note(path: str | os.PathLike[str], name: str) -> Any:
    """A JSON document that :func:`write_model` put beside a model, or None."""

    def read(archive: zipfile.ZipFile) -> Any:
        if "header.json" not in archive.namelist():
            raise ModelFileError("it is not a maxmargin model")
        return json.loads(archive.read(name)) if name in archive.namelist() else None

    return _opened(path, read)


def _opened(path: str | os.PathLike[str], read: Callable[[zipfile.ZipFile], Any]) -> Any:
    """What a function reads from the archive; damage becomes one kind of error."""
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return read(archive)
        except ModelFileError as error:
            raise ModelFileError(f"cannot load {os.fspath(path)}: {error}") from error.__cause__
        except DAMAGE as error:
            raise ModelFileError(
                f"cannot load {os.fspath(path)}: the file is damaged or incomplete "
                f"({type(error).__name__}: {error})"
            ) from error


# --- the archive ---------------------------------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike[str], suffix: str | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends without an error.

    Until then it has a name of its own; with a ``suffix`` a fixed one, beside ``path``, so that
    what a killed process left there is written over by the next.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot save {os.fspath(path)}: there is no folder {folder}")
    temporary = os.path.join(folder, f".{uuid.uuid4().hex}.tmp")
    if suffix is not None:
        temporary = target + suffix
    try:
        with open(temporary, "xb" if suffix is None else "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.filename == temporary:  # name what was asked for
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _write_member(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    info = zipfile.ZipInfo(name)  # has a fixed date, so equal models give equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        if isinstance(content, np.ndarray):
            np.lib.format.write_array(member, content, allow_pickle=False)
        else:
            is_bytes = isinstance(content, bytes)
            member.write(content if is_bytes else json.dumps(content, allow_nan=False).encode())


def _read_model(archive: zipfile.ZipFile) -> Any:
    names = set(archive.namelist())
    header = json.loads(archive.read("header.json")) if "header.json" in names else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError("it is not a maxmargin model")
    import maxmargin

    if header["format_version"] > FORMAT_VERSION:
        raise ModelFileError(
            f"it was written by maxmargin {header['library_version']} in format "
            f"{header['format_version']}, and maxmargin {maxmargin.__version__} reads formats up "
            f"to {FORMAT_VERSION}. Upgrade: pip install --upgrade maxmargin"
        )
    if "model.skops" in names:
        return _load_with_skops(archive.read("model.skops"), header["estimator"])

    def read_array(name: str) -> np.ndarray:
        # Read at once: zipfile checks the CRC at the end of a member, before numpy sees the bytes.
        return np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)

    return Decoder(read_array).decode(json.loads(archive.read("state.json")))


def _dump_with_skops(model: BaseEstimator) -> bytes:
    skops = require("skops.io", "io", f"Saving a {type(model).__name__}")
    data = skops.dumps(model)
    refused = [name for name in skops.get_untrusted_types(data=data) if not _is_ours(name)]
    if refused:
        raise TypeError(
            f"cannot save this {type(model).__name__}: it holds {', '.join(refused)}, which could "
            "not be loaded again safely. Save the part that predicts, such as best_estimator_ of "
            "a search, or build the model from scikit-learn and maxmargin estimators alone"
        )
    return data


def _load_with_skops(data: bytes, estimator: str) -> Any:
    skops = require("skops.io", "io", f"Loading a {estimator}")
    needed = skops.get_untrusted_types(data=data)
    refused = [name for name in needed if not _is_ours(name)]
    if refused:
        raise ModelFileError(f"it holds types that are not safe to load: {', '.join(refused)}")
    return skops.loads(data, trusted=needed)


def _is_ours(name: str) -> bool:
    """Whether a dotted name is a class or function that maxmargin itself defines.

    The name alone is not enough: a module also holds what it imported from elsewhere.
    """
    module, _, attribute = name.rpartition(".")
    if not module.startswith(TRUSTED_PACKAGE):
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    defined_in = getattr(found, "__module__", None) or ""
    return isinstance(found, type | types.FunctionType) and defined_in.startswith(TRUSTED_PACKAGE)
