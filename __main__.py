"""`python -m joinery` is the `joinery` command."""

from __future__ import annotations

import sys

from .interface.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
