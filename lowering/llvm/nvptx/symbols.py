"""Chooses the symbols of kernels in PTX.

Texts name functions by any string. PTX has letters, digits, `_` and `$`, and some names are taken: by functions that kernels
call, by joinery's own, by definitions of device libraries. Other names get a symbol made of their letters and a digest.

Source: NVIDIA, "PTX ISA", "Identifiers".
"""

from __future__ import annotations

import hashlib
import re

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+")
_TAKEN = re.compile(r"jn_.*|__.*|WARP_SZ|v?printf|malloc|free|main|abort|mem(cpy|move|set|cmp)")
_MAX_LENGTH = 200
"""The most letters of a name."""


def symbol_of(name: str) -> str:
    """Returns the symbol of a function; its own name where that can be one."""
    if len(name) <= _MAX_LENGTH and _IDENTIFIER.fullmatch(name) and not _TAKEN.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9_$]+", "_", name)[:_MAX_LENGTH]
    return f"jn_named_{letters}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
