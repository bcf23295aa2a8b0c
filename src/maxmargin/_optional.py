"""Optional dependencies, imported at the moment they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module_name: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module such as ``"skops.io"``, or say which extra provides it.

    ``purpose`` is what it is needed for, as the beginning of a sentence: ``"Saving a Pipeline"``.
    """
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        package = module_name.partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and error.name in (package, module_name)
        state = "which is not installed" if missing else f"which cannot be imported ({error})"
        raise ImportError(
            f"{purpose} needs {package}, {state}. "
            f'Install it with: pip install "maxmargin[{extra}]"',
            name=module_name,
        ) from error
