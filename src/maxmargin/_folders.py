"""Where files of the user are kept."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path | None:
    """The user's cache folder by the XDG base directory specification, or None without a home.

    The specification says that a relative ``XDG_CACHE_HOME`` is ignored. A home that does not exist
    (``/nonexistent`` is that of system accounts) is not created.
    """
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return Path(chosen)
    home = os.path.expanduser("~")
    return Path(home, ".cache") if os.path.isabs(home) and os.path.isdir(home) else None
