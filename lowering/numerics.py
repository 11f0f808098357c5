"""Checks the option `numerics`, which says what compiled code may do with float arithmetic; loads nothing of
the lowering."""

from __future__ import annotations

from typing import Any

from ..promotion.errors import UserError
from .artifact import NUMERICS


def checked_numerics(numerics: Any, what: str) -> str:
    """Returns the option if it is one of `NUMERICS`, and raises `UserError`, whose message begins with
    `what`, otherwise."""
    if not isinstance(numerics, str) or numerics not in NUMERICS:
        raise UserError(
            f"{what}: numerics {numerics!r}; expected one of {', '.join(map(repr, NUMERICS))}; fix: 'strict', "
            "which is IEEE and the default; 'fast' allows approximations and fused multiply-adds, 'reproducible' gives the "
            "same bits on every device"
        )
    return numerics


__all__ = ["NUMERICS", "checked_numerics"]
