"""Model files: complete or absent, damage is noticed, nothing unsafe is loaded."""

from __future__ import annotations

import datetime
import errno
import json
import os
import sys
import types
import zipfile

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

import maxmargin
from maxmargin.persistence import ModelFileError, load, replacing, save
from samebits import assert_same, problem


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
    monkeypatch.setitem(sys.modules, "maxmargin.tiny", module)
    monkeypatch.setattr(maxmargin, "TinyClassifier", TinyClassifier, raising=False)
    names = [*getattr(maxmargin, "__all__", []), "TinyClassifier"]
    monkeypatch.setattr(maxmargin, "__all__", names, raising=False)
    monkeypatch.setattr(maxmargin, "__version__", "0.1.0", raising=False)
    return TinyClassifier().fit(*problem())


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


def test_memory_layout_of_arrays_is_kept(tiny, tmp_path):
    # Fortran order changes the order of additions in a product, hence its last bits.
    tiny.means_ = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 30)))
    save(tiny, tmp_path / "model")
    assert load(tmp_path / "model").means_.flags.f_contiguous


def test_file_is_a_zip_with_a_readable_header_and_plain_arrays(tiny, tmp_path):
    save(tiny, tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        header = json.loads(archive.read("header.json"))
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
        with archive.open(arrays[0]) as member:
            np.lib.format.read_array(member, allow_pickle=False)
    assert header == {
        "format": "maxmargin-model",
        "format_version": 2,
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


def test_attribute_without_encoding_is_named_and_leaves_no_file(tiny, tmp_path):
    tiny.extra_ = datetime.date(2026, 1, 1)
    with pytest.raises(TypeError, match=r"TinyClassifier\.extra_.*datetime\.date"):
        save(tiny, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_value_that_contains_itself(tiny, tmp_path):
    tiny.extra_ = []
    tiny.extra_.append(tiny.extra_)
    with pytest.raises(TypeError, match=r"TinyClassifier\.extra_.*contains itself"):
        save(tiny, tmp_path / "model")


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
    header = {"format": "maxmargin-model", "format_version": 3, "library_version": "9.8.7"}
    rewrite(saved, header=json.dumps(header))
    with pytest.raises(ModelFileError, match=r"9\.8\.7.*format 3.*0\.1\.0.*up to 2.*pip install"):
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


def test_a_folder_that_cannot_be_written_to_gives_an_error_with_the_name_asked_for(
    tmp_path, monkeypatch
):
    def refuse(path, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)
    wanted = str(tmp_path / "model.mm")
    with pytest.raises(PermissionError) as error, replacing(wanted):
        pass
    assert error.value.filename == wanted
    assert error.value.errno == errno.EACCES
