"""Takes the root of the checkout off the import path, for tests' packages that are started with `python -m` there."""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def leave_path(package: str) -> None:
    """The root is the package joinery: left on the path, it would make `import graph` a second copy of a layer.

    package: the one that was started, whose modules are still found afterwards.
    """
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    for name in (*accumulate(package.split("."), "{}.{}".format), "tests.support"):
        if name in sys.modules:  # a namespace package is searched for again when the path has changed
            sys.modules[name].__path__ = [str(ROOT.joinpath(*name.split(".")))]
