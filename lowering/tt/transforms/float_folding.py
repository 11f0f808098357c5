"""Folds float operations where that changes no bit of any result.

x + -0.0, x - 0.0, x · 1.0 and x / 1.0 are x for every x, infinities, denormals and both zeros included (NaN stays
NaN); x + 0.0 and x - -0.0 are not (-0.0 + 0.0 is 0.0), nor is x · 0.0. Constants are combined where the result is
finite: a float32 result computed in float64 and rounded is rounded as if once, for sums, differences, products and
quotients (S. A. Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from .. import types as t
from ..constants import constant_attr, splat_value
from ..dialect.arith import FLOAT_PREDICATES
from ..dialect.attributes import property_number

Folded = SSAValue | Attribute | None
_FORMATS: dict[Attribute, str] = {t.F16: "<e", t.F32: "<f", t.F64: "<d"}


def float_constant_of(value: SSAValue) -> float | None:
    """Returns the number that a scalar or every element of a block is known to have, or None."""
    if not isinstance(value, OpResult) or value.op.name != "arith.constant" or not t.is_float(value.type):
        return None
    found = splat_value(value.op.properties["value"])
    return found if isinstance(found, float) else None


def _is(value: float | None, wanted: float) -> bool:
    """Returns whether two numbers are equal, where 0.0 and -0.0 differ."""
    return value is not None and value == wanted and math.copysign(1.0, value) == math.copysign(1.0, wanted)


def _constant(op: Operation, value: float) -> Attribute | None:
    """Returns the value rounded to the result's type; None if the result is not finite, or the type has no
    exact rounding here."""
    type_ = op.results[0].type
    form = _FORMATS.get(t.elem(type_))
    if form is None or not math.isfinite(value):
        return None
    try:
        rounded = struct.unpack(form, struct.pack(form, value))[0]
    except OverflowError:
        return None
    return constant_attr(rounded, t.elem(type_), t.shape_of(type_))


def _neutral(
    right: float, commutes: bool, compute: Callable[[float, float], float]
) -> Callable[[Operation], Folded]:
    def fold(op: Operation) -> Folded:
        one, other = op.operands
        x, y = float_constant_of(one), float_constant_of(other)
        if x is not None and y is not None and t.elem(op.results[0].type) in (t.F32, t.F64):
            return _computed(op, x, y, compute)
        if _is(y, right):
            return one
        return other if commutes and _is(x, right) else None

    return fold


def _computed(
    op: Operation, x: float, y: float, compute: Callable[[float, float], float]
) -> Attribute | None:
    try:
        return _constant(op, compute(x, y))
    except (ZeroDivisionError, OverflowError):
        return None


def _compare(op: Operation) -> Attribute | None:
    x, y = float_constant_of(op.operands[0]), float_constant_of(op.operands[1])
    if x is None or y is None:
        return None
    predicate = FLOAT_PREDICATES[property_number(op, "predicate")]
    unordered = math.isnan(x) or math.isnan(y)
    if predicate in ("false", "true"):
        holds = predicate == "true"
    elif predicate in ("ord", "uno"):
        holds = unordered == (predicate == "uno")
    elif unordered:
        holds = predicate[0] == "u"
    else:
        relation = predicate[1:]
        holds = (x == y and relation in ("eq", "ge", "le")) or (x < y and relation in ("lt", "le", "ne"))
        holds = holds or (x > y and relation in ("gt", "ge", "ne"))
    type_ = op.results[0].type
    return constant_attr(int(holds), t.elem(type_), t.shape_of(type_))


def _resize(op: Operation) -> Attribute | None:
    """Folds arith.extf and arith.truncf to nearest even; other rounding modes are left alone."""
    x = float_constant_of(op.operands[0])
    return None if x is None or "roundingmode" in op.properties else _constant(op, x)


FLOAT_FOLDERS: dict[str, Callable[[Operation], Folded]] = {
    "arith.addf": _neutral(-0.0, True, lambda x, y: x + y),
    "arith.subf": _neutral(0.0, False, lambda x, y: x - y),
    "arith.mulf": _neutral(1.0, True, lambda x, y: x * y),
    "arith.divf": _neutral(1.0, False, lambda x, y: x / y),
    "arith.cmpf": _compare,
    "arith.extf": _resize,
    "arith.truncf": _resize,
}

__all__ = ["FLOAT_FOLDERS", "float_constant_of"]
