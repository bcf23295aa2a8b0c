"""Prebuilt kernels: used where they fit and verified, compiled afresh, with a word, elsewhere."""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import zipfile

import pytest
from benchmarks import environment
from llvmlite import binding

import maxmargin
from marks import more
from maxmargin import _build
from maxmargin._first_fits import FIRST_FITS
from maxmargin._kernels import store
from maxmargin._kernels.target import BASELINES, baseline
from test_hostile_cache import Bomb

KINDS = ("Classifier", "Labeler", "Ranker", "Matcher", "Predictor", "Selector", "Parser")
ESTIMATORS = {name for name in maxmargin.__all__ if name.endswith(KINDS)}

needs_baseline = pytest.mark.skipif(baseline() is None, reason="no baseline for this machine")

# --- the list of first fits ----------------------------------------------------------------------


def test_every_estimator_has_first_fits():
    found = {type(fit.model()).__name__ for fit in FIRST_FITS.values()}
    assert len(ESTIMATORS) == 12 and found == ESTIMATORS


def test_first_fits_have_default_parameters():
    allowed = {"surrogate", "trainer", "kernel", "random_state", "latent", "structure", "edges"}
    for fit in FIRST_FITS.values():
        model = fit.model()
        ordinary = type(model)().get_params(deep=False)
        changed = {
            name for name, value in model.get_params(deep=False).items() if value != ordinary[name]
        }
        assert changed <= allowed, fit.name


# --- a wheel in a clean environment --------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return environment.build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """The interpreter of a clean environment with the wheel, and the folder of the package."""
    return environment.install(wheel, tmp_path_factory.mktemp("environment"))


def run(code, python, cache, **variables):
    """What a fresh process of an environment prints, and what it logs."""
    done = subprocess.run(
        [str(python), "-c", code],
        env=environment.clean_variables() | {"NUMBA_CACHE_DIR": str(cache)} | variables,
        cwd=cache.parent, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


ALL_FITS = """
import maxmargin
from numba.core import event
from maxmargin._first_fits import FIRST_FITS
counted = event.RecordingListener()
event.register("numba:compile", counted)
for fit in FIRST_FITS.values():
    fit.run()
print(maxmargin.__file__, len(FIRST_FITS), len(counted.buffer))
"""


@needs_baseline
def test_no_first_fit_compiles_anything(installed, tmp_path):
    python, package = installed
    out, err = run(ALL_FITS, python, tmp_path / "cache")
    assert out.split() == [str(package / "__init__.py"), str(len(FIRST_FITS)), "0"]
    assert "prebuilt" not in err
    assert not (tmp_path / "cache").exists()


@needs_baseline
def test_the_wheel_is_small_and_says_what_it_is_for(wheel):
    assert wheel.stat().st_size < 12e6
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert wheel.name.split("-")[2:4] == [version, version] and not wheel.stem.endswith("-any")
    with zipfile.ZipFile(wheel) as archive:
        record = json.loads(archive.read("maxmargin/_prebuilt/record.json"))
        assert f"maxmargin/_prebuilt/{record['file']}" in archive.namelist()
    assert set(record["fits"]) == set(FIRST_FITS)


# Compiles a few functions in a second; "entries" of the store have them.
SMALL = """
import numpy as np
from maxmargin._kernels.passes import inner_product
from numba.core import event
counted = event.RecordingListener()
event.register("numba:compile", counted)
print(inner_product(np.arange(3.0), np.ones(3)), len(counted.buffer) > 0)
"""


@pytest.fixture
def altered(installed, tmp_path):
    """The record of a copy of the package, the copy, and what runs code after changes of it."""
    python, package = installed
    copy = tmp_path / "copy" / "maxmargin"
    shutil.copytree(package, copy)
    path = copy / "_prebuilt" / store.RECORD
    record = json.loads(path.read_text())

    def write(code=SMALL, variables=None, **changes):
        if changes:
            path.write_text(json.dumps(record | changes))
        more = {"PYTHONPATH": str(copy.parent)} | (variables or {})
        return run(code, python, tmp_path / "cache", **more)

    return record, copy, write


@needs_baseline
def test_nothing_altered_nothing_compiled(altered):
    _, _, write = altered
    assert write() == ("3.0 False\n", "")


@needs_baseline
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"numba": "0.1.2"}, "built with numba 0.1.2, this is "),
        more({"cpu": "pentium"}, "built for pentium"),
        more({"file": "elsewhere.bin"}, "No such file"),
    ],
)
def test_what_does_not_fit_is_compiled_and_said(altered, changes, said):
    _, copy, write = altered
    out, err = write(**changes)
    assert out == "3.0 True\n"
    assert said in err and str(copy / "_prebuilt") in err and err.count("prebuilt kernels in") == 1


@pytest.mark.more
@needs_baseline
def test_another_processor_by_name_is_compiled_for(altered):
    _, _, write = altered
    out, err = write(variables={"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""})
    assert out == "3.0 True\n" and "numba is told to use x86-64" in err
    target = baseline()
    asked = {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features}
    assert write(variables=asked)[1] == ""


@needs_baseline
@pytest.mark.more
def test_other_sources_are_compiled_and_said_to_those_who_listen(altered):
    _, copy, write = altered
    source = copy / "_kernels" / "vector.py"
    source.write_text(source.read_text() + "# edited\n")
    out, err = write()
    assert out == "3.0 True\n" and err == ""
    shutil.rmtree(copy.parent.parent / "cache")
    out, err = write("import logging\nlogging.basicConfig(level='INFO')\n" + SMALL)
    assert out == "3.0 True\n" and "built from other sources" in err


@pytest.mark.more
@needs_baseline
def test_switched_off(altered):
    _, _, write = altered
    assert write(variables={store.SWITCH: "0"}) == ("3.0 True\n", "")


@needs_baseline
@pytest.mark.more
def test_own_code_is_preferred(altered):
    _, _, write = altered
    assert write(variables={store.SWITCH: "0"})[0] == "3.0 True\n"
    assert write(numba="0.1.2") == ("3.0 False\n", "")  # the store is not even looked at


@needs_baseline
@pytest.mark.parametrize("damage", ["bomb", more("flip"), more("cut")])
def test_damaged_code_is_not_unpickled(altered, tmp_path, damage):
    record, copy, write = altered
    path = copy / "_prebuilt" / record["file"]
    code = path.read_bytes()
    mark = tmp_path / "exploded"
    if damage == "flip":
        code = bytes(byte ^ 1 for byte in code)
    elif damage == "cut":
        code = code[:100]
    else:
        bomb = pickle.dumps(Bomb(mark))
        code = b"".join(bomb.ljust(entry["size"], b".") for entry in record["entries"].values())
    path.write_bytes(code)
    out, err = write()
    assert out == "3.0 True\n" and "checksum" in err and not mark.exists()
    assert err.count("prebuilt kernels in") == 1


def test_a_folder_without_a_record_is_no_store(tmp_path):
    there = store.Store(tmp_path)
    assert there.record is None and there.target(("system", "cpu", "")) is None


# --- which processors fit ------------------------------------------------------------------------


def recorded(tmp_path, target, **changes):
    """A store without entries whose record names a target and the system "here"."""
    there = store.Store(tmp_path, target)
    record = {
        "format": store.FORMAT, **store.versions(), "sources": _build.content_hash(),
        "system": "here", "cpu": target.cpu, "features": target.features, "entries": {}, **changes,
    }  # fmt: skip
    (tmp_path / store.RECORD).write_text(json.dumps(record))
    return there


@pytest.fixture
def switched_on(monkeypatch):
    """Also where the tests run without prebuilt kernels."""
    monkeypatch.delenv(store.SWITCH, raising=False)


@pytest.mark.usefixtures("switched_on")
@pytest.mark.parametrize("machine", sorted(BASELINES))
def test_what_a_processor_needs(tmp_path, monkeypatch, machine, caplog):
    target = baseline(machine)
    there = recorded(tmp_path, target)
    monkeypatch.setattr(store.config, "CPU_NAME", None)
    enough = ",".join(f"+{name}" for name in (*target.needs, "more"))
    assert there.target(("here", "newer", enough)) == ("here", target.cpu, target.features)
    assert there.target(("here", target.cpu, target.features)) is not None
    assert there.target(("elsewhere", "newer", enough)) is None
    assert caplog.records[-1].levelno == logging.WARNING
    for name in target.needs:
        for instead in ("", f"-{name},"):
            features = enough.replace(f"+{name},", instead)
            assert f"lacks {name}" in there.unfit(("here", "older", features))


@pytest.mark.usefixtures("switched_on")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"llvmlite": "0.1.2"}, "built with llvmlite 0.1.2, this is "),
        ({"python": "cpython-27"}, "built with python cpython-27, this is "),
        ({"system": "pdp11-unknown-unix"}, "built for pdp11-unknown-unix, this is here"),
        ({"features": "+teleport"}, "built for "),
        ({"format": 99}, "has format 99"),
        ({"entries": []}, "is no record"),
    ],
)
def test_records_that_do_not_fit(tmp_path, changes, said, caplog):
    target = BASELINES["x86_64"]
    there = recorded(tmp_path, target, **changes)
    for _ in range(2):
        assert there.target(("here", target.cpu, target.features)) is None
    [message] = caplog.messages
    assert said in message and str(tmp_path) in message


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"format": 1}'])
def test_what_is_no_record(tmp_path, text):
    (tmp_path / store.RECORD).write_text(text)
    with pytest.raises(store.Damaged, match="is no record"):
        _ = store.Store(tmp_path).record


def test_machines():
    assert baseline("x86_64").cpu == baseline("AMD64").cpu == "x86-64-v3"
    assert baseline("aarch64").cpu == baseline("arm64").cpu == "generic"
    assert baseline("riscv64") is None


@needs_baseline
def test_the_compiler_knows_the_baseline():
    target = binding.Target.from_default_triple()
    for name in baseline().needs:
        assert name in binding.get_host_cpu_features()
    machine = target.create_target_machine(cpu=baseline().cpu, features="")
    assert machine.triple == binding.get_process_triple()


# --- the same results ----------------------------------------------------------------------------

RESULT = """
from maxmargin._first_fits import FIRST_FITS
from numba.core import event
counted = event.RecordingListener()
event.register("numba:compile", counted)
model = FIRST_FITS["multiclass/crf/dense"].run()
print(model.primal_.hex(), model.gap_.hex(), model.coef_.tobytes().hex(), len(counted.buffer) > 0)
"""


@pytest.mark.more
@needs_baseline
def test_prebuilt_and_fresh_code_agree(installed, tmp_path):
    python, _ = installed
    *prebuilt, compiled = run(RESULT, python, tmp_path / "empty")[0].split()
    assert compiled == "False"
    target = baseline()
    asked = {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features}
    *fresh, compiled = run(
        RESULT, python, tmp_path / "fresh", **asked, **{store.SWITCH: "0"}
    )[0].split()  # fmt: skip
    assert compiled == "True" and fresh == prebuilt  # the same target, the same bits
    out, _ = run(RESULT, python, tmp_path / "host", **{store.SWITCH: "0"})
    host, gap, _, compiled = out.split()
    assert compiled == "True"
    within = float.fromhex(gap) + float.fromhex(prebuilt[1])
    assert abs(float.fromhex(host) - float.fromhex(prebuilt[0])) <= within


# --- building ------------------------------------------------------------------------------------


def test_names_of_first_fits():
    surrogates = maxmargin.MulticlassClassifier._surrogates
    chosen = _build.chosen(["multiclass/*/dense"])
    assert chosen == [f"multiclass/{surrogate}/dense" for surrogate in surrogates]
    assert _build.chosen() == list(FIRST_FITS)
    with pytest.raises(ValueError, match="no first fit is called 'sequences'"):
        _build.chosen(["sequences"])


def test_every_fit_is_handed_out_once():
    """And no two processes compile the same code at the same time."""
    queue = _build._Queue(FIRST_FITS)
    workers = {number: queue.fits() for number in range(3)}
    found, running = [], {}
    while workers:
        for number, worker in list(workers.items()):
            running.pop(number, None)
            name = next(worker, None)
            if name is None:
                del workers[number]
            else:
                found.append(name)
                running[number] = FIRST_FITS[name].group, name.rpartition("/")[0]
            assert len(set(running.values())) == len(running)
    assert sorted(found) == sorted(FIRST_FITS)


@pytest.mark.more
@needs_baseline
def test_building_adds_to_what_is_there(tmp_path, monkeypatch):
    folder = tmp_path / "store"
    first = _build.build(["structured/max-margin/plain"], jobs=1, folder=folder)
    assert first.fits == ["structured/max-margin/plain"]
    assert _build.build(first.fits, folder=folder).fits == []
    second = _build.build(["subset/max-margin/dense", *first.fits], jobs=1, folder=folder)
    assert second.fits == ["subset/max-margin/dense"] and second.n_entries > first.n_entries
    there = store.Store(folder)
    assert all(there.read(digest) for digest in there.record["entries"])
    assert len(list(folder.iterdir())) == 2
    (folder / there.record["file"]).write_bytes(b"")  # damaged: all is built again
    assert _build.missing(second.fits, folder) == second.fits
    assert _build.clear(folder) > 0 and not folder.exists() and _build.clear(folder) == 0


def test_a_fit_that_fails_is_named(tmp_path, monkeypatch):
    answer = {"entries": {}, "problems": ["graph: no"], "died": False, "seconds": 0.0}
    monkeypatch.setattr(_build, "_ask", lambda worker, name: answer)
    monkeypatch.setattr(_build, "_start", lambda parts: subprocess.Popen(["true"], stdin=-1))
    with pytest.raises(_build.BuildError, match="graph: no"):
        _build.build(["multiclass/crf/dense"], folder=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_process_that_dies_is_no_success(tmp_path, monkeypatch):
    dead = [sys.executable, "-c", "raise SystemExit(3)"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    monkeypatch.setattr(_build, "_start", lambda parts: subprocess.Popen(dead, **pipes))
    with pytest.raises(_build.BuildError, match="the process died"):
        _build.build(["multiclass/crf/dense"], folder=tmp_path / "store")


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(_build.BuildError, match="cannot be written"):
        _build.build(["multiclass/crf/dense"], folder=tmp_path / "store")


# --- the command line ----------------------------------------------------------------------------


COMMANDS = """
import io, json, sys
from contextlib import redirect_stdout
from maxmargin.cli import main
from maxmargin._kernels.store import Store

def command(*words):
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["kernels", *words])
    return code, out.getvalue()

found = [command("list", "--json"), command("list"), command("verify")]
path = Store().folder / Store().record["file"]
content = bytearray(path.read_bytes())
content[-1] ^= 1
path.write_bytes(content)
found += [command("verify", "--json"), command("clear", "--json"), command("list")]
print(json.dumps(found))
"""


@pytest.mark.more
@needs_baseline
def test_kernels_on_the_command_line(altered):
    pytest.importorskip("click", reason="needs the extra cli")
    record, copy, write = altered
    size = (copy / "_prebuilt" / record["file"]).stat().st_size
    out, _ = write(COMMANDS)
    codes, texts = zip(*json.loads(out), strict=True)
    assert codes == (0, 0, 0, 1, 0, 0)
    found = json.loads(texts[0])
    assert found["usable"] and found["problem"] is None
    assert set(found["fits"]) == set(FIRST_FITS) and found["missing_fits"] == []
    assert found["n_kernels"] == sum(found["kernels"].values()) == len(record["entries"])
    assert "passes.evaluate_range" in texts[1] and "sequence/max-min/csr" in texts[1]
    assert f"{len(record['entries'])} kernels verified" in texts[2]
    damaged = json.loads(texts[3])
    assert not damaged["usable"] and len(damaged["damaged"]) == 1
    assert json.loads(texts[4])["bytes"] >= size and not (copy / "_prebuilt").exists()
    assert "no prebuilt kernels" in texts[5]


@needs_baseline
@pytest.mark.more
def test_building_on_the_command_line(altered):
    pytest.importorskip("click", reason="needs the extra cli")
    _, copy, write = altered
    shutil.rmtree(copy / "_prebuilt")
    code = """
import sys
from maxmargin.cli import main
assert main(["kernels", "verify"]) == 1
assert main(["kernels", "build", "structures/*"]) == 2
assert main(["kernels", "build", "structured/*", "--jobs", "1", "--json"]) == 0
"""
    out, err = write(code)
    assert "no prebuilt kernels" in out and "no first fit is called 'structures/*'" in err
    assert '"fits": [\n    "structured/max-margin/plain"' in out and "kernels: 1/1" in err
