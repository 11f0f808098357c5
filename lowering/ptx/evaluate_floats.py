"""Evaluates the floats of PTX with NumPy: arithmetic, comparisons and conversions on the bits of registers.

Nearest even on float32 and float64 is NumPy's own arithmetic; other roundings and 16-bit formats are computed exactly
(`exact.py`). Approximations are evaluated in float64 and rounded once, which is inside every published bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import BY_PTX_NAME
from . import exact
from .instructions import COMPARISONS, WIDTHS, Decoded

DTYPES = {name: BY_PTX_NAME[name].numpy for name in ("f16", "bf16", "f32", "f64", "e4m3", "e5m2")}
_FLUSHED = ("f16", "f32", "bf16")
_MODES = ("rn", "rz", "rm", "rp")


def floats(x: Array, type_: str) -> Array:
    """Returns the bits as floats of the type."""
    dtype = DTYPES[type_]
    return np.ascontiguousarray(x.astype(f"u{dtype.itemsize}")).view(dtype)


def bits_of(x: Array) -> Array:
    """Returns the bits of floats as uint64."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").astype(np.uint64)


def wide(x: Array, type_: str) -> Array:
    """Returns the floats with these bits as float64, exactly."""
    return np.asarray(floats(x, type_).astype(np.float64))


def _flushed(x: Array, type_: str) -> Array:
    """Replaces denormal floats by zeros of their sign."""
    return np.where(np.abs(x) < BY_PTX_NAME[type_].smallest_normal, np.copysign(np.zeros_like(x), x), x).astype(x.dtype)


def _finished(x: Array, d: Decoded, type_: str) -> Array:
    return _saturated(_flushed(x, type_) if "ftz" in d.flags and type_ in _FLUSHED else x, d)


def _saturated(x: Array, d: Decoded) -> Array:
    if "sat" in d.flags:
        x = np.where(np.isnan(x) | (x <= 0), np.zeros_like(x), np.minimum(x, np.ones_like(x))).astype(x.dtype)
    if "relu" in d.flags:
        x = np.where(x <= 0, np.zeros_like(x), x).astype(x.dtype)
    return x


def _lanewise(function: Callable[[Decoded, str, list[Array]], Array]) -> Callable[[Decoded, list[Array]], Array]:
    """Applies the function to the type, or to both halves of a packed one."""

    def apply(d: Decoded, sources: list[Array]) -> Array:
        type_ = d.types[0]
        if not type_.endswith("x2"):
            return bits_of(function(d, type_, sources))
        single = type_[:-2]
        width = np.uint64(WIDTHS[single])
        mask = (np.uint64(1) << width) - np.uint64(1)
        low = bits_of(function(d, single, [x & mask for x in sources]))
        high = bits_of(function(d, single, [x >> width for x in sources]))
        return np.asarray(low | (high << width))

    return apply


def _inputs(d: Decoded, type_: str, sources: list[Array]) -> list[Array]:
    found = [floats(x, type_) for x in sources]
    return [_flushed(x, type_) for x in found] if "ftz" in d.flags and type_ in _FLUSHED else found


def _rounding(one: Callable[..., float], native: Callable[..., Array] | None) -> Callable[[Decoded, list[Array]], Array]:
    """Makes a handler of an operation with a rounding: NumPy's arithmetic where it rounds that way, exact otherwise."""

    def compute(d: Decoded, type_: str, sources: list[Array]) -> Array:
        xs = _inputs(d, type_, sources)
        mode = d.choice(*_MODES) or "rn"
        if native is not None and mode == "rn" and type_ in ("f32", "f64"):
            return _finished(np.asarray(native(*xs)), d, type_)
        lanes = zip(*[x.astype(np.float64).tolist() for x in xs], strict=True)
        results = np.array([one(*lane, type_, mode) for lane in lanes], np.float64)
        return _finished(results.astype(DTYPES[type_]), d, type_)

    return _lanewise(compute)


def _function(evaluate: Callable[..., Array]) -> Callable[[Decoded, list[Array]], Array]:
    """Makes a handler of an approximation: evaluated in float64, rounded once."""

    def compute(d: Decoded, type_: str, sources: list[Array]) -> Array:
        xs = [x.astype(np.float64) for x in _inputs(d, type_, sources)]
        return _finished(np.asarray(evaluate(*xs)).astype(DTYPES[type_]), d, type_)

    return _lanewise(compute)


def _divide(d: Decoded, sources: list[Array]) -> Array:
    if d.choice("approx", "full"):
        return _function(np.divide)(d, sources)
    return _rounding(exact.divide, np.divide)(d, sources)


def _reciprocal(d: Decoded, sources: list[Array]) -> Array:
    if "approx" not in d.flags:
        ones = np.full_like(sources[0], 0x3F800000 if d.types[0] == "f32" else 0x3FF0000000000000)
        return _rounding(exact.divide, np.divide)(d, [ones, sources[0]])
    return _upper(d, sources, lambda x: 1.0 / x)


def _upper(d: Decoded, sources: list[Array], evaluate: Callable[[Array], Array]) -> Array:
    """Computes rcp and rsqrt; with .approx.ftz.f64 they read and give the upper words only."""
    if d.types[0] != "f64" or "ftz" not in d.flags:
        return _function(evaluate)(d, sources)
    upper = np.uint64(0xFFFFFFFF00000000)
    x = floats(sources[0] & upper, "f64")
    x = np.where(np.abs(x) < 2.0**-1022, np.copysign(0.0, x), x)
    found = np.asarray(evaluate(x))
    found = np.where(np.abs(found) < 2.0**-1022, np.copysign(0.0, found), found)
    return np.where(np.isnan(found), np.uint64(0x7FFFFFFF00000000), bits_of(found) & upper)


def _square_root(d: Decoded, sources: list[Array]) -> Array:
    return _function(np.sqrt)(d, sources) if "approx" in d.flags else _rounding(exact.square_root, np.sqrt)(d, sources)


def _reciprocal_root(d: Decoded, sources: list[Array]) -> Array:
    return _upper(d, sources, lambda x: 1.0 / np.sqrt(x))


def _sign_bit(d: Decoded, sources: list[Array], change: Callable[[Array, np.integer], Array]) -> Array:
    def compute(d: Decoded, type_: str, sources: list[Array]) -> Array:
        (x,) = _inputs(d, type_, sources)
        dtype = np.dtype(f"u{x.dtype.itemsize}")
        sign = dtype.type(1 << (8 * dtype.itemsize - 1))
        return np.ascontiguousarray(change(np.ascontiguousarray(x).view(dtype), sign)).view(x.dtype)

    return _lanewise(compute)(d, sources)


def _extreme(larger: bool) -> Callable[[Decoded, list[Array]], Array]:
    """Makes the handler of min or max: a number wins against NaN unless `.NaN`; +0 is above -0."""

    def compute(d: Decoded, type_: str, sources: list[Array]) -> Array:
        a, b = _inputs(d, type_, sources)
        sign = np.signbit(a) ^ np.signbit(b)
        if "abs" in d.flags:
            a, b = np.abs(a), np.abs(b)
        first = ((a > b) | ((a == b) & np.signbit(b))) if larger else ((a < b) | ((a == b) & np.signbit(a)))
        found = np.where(first | np.isnan(b), a, b)
        if "NaN" in d.flags:
            found = np.where(np.isnan(a) | np.isnan(b), np.full_like(a, np.nan), found)
        if "xorsign" in d.flags:
            found = np.copysign(found, np.where(sign, -1.0, 1.0).astype(found.dtype))
        return found.astype(a.dtype)

    return _lanewise(compute)


def _copy_sign(d: Decoded, type_: str, sources: list[Array]) -> Array:
    """Returns the sign of the first with the magnitude of the second."""
    sign, size = (floats(x, type_) for x in sources)
    return np.asarray(np.copysign(size, sign))


def _test(d: Decoded, sources: list[Array]) -> Array:
    x = floats(sources[0], d.types[0])
    tiny = np.finfo(x.dtype).tiny
    name = d.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    match name:
        case "finite":
            return np.isfinite(x)
        case "infinite":
            return np.isinf(x)
        case "number":
            return ~np.isnan(x)
        case "notanumber":
            return np.isnan(x)
        case "normal":
            return np.asarray(np.isfinite(x) & (np.abs(x) >= tiny))
    return np.asarray((x != 0) & (np.abs(x) < tiny))


def compare_floats(d: Decoded, type_: str, a: Array, b: Array) -> Array:
    x, y = (wide(v, type_) for v in (a, b))
    if "ftz" in d.flags and type_ in _FLUSHED:
        x, y = _flushed(x, type_), _flushed(y, type_)
    unordered = np.isnan(x) | np.isnan(y)
    name = d.choice(*COMPARISONS)
    functions: dict[str, Callable[..., Array]] = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    }  # fmt: skip
    match name:
        case "num":
            return ~unordered
        case "nan":
            return unordered
        case "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu":
            return np.asarray(functions[name[:-1]](x, y) | unordered)
    return np.asarray(functions[name](x, y) & ~unordered)


# -- conversions


def _integral(x: Array, mode: str) -> Array:
    return np.asarray({"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x))


def _integer_text(type_: str) -> tuple[int, int, bool]:
    width = WIDTHS[type_]
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1, True) if type_[0] == "s" else (0, (1 << width) - 1, False)


def _to_integer(x: Array, target: str, source: str) -> Array:
    """Converts to an integer, saturated. NaN gives 0, but the top bit alone for float64 sources and 64-bit results."""
    low, high, _ = _integer_text(target)
    width = WIDTHS[target]
    not_a_number = 1 << (width - 1) if (source == "f64" or width == 64) else 0

    def one(v: float) -> int:
        if math.isnan(v):
            return not_a_number
        return (high if v > 0 else low) if math.isinf(v) else min(max(int(v), low), high)

    return np.array([one(v) & ((1 << width) - 1) for v in x.tolist()], np.uint64)


def convert(d: Decoded, sources: list[Array]) -> Array:
    """Converts in every form of cvt but `.pack`."""
    target, source = d.types
    if target.endswith("x2"):
        return _convert_pair(d, sources)
    x = sources[0]
    if source[0] in "us" and target[0] in "us":
        return _resize(d, x, target, source)
    if source[0] in "us":
        width = WIDTHS[source]
        mode = d.choice(*_MODES)
        values = [int(v) - (1 << width if source[0] == "s" and int(v) >> (width - 1) else 0) for v in x]
        found = np.array([exact.from_integer(v, target, mode) for v in values], np.float64).astype(DTYPES[target])
        return bits_of(_finished(found, d, target))
    value = wide(x, source)
    if "ftz" in d.flags and source == "f32":
        value = _flushed(value, source)
    whole = d.choice("rni", "rzi", "rmi", "rpi")
    if target[0] in "us":
        return _to_integer(_integral(value, whole), target, source)
    if whole:
        value = _integral(value, whole)
    if target == "tf32":
        return _to_tf32(d, value)
    mode = d.choice(*_MODES) or "rn"
    found = np.array([exact.narrow(v, target, mode) for v in value.tolist()], np.float64)
    if "satfinite" in d.flags:
        found = _capped(found, float(exact.FORMATS[target].largest))
    if target != "f32":  # .ftz applies to single precision only
        return bits_of(_saturated(found.astype(DTYPES[target]), d))
    return bits_of(_finished(found.astype(DTYPES[target]), d, target))


def _capped(x: Array, limit: float) -> Array:
    return np.where(np.isnan(x), x, np.minimum(np.maximum(x, -limit), limit))


def _resize(d: Decoded, x: Array, target: str, source: str) -> Array:
    width = WIDTHS[source]
    values = [int(v) - (1 << width if source[0] == "s" and int(v) >> (width - 1) else 0) for v in x]
    if "sat" in d.flags:
        low, high, _ = _integer_text(target)
        values = [min(max(v, low), high) for v in values]
    return np.array([v & ((1 << WIDTHS[target]) - 1) for v in values], np.uint64)


def _to_tf32(d: Decoded, x: Array) -> Array:
    """Rounds to 10 mantissa bits; rna: halves away from zero."""
    bits = bits_of(x.astype(np.float32)).astype(np.int64)
    mode = d.choice("rn", "rz", "rna")
    extra = {"rna": 0x1000, "rz": 0}.get(mode, 0xFFF + ((bits >> 13) & 1))
    found = np.where(np.isfinite(x), (bits + extra) & 0xFFFFE000, bits & 0xFFFFFFFF).astype(np.uint64)
    if "satfinite" in d.flags:
        over = (found & np.uint64(0x7FFFFFFF)) == 0x7F800000
        found = np.where(over, (found & np.uint64(0x80000000)) | np.uint64(0x7F7FE000), found)
    return bits_of(_finished(floats(found, "f32"), d, "f32"))


def _small(d: Decoded, x: Array, type_: str) -> Array:
    """Converts float64 numbers that are float32 to the bits of 8-bit floats, to nearest even, saturated."""
    limit = {"e4m3": 448.0, "e5m2": 57344.0}[type_]
    x = _finished(_capped(x, limit), d, "f64")
    found = bits_of(x.astype(np.float32).astype(DTYPES[type_]))
    return np.where(np.isnan(x), np.uint64(0x7F), found)


def _convert_pair(d: Decoded, sources: list[Array]) -> Array:
    target, source = d.types
    single = target[:-2]
    if source == "f32":
        high, low = (wide(x, "f32") for x in sources)
    elif source == "f16x2":
        low, high = wide(sources[0] & np.uint64(0xFFFF), "f16"), wide(sources[0] >> np.uint64(16), "f16")
    else:
        low, high = wide(sources[0] & np.uint64(0xFF), source[:-2]), wide(sources[0] >> np.uint64(8), source[:-2])
    if single in ("e4m3", "e5m2"):
        return np.asarray(_small(d, low, single) | (_small(d, high, single) << np.uint64(8)))
    mode = d.choice("rn", "rz")
    parts = []
    for x in (low, high):
        found = np.array([exact.narrow(v, single, mode) for v in x.tolist()], np.float64)
        if "satfinite" in d.flags:
            found = _capped(found, float(exact.FORMATS[single].largest))
        parts.append(bits_of(_finished(found.astype(DTYPES[single]), d, single)))
    return np.asarray(parts[0] | (parts[1] << np.uint64(16)))


def _fused_float32(x: Array, y: Array, z: Array) -> Array:
    """Computes x·y + z with one rounding: the product of two float32 is exact in float64, the sum is rounded to odd there."""
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    shadow = total - product
    error = (product - (total - shadow)) + (addend - shadow)
    bits = total.view(np.int64)
    lost = (error != 0) & np.isfinite(total)
    toward_zero = np.where(lost & ((error < 0) != (total < 0)), bits - 1, bits)
    return np.asarray(np.where(lost, toward_zero | 1, bits).view(np.float64).astype(np.float32))


def _fused(d: Decoded, sources: list[Array]) -> Array:
    native = _fused_float32 if d.types[0] in ("f32", "f32x2") else None
    return _rounding(exact.fused, native)(d, sources)


FLOAT_HANDLERS: dict[str, Callable[[Decoded, list[Array]], Array]] = {
    "add": _rounding(exact.add, np.add),
    "sub": _rounding(lambda x, y, type_, mode: exact.add(x, -y, type_, mode), np.subtract),
    "mul": _rounding(exact.multiply, np.multiply),
    "fma": _fused,
    "mad": _fused,
    "div": _divide,
    "rcp": _reciprocal,
    "sqrt": _square_root,
    "rsqrt": _reciprocal_root,
    "sin": _function(np.sin),
    "cos": _function(np.cos),
    "lg2": _function(np.log2),
    "ex2": _function(np.exp2),
    "tanh": _function(np.tanh),
    "abs": lambda d, sources: _sign_bit(d, sources, lambda x, sign: x & ~sign),
    "neg": lambda d, sources: _sign_bit(d, sources, lambda x, sign: x ^ sign),
    "min": _extreme(False),
    "max": _extreme(True),
    "copysign": _lanewise(_copy_sign),
    "testp": _test,
}
