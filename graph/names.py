"""Checks names."""

from __future__ import annotations

from ..promotion.errors import UserError


def checked_name(name: object, what: str, fix: str) -> str:
    """Return a name that texts, listings and messages can hold. Raises `UserError` for any other."""
    if not isinstance(name, str) or not name:
        raise UserError(f"{what}: the name must be non-empty text, not {name!r}; fix: {fix}")
    if not name.isprintable():
        raise UserError(f"{what}: the name {name!r} has characters that cannot be printed; fix: letters, digits and spaces")
    return name
