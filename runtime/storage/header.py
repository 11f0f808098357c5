"""Checks the items of JSON headers that come from files: types, ranges, lengths; nothing is trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from ...promotion.dtype import DTYPES
from ...promotion.errors import UserError

MAX_ITEMS = 100_000
MAX_TEXT = 10_000
MAX_RANK = 64
MAX_INT = 2**63 - 1

T = TypeVar("T")
Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Check = Callable[[object], Any]
"""Converts an item of the header to its own type. Raises `TypeError`, `ValueError` or `OverflowError` for
invalid items."""
Fields = dict[str, Any]
"""Checked fields by name, each of the type that its check returns."""


def parse_json(data: bytes, what: str) -> object:
    """Parses untrusted JSON. Raises `UserError` for anything that is not plain JSON, for duplicate keys and
    for NaN."""
    try:
        return json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the header of this {what} is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key appears twice")
    return keys


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def checked_fields(value: object, fields: Mapping[str, Check], what: str) -> Fields:
    """Converts the fields of a JSON object, each by its check. Raises `UserError` naming the first field that
    is invalid, unknown or missing."""
    if not isinstance(value, dict):
        raise UserError(f"the header of this {what} must be a JSON object")
    unknown = sorted(set(value) - set(fields))
    missing = sorted(set(fields) - set(value))
    if unknown or missing:
        problem = f"unknown field {unknown[0][:100]!r}" if unknown else f"field {missing[0]!r} is missing"
        raise UserError(f"the header of this {what} is wrong: {problem}")
    result = {}
    for name, check in fields.items():
        try:
            result[name] = check(value[name])
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(f"the header of this {what} is wrong: field {name!r}: {error}") from error
    return result


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    if len(value) > MAX_TEXT:
        raise ValueError(f"a text of {len(value)} characters")
    value.encode()  # raises ValueError for lone surrogates
    return value


def non_negative(value: object) -> int:
    """Checks a non-negative integer below 2^63."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, got {type(value).__name__}")
    if not 0 <= value <= MAX_INT:
        raise ValueError(f"{value} is out of range")
    return value


def size(value: object) -> int | str:
    """Checks a size: a non-negative integer, or a dim expression as text."""
    return text(value) if isinstance(value, str) else non_negative(value)


def items(check: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """Makes a check for lists whose every item passes `check`."""

    def check_list(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        if len(value) > MAX_ITEMS:
            raise ValueError(f"a list of {len(value)} items")
        return tuple(check(item) for item in value)

    return check_list


def row(value: object, *checks: Check) -> list[Any]:
    """Converts the items of a list of fixed length, each by its own check."""
    if not isinstance(value, list) or len(value) != len(checks):
        raise TypeError(f"expected a list of {len(checks)}")
    return [check(item) for check, item in zip(checks, value, strict=True)]


def dtype_name(value: object) -> str:
    name = text(value)
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name[:100]!r}")
    return name


def extents(value: object) -> tuple[int, ...]:
    """Checks a static shape whose element count is below 2^63."""
    shape = items(non_negative)(value)
    if len(shape) > MAX_RANK:
        raise ValueError(f"rank {len(shape)}")
    if math.prod(extent for extent in shape if extent) > MAX_INT:
        raise ValueError(f"shape {shape} has too many elements")
    return shape


def integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -MAX_INT - 1 <= value < 0:
        return value
    return non_negative(value)
