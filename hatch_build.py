"""What goes into a wheel: the prebuilt kernels, if a checkout has built them from these sources.

A wheel with compiled code is for one version of Python and one kind of machine; without, for all.
"""

from __future__ import annotations

import importlib.util
import json
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PREBUILT = "src/maxmargin/_prebuilt"
# Nothing in the code is bound to a version of glibc; numba's own wheels need at least this one.
MANYLINUX = "manylinux_2_17"


def _sources(root: Path) -> ModuleType:
    """The module that hashes the sources, without importing the package and what it needs."""
    path = root / "src" / "maxmargin" / "_kernels" / "sources.py"
    spec = importlib.util.spec_from_file_location("sources", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tag_of(record: dict[str, Any], machine: str) -> str:
    """The tag of a wheel with these kernels: their Python, and the kind of machine."""
    version = record["python"].removeprefix("cpython-")
    where = machine.replace("-", "_").replace(".", "_").replace("linux", MANYLINUX, 1)
    return f"cp{version}-cp{version}-{where}"


class PrebuiltHook(BuildHookInterface):
    """Adds the folder of prebuilt kernels and the tag of their platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built; an editable installation has the folder anyway."""
        root = Path(self.root)
        path = root / PREBUILT / "record.json"
        if version == "editable" or not path.exists():
            return
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["sources"] != _sources(root).content_hash():
            self.app.display_warning(
                f"{PREBUILT} was built from other sources and is left out; 'make wheel' builds it"
            )
            return
        for name in ("record.json", record["file"]):
            build_data["force_include"][str(root / PREBUILT / name)] = f"maxmargin/_prebuilt/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = tag_of(record, sysconfig.get_platform())
