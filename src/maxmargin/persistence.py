"""Model files without pickle: one zip archive of JSON and plain arrays.

``header.json`` says what the file is, ``state.json`` holds parameters and fitted attributes, and
``arrays/*.npy`` the arrays they refer to. Reading a file never runs code that the file brings:
it can only name estimators of this package and classes that were registered here.
"""

from __future__ import annotations

import io
import json
import os
import types
import zipfile
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._archive import DAMAGE, Archive
from ._codec import TRUSTED_PACKAGE, Decoder, Encoder, ModelFileError, native_class, register
from ._loaded import check_loaded
from ._optional import require
from ._replacing import replacing
from ._validation import check_integer

__all__ = ["FORMAT", "FORMAT_VERSION", "ModelFileError", "load", "register", "save"]

FORMAT = "maxmargin-model"
FORMAT_VERSION = 2


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


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Read a model that :func:`save` wrote.

    Parameters
    ----------
    path : str or path-like
        The model file.
    max_bytes : int, optional
        Bytes that the content of the file may unpack to: a small file may claim to be a very large
        model. By default 1 GiB, or twenty times the size of the file where that is more; a JSON
        document in it may have 16 MiB, or ten times its compressed size.

    Returns
    -------
    model : estimator
        Equal to the saved one: its predictions are the same bit for bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is damaged, is not a model file, is larger than ``max_bytes``, or needs a newer
        version of this library.

    Notes
    -----
    Attributes are checked against each other (types, shapes, ranges of indices), so that a file
    that was changed is refused here rather than when the model predicts. That says nothing about
    whether the model is a good one, and the attributes of scikit-learn's own estimators, such as
    other steps of a pipeline, are as skops reads them.
    """
    if max_bytes is not None:
        check_integer("max_bytes", max_bytes, 1)
    return _opened(path, _read_model, max_bytes)


def read_note(path: str | os.PathLike[str], name: str) -> Any:
    """A JSON document that :func:`write_model` put beside a model, or None."""

    def read(archive: Archive) -> Any:
        _read_header(archive)
        return archive.read_json(name) if name in archive else None

    return _opened(path, read)


def _opened(
    path: str | os.PathLike[str], read: Callable[[Archive], Any], max_bytes: int | None = None
) -> Any:
    """What a function reads from the archive; damage becomes one kind of error."""
    with open(path, "rb") as file:
        try:
            with Archive(file, max_bytes) as archive:
                return read(archive)
        except ModelFileError as error:
            raise ModelFileError(f"cannot load {os.fspath(path)}: {error}") from error.__cause__
        except DAMAGE as error:
            raise ModelFileError(
                f"cannot load {os.fspath(path)}: the file is damaged or incomplete "
                f"({type(error).__name__}: {error})"
            ) from error


# --- the archive ---------------------------------------------------------------------------


def _write_member(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    info = zipfile.ZipInfo(name)  # has a fixed date, so equal models give equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        match content:
            case np.ndarray():
                np.lib.format.write_array(member, content, allow_pickle=False)
            case bytes():
                member.write(content)
            case _:
                member.write(json.dumps(content, allow_nan=False).encode())


def _read_header(archive: Archive) -> dict[str, Any]:
    """What the file says of itself; refuses other files, and those of newer versions."""
    header = archive.read_json("header.json") if "header.json" in archive else None
    if type(header) is not dict or header.get("format") != FORMAT:
        raise ModelFileError("it is not a maxmargin model")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"format_version must be an integer of at least 1; received {version!r}")
    if version > FORMAT_VERSION:
        import maxmargin

        raise ModelFileError(
            f"it was written by maxmargin {header.get('library_version')} in format {version}, and "
            f"maxmargin {maxmargin.__version__} reads formats up to {FORMAT_VERSION}. Upgrade: "
            "pip install --upgrade maxmargin"
        )
    return header


def _read_model(archive: Archive) -> Any:
    header = _read_header(archive)
    if "model.skops" in archive:
        model = _load_with_skops(
            archive.read("model.skops"), str(header["estimator"]), archive.limit
        )
    else:
        model = Decoder(archive.read_array).decode(archive.read_json("state.json"))
    if not isinstance(model, BaseEstimator) or type(model).__name__ != header["estimator"]:
        raise ModelFileError(
            f"it should hold the estimator {header['estimator']!r}, and holds a value of type "
            f"{type(model).__name__}"
        )
    check_loaded(model)
    return model


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


def _load_with_skops(data: bytes, estimator: str, max_bytes: int) -> Any:
    skops = require("skops.io", "io", f"Loading a {estimator}")
    with Archive(io.BytesIO(data), max_bytes) as archive:
        archive.verify()  # skops trusts the sizes that an archive declares
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
