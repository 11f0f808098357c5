"""Holds the rows of Fourier transforms, and what they are where no program holds their lines: products with matrices.

A size of up to 64 is a product with a matrix and a larger one is cut into factors. Complex numbers are pairs of symbols
meanwhile, their real and imaginary parts. Sines and cosines are those of exact fractions of a turn, so that parts which cancel
are 0 to the last bits. Rows compute them, for nothing that code reads may be a constant that no graph has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ....promotion.dtype import DType, complex64, float32, float64, int32
from ....promotion.errors import UserError
from ....promotion.literals import Operand
from ....promotion.result_rules import Promotion, ResultRule
from ....promotion.rules import RuleSet, dtype_of
from ...checks import Checks, ShapeError
from ...dims.dim import Extent
from ...protocols import SymbolLike
from ...types import Shape
from ..attributes import Attributes
from ..building import apply, cast
from ..expansions import counting
from ..opdef import OpDef
from .parts import PART

Parts: TypeAlias = "tuple[SymbolLike, SymbolLike | None]"
"""Real and imaginary parts; None stands for zeros."""
Both: TypeAlias = "tuple[SymbolLike, SymbolLike]"
Transform: TypeAlias = "Callable[[Parts, int, int], Both]"
"""(parts, length, sign of the exponents) → the parts of the transforms of the last axis, divided by nothing."""
Waves: TypeAlias = "Callable[[SymbolLike, range, int, int, int], Both]"
"""(x, rows, columns, length, sign) → cosines and signed sines of 2π i j / length, i of the rows, as matrices of the dtype of x.
"""

DIRECT = 64
"""Longest transform that is one product with a matrix."""
MAX_PRIME = 31
"""Largest prime factor of the lengths that rows transform."""
MAX_LINE = 1 << 12
"""Most complex numbers of a line that rows transform: a program has them all."""


def is_line(length: int) -> bool:
    """Return whether rows transform lines of so many complex numbers."""
    rest = length
    for prime in range(2, MAX_PRIME + 1):
        while rest % prime == 0:
            rest //= prime
    return rest == 1 and length <= MAX_LINE


# -- parts of the expansions -------------------------------------------------------------------------------------------


def sliced(x: SymbolLike, start: int, stop: Extent, step: int = 1) -> SymbolLike:
    """Slice the last axis."""
    lead = (0,) * (len(x.shape) - 1)
    ones = (1,) * len(lead)
    return apply("slice", x, starts=(*lead, start), stops=(*x.shape[:-1], stop), steps=(*ones, step))


def _flipped(x: SymbolLike) -> SymbolLike:
    return apply("flip", x, axes=(len(x.shape) - 1,))


def joined(*parts: SymbolLike) -> SymbolLike:
    """Concatenate along the last axis."""
    return apply("concat", *parts, axis=len(parts[0].shape) - 1)


def reshaped(x: SymbolLike, shape: Shape) -> SymbolLike:
    """Give the elements another shape."""
    return apply("reshape", x, shape=shape)


def swapped(x: SymbolLike) -> SymbolLike:
    """Swap the last two axes."""
    last = len(x.shape) - 1
    return apply("permute", x, axes=(*range(last - 1), last, last - 1))


def computed_waves(x: SymbolLike, rows: range, columns: int, length: int, sign: int) -> Both:
    """Return cosines and signed sines as symbols of their numbers, of angles of up to an eighth of a turn; see `Waves`."""
    first, second = (cast(counting(x, count), int32) for count in (len(rows), columns))
    counts = apply("mul", reshaped(apply("add", first, rows.start), (len(rows), 1)), reshaped(second, (1, columns)))
    eighths = apply("mul", apply("mod", counts, length), 8)
    octant, rest = apply("floor_div", eighths, length), apply("mod", eighths, length)
    is_odd = apply("equal", apply("bitwise_and", octant, 1), 1)
    part = cast(apply("where", is_odd, apply("sub", length, rest), rest), x.dtype)
    angle = apply("mul", part, math.pi / 4 / length)
    near, far = apply("cos", angle), apply("sin", angle)
    is_swapped = apply("equal", apply("bitwise_and", apply("add", octant, 1), 2), 2)
    cos, sin = apply("where", is_swapped, far, near), apply("where", is_swapped, near, far)
    is_left = apply("equal", apply("bitwise_and", apply("add", octant, 2), 4), 4)
    is_below = apply("less", octant, 4) if sign < 0 else apply("greater_equal", octant, 4)
    return apply("where", is_left, apply("negate", cos), cos), apply("where", is_below, apply("negate", sin), sin)


def filled(x: SymbolLike, length: int) -> SymbolLike:
    """Add zeros at the end of the last axis, to a length."""
    lead = (0,) * (len(x.shape) - 1)
    return apply("pad", x, low=(*lead, 0), high=(*lead, length - x.shape[-1]), mode="constant", value=0.0)


def turned(real: SymbolLike, imaginary: SymbolLike, cos: SymbolLike, sin: SymbolLike) -> Both:
    """Return a product of complex numbers."""
    first = apply("sub", apply("mul", real, cos), apply("mul", imaginary, sin))
    return first, apply("add", apply("mul", real, sin), apply("mul", imaginary, cos))


def _product(a: SymbolLike, b: SymbolLike) -> SymbolLike:
    return apply("matmul", a, b, accumulate=a.dtype, precision="ieee")


# -- transforms of real numbers ----------------------------------------------------------------------------------------


def half_of(x: SymbolLike, length: int, transform: Transform, waves: Waves) -> Both:
    """Return the first half of the transform of real numbers on the last axis; the other one is its conjugate.

    Of many numbers, an even count of them, pairs are transformed as complex numbers: that takes half the work.
    """
    half = length // 2
    if length % 2 or length <= 2 * DIRECT:
        real, imaginary = transform((x, None), length, -1)
        return sliced(real, 0, half + 1), sliced(imaginary, 0, half + 1)
    pairs = transform((sliced(x, 0, length, 2), sliced(x, 1, length, 2)), half, -1)
    halved = [apply("mul", part, 0.5) for part in pairs]  # before sums, which are twice the results otherwise
    ones, twos = _mirrored([joined(part, sliced(part, 0, 1)) for part in halved])
    by = waves(x, range(1, 2), half + 1, length, -1)
    first, second = turned(twos[1], apply("negate", ones[1]), *by)
    return apply("add", ones[0], first), apply("add", twos[0], second)


def _mirrored(parts: Sequence[SymbolLike]) -> tuple[Both, Both]:
    """Return, of real and of imaginary parts, those of a spectrum's sum and difference with its mirrored conjugate."""
    real, imaginary = parts
    other, conjugate = _flipped(real), _flipped(imaginary)
    sums = apply("add", real, other), apply("sub", real, other)
    return sums, (apply("sub", imaginary, conjugate), apply("add", imaginary, conjugate))


def from_half(real: SymbolLike, imaginary: SymbolLike, length: int, transform: Transform, waves: Waves) -> SymbolLike:
    """Return real numbers, times their count, of which the first half of the transform is given; the other is its conjugate."""
    if length <= 2:
        return transform((real, None), length, 1)[0]
    lead = (0,) * (len(real.shape) - 1)  # the ends are real, and their other part has no say
    inner = sliced(imaginary, 1, (length + 1) // 2)
    imaginary = apply("pad", inner, low=(*lead, 1), high=(*lead, 1 - length % 2), mode="constant", value=0.0)
    if length % 2 == 0 and length > 2 * DIRECT:
        return _from_pairs(real, imaginary, length, transform, waves)
    return transform(mirrored(real, imaginary, length), length, 1)[0]


def mirrored(real: SymbolLike, imaginary: SymbolLike, length: int) -> Both:
    """Return the transform of real numbers of which the first half is given."""
    end = (length + 1) // 2
    other, conjugate = _flipped(sliced(real, 1, end)), apply("negate", _flipped(sliced(imaginary, 1, end)))
    return joined(real, other), joined(imaginary, conjugate)


def _from_pairs(real: SymbolLike, imaginary: SymbolLike, length: int, transform: Transform, waves: Waves) -> SymbolLike:
    """Return real numbers as pairs, of which complex numbers are made whose transform the half spectrum tells."""
    half = length // 2
    ones, twos = _mirrored((real, imaginary))
    by = waves(real, range(1, 2), half + 1, length, 1)
    first, second = turned(ones[1], twos[1], *by)
    pairs = sliced(apply("sub", ones[0], second), 0, half), sliced(apply("add", twos[0], first), 0, half)
    return interleaved(*transform(pairs, half, 1))


def interleaved(real: SymbolLike, imaginary: SymbolLike) -> SymbolLike:
    """Return real and imaginary parts in turns along the last axis."""
    shape = real.shape
    both = joined(*[reshaped(part, (*shape, 1)) for part in (real, imaginary)])
    return reshaped(both, (*shape[:-1], 2 * shape[-1]))


def cut_from(real: SymbolLike, imaginary: SymbolLike) -> SymbolLike | None:
    """Return what has the given parts as neighbours along its last axis, of which they are slices; None if there is no such."""
    one, two = real, imaginary
    is_reshaped = (one.op.name, two.op.name) == ("reshape", "reshape")  # of pairs on a last axis
    if is_reshaped:
        one, two = one.inputs[0], two.inputs[0]
    if (one.op.name, two.op.name) != ("slice", "slice") or one.inputs[0] is not two.inputs[0]:
        return None
    source, lead = one.inputs[0], (0,) * (len(one.shape) - 1)
    step = 1 if is_reshaped else 2
    if not source.shape or (is_reshaped and (source.shape[-1] != 2 or real.shape != source.shape[:-1])):
        return None
    if one.attrs["steps"] != (*[1] * len(lead), step) or two.attrs["steps"] != one.attrs["steps"]:
        return None
    if one.attrs["starts"] != (*lead, 0) or two.attrs["starts"] != (*lead, 1) or one.shape != two.shape:
        return None
    if one.shape[:-1] != source.shape[:-1] or 2 * one.shape[-1] != source.shape[-1]:
        return None
    return reshaped(source, (*real.shape[:-1], 2 * real.shape[-1])) if is_reshaped else source


# -- by products with matrices -----------------------------------------------------------------------------------------


def by_products(x: Parts, length: int, sign: int, waves: Waves) -> Both:
    """Transform the last axis by products with matrices; its length is one of `is_line`, so it has small factors."""
    real, imaginary = x
    if length == 1:
        return real, apply("mul", real, 0.0) if imaginary is None else imaginary
    if length <= DIRECT:
        return _by_matrix(real, imaginary, length, sign, waves)
    factor = _factor(length)
    columns, lead = length // factor, real.shape[:-1]
    turned_columns = _turned_columns(real, imaginary, factor, columns, sign, waves)
    found = by_products(turned_columns, columns, sign, waves)
    one, two = (reshaped(swapped(part), (*lead, length)) for part in found)
    return one, two


def _factor(length: int) -> int:
    """Return the divisor up to `DIRECT` that is nearest to the square root of a length above."""
    found = [factor for factor in range(2, DIRECT + 1) if length % factor == 0]
    return min(found, key=lambda factor: (abs(math.log(factor * factor / length)), factor))


def _by_matrix(real: SymbolLike, imaginary: SymbolLike | None, length: int, sign: int, waves: Waves) -> Both:
    cos, sin = waves(real, range(length), length, length, sign)
    found = _product(real, cos), _product(real, sin)
    if imaginary is None:
        return found
    return apply("sub", found[0], _product(imaginary, sin)), apply("add", found[1], _product(imaginary, cos))


def _turned_columns(
    real: SymbolLike, imaginary: SymbolLike | None, rows: int, columns: int, sign: int, waves: Waves
) -> Both:
    """Transform the columns of a matrix and turn its elements: its rows are transformed next, and it is read by columns then
    (Cooley and Tukey)."""
    lead = real.shape[:-1]
    cos, sin = waves(real, range(rows), rows, rows, sign)
    matrix = reshaped(real, (*lead, rows, columns))
    first, second = _product(cos, matrix), _product(sin, matrix)
    if imaginary is not None:
        other = reshaped(imaginary, (*lead, rows, columns))
        first, second = apply("sub", first, _product(sin, other)), apply("add", second, _product(cos, other))
    return turned(first, second, *waves(real, range(rows), columns, rows * columns, sign))


# -- rows --------------------------------------------------------------------------------------------------------------


def _complex(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    (own,) = [dtype_of(operand) for operand in operands]
    if own is not complex64:
        raise UserError(f"{op}: not defined for {own}; fix: pass complex64")
    return Promotion((own,), own)


def _of_real(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    (own,) = [dtype_of(operand) for operand in operands]
    if own is not float32:
        raise UserError(f"{op}: not defined for {own}; fix: pass float32")
    return Promotion((own,), complex64)


def _in_block(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    (own,) = [dtype_of(operand) for operand in operands]
    if own not in (complex64, float64):
        raise UserError(f"{op}: not defined for {own}; fix: pass complex64, or float64 in pairs")
    return Promotion((own,), own)


def _of_pairs(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    (own,) = [dtype_of(operand) for operand in operands]
    if own is not float64:
        raise UserError(f"{op}: not defined for {own}; fix: pass float64")
    return Promotion((own,), own)


_IN_BLOCK = ResultRule("IN_BLOCK", "the operand is complex64 or float64, and so is the result", _in_block)
_OF_PAIRS = ResultRule("OF_PAIRS", "the operand is float64, and so is the result", _of_pairs)
_COMPLEX = ResultRule("COMPLEX", "the operand is complex64, and so is the result", _complex)
_OF_REAL = ResultRule("OF_REAL", "the operand is float32; the result is complex64", _of_real)


def _line(count: object) -> int:
    """Require a number of complex numbers that rows transform."""
    if type(count) is not int or count < 1 or not is_line(count):
        expected = f"1 to {MAX_LINE} without prime factors above {MAX_PRIME}"
        raise ShapeError(f"a transform of {count} complex numbers in one program", expected)
    return count


def _pairs(length: object) -> int:
    if type(length) is not int or length < 2 or length % 2:
        raise ShapeError(f"a transform of {length} real numbers in one program", "an even number")
    return _line(length // 2)


def _last(shapes: Sequence[Shape]) -> Extent:
    if not shapes[0]:
        raise ShapeError("no axis", "an axis that is transformed")
    return shapes[0][-1]


def _lines(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _line(_last(shapes))
    return shapes[0]


def _half(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return (*shapes[0][:-1], _pairs(_last(shapes)) + 1)


def _whole(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    length = attrs["length"]
    if _last(shapes) != _pairs(length) + 1:
        raise ShapeError(f"{shapes[0][-1]} numbers of a transform of {length}", f"{_pairs(length) + 1} numbers")
    return (*shapes[0][:-1], length)


def _pairs_of(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    extent = _last(shapes)
    if type(extent) is not int or extent % 2:
        raise ShapeError(f"{extent} parts of numbers", "an even number")
    _line(2 * (extent // 2 - attrs["kind"].startswith("real")))
    return shapes[0]


def _numbers_in_block(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require lines that a program transforms."""
    if attrs["axis"] != len(shapes[0]) - 1:
        raise ShapeError(f"axis {attrs['axis']} of {len(shapes[0])}", "the last axis")
    if dtypes[0] is float64:
        _pairs_of(shapes, attrs, checks)
    else:
        extent = _last(shapes)
        _line(extent - 1 if attrs["kind"].startswith("real") else extent)


def as_matrix(x: SymbolLike, build: Callable[[SymbolLike], SymbolLike]) -> SymbolLike:
    """Build something of lines: of one line as of a matrix with one row."""
    if len(x.shape) > 1:
        return build(x)
    found = build(reshaped(x, (1, *x.shape)))
    return reshaped(found, found.shape[1:])


def parts_of(x: SymbolLike) -> Both:
    """Return real and imaginary parts of complex numbers."""
    return apply("real", x), apply("imag", x)


def _by_products(x: Parts, length: int, sign: int) -> Both:
    return by_products(x, length, sign, computed_waves)


def _fft_lines(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    length, sign = _line(x.shape[-1]), 1 if symbol.attrs["inverse"] else -1
    return as_matrix(x, lambda x: apply("complex", *_by_products(parts_of(x), length, sign)))


def _rfft_lines(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    length = 2 * _pairs(x.shape[-1])
    return as_matrix(x, lambda x: apply("complex", *half_of(x, length, _by_products, computed_waves)))


def _fft_pairs(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    return pairs_by_products(x, symbol.attrs["kind"], computed_waves)


def pairs_by_products(x: SymbolLike, kind: str, waves: Waves) -> SymbolLike:
    """Transform lines of pairs as `fft_pairs` does, by products with matrices."""
    extent = x.shape[-1]
    assert isinstance(extent, int)
    length = extent // 2 - kind.startswith("real")

    def transform(x: Parts, length: int, sign: int) -> Both:
        return by_products(x, length, sign, waves)

    def build(x: SymbolLike) -> SymbolLike:
        if kind == "real":
            return interleaved(*half_of(sliced(x, 0, 2 * length), 2 * length, transform, waves))
        parts = sliced(x, 0, extent, 2), sliced(x, 1, extent, 2)
        if kind == "real_inverse":
            return filled(from_half(*parts, 2 * length, transform, waves), extent)
        return interleaved(*transform(parts, length, 1 if kind == "inverse" else -1))

    return as_matrix(x, build)


def _irfft_lines(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    length = 2 * _pairs(symbol.attrs["length"])
    return as_matrix(x, lambda x: from_half(*parts_of(x), length, _by_products, computed_waves))


_BOUND = "(12 log₂ n + 70) ε Σ|x|"
_LINES = frozenset(("any_dtype", "internal"))

ROWS = (
    OpDef("fft_lines", "composite", 1, "The Fourier transforms of complex64 numbers along the last axis: "
          "Σ x_j exp(∓2πi j k / n) with + if `inverse`, divided by nothing.", _COMPLEX, _lines, ("inverse",),
          expand=_fft_lines, traits=_LINES, ulp=math.inf, bound=_BOUND),
    OpDef("rfft_lines", "composite", 1, "The first n // 2 + 1 numbers of the Fourier transforms of real numbers along the last "
          "axis; the others are their conjugates.", _OF_REAL, _half, expand=_rfft_lines, traits=_LINES,
          ulp=math.inf, bound=_BOUND),
    OpDef("irfft_lines", "composite", 1, "`length` times the real numbers of which the operand is the `rfft_lines`. Imaginary "
          "parts of the first number, and of the last one if `length` is even, count for nothing.", PART, _whole, ("length",),
          expand=_irfft_lines, traits=_LINES, ulp=math.inf, bound=_BOUND),
    OpDef("fft_pairs", "composite", 1, "The Fourier transforms of complex128 numbers along the last axis, which are pairs of "
          "float64 side by side: as `fft_block`.", _OF_PAIRS, _pairs_of, ("kind",), expand=_fft_pairs, traits=_LINES,
          ulp=math.inf, bound=_BOUND),
    OpDef("fft_block", "scan", 1, "The Fourier transforms of complex64 numbers, or of pairs of float64, along the last axis, "
          "`axis`, by a program that has whole lines. Where numbers are real, two are a complex one, and lines one longer than "
          'there are pairs: `kind` is "forward", "inverse", "real" or "real_inverse". Beyond the results of the last is 0.',
          _IN_BLOCK, lambda shapes, attrs, checks: shapes[0], ("axis", "kind"), demand=_numbers_in_block,
          traits=_LINES, ulp=math.inf, bound=_BOUND, cost=64, neutral=lambda dtype: 0),
)  # fmt: skip
