"""Checks names of functions in LLVM IR."""

from __future__ import annotations

import re

from ...promotion.errors import InternalError

_NAME = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)


def check_name(name: str) -> str:
    """Returns the name if LLVM IR allows it unquoted, else raises InternalError; callers turn users' names into such ones."""
    if not _NAME.fullmatch(name):
        raise InternalError(f"{name!r} is no name of LLVM IR")
    return name
