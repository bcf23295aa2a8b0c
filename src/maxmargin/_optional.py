"""Optional dependencies, imported at the moment they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module_name: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra provides it.

    Parameters
    ----------
    module_name : str
        Dotted name of the module, such as ``"skops.io"``.
    extra : str
        The extra of maxmargin that installs it, such as ``"io"``.
    purpose : str
        What the module is needed for, as the beginning of a sentence: ``"Saving a Pipeline"``.

    Returns
    -------
    module : module
        The imported module (for a dotted name, the innermost one).

    Raises
    ------
    ImportError
        If the module is not installed, or is installed but cannot be imported.
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
