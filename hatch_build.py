"""What goes into a wheel: the prebuilt kernels, if a checkout has built them from these sources,
small data sets whose licences allow it, if the folder with data is there, and the README with links
that work on a package index.

A wheel with compiled code is for one version of Python and one kind of machine; without, for all.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import os
import re
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PREBUILT = "src/maxmargin/_prebuilt"
DATASETS = "src/maxmargin/datasets"
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


def shared_data(root: Path, folder: Path) -> dict[str, str]:
    """Files of data sets that a wheel may hold, and their places in it.

    The data folder is not part of the sources: without it a wheel holds no data.
    """
    found = {}
    with open(root / DATASETS / "registry.tsv", encoding="utf-8", newline="") as file:
        chosen = [row for row in csv.DictReader(file, delimiter="\t") if row["wheel"] == "yes"]
    for name, expected in (item.split(":") for row in chosen for item in row["files"].split()):
        path = folder / name
        if not path.is_file():
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            raise ValueError(f"{path} is not the file that {DATASETS}/registry.tsv describes.")
        found[str(path)] = f"maxmargin/datasets/files/{name}"
    return found


_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#)([^)\s]+)\)")


def readme_for_index(text: str, address: str | None) -> str:
    """The README for a package index, where paths inside the repository lead nowhere.

    With the address of a folder of the sources, links become addresses. Without one, links become
    their texts, and pictures are left out.
    """

    def link(match: re.Match[str]) -> str:
        mark, words, path = match.groups()
        if address:
            return f"{mark}[{words}]({address.rstrip('/')}/{path})"
        return "" if mark else words

    return _LINK.sub(link, text)


class ReadmeHook(MetadataHookInterface):
    """The long description: the README, its links relative to ``project.urls.Files``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when the metadata is written."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Files")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme_for_index(text, address),
        }


class WheelHook(BuildHookInterface):
    """Adds data sets, the folder of prebuilt kernels and the tag of their platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built; an editable installation has the folders anyway."""
        if version == "editable":
            return
        root = Path(self.root)
        data = os.environ.get("MAXMARGIN_DATA") or root.parent / "shared" / "data"
        build_data["force_include"] |= shared_data(root, Path(data))
        path = root / PREBUILT / "record.json"
        if not path.exists():
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
