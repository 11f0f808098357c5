"""Library functions replaced by block operations.

Functions of libdevice, and operations of `math` that are no simpler, become compositions of `arith` and `math`; those of
`signatures.CALLS` stay, for a back end to call the C library, and are left on float64: what surrounds them converts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Operation

from ..libdevice.expand import EXPANSIONS
from ..libdevice.signatures import CALLS, MAX_ORDER, Signature, known_signature
from . import types as t
from .builder import BlockBuilder
from .dialect_external import ExternElementwiseOp
from .expansion import Expander, operations_named
from .expression import Expr, where

_COMPOSED = frozenset(
    f"math.{name}" for name in ("acosh", "asinh", "atan2", "atanh", "cbrt", "cosh", "log10", "round", "sinh")
)
"""Operations of `math` that have the same expansions as the functions of the library."""

_EMPTY, _PURE = StringAttr(""), BoolAttr.from_bool(True)


def expand_libdevice(func: Operation, kept: Collection[str] = ()) -> None:
    """Replace the library functions of a function; changed in place.

    kept: symbols of libdevice that the back end calls: the operations stay that mean them (`names_libdevice`).

    Raises `UnsupportedError` for symbols that are not known, with those that look alike.
    """
    expander = Expander()
    for op in operations_named(func, "tt.extern_elementwise"):
        assert isinstance(op, ExternElementwiseOp)
        if op.symbol.data in kept and op.names_libdevice:
            continue
        signature = known_signature(op.symbol.data)
        expander.replace(op, partial(_call if signature.function in CALLS else _expanded, signature))
    for op in [op for op in func.walk() if op.name in _COMPOSED]:
        expander.replace(op, partial(_composed, op.name.removeprefix("math.")))


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
