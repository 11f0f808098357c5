"""Approximates float32 functions and quotients, for operations whose flags allow it (`afn`, `arcp`).

Infinities, NaN, zeros and their signs are those of the accurate forms. Sources of the bounds: PTX ISA, "Floating-Point
Instructions" (ex2, lg2, rcp, rsqrt, sqrt, div.approx); what we measured is in docs/design/011-numerics.md.

On GPUs: exp2 is one instruction, 2 ulp; exp one more, which rounds x · log2 e: 3 + 1.23 |x| ulp; denormal results of both
are 0. log2 has an absolute error of 2^-22 for x in (1/2, 2) and a relative one of 2^-22 elsewhere, log one rounding more.
Quotients and rsqrt are within 3 ulp, sqrt within 2, over the whole range, denormals included. On hosts exp has a shorter
polynomial, within 2.3 ulp over the whole range; quotients, roots and logarithms are the accurate ones. On both, erf has an
absolute error below 5e-7 and tanh is within 6 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...tt.facts import APPROXIMATE, RECIPROCAL, allows
from ..ir import Function
from ..values import V, const, lanes, number_of
from . import float32 as f32
from .lanes import Lanes
from .recipes import recipe
from .tables import polynomials as table

DIVISIONS = frozenset({"arith.divf"})


def _instruction(lane: Lanes, name: str, *operands: V) -> V:
    return lane.fn.target_intrinsic(f"llvm.nvvm.{name}", operands, lane.type)


@recipe("exp2", "float", form="approximate")
@recipe("exp2", "float", form="weight")
def exp2(lane: Lanes, x: V) -> V:
    return _instruction(lane, "ex2.approx.ftz.f", x) if lane.is_ptx else f32.exp2(lane, x)


@recipe("exp", "float", form="approximate")
def exp(lane: Lanes, x: V) -> V:
    """Computes exp. The product is rounded by itself: fused with a difference x - m before it, exp(m - m) would not be 1."""
    if lane.is_ptx:
        return exp2(lane, lane.mul(x, table.LOG2E_32[0]))
    return f32.exp_with(lane, x, table.EXP_32_SHORT)


@recipe("exp", "float", form="weight")
def exp_weight(lane: Lanes, x: V) -> V:
    """Computes exp for weights that are divided by their sum.

    What matters is the error relative to the largest weight, which is small on GPUs too.
    """
    return exp(lane, x) if lane.is_ptx else f32.exp_fast(lane, x)


@recipe("log2", "float", form="approximate")
def log2(lane: Lanes, x: V) -> V:
    return _instruction(lane, "lg2.approx.f", x) if lane.is_ptx else f32.log2(lane, x)


@recipe("log", "float", form="approximate")
def log(lane: Lanes, x: V) -> V:
    return lane.mul(log2(lane, x), math.log(2.0)) if lane.is_ptx else f32.log(lane, x)


@recipe("sqrt", "float", form="approximate")
def sqrt(lane: Lanes, x: V) -> V:
    return _instruction(lane, "sqrt.approx.f", x) if lane.is_ptx else lane.sqrt(x)


@recipe("rsqrt", "float", form="approximate")
def rsqrt(lane: Lanes, x: V) -> V:
    return _instruction(lane, "rsqrt.approx.f", x) if lane.is_ptx else lane.div(1.0, lane.sqrt(x))


@recipe("erf", "float", form="approximate")
def erf(lane: Lanes, x: V) -> V:
    return f32.erf_fast(lane, x, _divide(lane))


@recipe("tanh", "float", form="approximate")
def tanh(lane: Lanes, x: V) -> V:
    return f32.tanh_fast(lane, x, _divide(lane))


def _divide(lane: Lanes) -> f32.Divide:
    """Returns the division to use, whose quotient is 1 at most: 1 - tanh(x)² must not become negative."""
    divide = (lambda a, b: quotient(lane.fn, a, b)) if lane.is_ptx else lane.div
    return lambda a, b: lane.at_most(divide(a, b), 1.0)


# Quotients


def may_divide(f: Function, elem: str, attrs: Mapping[str, Any]) -> bool:
    """Whether a division may be an approximation, and the target has a shorter one than the IEEE quotient."""
    allowed = allows(attrs, RECIPROCAL) or allows(attrs, APPROXIMATE)
    return allowed and elem in ("f32", "f16", "bf16") and "ptx" in f.module.features


def quotient(f: Function, a: V, b: V) -> V:
    """Computes a / b of one pair of numbers (PTX)."""
    return quotients(f, [a], b)[0]


_LARGE, _FACTOR = 2.0**64, 2.0**32


def quotients(f: Function, dividends: Sequence[V], divisor: V) -> list[V]:
    """Divides numbers by one divisor (PTX): within 2 ulp over the whole range, as the ISA says of a · (1/b).

    The bound is 3 ulp if the reciprocal is off by a whole ulp. The divisor is scaled by a power of two, so that its
    reciprocal is a normal number, and the products with the reciprocal are scaled by the same to give the quotients:
    neither product leaves the range unless the quotient does. This takes as many instructions as div.full for one
    quotient and two for every further one, also of other operations.
    """
    assert divisor.type == "float"
    inverse = _constant_inverse(divisor)
    if inverse is not None:
        return [f.binary("fmul", a, inverse) for a in dividends]
    size = _numbered(f, "llvm.fabs.f32", divisor)
    one, up, down = (const(x, "float") for x in (1.0, _FACTOR, 1 / _FACTOR))
    scale = f.select(f.fcmp("ogt", size, const(_LARGE, "float")), down, one)
    scale = f.select(f.fcmp("olt", size, const(1 / _LARGE, "float")), up, scale)
    inverse = _numbered(f, "llvm.nvvm.rcp.approx.ftz.f", f.binary("fmul", divisor, scale))
    return [f.binary("fmul", f.binary("fmul", a, inverse), scale) for a in dividends]


def _numbered(f: Function, name: str, x: V) -> V:
    """Emits a call that is printed once for an operand."""
    f.module.declare(name, x.type, [x.type])
    return f.pure(f"call {x.type} @{name}({x.type} {x.operand()})", x.type)


def _constant_inverse(b: V) -> V | None:
    """Returns 1/b of a constant, if both are normal numbers, else None."""
    value = number_of(b) if lanes(b.type) == 1 else None
    return None if value is None or not 2.0**-126 <= abs(value) <= 2.0**126 else const(1.0 / value, b.type)
