"""Library functions replaced by block operations.

Functions of libdevice, and operations of `math` that are no simpler, become compositions of `arith` and `math`; those of
`signatures.CALLS` stay, for a back end to call the C library, and are left on float64: what surrounds them converts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Operation

from ..libdevice.expand import EXPANSIONS
from ..libdevice.signatures import CALLS, MAX_ORDER, Signature, known_signature
from . import types as t
from .builder import BlockBuilder
from .dialect_external import ExternElementwiseOp
from .expansion import Build, Expander, operations_named
from .expression import Expr, high_product, where

COMPOSED = ("acosh", "asinh", "atan2", "atanh", "cbrt", "cosh", "log10", "round", "sinh")
"""Operations of `math` that have the same expansions as the functions of the library."""

_EMPTY, _PURE = StringAttr(""), BoolAttr.from_bool(True)


def expand_libdevice(func: Operation) -> None:
    """Replace the library functions of a function; changed in place.

    Raises `UnsupportedError` for symbols that are not known, with those that look alike.
    """
    expander = Expander()
    for op in operations_named(func, "tt.extern_elementwise"):
        assert isinstance(op, ExternElementwiseOp)
        signature = known_signature(op.symbol.data)
        expander.replace(op, partial(_call if signature.function in CALLS else _expanded, signature))
    for name in COMPOSED:
        for op in operations_named(func, f"math.{name}"):
            expander.replace(op, partial(_composed, name))
    for name, build in _INTEGERS.items():
        for op in operations_named(func, name):
            expander.replace(op, build)


def _add_extended(b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    x, y = xs
    total = x + y
    return [total, Expr(b, b.cmpi("ult", total.v, x.v))]


def _multiply_extended(b: BlockBuilder, xs: Sequence[Expr], signed: bool) -> list[Expr]:
    x, y = xs
    if x.width == 1:  # -1 · -1 is 1, which has a low bit only
        return [x & y, x.like(False)]
    return [x * y, high_product(x, y, signed)]


def _integer_power(b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    """By squaring."""
    x, n = xs
    if x.width == 1:  # 0 or -1, to the power of 0 or -1
        return [x | ~n]
    result, power = x.like(1), x
    for bit in range(x.width - 1):
        result = result * where((n & (1 << bit)).ne(0), power, 1)
        power = power * power
    one = x.eq(1) | x.eq(-1)
    return [where(n < 0, where(one, where((n & 1).ne(0), x, 1), 0), result)]


def _float_power(b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    """The sign apart: whether an exponent is odd is lost when it becomes a float."""
    x, n = xs
    wide = x.to_float(t.F64)
    found = abs(wide).named("math.powf", Expr(b, b.cast("arith.sitofp", n.v, t.F64)))
    odd = n if n.width == 1 else (n & 1).ne(0)
    found = where(odd & wide.is_negative(), -found, found)
    if x.width < 32:
        found = found.to_float(t.F32)
    return [found.to_float(t.elem(x.type))]


_INTEGERS: dict[str, Build] = {
    "arith.addui_extended": _add_extended,
    "arith.mului_extended": partial(_multiply_extended, signed=False),
    "arith.mulsi_extended": partial(_multiply_extended, signed=True),
    "math.ipowi": _integer_power,
    "math.fpowi": _float_power,
}


def _expanded(signature: Signature, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    return [EXPANSIONS[signature.function](xs, signature)]


def _composed(name: str, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    """16-bit floats pass through float32."""
    elem = t.elem(xs[0].type)
    wide = elem if xs[0].width >= 32 else t.F32
    signature = Signature(f"math.{name}", name, (str(wide),) * len(xs), str(wide))
    found = EXPANSIONS[name]([x.to_float(wide) for x in xs], signature)
    return [found.to_float(elem)]


def _call(signature: Signature, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    """The float64 function of the C library."""
    wide = [x.to_float(t.F64) if x.is_float else x for x in xs]
    if len(wide) == 2:
        order, x = wide
        far = (order > MAX_ORDER) | (order < -MAX_ORDER)
        wide = [where(far, 0, order), where(far, math.nan, x)]
    symbol = StringAttr(signature.symbol.removesuffix("f") if signature.result == "f32" else signature.symbol)
    properties = {"libname": _EMPTY, "libpath": _EMPTY, "pure": _PURE, "symbol": symbol}
    (value,) = b.op(ExternElementwiseOp, [x.v for x in wide], [wide[-1].type], properties)
    found = Expr(b, value)
    return [found.to_float(t.F32) if signature.result == "f32" else found]
