"""Expands the functions of libdevice to block operations: one row per function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..tt import types as t
from ..tt.transforms.expression import (
    Expr,
    copysign,
    high_product,
    reverse_bits,
    saturated,
    to_integer,
    where,
)
from . import bits, elementary, rounding, special
from .signatures import Signature

Expansion = Callable[[Sequence[Expr], Signature], Expr]


def _named(name: str) -> Expansion:
    """Expands to an operation of the block IR on the operands themselves."""
    return lambda xs, signature: xs[0].named(name, *xs[1:])


def _wide(function: Callable[..., Expr]) -> Expansion:
    """Expands by a function on float64; float32 passes through it."""

    def expand(xs: Sequence[Expr], signature: Signature) -> Expr:
        found = function(*[x.to_float(t.F64) if x.is_float else x for x in xs])
        return found.to_float(t.F32) if signature.result == "f32" else found

    return expand


def _own(function: Callable[..., Expr]) -> Expansion:
    return lambda xs, signature: function(*xs)


def _directed(function: Callable[..., Expr]) -> Expansion:
    return lambda xs, signature: function(*xs, signature.rounding)


def _subtract(x: Expr, y: Expr, mode: str) -> Expr:
    return rounding.add(x, -y, mode)


def _reciprocal(x: Expr, mode: str) -> Expr:
    return rounding.divide(x.like(1.0), x, mode)


def _power(x: Expr, n: Expr) -> Expr:
    return x.named("math.powf", n.cast("arith.sitofp", t.F64))


WHOLE = {"rn": "math.roundeven", "rz": "math.trunc", "rm": "math.floor", "rp": "math.ceil"}


def _to_integer(name: str) -> Expansion:
    signed = not name.startswith("u")
    type_ = t.I64 if name.endswith("ll") else t.I32

    def expand(xs: Sequence[Expr], signature: Signature) -> Expr:
        (x,) = xs
        quiet = type_ == t.I64 or x.width == 64  # NaN gives what the hardware gives: the top bit alone for these, otherwise 0
        nan = -(1 << (t.bit_width(type_) - 1)) if quiet else 0
        return to_integer(x.named(WHOLE[signature.rounding]), type_, signed, nan)

    return expand


def _from_integer(signed: bool) -> Expansion:
    def expand(xs: Sequence[Expr], signature: Signature) -> Expr:
        return rounding.from_integer(xs[0], t.scalar_type(signature.result), signed, signature.rounding)

    return expand


def _nearest_rsqrt(x: Expr) -> Expr:
    return 1.0 / x.named("math.sqrt")


def _upper_reciprocal(x: Expr) -> Expr:
    """Computes 1 / x to the 20 bits of the upper word, from the upper word; denormals count as zero."""
    upper = (x.bits() & ~0xFFFFFFFF).as_float()
    upper = where(abs(upper) < 2.0**-1022, copysign(upper.like(0.0), upper), upper)
    found = 1.0 / upper
    found = where(abs(found) < 2.0**-1022, copysign(found.like(0.0), found), found)
    kept = (found.bits() & ~0xFFFFFFFF).as_float()
    return where(x.is_nan(), math.nan, kept)


def _norm(reciprocal: bool) -> Expansion:
    return _wide(lambda *xs: elementary.norm(list(xs), reciprocal))


def _integral(function: Callable[[Expr], Expr]) -> Expansion:
    def expand(xs: Sequence[Expr], signature: Signature) -> Expr:
        return to_integer(function(xs[0]), t.I64, True, -(1 << 63))

    return expand


NATIVE = (
    "acos", "asin", "atan", "ceil", "copysign", "cos", "erf", "exp", "exp2", "expm1", "floor", "fma", "log", "log10", "log1p",
    "log2", "rsqrt", "sin", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
"""The functions that are operations of `math` which backends have recipes for."""

EXPANSIONS: dict[str, Expansion] = {
    **{name: _named(f"math.{name}") for name in NATIVE},
    "fabs": _named("math.absf"), "nearbyint": _named("math.roundeven"), "rint": _named("math.roundeven"),
    "pow": _named("math.powf"), "fmod": _named("arith.remf"),
    **{name: _wide(getattr(elementary, name)) for name in (
        "acosh", "asinh", "atan2", "atanh", "cbrt", "cosh", "cospi", "exp10", "rcbrt", "sinh", "sinpi")},
    "hypot": _norm(False), "norm": _norm(False), "rhypot": _norm(True), "rnorm": _norm(True),
    **{name: _wide(getattr(special, name)) for name in (
        "erfc", "erfcinv", "erfcx", "erfinv", "normcdf", "normcdfinv")},
    "cyl_bessel_i0": _wide(special.bessel_i0), "cyl_bessel_i1": _wide(special.bessel_i1),
    "powi": _wide(_power), "logb": _wide(bits.logb), "ilogb": _wide(bits.ilogb), "rsqrt_rn": _wide(_nearest_rsqrt),
    "rcp64h": _own(_upper_reciprocal),
    **{name: _own(getattr(bits, name)) for name in ("fdim", "fmax", "fmin", "ldexp", "nextafter", "remainder")},
    "round": _own(bits.round_away), "llround": _integral(bits.round_away),
    "llrint": _integral(lambda x: x.named("math.roundeven")),
    "isinf": _own(lambda x: bits.truth(abs(x).eq(math.inf))), "isnan": _own(lambda x: bits.truth(x.is_nan())),
    "isfinite": _own(lambda x: bits.truth(abs(x) < math.inf)), "signbit": _own(lambda x: bits.truth(x.is_negative())),
    "saturate": _own(saturated),
    "add": _directed(rounding.add), "subtract": _directed(_subtract), "multiply": _directed(rounding.multiply),
    "divide": _directed(rounding.divide), "reciprocal": _directed(_reciprocal),
    "square_root": _directed(rounding.square_root), "fused": _directed(rounding.fused), "narrow": _directed(rounding.narrow),
    **{f"to_{name}": _to_integer(name) for name in ("int", "uint", "ll", "ull")},
    **{f"from_{name}": _from_integer(name[0] != "u") for name in ("int", "uint", "ll", "ull")},
    "float2half": _own(lambda x: x.to_float(t.F16).bits()),
    "half2float": _own(lambda x: x.as_float().to_float(t.F32)),
    "reinterpret": lambda xs, signature: xs[0].reinterpret(t.scalar_type(signature.result)),
    "double2hiint": _own(lambda x: x.bits().lshr(32).cast("arith.trunci", t.I32)),
    "double2loint": _own(lambda x: x.bits().cast("arith.trunci", t.I32)),
    "hiloint2double": _own(
        lambda high, low: (high.cast("arith.extui", t.I64).shl(32) | low.cast("arith.extui", t.I64)).as_float()
    ),
    "brev": _own(reverse_bits), "clz": _own(lambda x: bits.as_int(x.named("math.ctlz"))),
    "popc": _own(lambda x: bits.as_int(x.named("math.ctpop"))), "ffs": _own(bits.find_first_set),
    "abs": _own(lambda x: where(x < 0, 0 - x, x)),
    "max": _named("arith.maxsi"), "min": _named("arith.minsi"), "umax": _named("arith.maxui"), "umin": _named("arith.minui"),
    "mulhi": _own(lambda x, y: high_product(x, y, True)), "umulhi": _own(lambda x, y: high_product(x, y, False)),
    "mul24": _own(lambda x, y: bits.multiply_24(x, y, True)), "umul24": _own(lambda x, y: bits.multiply_24(x, y, False)),
    "hadd": _own(lambda x, y: bits.average(x, y, True, False)), "rhadd": _own(lambda x, y: bits.average(x, y, True, True)),
    "uhadd": _own(lambda x, y: bits.average(x, y, False, False)), "urhadd": _own(lambda x, y: bits.average(x, y, False, True)),
    "sad": _own(lambda x, y, z: bits.absolute_difference(x, y, True) + z),
    "usad": _own(lambda x, y, z: bits.absolute_difference(x, y, False) + z),
    "byte_perm": _own(bits.permute_bytes),
}  # fmt: skip
