"""Defines with NumPy what the functions of libdevice compute; their expansion is tested against it.

Operands and results are arrays of the signature's types. float32 is computed in float64 and rounded once. Nothing is shared
with the expansion into block operations.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ...graph.reference.elementary import FUNCTIONS
from ...promotion.arrays import Array, NumpyDType
from ...promotion.errors import UnsupportedError
from ..ptx import exact
from . import reference_special as special
from .signatures import MAX_ORDER, SIGNATURES, Signature

Reference = Callable[[Sequence[Array], Signature], Array]

DTYPES: dict[str, NumpyDType] = {
    "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}  # fmt: skip


def evaluate(signature: Signature, operands: Sequence[Any]) -> Array:
    """Evaluates the function element by element on operands that broadcast; the result has the dtype of the signature."""
    arrays = np.broadcast_arrays(*[np.asarray(x, DTYPES[e]) for x, e in zip(operands, signature.arguments, strict=True)])
    shape = arrays[0].shape
    with np.errstate(all="ignore"):
        found = REFERENCE[signature.function]([np.ascontiguousarray(x).reshape(-1) for x in arrays], signature)
    return np.asarray(found).astype(DTYPES[signature.result]).reshape(shape)


def _wide(function: Callable[..., Any]) -> Reference:
    """Applies a NumPy function in float64; integers stay as they are."""
    return lambda xs, signature: np.asarray(function(*[x.astype(np.float64) if x.dtype.kind == "f" else x for x in xs]))


def _each(function: Callable[..., float]) -> Reference:
    """Applies a function of Python's floats and integers, element by element."""

    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        dtype = np.float64 if signature.result[0] == "f" else object
        return np.array([function(*lane) for lane in zip(*[x.tolist() for x in xs], strict=True)], dtype)

    return apply


def _own(function: Callable[..., Any]) -> Reference:
    """Applies a NumPy function in the operands' own type."""
    return lambda xs, signature: np.asarray(function(*xs))


def _exactly(function: Callable[..., float]) -> Reference:
    """Applies an exact operation, rounded in the signature's direction."""

    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        lanes = zip(*[x.tolist() for x in xs], strict=True)
        found = [function(*lane, signature.result, signature.rounding or "rn") for lane in lanes]
        return np.array(found, np.float64)

    return apply


_WHOLE: dict[str, Callable[[float], int]] = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}


def _integer_of(x: float, name: str, wide_source: bool, rounding: str) -> int:
    width = 64 if name.endswith("ll") else 32
    unsigned = name.startswith("u")
    low, high = (0, (1 << width) - 1) if unsigned else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if math.isnan(x):
        value = (1 << (width - 1)) if (width == 64 or wide_source) else 0
    elif math.isinf(x):
        value = high if x > 0 else low
    else:
        whole = _WHOLE[rounding](x)
        value = min(max(whole, low), high)
    return value - (1 << width) if value >> (width - 1) > 0 else value


def _to_integer(name: str) -> Reference:
    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        wide = xs[0].dtype == np.float64
        found = [_integer_of(x, name, wide, signature.rounding or "rn") for x in xs[0].tolist()]
        return np.array(found, np.int64)

    return apply


def _from_integer(unsigned: bool) -> Reference:
    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        (x,) = xs
        values = x.view(f"u{x.dtype.itemsize}") if unsigned else x
        return np.array([exact.from_integer(v, signature.result, signature.rounding) for v in values.tolist()], np.float64)

    return apply


def _unsigned(function: Callable[..., Any]) -> Reference:
    return lambda xs, signature: np.asarray(function(*[x.view(f"u{x.dtype.itemsize}") for x in xs])).view(xs[0].dtype)


def _integers(function: Callable[..., int], unsigned: bool = False) -> Reference:
    """Applies a function of Python's integers and wraps the result to its width."""

    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        width = int(signature.result[1:])
        views = [x.view(f"u{x.dtype.itemsize}") if unsigned else x for x in xs]
        found = [function(*lane) & ((1 << width) - 1) for lane in zip(*[x.tolist() for x in views], strict=True)]
        return np.array(found, np.uint64).astype(f"u{width // 8}").view(DTYPES[signature.result])

    return apply


def _low_24(x: int, signed: bool) -> int:
    x &= 0xFFFFFF
    return x - (1 << 24) if signed and x >> 23 else x


def _bytes(x: int, y: int, selector: int) -> int:
    source = (x | y << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(source[selector >> (4 * i) & 7] for i in range(4)), "little")


def _extreme(larger: bool) -> Reference:
    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        a, b = xs
        found = np.fmax(a, b) if larger else np.fmin(a, b)
        negative = (np.signbit(a) & np.signbit(b)) if larger else (np.signbit(a) | np.signbit(b))
        return np.where((a == 0) & (b == 0), np.copysign(0.0, np.where(negative, -1.0, 1.0)), found)

    return apply


def _round(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), np.copysign(whole, x)))


def _logb(x: Array) -> Array:
    exponent = np.frexp(x)[1].astype(np.float64) - 1
    return np.asarray(np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent, np.abs(x))))


def _ilogb(x: Array) -> Array:
    exponent = np.frexp(x)[1].astype(np.int64) - 1
    return np.asarray(np.where((x == 0) | np.isnan(x), -(1 << 31), np.where(np.isinf(x), (1 << 31) - 1, exponent)))


def _remainder(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    return math.remainder(x, y)


def _reciprocal_root(x: float, format_: str, mode: str) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    if math.isnan(x) or x < 0:
        return math.nan
    return 0.0 if x == math.inf else exact.root_of(1 / Fraction(x), format_, mode)


def _upper_reciprocal(x: Array) -> Array:
    upper = (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    upper = np.where(np.abs(upper) < 2.0**-1022, np.copysign(0.0, upper), upper)
    found = 1.0 / upper
    found = np.where(np.abs(found) < 2.0**-1022, np.copysign(0.0, found), found)
    kept = (found.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return np.asarray(np.where(np.isnan(x), np.nan, kept))


def _from_halves(high: Array, low: Array) -> Array:
    return ((high.astype(np.int64) << 32) | low.view(np.uint32).astype(np.int64)).view(np.float64)


def _llround(xs: Sequence[Array], signature: Signature) -> Array:
    return np.array([_integer_of(x, "ll", True, "rn") for x in _round(xs[0].astype(np.float64)).tolist()], np.int64)


def _fdim(x: Array, y: Array) -> Array:
    return np.asarray(np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)))


@cache
def _c_function(name: str) -> Any:
    """Loads a float64 function of the C library; `UnsupportedError` when it has none of the name."""
    library = ctypes.CDLL(ctypes.util.find_library("m") if os.name == "posix" else "ucrtbase")
    found = getattr(library, name, None)
    if found is None:
        raise UnsupportedError(f"tt.extern_elementwise: the C library of this machine has no {name}")
    found.restype = ctypes.c_double
    found.argtypes = [ctypes.c_int, ctypes.c_double] if name in ("jn", "yn") else [ctypes.c_double]
    return found


def _library(name: str) -> Reference:
    def apply(xs: Sequence[Array], signature: Signature) -> Array:
        function = _c_function(name)
        if len(xs) == 2:  # the first operand is the order
            far = np.abs(xs[0].astype(np.int64)) > MAX_ORDER
            xs = [np.where(far, 0, xs[0]), np.where(far, np.nan, xs[1])]
        return np.array([function(*lane) for lane in zip(*[x.tolist() for x in xs], strict=True)], np.float64)

    return apply


_NAMES = frozenset([signature.function for signature in SIGNATURES.values()])
REFERENCE: dict[str, Reference] = {
    **{name: _wide(function) for name, function in FUNCTIONS.items() if name in _NAMES}, "pow": _wide(FUNCTIONS["powf"]),
    "ceil": _wide(np.ceil), "exp10": _wide(lambda x: np.float_power(10.0, x)), "floor": _wide(np.floor),
    "nearbyint": _wide(np.rint), "rint": _wide(np.rint), "rcbrt": _wide(lambda x: 1.0 / np.cbrt(x)), "round": _wide(_round),
    "sqrt": _own(np.sqrt), "trunc": _wide(np.trunc), "fabs": _own(np.abs),
    "powi": _wide(lambda x, n: np.float_power(x, n.astype(np.float64))), "copysign": _own(np.copysign), "fmod": _own(np.fmod),
    "fdim": _own(_fdim), "fmax": _extreme(True), "fmin": _extreme(False), "hypot": _each(special.norm),
    "norm": _each(special.norm), "rhypot": _each(special.reciprocal_norm), "rnorm": _each(special.reciprocal_norm),
    "nextafter": _own(np.nextafter), "remainder": _each(_remainder), "fma": _exactly(exact.fused), "ldexp": _own(np.ldexp),
    "logb": _wide(_logb), "ilogb": _wide(_ilogb), "llrint": _to_integer("ll"), "llround": _llround,
    "isinf": _own(np.isinf), "isnan": _own(np.isnan), "isfinite": _own(np.isfinite), "signbit": _own(np.signbit),
    "saturate": _own(lambda x: np.where(x > 0, np.minimum(x, 1), 0)), "rsqrt_rn": _exactly(_reciprocal_root),
    "rcp64h": _own(_upper_reciprocal),
    "add": _exactly(exact.add), "subtract": _exactly(lambda x, y, f, mode: exact.add(x, -y, f, mode)),
    "multiply": _exactly(exact.multiply), "divide": _exactly(exact.divide),
    "reciprocal": _exactly(lambda x, f, mode: exact.divide(1.0, x, f, mode)), "square_root": _exactly(exact.square_root),
    "fused": _exactly(exact.fused), "narrow": _exactly(exact.narrow),
    **{f"to_{name}": _to_integer(name) for name in ("int", "uint", "ll", "ull")},
    **{f"from_{name}": _from_integer(name[0] == "u") for name in ("int", "uint", "ll", "ull")},
    "float2half": _own(lambda x: x.astype(np.float16).view(np.int16)),
    "half2float": _own(lambda x: x.view(np.float16).astype(np.float32)),
    "reinterpret": lambda xs, signature: xs[0].view(DTYPES[signature.result]),
    "double2hiint": _own(lambda x: x.view(np.int64) >> 32), "double2loint": _own(lambda x: x.view(np.int64)),
    "hiloint2double": _own(_from_halves),
    "brev": lambda xs, s: _integers(lambda x: int(f"{x:0{int(s.result[1:])}b}"[::-1], 2), True)(xs, s),
    "clz": lambda xs, s: _integers(lambda x: int(s.arguments[0][1:]) - x.bit_length(), True)(xs, s),
    "ffs": _integers(lambda x: (x & -x).bit_length(), True), "popc": _integers(lambda x: x.bit_count(), True),
    "abs": _integers(abs), "max": _own(np.maximum), "min": _own(np.minimum), "umax": _unsigned(np.maximum),
    "umin": _unsigned(np.minimum),
    "mulhi": lambda xs, s: _integers(lambda x, y: x * y >> int(s.result[1:]))(xs, s),
    "umulhi": lambda xs, s: _integers(lambda x, y: x * y >> int(s.result[1:]), True)(xs, s),
    "mul24": _integers(lambda x, y: _low_24(x, True) * _low_24(y, True)),
    "umul24": _integers(lambda x, y: _low_24(x, False) * _low_24(y, False)),
    "hadd": _integers(lambda x, y: (x + y) >> 1), "rhadd": _integers(lambda x, y: (x + y + 1) >> 1),
    "uhadd": _integers(lambda x, y: (x + y) >> 1, True), "urhadd": _integers(lambda x, y: (x + y + 1) >> 1, True),
    "sad": _integers(lambda x, y, z: abs(x - y) + z), "usad": _integers(lambda x, y, z: abs(x - y) + z, True),
    "byte_perm": _integers(_bytes, True),
    "erfc": _each(math.erfc), "erfcx": _wide(special.erfcx), "erfinv": _each(special.erfinv),
    "erfcinv": _each(special.erfcinv), "normcdf": _each(special.normcdf), "normcdfinv": _each(special.normcdfinv),
    "sinpi": _each(special.sinpi), "cospi": _each(special.cospi), "tgamma": _each(special.tgamma),
    "cyl_bessel_i0": _wide(special.bessel_i0), "cyl_bessel_i1": _wide(special.bessel_i1),
    **{name: _library(name) for name in ("j0", "j1", "jn", "lgamma", "y0", "y1", "yn")},
}  # fmt: skip
