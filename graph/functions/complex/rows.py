"""Computes rows of the op table on complex numbers: of each, what it is of their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ....promotion.dtype import DType
from ....promotion.errors import UserError
from ....promotion.literals import is_scalar
from ...construction import primitives
from ...errors import compose, mistake
from ...graph import Graph
from ...ops.attributes import Attributes
from ...ops.complex.parts import PARTS
from ...ops.opdef import OpDef
from ...protocols import TensorLike
from ...symbol import Symbol
from ..building import apply
from ..linalg import matmul
from . import arithmetic
from .parts import Complex, converted, parts_of, whole

Value: TypeAlias = "Complex | Symbol"
Handler: TypeAlias = Callable[["Graph", OpDef, Sequence[TensorLike], Attributes], "Symbol | None"]


def applied(
    graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes, dtype: DType | None
) -> Symbol | None:
    """Return what a row gives for operands of which one is complex, or a complex dtype; None for rows that only move values."""
    if row.name == "cast":
        return _cast(graph, operands[0], attrs)
    handler = _HANDLERS.get(row.name)
    return None if handler is None else handler(graph, row, operands, attrs)


def _cast(graph: Graph, x: TensorLike, attrs: Attributes) -> Symbol | None:
    symbol, target = graph.as_symbol(x, "cast"), attrs["dtype"]
    if symbol.dtype is target:
        return None
    if not target.is_complex:
        raise mistake("cast", f"{symbol.dtype} to {target} loses the imaginary parts", (symbol,), "a complex dtype",
                      "joinery.real(x), or joinery.abs(x)")  # fmt: skip
    if symbol.dtype.is_complex:
        return whole(converted(parts_of(symbol), PARTS[target]))
    return whole(_with_zeros(primitives.cast(symbol, PARTS[target])))


def _with_zeros(x: Symbol) -> Complex:
    zero = x.graph.scalar(0.0, x.dtype)
    return Complex(x, primitives.broadcast_to(zero, x.shape))


def _joined(graph: Graph, row: OpDef, operands: Sequence[TensorLike]) -> tuple[list[Value], DType]:
    """Return operands in the dtype that promotion gives them: complex numbers, or real factors. The dtype of the parts, too.

    What is cast for that is in the ledger.
    """
    values = [each if is_scalar(each) else graph.as_symbol(each, row.name) for each in operands]
    try:
        promotion = row.promote.apply(graph.rules, values, op=row.name, dtype=None)
    except UserError as error:
        raise UserError(compose(str(error), values)) from None
    target = promotion.casts[0]
    part = PARTS[target]
    found: list[Value] = []
    for position, value in enumerate(values):
        if not isinstance(value, Symbol):
            number = complex(value)
            real, imaginary = (graph.scalar(each, part) for each in (number.real, number.imag))
            found.append(Complex(real, imaginary) if isinstance(value, complex) else real)
        elif value.dtype.is_complex:
            own = parts_of(value)
            if value.dtype is not target:
                both = (own.real, own.imaginary)
                own = Complex(*[graph.implicit_cast(row.name, values, position, each, part) for each in both])
            found.append(own)
        else:
            found.append(value if value.dtype is part else graph.implicit_cast(row.name, values, position, value, part))
    return found, part


def _as_complex(value: Value) -> Complex:
    return value if isinstance(value, Complex) else _with_zeros(value)


def _sum(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
    """Add or subtract."""
    (x, y), _ = _joined(graph, row, operands)
    if isinstance(x, Complex) and isinstance(y, Complex):
        return whole(arithmetic.by_parts(row.name, x, y))
    first, second = (each.real if isinstance(each, Complex) else each for each in (x, y))
    real = apply(row.name, first, second)
    if isinstance(x, Complex):
        imaginary = x.imaginary
    else:
        assert isinstance(y, Complex)
        imaginary = y.imaginary if row.name == "add" else apply("negate", y.imaginary)
    return whole(Complex(real, primitives.broadcast_to(imaginary, real.shape)))


def _product(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
    """Multiply; real factors scale both parts."""
    (x, y), _ = _joined(graph, row, operands)
    if isinstance(x, Complex) and isinstance(y, Complex):
        return whole(arithmetic.product(x, y))
    if isinstance(x, Complex):
        assert isinstance(y, Symbol)
        return whole(arithmetic.scaled(x, y))
    assert isinstance(y, Complex)
    return whole(arithmetic.scaled(y, x))


def _quotient(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
    """Divide."""
    (x, y), _ = _joined(graph, row, operands)
    if isinstance(y, Symbol):
        return whole(arithmetic.scaled(_as_complex(x), y, "div"))
    return whole(arithmetic.quotient(_as_complex(x), y))


def _equality(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
    (x, y), _ = _joined(graph, row, operands)
    same = arithmetic.equal(_as_complex(x), _as_complex(y))
    return same if row.name == "equal" else apply("logical_not", same)


def _matmul(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
    (x, y), _ = _joined(graph, row, operands)
    if isinstance(x, Symbol) or isinstance(y, Symbol):
        first, second = _as_pair(x), _as_pair(y)
        found = [matmul(one, other) for one in first for other in second]
        return whole(Complex(*found))
    return whole(arithmetic.multiplied(x, y))


def _as_pair(value: Value) -> tuple[Symbol, ...]:
    return (value.real, value.imaginary) if isinstance(value, Complex) else (value,)


def _of_one(function: Callable[[Complex], Complex | Symbol]) -> Handler:
    def handler(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
        result = function(parts_of(graph.as_symbol(operands[0], row.name)))
        return whole(result) if isinstance(result, Complex) else result

    return handler


def _partwise(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol | None:
    """Apply an operation of one operand to both parts."""
    x = graph.as_symbol(operands[0], row.name)
    if not x.dtype.is_complex:
        return None
    own = parts_of(x)
    if "dtype" in row.attrs:
        attrs = {**attrs, "dtype": own.real.dtype}
    return whole(Complex(*[graph.apply(row, (part,), attrs, attrs.get("dtype")) for part in (own.real, own.imaginary)]))


def _refused(graph: Graph, row: OpDef, operands: Sequence[TensorLike], attrs: Attributes) -> Symbol:
    fix = "joinery.real(x), or joinery.abs(x)"
    raise mistake(row.name, "complex numbers have no order", tuple(operands), "real numbers", fix)


_ORDERED = ("less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "reduce_max", "reduce_min")
_HANDLERS: dict[str, Handler] = {
    "add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "equal": _equality, "not_equal": _equality, "matmul": _matmul,
    "negate": _partwise, "reduce_sum": _partwise, "mean": _partwise, "abs": _of_one(arithmetic.absolute),
    "exp": _of_one(arithmetic.exponential), "log": _of_one(arithmetic.logarithm),
    **dict.fromkeys(_ORDERED, _refused),
}  # fmt: skip
