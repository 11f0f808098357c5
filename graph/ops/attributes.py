"""Defines which values attributes may have, by name: builders pass them normalised, as graph texts must."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypedDict, TypeGuard, cast

import numpy as np

from ...promotion.dtype import DType
from ...promotion.errors import InternalError
from ...promotion.literals import is_scalar
from ..checks import ShapeError
from ..dims.dim import Dim, Extent

Kind = tuple[Callable[[object], bool], str]


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_size(value: object) -> bool:
    return type(value) is int or isinstance(value, Dim)


def _tuple_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: type(value) is tuple and all(map(holds, value))


def _one_of(*texts: str) -> Kind:
    return lambda value: type(value) is str and value in texts, " or ".join(f'"{text}"' for text in texts)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


@functools.lru_cache(maxsize=256)
def parsed_options(text: str) -> Mapping[str, Any]:
    """Return the JSON object of the attribute `options`. Raises `ShapeError` for other texts."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ShapeError(f"options {text!r:.60}", "a JSON object")
    return MappingProxyType(found)


def _is_name(value: object) -> bool:
    return isinstance(value, Dim) and value.name is not None


_INT: Kind = (_is_int, "an int")
_FLAG: Kind = (lambda value: type(value) is bool, "True or False")
_TEXT: Kind = (lambda value: type(value) is str and bool(value), "text that is not empty")
_SIZE: Kind = (_is_size, "an int or a Dim")
_SIZES: Kind = (_tuple_of(_is_size), "a tuple of ints and dims")
_INTS: Kind = (_tuple_of(_is_int), "a tuple of ints")
_DTYPE: Kind = (lambda value: isinstance(value, DType) and not value.is_abstract, "the dtype of a tensor")

KINDS: Mapping[str, Kind] = {
    "accumulate": _DTYPE,
    "approximate": _one_of("none", "tanh", "quick"),
    "axes": _INTS,
    "axis": _INT,
    "batch_dims": _INT,
    "block_size": _INT,
    "captured": _INTS,
    "carried": _INT,
    "counts": _SIZES,
    "correction": (_is_number, "a number"),
    "descending": _FLAG,
    "dilations": _INTS,
    "dtype": _DTYPE,
    "epsilon": (lambda value: _is_number(value) and 0 <= value < math.inf, "a finite number, 0 or more"),
    "exclusive": _FLAG,
    "exponent": _INT,
    "extent": _SIZE,
    "extents": (_tuple_of(_is_name), "a tuple of named dims"),
    "has_bias": _FLAG,
    "has_scale": _FLAG,
    "high": _SIZES,
    "index": _INT,
    "inverse": _FLAG,
    "k": (lambda value: type(value) is int and value >= 0, "an int, 0 or more"),
    "keepdims": _FLAG,
    "kind": _one_of("forward", "inverse", "real", "real_inverse"),
    "largest": _FLAG,
    "length": _SIZE,
    "limited": _FLAG,
    "low": _SIZES,
    "mode": _TEXT,
    "name": _TEXT,
    "options": _TEXT,
    "precision": _one_of("ieee", "tf32"),
    "reduction": _one_of("none", "add", "mul", "min", "max"),
    "regions": (_tuple_of(lambda value: getattr(value, "is_region", False)), "regions"),
    "reverse": _FLAG,
    "rounding": _one_of("nearest", "toward_zero"),
    "saturate": _FLAG,
    "sequences": _INT,
    "shape": _SIZES,
    "side": _one_of("left", "right"),
    "sizes": _INTS,
    "starts": _SIZES,
    "steps": _INTS,
    "stops": _SIZES,
    "strides": _INTS,
    "value": (lambda value: isinstance(value, np.ndarray) or is_scalar(value), "an array or a number"),
}
"""Name of an attribute → a predicate of its values, and what is expected, as text."""


class Attributes(TypedDict, total=False):
    """The attributes of an op by name; a symbol has exactly those that the row of its op names."""

    accumulate: DType
    approximate: str
    axes: tuple[int, ...]
    axis: int
    batch_dims: int
    block_size: int
    captured: tuple[int, ...]
    carried: int
    correction: int | float
    counts: tuple[Extent, ...]
    descending: bool
    dilations: tuple[int, ...]
    dtype: DType
    epsilon: float
    exclusive: bool
    exponent: int
    extent: Extent
    extents: tuple[Dim, ...]
    has_bias: bool
    has_scale: bool
    high: tuple[Extent, ...]
    index: int
    inverse: bool
    k: int
    keepdims: bool
    kind: str
    largest: bool
    length: Extent
    limited: bool
    low: tuple[Extent, ...]
    mode: str
    name: str
    options: str
    precision: str
    reduction: str
    regions: tuple[Any, ...]  # finished `graph.region.Region`s
    reverse: bool
    rounding: str
    saturate: bool
    sequences: int
    shape: tuple[Extent, ...]
    side: str
    sizes: tuple[int, ...]
    starts: tuple[Extent, ...]
    steps: tuple[int, ...]
    stops: tuple[Extent, ...]
    strides: tuple[int, ...]
    value: Any  # a read-only array in constants and weights, a number in `pad`


fixed = cast(Callable[[Attributes], Attributes], MappingProxyType)  # whose type does not know the keys
"""Makes a read-only view of attributes, which symbols can share."""


def require_attributes(names: tuple[str, ...], attrs: Mapping[str, object]) -> None:
    """Raise `ShapeError` unless `attrs` are exactly these attributes, with values of their kinds."""
    if attrs.keys() != set(names):
        raise ShapeError(f"attributes {sorted(attrs)}, the op has {sorted(names)}")
    for name in names:
        if name not in KINDS:
            raise InternalError(
                f"no kind of values for the attribute {name!r}; fix: name it in KINDS and Attributes of graph/ops/attributes.py"
            )
        holds, expected = KINDS[name]
        if not holds(attrs[name]):
            raise ShapeError(f"{name} must be {expected}, not {attrs[name]!r:.80}", expected)
