"""``python -m maxmargin.cli`` is the command ``maxmargin``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
