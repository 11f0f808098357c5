"""Executes float arithmetic over all lanes; forms without array code run through the evaluator of inline assembly.

Source: PTX ISA, "Floating-Point Instructions", "Half Precision Floating-Point Instructions". NaN results of float32 and
16-bit arithmetic are the canonical NaN. Approximations are evaluated in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx import exact
from ....lowering.ptx.instructions import Decoded
from ....promotion.arrays import Array
from ..core.binding import Binding, computed, unary
from ..core.types import Mask, Source, Step
from .integers import Builder, predicates
from .rounding import fused_float32, fused_float64, narrowed, odd_sum

_CANONICAL = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "f64": 0x7FF8000000000000}
_MODES = ("rz", "rm", "rp")
Compute = Callable[..., Array]


def finish(value: Array, type_: str, flags: frozenset[str]) -> Array:
    """Flushes subnormals, clamps, and makes NaN canonical, as the flags say. `value` is a new array of f16,
    f32 or f64."""
    if "ftz" in flags and type_ != "f64":
        value = flush(value)
    if "sat" in flags:
        value = np.where(value > 0, np.minimum(value, value.dtype.type(1)), value.dtype.type(0))
    if "relu" in flags:
        value = np.where(value <= 0, value.dtype.type(0), value)
    nan = np.isnan(value)
    if np.count_nonzero(nan):
        unsigned = np.dtype(f"u{value.dtype.itemsize}")
        value = np.where(nan, unsigned.type(_CANONICAL[type_]), value.view(unsigned)).view(value.dtype)
    return value


def flush(x: Source) -> Array:
    """Replaces subnormal numbers by zeros of their sign."""
    tiny = np.finfo(x.dtype).tiny
    small = np.abs(x) < tiny
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if np.count_nonzero(small) else x


def from_bf16(x: Source) -> Array:
    return (np.asarray(x).astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(x: Array) -> Array:
    """Returns the bits of float64 or float32 values that are bfloat16 numbers."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return np.where(np.isnan(x), np.uint16(0x7FFF), (bits >> np.uint32(16)).astype(np.uint16))


def nearest_bf16(x: Array) -> Array:
    """Rounds float32 to bfloat16, to nearest even; returns the bits."""
    bits = np.asarray(x).view(np.uint32)
    found = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = np.isnan(x)
    if np.count_nonzero(nan):
        found = np.where(nan, np.uint32(0x7FFF), found)
    return found.astype(np.uint16)


def _halves(k: Binding, x: Source) -> Array:
    """Views packed pairs as an array of lanes × 2."""
    array = np.asarray(x)
    return (array if array.ndim else np.full(1, array)).view(np.uint16).reshape(-1, 2)


def sixteen(k: Binding, d: Decoded, compute: Callable[[list[Array]], Array]) -> Step | None:
    """Builds f16, f16x2, bf16 and bf16x2: `compute` takes and returns arrays of lanes (× 2), of f16 or of the
    bits of bf16."""
    type_ = d.types[0]
    packed = type_.endswith("x2")
    sources = k.sources(d)
    out = k.out(d)
    half = type_.startswith("f16")

    def value() -> Array:
        xs = [_halves(k, x) if packed else np.asarray(x) for x in sources]
        xs = [x.view(np.float16) for x in xs] if half else xs
        found = np.asarray(compute(xs))
        if half:
            found = finish(found, "f16", d.flags).view(np.uint16)
        if not packed:
            return found.view(out.dtype)
        return np.ascontiguousarray(np.broadcast_to(found, (k.lanes, 2))).view(np.uint32).reshape(-1)

    return computed(value, out)


def _sixteen_basic(k: Binding, d: Decoded) -> Step | None:
    """Builds add, sub and mul: computed in float32 (f16) or float64 (bf16), where double rounding is
    harmless, then rounded once."""
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[d.opcode]
    if d.types[0].startswith("f16"):

        def in_float32(xs: list[Array]) -> Array:
            if "ftz" in d.flags:
                xs = [flush(x) for x in xs]
            return np.asarray(function(*[x.astype(np.float32) for x in xs])).astype(np.float16)

        return sixteen(k, d, in_float32)

    def in_float64(xs: list[Array]) -> Array:
        wide = function(*[from_bf16(x).astype(np.float64) for x in xs])
        return to_bf16(narrowed(np.asarray(wide), "bf16", "rn"))

    return sixteen(k, d, in_float64)


def _mixed(k: Binding, d: Decoded) -> Step:
    """Builds add, sub and fma of float32 with 16-bit operands, which are widened exactly."""
    sources, types = k.sources(d), d.source_types
    mode = d.choice(*_MODES) or "rn"
    sign = -1.0 if mode == "rm" else 1.0  # rounds the negated sum up instead of the sum down

    def value() -> Array:
        wide = []
        for x, type_ in zip(sources, types, strict=True):
            bits = np.atleast_1d(np.asarray(x))
            narrow = from_bf16(bits) if type_ == "bf16" else bits.view(np.float16) if type_ == "f16" else bits
            wide.append(np.asarray(narrow).astype(np.float64))
        first = wide[0] * wide[1] if d.opcode == "fma" else wide[0]
        last = -wide[-1] if d.opcode == "sub" else wide[-1]
        total = odd_sum(sign * first, sign * last)
        rounded = narrowed(np.asarray(total), "f32", "rp" if mode == "rm" else mode).astype(np.float32)
        return finish(np.asarray(np.float32(sign) * rounded), "f32", d.flags)

    return computed(value, k.out(d))


def _basic(k: Binding, d: Decoded) -> Step | None:
    if len(d.types) == 2:
        return _mixed(k, d)
    type_ = d.types[0]
    if type_ in ("f16", "f16x2", "bf16", "bf16x2"):
        return _sixteen_basic(k, d)
    if type_ not in ("f32", "f64"):
        return None
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[d.opcode]
    mode = d.choice(*_MODES)
    x, y = k.sources(d)
    out = k.out(d)
    if mode:
        return _directed(k, d, mode) if type_ == "f32" else None
    if not d.flags & {"ftz", "sat"}:
        return canonical(lambda into: function(x, y, into), out, type_)
    ftz = "ftz" in d.flags

    def value() -> Array:
        a, b = (flush(x), flush(y)) if ftz else (x, y)
        return finish(np.asarray(function(a, b)), type_, d.flags)

    return computed(value, out)


def canonical(compute: Callable[[Array], Array], out: Array, type_: str) -> Step:
    """Builds a step in which `compute` writes its result into an array; NaN becomes the canonical NaN."""
    unsigned = np.dtype(f"u{out.dtype.itemsize}")
    bits, nan_bits = out.view(unsigned), unsigned.type(_CANONICAL[type_])
    buffer = np.empty_like(out)
    buffer_bits = buffer.view(unsigned)

    def step(mask: Mask) -> None:
        if mask is None:
            compute(out)
            nan = np.isnan(out)
            if np.count_nonzero(nan):
                bits[nan] = nan_bits
            return
        compute(buffer)
        nan = np.isnan(buffer)
        if np.count_nonzero(nan):
            buffer_bits[nan] = nan_bits
        np.copyto(out, buffer, where=mask)

    return step


def _directed(k: Binding, d: Decoded, mode: str) -> Step | None:
    """Builds add, sub, mul and fma of f32 with directed rounding; `rm` is left to the evaluator, since exact
    zero sums are -0."""
    if mode == "rm":
        return None
    ftz = "ftz" in d.flags
    sources = k.sources(d)

    def value() -> Array:
        xs = [np.asarray(flush(x) if ftz else x).astype(np.float64) for x in sources]
        if d.opcode == "mul":
            wide = xs[0] * xs[1]
        elif d.opcode in ("fma", "mad"):
            wide = odd_sum(xs[0] * xs[1], xs[2])
        else:
            wide = odd_sum(xs[0], xs[1] if d.opcode == "add" else -xs[1])
        return finish(narrowed(np.asarray(wide), "f32", mode).astype(np.float32), "f32", d.flags)

    return computed(value, k.out(d))


def _fused(k: Binding, d: Decoded) -> Step | None:
    if len(d.types) == 2:
        return _mixed(k, d)
    type_ = d.types[0]
    mode = d.choice(*_MODES)
    if type_ in ("f16", "f16x2", "bf16", "bf16x2"):
        return _fused_sixteen(k, d)
    if type_ == "f32":
        if mode:
            return _directed(k, d, mode)
        x, y, z = k.sources(d)
        ftz = "ftz" in d.flags

        def single() -> Array:
            a, b, c = (flush(x), flush(y), flush(z)) if ftz else (x, y, z)
            return finish(np.atleast_1d(fused_float32(a, b, c)), type_, d.flags)

        return computed(single, k.out(d))
    if type_ != "f64" or mode:
        return None
    sources = k.sources(d)

    def double() -> Array:
        x, y, z = np.broadcast_arrays(*[np.atleast_1d(np.asarray(s)) for s in sources])
        found, safe = fused_float64(x, y, z)
        for lane in np.flatnonzero(~safe):
            found[lane] = exact.fused(float(x[lane]), float(y[lane]), float(z[lane]), "f64", "rn")
        return finish(found, type_, d.flags)

    return computed(double, k.out(d))


def _fused_sixteen(k: Binding, d: Decoded) -> Step | None:
    half = d.types[0].startswith("f16")

    def compute(xs: list[Array]) -> Array:
        if half and "ftz" in d.flags:
            xs = [flush(x) for x in xs]
        a, b, c = (x.astype(np.float64) if half else from_bf16(x).astype(np.float64) for x in xs)
        wide = narrowed(odd_sum(a * b, c), "f16" if half else "bf16", "rn")
        if half:
            return wide.astype(np.float16)
        if "relu" in d.flags:
            wide = np.where(wide <= 0, 0.0, wide)
        return to_bf16(wide)

    return sixteen(k, d, compute)


def _divide(k: Binding, d: Decoded) -> Step | None:
    if d.choice(*_MODES):
        return None
    x, y = k.sources(d)
    return _function(k, d, np.divide, [x, y])


def _reciprocal(k: Binding, d: Decoded) -> Step | None:
    if d.choice(*_MODES) or (d.types[0] == "f64" and "approx" in d.flags):
        return None
    one = np.ones((), np.float32 if d.types[0] == "f32" else np.float64)
    return _function(k, d, np.divide, [one, *k.sources(d)])


def _function(k: Binding, d: Decoded, function: Compute, sources: list[Source]) -> Step:
    """Builds a NumPy function that rounds correctly in the type, with flushing."""
    type_ = d.types[0]
    out = k.out(d)
    if "ftz" not in d.flags:
        return canonical(lambda into: function(*sources, into), out, type_)
    return computed(lambda: finish(np.asarray(function(*[flush(x) for x in sources])), type_, d.flags), out)


def _square_root(k: Binding, d: Decoded) -> Step | None:
    if d.choice(*_MODES):
        return None
    return _function(k, d, np.sqrt, k.sources(d))


def _approximation(function: Compute) -> Builder:
    def build(k: Binding, d: Decoded) -> Step | None:
        if d.types[0] != "f32":
            return None
        (x,) = k.sources(d)
        ftz = "ftz" in d.flags

        def value() -> Array:
            wide = np.atleast_1d(np.asarray(flush(x) if ftz else x)).astype(np.float64)
            return finish(function(wide).astype(np.float32), "f32", d.flags)

        return computed(value, k.out(d))

    return build


def _sign(k: Binding, d: Decoded) -> Step | None:
    type_ = d.types[0]
    if "ftz" in d.flags:
        return None
    (x,) = k.sources(d)
    bits, out = np.asarray(x), k.out(d)
    unsigned = np.dtype(f"u{bits.dtype.itemsize}")
    sign = {"f16x2": 0x80008000, "bf16x2": 0x80008000}.get(type_, 1 << (8 * unsigned.itemsize - 1))
    plain, target = bits.view(unsigned)[()], out.view(unsigned)
    if d.opcode == "abs":
        keep = unsigned.type(sign ^ ((1 << (8 * unsigned.itemsize)) - 1))
        return unary(lambda v, o, where=True: np.bitwise_and(v, keep, o, where=where), plain, target)
    flip = unsigned.type(sign)
    return unary(lambda v, o, where=True: np.bitwise_xor(v, flip, o, where=where), plain, target)


def _extreme(larger: bool) -> Builder:
    """Makes a builder of min or max: a number wins over NaN, and +0 is larger than -0."""
    function = np.fmax if larger else np.fmin

    def pick(x: Source, y: Source, nan_wins: bool) -> Array:
        found = np.asarray((np.maximum if larger else np.minimum)(x, y) if nan_wins else function(x, y))
        zero = found == 0
        if np.count_nonzero(zero):
            unsigned = np.dtype(f"u{found.dtype.itemsize}")
            a, b = (np.broadcast_to(np.asarray(v), found.shape).view(unsigned) for v in (x, y))
            both = zero & np.equal(x, 0) & np.equal(y, 0)
            found = np.where(both, a & b if larger else a | b, found.view(unsigned)).view(found.dtype)
        return found

    def build(k: Binding, d: Decoded) -> Step | None:
        type_ = d.types[0]
        if "xorsign" in d.flags:
            return None
        nan_wins = "NaN" in d.flags
        if type_ in ("f32", "f64"):
            x, y = k.sources(d)
            ftz = "ftz" in d.flags

            def value() -> Array:
                a, b = (flush(x), flush(y)) if ftz else (x, y)
                return finish(np.atleast_1d(pick(a, b, nan_wins)), type_, frozenset())

            return computed(value, k.out(d))
        if type_.startswith("f16"):

            def half(xs: list[Array]) -> Array:
                a, b = (flush(x) if "ftz" in d.flags else x for x in xs)
                return pick(a, b, nan_wins)

            return sixteen(k, d, half)
        return sixteen(k, d, lambda xs: to_bf16(pick(from_bf16(xs[0]), from_bf16(xs[1]), nan_wins)))

    return build


def _unordered(x: Source, y: Source) -> Array:
    return np.isnan(x) | np.isnan(y)


def _into(compute: Compute) -> Compute:
    def apply(x: Source, y: Source, out: Array | None = None, where: Array | bool = True) -> Array:
        found = compute(x, y)
        if out is None:
            return found
        np.copyto(out, found, where=where)
        return out

    return apply


_COMPARISONS: dict[str, Compute] = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "neu": np.not_equal,
    "ne": _into(lambda x, y: (x < y) | (x > y)), "equ": _into(lambda x, y: ~((x < y) | (x > y))),
    "ltu": _into(lambda x, y: ~(x >= y)), "leu": _into(lambda x, y: ~(x > y)), "gtu": _into(lambda x, y: ~(x <= y)),
    "geu": _into(lambda x, y: ~(x < y)), "num": _into(lambda x, y: ~_unordered(x, y)), "nan": _into(_unordered),
}  # fmt: skip


def compare_floats(k: Binding, d: Decoded) -> Step | None:
    """Builds setp on floats, one number per lane."""
    type_ = d.types[0]
    if type_ not in ("f32", "f64", "f16", "bf16"):
        return None
    test = _COMPARISONS[d.choice(*_COMPARISONS)]
    x, y = (k.source(o, type_) for o in d.sources[:2])
    if type_ == "bf16":
        return predicates(k, d, _into(lambda a, b: test(from_bf16(a), from_bf16(b))), x, y)
    if "ftz" in d.flags:
        return predicates(k, d, _into(lambda a, b: test(flush(a), flush(b))), x, y)
    return predicates(k, d, test, x, y)


FLOAT_BUILDERS: dict[str, Builder] = {
    "add": _basic, "sub": _basic, "mul": _basic, "fma": _fused, "mad": _fused, "div": _divide, "rcp": _reciprocal,
    "sqrt": _square_root, "rsqrt": _approximation(lambda x: 1.0 / np.sqrt(x)), "sin": _approximation(np.sin),
    "cos": _approximation(np.cos), "lg2": _approximation(np.log2), "ex2": _approximation(np.exp2),
    "tanh": _approximation(np.tanh), "abs": _sign, "neg": _sign, "min": _extreme(False), "max": _extreme(True),
    "setp": compare_floats,
}  # fmt: skip
