"""Optional dependencies are imported late, and an error names the extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maxmargin._optional import require


def test_returns_the_innermost_module():
    import json.decoder

    assert require("json.decoder", "io", "Reading") is json.decoder


def test_missing_module_names_purpose_package_and_extra():
    with pytest.raises(ImportError) as caught:
        require("no_such_package.io", "io", "Saving a Pipeline")
    message = str(caught.value)
    assert message.startswith("Saving a Pipeline needs no_such_package, which is not installed.")
    assert 'pip install "maxmargin[io]"' in message
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_missing_submodule_of_an_installed_package():
    with pytest.raises(ImportError, match=r"maxmargin\[io\]"):
        require("json.no_such_module", "io", "Saving")


@pytest.mark.parametrize("body", ["import no_such_dependency", "raise ImportError('bad build')"])
def test_module_that_is_installed_but_broken_says_why(tmp_path, monkeypatch, body):
    (tmp_path / "broken_package.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="cannot be imported") as caught:
        require("broken_package", "plot", "Plotting")
    assert "no_such_dependency" in str(caught.value) or "bad build" in str(caught.value)


def test_other_errors_of_a_module_are_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "faulty_package.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        require("faulty_package", "plot", "Plotting")


def test_library_can_be_imported_without_any_optional_package():
    optional = ["click", "rich", "matplotlib", "highspy", "skops", "dask", "ray", "pycrfsuite"]
    code = f"import sys; sys.modules.update(dict.fromkeys({optional}))\n"
    code += "import maxmargin, maxmargin.persistence"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_networks_without_torch_name_the_extra():
    code = "import sys; sys.modules['torch'] = None\nimport maxmargin.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert 'pip install "maxmargin[torch]"' in done.stderr
