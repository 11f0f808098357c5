"""The option `numerics`: what compiled code may do with float arithmetic. Loads nothing of the lowering."""

from __future__ import annotations

from typing import Any

from ..promotion.errors import UserError
from .artifact import NUMERICS


def checked_numerics(numerics: Any, what: str) -> str:
    """The option, if it is one. Raises `UserError` for anything else."""
    if not isinstance(numerics, str) or numerics not in NUMERICS:
        raise UserError(
            f"{what}: numerics {numerics!r}; expected one of {', '.join(map(repr, NUMERICS))}; fix: 'strict', "
            "which is IEEE and the default; 'fast' allows approximations and fused multiply-adds, 'reproducible' gives the "
            "same bits on every device"
        )
    return numerics


__all__ = ["NUMERICS", "checked_numerics"]
