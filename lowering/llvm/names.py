"""Names of functions in LLVM IR."""

from __future__ import annotations

import re

from ...promotion.errors import InternalError

_NAME = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)


def check_name(name: str) -> str:
    """The name. Names are printed as they are: callers bring what a user wrote into this form."""
    if not _NAME.fullmatch(name):
        raise InternalError(f"{name!r} is no name of LLVM IR")
    return name
