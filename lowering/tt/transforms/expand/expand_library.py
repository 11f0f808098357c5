"""Replaces library functions by block operations.

Functions of libdevice, and operations of `math` that are no simpler, become compositions of `arith` and
`math`; those of `signatures.CALLS` stay calls, for which a back end calls the C library, and become float64
calls with conversions around them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Operation

from .....graph.reference.elementary import FUNCTIONS
from ....libdevice.expand import EXPANSIONS, NATIVE
from ....libdevice.signatures import CALLS, MAX_ORDER, SIGNATURES, Signature, known_signature
from ... import types as t
from ...builder.block_builder import BlockBuilder
from ...dialect.external import ExternElementwiseOp
from ...dialect.functions import FuncOp
from ..expander import Expander, operations_named
from ..expression import Expr, where
from ..function_pass import Allowed, FunctionPass

_COMPOSED = {f"math.{name}" for name in FUNCTIONS if name in EXPANSIONS and name not in NATIVE} | {"math.round"}
"""Operations of `math` that have the same expansions as the functions of the library."""

_OF_AN_ORDER = ("jn", "yn")
_EMPTY, _PURE = StringAttr(""), BoolAttr.from_bool(True)


def expand_libdevice(func: Operation, kept: Collection[str] = ()) -> None:
    """Replaces the library functions of a function in place.

    kept: symbols of libdevice that the back end calls: operations that mean them (`names_libdevice`) stay.

    Raises `UnsupportedError`, which names similar symbols, for unknown symbols.
    """
    expander = Expander()
    for op in operations_named(func, "tt.extern_elementwise"):
        assert isinstance(op, ExternElementwiseOp)
        signature = known_signature(op.symbol.data)
        if signature.symbol in kept and op.names_libdevice:
            if signature.function in _OF_AN_ORDER:
                expander.replace(op, partial(_kept, signature))
            continue
        expander.replace(op, partial(_call if signature.function in CALLS else _expanded, signature))
    for op in [op for op in func.walk() if op.name in _COMPOSED]:
        expander.replace(op, partial(_composed, op.name.removeprefix("math.")))


def _expanded(signature: Signature, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    return [EXPANSIONS[signature.function](xs, signature)]


def _composed(name: str, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    """Expands an operation of `math`; 16-bit floats pass through float32."""
    elem = t.elem(xs[0].type)
    wide = elem if xs[0].width >= 32 else t.F32
    signature = Signature(f"math.{name}", name, (str(wide),) * len(xs), str(wide))
    found = EXPANSIONS[name]([x.to_float(wide) for x in xs], signature)
    return [found.to_float(elem)]


def _call(signature: Signature, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    """Emits a call of the float64 function of the C library."""
    wide = [x.to_float(t.F64) if x.is_float else x for x in xs]
    symbol = signature.symbol.removesuffix("f") if signature.result == "f32" else signature.symbol
    found = _extern(symbol, b, _of_small_orders(wide) if signature.function in _OF_AN_ORDER else wide)
    return [found.to_float(t.F32) if signature.result == "f32" else found]


def _kept(signature: Signature, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    return [_extern(signature.symbol, b, _of_small_orders(xs))]


def _of_small_orders(xs: Sequence[Expr]) -> list[Expr]:
    """Returns order and number, but order 0 and NaN for orders that would take too long."""
    order, x = xs
    far = (order > MAX_ORDER) | (order < -MAX_ORDER)
    return [where(far, 0, order), where(far, math.nan, x)]


def _extern(symbol: str, b: BlockBuilder, xs: Sequence[Expr]) -> Expr:
    """Emits a call whose result has the type of the last operand."""
    properties = {"libname": _EMPTY, "libpath": _EMPTY, "pure": _PURE, "symbol": StringAttr(symbol)}
    (value,) = b.op(ExternElementwiseOp, [x.v for x in xs], [xs[-1].type], properties)
    return Expr(b, value)


@dataclass(frozen=True)
class ExpandLibrary(FunctionPass):
    """Writes library functions as arithmetic, as far as possible.

    library: symbols of libdevice that the back end calls; their operations stay.
    """

    name = "expand-library"
    library: tuple[str, ...] = ()

    def allowed(self) -> Mapping[str, Allowed]:
        return {
            "library": Allowed(
                "symbols of libdevice, each once, such as __nv_expf (docs/libdevice.md has them all)",
                lambda given: len({*given}) == len(given) and {*given} <= SIGNATURES.keys(),
            )
        }

    def run(self, function: FuncOp) -> None:
        expand_libdevice(function, self.library)
