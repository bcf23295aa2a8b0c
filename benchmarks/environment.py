"""A clean environment with a wheel of this checkout in it, as a user would have it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def build_wheel(folder: Path) -> Path:
    """A wheel of this checkout with all prebuilt kernels, which are built first if need be."""
    from maxmargin import _build

    _build.build(verbose=1)
    # Hatchling is fetched for the occasion where it is not installed.
    isolation = [] if importlib.util.find_spec("hatchling") is None else ["--no-isolation"]
    command = [sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", str(folder)]
    subprocess.run([*command, str(REPOSITORY)], check=True, capture_output=True, text=True)
    [path] = folder.glob("*.whl")
    return path


def install(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Make an environment and install a wheel: its interpreter, the folder of the package.

    The dependencies are those of this process, by a path file.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [python] = [path for path in folder.glob("*/python*") if path.stem == "python"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", str(wheel)], check=True)
    [package] = folder.glob("**/maxmargin/__init__.py")
    path_file = package.parent.parent / "dependencies.pth"
    path_file.write_text(sysconfig.get_path("purelib") + "\n")
    return python, package.parent


def clean_variables() -> dict[str, str]:
    """The variables of this process, but for those that say where code is and how to compile."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "PYTHON", "MAXMARGIN_"))
    }
