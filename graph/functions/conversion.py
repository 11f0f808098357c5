"""Defines functions that change dtypes."""

from __future__ import annotations

from ...promotion.literals import is_numpy_scalar
from ...promotion.rules import dtype_of
from ..construction import primitives
from ..graph import graph_of
from ..protocols import TensorLike
from ..symbol import Symbol
from ..types import DTypeLike
from .building import as_symbols, symbol_of


def cast(x: TensorLike, dtype: DTypeLike, rounding: str = "nearest", saturate: bool = True) -> Symbol:
    """Convert `x` to `dtype`; return `x` itself when it has that dtype already.

    Args:
        x: a symbol.
        dtype: a `DType`, its name, or a NumPy dtype.
        rounding: of casts to floats: "nearest" (ties to even) or "toward_zero".
        saturate: of casts to 8-bit floats: whether values beyond the largest finite one become that one,
            rather than infinity or NaN.

    Integers wrap; float to integer truncates, saturates, and NaN becomes 0; to bool is x != 0. Raises
    `UnsupportedError` for dtypes whose values are only stored (packed 4- and 6-bit floats, complex).
    """
    return primitives.cast(symbol_of("cast", x), dtype, rounding, saturate)


def bitcast(x: TensorLike, dtype: DTypeLike) -> Symbol:
    """Reinterpret the bits of `x` as another dtype of the same width.

    Raises `UserError` when the widths differ.
    """
    return primitives.bitcast(symbol_of("bitcast", x), dtype)


def cast_like(x: TensorLike, like: TensorLike) -> Symbol:
    """Convert `x` to the dtype of `like`: a symbol, an array or a NumPy scalar."""
    if is_numpy_scalar(like):
        return primitives.cast(symbol_of("cast_like", x), dtype_of(like))
    value, other = as_symbols("cast_like", x, like)
    return primitives.cast(value, other.dtype)


def promote(*operands: TensorLike) -> tuple[Symbol, ...]:
    """Cast all operands to their join in the graph's rule set; Python scalars are weak.

    The casts are in the ledger. Raises `UserError` when there is no join.
    """
    return graph_of("promote", *operands).promoted("promote", operands, "concat")


def implicit_cast(lhs: TensorLike, rhs: TensorLike) -> tuple[Symbol, Symbol]:
    """Cast two operands to the dtype a binary operator would compute in (the MAX type_promotion page)."""
    first, second = graph_of("implicit_cast", lhs, rhs).promoted("implicit_cast", (lhs, rhs), "add")
    return first, second
