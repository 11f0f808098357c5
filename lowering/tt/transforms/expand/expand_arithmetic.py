"""Expands arithmetic on integers that back ends have no instruction for.

These are sums with a carry and products in two halves (`arith.addui_extended`, `arith.mului_extended`,
`arith.mulsi_extended`), and powers with integer exponents (`math.ipowi`, `math.fpowi`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import Operation

from ... import types as t
from ...builder.block_builder import BlockBuilder
from ...dialect.functions import FuncOp
from ..expander import Build, Expander, operations_named
from ..expression import Expr, high_product, where
from ..function_pass import FunctionPass


def expand_arithmetic(func: Operation) -> None:
    """Rewrites a function in place."""
    if _EXPANSIONS.keys().isdisjoint([op.name for op in func.walk()]):
        return
    expander = Expander()
    for name, build in _EXPANSIONS.items():
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
    """Computes an integer power by squaring."""
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
    """Computes a float power, the sign apart: whether an exponent is odd is lost when it becomes a float."""
    x, n = xs
    wide = x.to_float(t.F64)
    found = abs(wide).named("math.powf", Expr(b, b.cast("arith.sitofp", n.v, t.F64)))
    odd = n if n.width == 1 else (n & 1).ne(0)
    found = where(odd & wide.is_negative(), -found, found)
    if x.width < 32:
        found = found.to_float(t.F32)
    return [found.to_float(t.elem(x.type))]


_EXPANSIONS: dict[str, Build] = {
    "arith.addui_extended": _add_extended,
    "arith.mului_extended": partial(_multiply_extended, signed=False),
    "arith.mulsi_extended": partial(_multiply_extended, signed=True),
    "math.ipowi": _integer_power,
    "math.fpowi": _float_power,
}


@dataclass(frozen=True)
class ExpandArithmetic(FunctionPass):
    """Writes sums with a carry, products in two halves and integer powers as plain arithmetic."""

    name = "expand-arithmetic"

    def run(self, function: FuncOp) -> None:
        expand_arithmetic(function)
