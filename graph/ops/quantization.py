"""Holds the composites that convert between numbers and codes of few bits: a scale and zero point per tensor, axis or block."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dtype import DType, float32, int32
from ...promotion.result_rules import EXPLICIT
from ..checks import Checks, ShapeError
from ..dims.dim import Extent
from ..protocols import SymbolLike
from ..types import Shape, shape_text
from .attributes import Attributes
from .building import apply, cast
from .opdef import VARIADIC, OpDef
from .shape import normalize_axis


def is_code(dtype: DType) -> bool:
    """Return whether values are codes: integers of up to 16 bits or int32, floats with a sign of up to 8."""
    if dtype.is_integer:
        return dtype.bits <= 16 or dtype is int32
    return dtype.is_float and dtype.bits <= 8 and dtype.is_signed and not dtype.storage_only


def work_dtype(scale: DType) -> DType:
    """Return the dtype in which a scale of this one is applied."""
    return scale if scale.has_arithmetic and scale.is_float else float32


def _parameters(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the operand, after a look at those of the scale and the zero point, which are the same."""
    shape, scale, *rest = shapes
    axis, block = attrs["axis"], attrs["block_size"]
    if len(rest) > 1:
        raise ShapeError(f"{len(shapes)} operands", "a tensor, a scale and a zero point")
    if rest and len(rest[0]) != len(scale):
        raise ShapeError(f"a scale {shape_text(scale)} and a zero point {shape_text(rest[0])}", "one shape")
    for one, other in zip(scale, rest[0] if rest else scale, strict=True):
        if checks.decide(one, other) is False:
            raise ShapeError(f"a scale {shape_text(scale)} and a zero point {shape_text(rest[0])}", "one shape")
        checks.require_equal(one, other, "quantisation: sizes of scale and zero point")
    if block < 0:
        raise ShapeError(f"block_size {block}", "0 for no blocks, or the number of elements that share a scale")
    if not scale:
        if block:
            raise ShapeError(f"block_size {block} and one scale", "a scale for each block, of as many axes as the tensor")
        return shape
    if normalize_axis(axis, len(shape)) != axis:
        raise ShapeError(f"axis {axis} is not normalised")
    if not block:
        if len(scale) != 1:
            problem = f"a scale {shape_text(scale)} without blocks"
            raise ShapeError(problem, "a scalar, or a vector along an axis", "block_size=…, or reshape it")
        _agree(scale[0], shape[axis], f"along axis {axis}", checks)
        return shape
    if len(scale) != len(shape):
        raise ShapeError(f"a scale {shape_text(scale)} for blocks of {shape_text(shape)}", "as many axes as the tensor")
    for number, (extent, count) in enumerate(zip(shape, scale, strict=True)):
        _agree(count, extent if number != axis else (extent + (block - 1)) // block, f"of axis {number}", checks)
    return shape


def _agree(found: Extent, wanted: Extent, where: str, checks: Checks) -> None:
    if checks.decide(found, wanted) is False:
        raise ShapeError(f"{found} scales {where}", f"{wanted}")
    checks.require_equal(found, wanted, f"quantisation: the number of scales {where}")


def _to_codes(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require numbers, a scale, codes as the result, and a zero point of their dtype where they are integers."""
    x, scale, *zero = dtypes
    target = attrs["dtype"]
    if not (x.has_arithmetic and (x.is_float or x.is_integer)):
        raise ShapeError(f"values of {x} to quantise", "numbers", "cast them to float32")
    if not is_code(target):
        raise ShapeError(f"codes of {target}", "integers of up to 16 bits, int32, or floats of up to 8", "dtype=int8")
    _scaled(scale, zero, target)


def _from_codes(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require codes, a scale, floats as the result, and a zero point of the codes' dtype where they are integers."""
    x, scale, *zero = dtypes
    target = attrs["dtype"]
    if not is_code(x):
        expected = "integers of up to 16 bits, int32, or floats of up to 8"
        raise ShapeError(f"codes of {x}", expected, "multiply by the scale instead")
    if not (target.is_float and target.has_arithmetic):
        raise ShapeError(f"numbers of {target}", "a float with arithmetic", "dtype=float32")
    _scaled(scale, zero, x)


def _scaled(scale: DType, zero: Sequence[DType], codes: DType) -> None:
    if not scale.is_float:
        raise ShapeError(f"a scale of {scale}", "floats", "cast it to float32")
    if zero and not codes.is_integer:
        raise ShapeError(f"a zero point of codes of {codes}", "none: floats have a zero of their own", "leave it out")
    if zero and zero[0] is not codes:
        raise ShapeError(f"a zero point of {zero[0]}, codes of {codes}", f"{codes}", f"cast it to {codes}")


def _spread(x: SymbolLike, parameter: SymbolLike, attrs: Attributes) -> SymbolLike:
    """Return a scale or zero point in a form that broadcasts against the tensor."""
    axis, block, shape = attrs["axis"], attrs["block_size"], x.shape
    if not parameter.shape:
        return parameter
    if not block:
        return apply("reshape", parameter, shape=(*parameter.shape, *(1,) * (len(shape) - 1 - axis)))
    own = parameter.shape
    apart = apply("reshape", parameter, shape=(*own[: axis + 1], 1, *own[axis + 1 :]))
    wide = apply("broadcast_to", apart, shape=(*own[: axis + 1], block, *own[axis + 1 :]))
    each = apply("reshape", wide, shape=(*own[:axis], own[axis] * block, *own[axis + 1 :]))
    stops = tuple([shape[a] if a == axis else extent for a, extent in enumerate(each.shape)])
    if stops != each.shape:
        each = apply("slice", each, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
    return each if stops == shape else apply("reshape", each, shape=shape)  # a size that a check says is another one


def quantize(symbol: SymbolLike, x: SymbolLike, scale: SymbolLike, *zero: SymbolLike) -> SymbolLike:
    """Divide in the scale's dtype; round halves to even, add the zero point and clamp in float32, or float64 of float64."""
    attrs, target = symbol.attrs, symbol.dtype
    work = work_dtype(scale.dtype)
    ratio = apply("div", cast(x, work), _spread(x, cast(scale, work), attrs))
    if target.is_integer:
        return into_integers(ratio, _spread(x, zero[0], attrs) if zero else None, target)
    largest = float(target.max_value)
    if attrs["saturate"]:
        ratio = apply("minimum", apply("maximum", ratio, -largest), largest)
    return apply("cast", ratio, dtype=target, rounding="nearest", saturate=attrs["saturate"])


def into_integers(ratio: SymbolLike, zero: SymbolLike | None, target: DType) -> SymbolLike:
    """Round floats half to even, add a zero point, and clamp into the range of an integer dtype; NaN becomes 0."""
    whole = apply("round", cast(ratio, float32) if ratio.dtype.bits < 32 else ratio)
    if zero is not None:
        whole = apply("add", whole, cast(zero, whole.dtype))
    inside = apply("minimum", apply("maximum", whole, float(target.min_value)), float(target.max_value))
    return cast(cast(inside, int32) if target.bits < 32 else inside, target)


def dequantize(symbol: SymbolLike, x: SymbolLike, scale: SymbolLike, *zero: SymbolLike) -> SymbolLike:
    """Subtract the zero point in int32, and multiply in the scale's dtype, in float32 where that or the result is wider."""
    attrs, target = symbol.attrs, symbol.dtype
    wide = cast(x, int32) if x.dtype.is_integer else x
    if zero:
        wide = apply("sub", wide, cast(_spread(x, zero[0], attrs), int32))
    work = work_dtype(scale.dtype)
    work = float32 if work.bits < 32 and target.bits >= 32 else work
    return cast(apply("mul", cast(wide, work), _spread(x, cast(scale, work), attrs)), target)


_ATTRS = ("axis", "block_size", "dtype")
ROWS = (
    OpDef("quantize", "composite", VARIADIC, "Codes round(x / scale) + zero point in `dtype`, clamped into its range; halves "
          "are rounded to even. Scale and zero point are scalars, vectors along `axis`, or of `block_size` elements along it. "
          "To floats x / scale is converted, to the largest ones at most if `saturate`.", EXPLICIT, _parameters,
          attrs=(*_ATTRS, "saturate"), demand=_to_codes, expand=quantize, traits=frozenset(("any_dtype",)),
          onnx=("QuantizeLinear", 21)),
    OpDef("dequantize", "composite", VARIADIC, "Numbers (x - zero point) · scale in `dtype`, of codes as `quantize` makes "
          "them.", EXPLICIT, _parameters, attrs=_ATTRS, demand=_from_codes, expand=dequantize, traits=frozenset(("any_dtype",)),
          onnx=("DequantizeLinear", 21)),
)  # fmt: skip
