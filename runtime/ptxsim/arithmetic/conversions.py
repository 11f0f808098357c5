"""Executes cvt over all lanes; forms without array code run through the evaluator of inline assembly.

Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

import numpy as np

from ....lowering.ptx.instructions import WIDTHS, Decoded
from ....promotion.arrays import Array
from ....promotion.dtype import BY_PTX_NAME
from ..core.binding import Binding
from ..core.types import Mask, Source, Step, number_type
from .floats import finish, flush, from_bf16, nearest_bf16, to_bf16
from .rounding import narrowed

_MODES = ("rn", "rz", "rm", "rp")
_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(k: Binding, d: Decoded) -> Step | None:
    if "pack" in d.flags:
        return None
    target, source = d.types
    integers = (target[0] in "us", source[0] in "us")
    if target.endswith("x2"):
        return _pair(k, d)
    if all(integers):
        return _resize(k, d)
    if integers[0]:
        return _to_integer(k, d)
    if integers[1]:
        return _from_integer(k, d)
    return _between_floats(k, d)


def _resize(k: Binding, d: Decoded) -> Step | None:
    target, source = d.types
    x = k.source(d.sources[0], source)
    write = k.write(d.results[0], target)
    dtype = number_type(target)
    if "sat" not in d.flags:

        def plain(mask: Mask) -> None:
            write(np.asarray(x).astype(dtype), mask)

        return plain
    if WIDTHS[source] == 64 or WIDTHS[target] == 64:
        return None
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def saturated(mask: Mask) -> None:
        write(np.clip(np.asarray(x).astype(np.int64), low, high).astype(dtype), mask)

    return saturated


def _float64(x: Source, type_: str) -> Array:
    return from_bf16(x).astype(np.float64) if type_ == "bf16" else np.asarray(x).astype(np.float64)


def _to_integer(k: Binding, d: Decoded) -> Step | None:
    """Saturates; NaN becomes 0, or the top bit alone for float64 sources and 64-bit results."""
    target, source = d.types
    x = k.source(d.sources[0], source)
    write = k.write(d.results[0], target)
    dtype = number_type(target)
    width = WIDTHS[target]
    whole = _WHOLE[d.choice(*_WHOLE)]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    top = float(high) if width < 64 else 2.0 ** (63 if dtype.kind == "i" else 64)
    marked = np.array(1 << (width - 1), f"u{dtype.itemsize}").view(dtype)[()]
    not_a_number = marked if source == "f64" or width == 64 else dtype.type(0)
    ftz = "ftz" in d.flags and source == "f32"

    def step(mask: Mask) -> None:
        value = whole(_float64(flush(x) if ftz else x, source))
        nan = np.isnan(value)
        inside = np.where(nan | (value >= top), 0.0, np.maximum(value, float(low)))
        found = np.where(value >= top, dtype.type(high), inside.astype(dtype))
        write(np.where(nan, not_a_number, found), mask)

    return step


def _from_integer(k: Binding, d: Decoded) -> Step | None:
    target, source = d.types
    if d.choice("rz", "rm", "rp") or d.flags & {"sat"}:
        return None
    x = k.source(d.sources[0], source)
    write = k.write(d.results[0], target)
    if target in ("f32", "f64"):
        dtype = number_type(target)

        def direct(mask: Mask) -> None:
            write(np.asarray(x).astype(dtype), mask)

        return direct
    if WIDTHS[source] == 64 and target == "bf16":
        return None

    def narrow(mask: Mask) -> None:
        found = narrowed(np.asarray(x).astype(np.float64), target, "rn")
        write(to_bf16(found) if target == "bf16" else found.astype(np.float16), mask)

    return narrow


def _between_floats(k: Binding, d: Decoded) -> Step | None:
    target, source = d.types
    if target == "tf32" or "satfinite" in d.flags:
        return None
    x = k.source(d.sources[0], source)
    write = k.write(d.results[0], target)
    ftz = "ftz" in d.flags and source == "f32"
    whole = d.choice(*_WHOLE)
    mode = d.choice(*_MODES) or "rn"
    flags = d.flags
    dtype = number_type(target)

    def value() -> Array:
        seen = flush(x) if ftz else x
        if (target, source, mode) == ("bf16", "f32", "rn") and not flags & {"relu", "sat"}:
            return nearest_bf16(seen)
        wide: Array = from_bf16(seen) if source == "bf16" else np.asarray(seen)
        if whole:
            wide = _WHOLE[whole](wide)
        if target == "bf16":
            if mode == "rn" and wide.dtype != np.float64 and not flags & {"relu", "sat"}:
                return nearest_bf16(wide.astype(np.float32))
            found = narrowed(wide.astype(np.float64), "bf16", mode).astype(np.float32)
            return to_bf16(finish(found, "f32", flags - {"ftz"}))
        if mode != "rn" and wide.dtype.itemsize > dtype.itemsize:
            wide = narrowed(wide.astype(np.float64), target, mode)
        return finish(
            np.atleast_1d(wide.astype(dtype)), target, flags if target == "f32" else flags - {"ftz"}
        )

    def step(mask: Mask) -> None:
        write(value(), mask)

    return step


_EIGHT = {name: np.arange(256, dtype=np.uint8).view(BY_PTX_NAME[name].numpy).astype(np.float16) for name in ("e4m3", "e5m2")}


def to_eight(x: Array, type_: str, relu: bool) -> Array:
    """Converts float32 to codes of an 8-bit float, rounded to nearest even and saturated."""
    limit = np.float32(BY_PTX_NAME[type_].max_value)
    clipped = np.minimum(np.maximum(x, np.float32(0) if relu else -limit), limit)
    nan = np.isnan(x)
    codes = np.where(nan, np.float32(0), clipped).astype(BY_PTX_NAME[type_].numpy).view(np.uint8)
    return np.where(nan, np.uint8(0x7F), codes)


def _pair(k: Binding, d: Decoded) -> Step | None:
    """Builds a conversion to a packed pair: the first source goes to the upper half."""
    target, source = d.types
    single = target[:-2]
    write = k.write(d.results[0], target)
    relu = "relu" in d.flags
    if source == "f32":
        high, low = k.sources(d)
        mode = d.choice("rn", "rz")

        def packed(mask: Mask) -> None:
            parts = [_small(np.atleast_1d(np.asarray(v)), single, mode, d.flags) for v in (low, high)]
            shift = parts[0].dtype.itemsize * 8
            unsigned = np.dtype(np.uint32 if shift == 16 else np.uint16)
            low_part, high_part = (part.astype(unsigned) for part in parts)
            write(low_part | np.left_shift(high_part, unsigned.type(shift)), mask)

        return packed
    x = k.source(d.sources[0], source)
    if source == "f16x2":

        def quantised(mask: Mask) -> None:
            halves = np.ascontiguousarray(np.broadcast_to(x, (k.lanes,))).view(np.float16).astype(np.float32)
            write(to_eight(halves, single, relu).view(np.uint16), mask)

        return quantised
    codes = _EIGHT[source[:-2]]

    def widened(mask: Mask) -> None:
        octets = np.ascontiguousarray(np.broadcast_to(x, (k.lanes,))).view(np.uint8)
        write(finish(codes[octets], "f16", d.flags).view(np.uint32), mask)

    return widened


def _small(x: Array, single: str, mode: str, flags: frozenset[str]) -> Array:
    if single in _EIGHT:
        return to_eight(x, single, "relu" in flags)
    if not flags & {"relu", "satfinite"} and mode == "rn":
        return (
            nearest_bf16(x)
            if single == "bf16"
            else finish(x.astype(np.float16), "f16", frozenset()).view(np.uint16)
        )
    wide = narrowed(x.astype(np.float64), single, mode)
    if "satfinite" in flags:
        largest = 65504.0 if single == "f16" else 255 * 2.0**120
        wide = np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest))
    if "relu" in flags:
        wide = np.where(wide <= 0, 0.0, wide)
    if single == "bf16":
        return to_bf16(wide)
    return finish(wide.astype(np.float16), "f16", frozenset()).view(np.uint16)
