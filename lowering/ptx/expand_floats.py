"""Expands float instructions and conversions of PTX to block operations.

16-bit floats are computed in float64 and rounded once: sums of two and products are exact there or too far apart to matter, and
fma is rounded to odd first. Approximations use the accurate functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import Attribute

from ...promotion.dtype import BY_PTX_NAME
from ..libdevice import rounding
from ..tt import types as t
from ..tt.transforms.expression import Expr, copysign, extreme, saturated, to_integer, where
from .expand_integers import INTEGERS, from_halves, halves, is_signed
from .instructions import WIDTHS, Decoded

FLOAT_TYPES: dict[str, Attribute] = {"f16": t.F16, "bf16": t.BF16, "f32": t.F32, "f64": t.F64}
MODES = ("rn", "rz", "rm", "rp")
_TINY = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126}
_LARGEST = {"f16": 65504.0, "bf16": 255.0 * 2.0**120}
_SMALL = {name: t.scalar_type(BY_PTX_NAME[name]) for name in ("e4m3", "e5m2")}

Handler = Callable[[Decoded, str, Sequence[Expr]], Expr]


def flushed(x: Expr, type_: str) -> Expr:
    """Replaces denormal numbers by zeros of their sign."""
    return where(abs(x) < _TINY[type_], copysign(x.like(0.0), x), x)


def _inputs(d: Decoded, type_: str, xs: Sequence[Expr]) -> list[Expr]:
    return [flushed(x, type_) for x in xs] if "ftz" in d.flags and type_ in _TINY else list(xs)


def _finished(d: Decoded, type_: str, x: Expr) -> Expr:
    """Flushes (of conversions only those to single precision) and clamps a result."""
    if "ftz" in d.flags and type_ in _TINY and (d.opcode != "cvt" or type_ == "f32"):
        x = flushed(x, type_)
    if "sat" in d.flags:
        x = saturated(x)
    return where(x <= 0.0, 0.0, x) if "relu" in d.flags else x


def on_lanes(handler: Handler) -> Callable[[Decoded, Sequence[Expr]], Expr]:
    """Applies the handler to the type, or to both halves of a packed one."""

    def apply(d: Decoded, xs: Sequence[Expr]) -> Expr:
        type_ = d.types[0]
        if not type_.endswith("x2"):
            return handler(d, type_, xs)
        single = type_[:-2]
        if single == "f32":
            parts = [(x.cast("arith.trunci", t.I32), x.lshr(32).cast("arith.trunci", t.I32)) for x in xs]
        else:
            parts = [halves(x) for x in xs]
        low, high = (
            handler(d, single, [part[side].reinterpret(FLOAT_TYPES[single]) for part in parts]).bits() for side in (0, 1)
        )
        if single == "f32":
            return low.cast("arith.extui", t.I64) | high.cast("arith.extui", t.I64).shl(32)
        return from_halves(low, high)

    return apply


def _wide(x: Expr) -> Expr:
    return x.to_float(t.F64)


def _arithmetic(directed: Callable[..., Expr], half: Callable[..., Expr]) -> Handler:
    """Makes a handler of two functions: `directed` takes a mode, for f32 and f64; `half` works on float64 for narrow types."""

    def apply(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
        xs = _inputs(d, type_, xs)
        if type_ in ("f32", "f64"):
            found = directed(*xs, d.choice(*MODES) or "rn")
        else:
            found = half(*[_wide(x) for x in xs]).to_float(FLOAT_TYPES[type_])
        return _finished(d, type_, found)

    return apply


def _subtract(x: Expr, y: Expr, mode: str) -> Expr:
    return x - y if mode == "rn" else rounding.add(x, -y, mode)


def _function(evaluate: Callable[..., Expr]) -> Handler:
    """Makes the handler of an approximation, in float32 for the narrow types."""

    def apply(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
        xs = _inputs(d, type_, xs)
        if type_ in ("f32", "f64"):
            return _finished(d, type_, evaluate(*xs))
        return _finished(d, type_, evaluate(*[x.to_float(t.F32) for x in xs]).to_float(FLOAT_TYPES[type_]))

    return apply


def _divide(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    return _arithmetic(rounding.divide, lambda x, y: x / y)(d, type_, xs)


def _upper(x: Expr) -> Expr:
    """Returns the upper word of a float64, denormals flushed."""
    x = (x.bits() & ~0xFFFFFFFF).as_float()
    return where(abs(x) < 2.0**-1022, copysign(x.like(0.0), x), x)


def _seed(evaluate: Callable[[Expr], Expr]) -> Handler:
    """Makes the handler of rcp or rsqrt; `.approx.ftz.f64` reads and gives upper words."""

    def apply(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
        if type_ != "f64" or "ftz" not in d.flags:
            return _function(evaluate)(d, type_, xs)
        found = _upper(evaluate(_upper(xs[0])))
        return where(xs[0].is_nan(), math.nan, found)

    return apply


def _reciprocal(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    if "approx" in d.flags:
        return _seed(lambda x: 1.0 / x)(d, type_, xs)
    return _divide(d, type_, [xs[0].like(1.0), xs[0]])


def _square_root(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    return _arithmetic(rounding.square_root, lambda x: x)(d, type_, xs)


def _fused(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    return _arithmetic(rounding.fused, lambda x, y, z: rounding.odd_sum(x * y, z))(d, type_, xs)


def _sign(change: Callable[[Expr, int], Expr]) -> Handler:
    def apply(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
        (x,) = _inputs(d, type_, xs)
        return change(x.bits(), -(1 << (x.width - 1))).reinterpret(FLOAT_TYPES[type_])

    return apply


def _extreme(larger: bool) -> Handler:
    def apply(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
        a, b = _inputs(d, type_, xs)
        top = -(1 << (a.width - 1))
        sign = (a.bits() ^ b.bits()) & top
        if "abs" in d.flags:
            a, b = (_sign(lambda x, s: x & ~s)(d, type_, [x]) for x in (a, b))
        found = extreme(a, b, larger)
        if "NaN" in d.flags:
            found = where(a.is_nan() | b.is_nan(), math.nan, found)
        if "xorsign" in d.flags:
            found = (found.bits() & ~top | sign).reinterpret(FLOAT_TYPES[type_])
        return found

    return apply


def _copy_sign(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    return copysign(xs[1], xs[0])


def test(d: Decoded, xs: Sequence[Expr]) -> Expr:
    """Expands testp."""
    x = xs[0]
    size, tiny = abs(x), 2.0**-126 if x.width == 32 else 2.0**-1022
    match d.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        case "finite":
            return size < math.inf
        case "infinite":
            return size.eq(math.inf)
        case "number":
            return ~x.is_nan()
        case "notanumber":
            return x.is_nan()
        case "normal":
            return (size < math.inf) & (size >= tiny)
    return x.ne(0.0) & (size < tiny)


def compare(d: Decoded, type_: str, a: Expr, b: Expr, name: str) -> Expr:
    """Compares floats; types narrower than float32 are widened."""
    if "ftz" in d.flags and type_ in _TINY:
        a, b = flushed(a, type_), flushed(b, type_)
    if type_ in ("f16", "bf16"):
        a, b = a.to_float(t.F32), b.to_float(t.F32)
    match name:
        case "num":
            return a.test("ord", b)
        case "nan":
            return a.test("uno", b)
    return a.test("u" + name[:-1] if name.endswith("u") else "o" + name, b)


# -- conversions

_WHOLE = {"rni": "math.roundeven", "rzi": "math.trunc", "rmi": "math.floor", "rpi": "math.ceil"}


def _limits(type_: str) -> tuple[int, int]:
    width = WIDTHS[type_]
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed(type_) else (0, (1 << width) - 1)


def _resize(d: Decoded, x: Expr) -> Expr:
    target, source = d.types
    if "sat" in d.flags:
        (low, high), (least, most) = _limits(target), _limits(source)
        if is_signed(source):
            x = x.named("arith.maxsi", low) if low > least else x
            x = x.named("arith.minsi", high) if high < most else x
        elif high < most:
            x = x.named("arith.minui", high)
    type_ = INTEGERS[WIDTHS[target]]
    return x if x.width == WIDTHS[target] else x.resized(type_, is_signed(source))


def _from_integer(d: Decoded, x: Expr) -> Expr:
    target, source = d.types
    signed, mode = is_signed(source), d.choice(*MODES)
    type_ = FLOAT_TYPES[target]
    if mode == "rn":
        return x.cast("arith.sitofp" if signed else "arith.uitofp", type_)
    if x.width < 32:
        x = x.resized(t.I32, signed)
    if target in ("f32", "f64"):
        return rounding.from_integer(x, type_, signed, mode)
    # Rounding twice in one direction equals rounding once.
    return narrowed(rounding.from_integer(x, t.F64, signed, mode), target, mode)


def narrowed(x: Expr, target: str, mode: str) -> Expr:
    """Converts float32 or float64 to a narrower type, in any direction."""
    type_ = FLOAT_TYPES[target]
    if mode == "rn":
        return x.to_float(type_)
    return rounding.directed_narrow(x.to_float(t.F64), type_, mode)


def _to_tf32(d: Decoded, x: Expr) -> Expr:
    bits = x.bits()
    match d.choice("rn", "rz", "rna"):
        case "rna":
            moved = bits + 0x1000
        case "rz":
            moved = bits
        case _:
            moved = bits + 0xFFF + (bits.lshr(13) & 1)
    found = where(abs(x) < math.inf, moved & ~0x1FFF, bits)
    if "satfinite" in d.flags:
        over = (found & 0x7FFFFFFF).eq(0x7F800000)
        found = where(over, (found & -(1 << 31)) | 0x7F7FE000, found)
    return _finished(d, "tf32", found.as_float()).bits()


def _capped(x: Expr, limit: float) -> Expr:
    """Limits x to ±`limit`; NaN stays."""
    return where(x > limit, limit, where(x < -limit, -limit, x))


def _to_small(d: Decoded, x: Expr, type_: str) -> Expr:
    """Converts float32 to the bits of an 8-bit float, saturated; NaN is 0x7f."""
    if "relu" in d.flags:
        x = where(x <= 0.0, 0.0, x)
    bits = x.cast("tt.fp_to_fp", _SMALL[type_]).cast("tt.bitcast", t.I8)
    return where(x.is_nan(), 0x7F, bits).cast("arith.extui", t.I16)


def _pair(d: Decoded, xs: Sequence[Expr]) -> Expr:
    target, source = d.types
    single = target[:-2]
    if source == "f32":
        high, low = xs
    elif source == "f16x2":
        low, high = (part.reinterpret(t.F16).to_float(t.F32) for part in halves(xs[0]))
    else:
        low, high = (
            part.cast("arith.trunci", t.I8).cast("tt.bitcast", _SMALL[source[:-2]]).cast("tt.fp_to_fp", t.F16)
            for part in (xs[0], xs[0].lshr(8))
        )
    if single in _SMALL:
        return _to_small(d, low, single) | _to_small(d, high, single).shl(8)
    parts = []
    for x in (low, high):
        found = x if x.width == 16 else narrowed(_limited(d, x, single), single, d.choice("rn", "rz"))
        parts.append(_finished(d, single, found).bits())
    return from_halves(parts[0], parts[1])


def _limited(d: Decoded, x: Expr, target: str) -> Expr:
    return _capped(x, _LARGEST[target]) if "satfinite" in d.flags else x


def convert(d: Decoded, xs: Sequence[Expr]) -> Expr:
    """Expands every form of cvt but `.pack`."""
    target, source = d.types
    if target.endswith("x2"):
        return _pair(d, xs)
    x = xs[0]
    integer_source, integer_target = source[0] in "us", target[0] in "us"
    if integer_source and integer_target:
        return _resize(d, x)
    if integer_source:
        return _finished(d, target, _from_integer(d, x))
    if "ftz" in d.flags and source == "f32":
        x = flushed(x, "f32")
    whole = d.choice(*_WHOLE)
    if integer_target:
        if x.width == 16:
            x = x.to_float(t.F32)
        width = WIDTHS[target]
        nan = -(1 << (width - 1)) if source == "f64" or width == 64 else 0
        return to_integer(x.named(_WHOLE[whole]), INTEGERS[width], is_signed(target), nan)
    if whole:
        x = x.to_float(t.F32) if x.width == 16 else x
        x = x.named(_WHOLE[whole])
        x = x.to_float(FLOAT_TYPES[target]) if WIDTHS[target] == 16 else x
    elif target == "tf32":
        return _to_tf32(d, x)
    elif WIDTHS[target] > WIDTHS[source]:
        x = x.to_float(FLOAT_TYPES[target])
    elif target != source:
        x = narrowed(_limited(d, x, target), target, d.choice(*MODES) or "rn")
    return _finished(d, target, x)


HANDLERS: dict[str, Callable[[Decoded, Sequence[Expr]], Expr]] = {
    "add": on_lanes(_arithmetic(rounding.add, lambda x, y: x + y)),
    "sub": on_lanes(_arithmetic(_subtract, lambda x, y: x - y)),
    "mul": on_lanes(_arithmetic(rounding.multiply, lambda x, y: x * y)),
    "fma": on_lanes(_fused),
    "mad": on_lanes(_fused),
    "div": on_lanes(_divide),
    "rcp": on_lanes(_reciprocal),
    "sqrt": on_lanes(_square_root),
    "rsqrt": on_lanes(_seed(lambda x: x.named("math.rsqrt"))),
    **{
        name: on_lanes(_function(lambda x, full=full: x.named(full)))
        for name, full in (
            ("sin", "math.sin"), ("cos", "math.cos"), ("lg2", "math.log2"), ("ex2", "math.exp2"), ("tanh", "math.tanh"),
        )
    },
    "abs": on_lanes(_sign(lambda x, s: x & ~s)),
    "neg": on_lanes(_sign(lambda x, s: x ^ s)),
    "min": on_lanes(_extreme(False)),
    "max": on_lanes(_extreme(True)),
    "copysign": on_lanes(_copy_sign),
}
