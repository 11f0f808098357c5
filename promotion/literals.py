"""Decides the dtypes of Python scalars in expressions, which are weak.

NumPy scalars are weak, too, unless the rule set says otherwise.

A scalar whose kind (bool < integer < float < complex) is not above the tensor's takes the tensor's dtype, and
its value must fit there: an integer out of range or a float too large is an error at the line that wrote it,
never a wrapped or infinite constant. A float that only needs rounding is rounded. For a scalar of a higher
kind the rule set has a ladder of dtypes: the first that holds the value joins with the tensor's dtype.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from .casts import LossClass, overflow_limit
from .dataclass import dataclass
from .dtype import DTYPES, DType
from .errors import UserError

if TYPE_CHECKING:
    import numpy as np

Scalar = bool | int | float | complex
"""A Python number, which is weak: it takes the dtype of the tensor it meets where its kind allows it."""


class HasDType(Protocol):
    """A symbol, a NumPy array or a NumPy scalar."""

    @property
    def dtype(self) -> DType | np.dtype[np.generic]: ...


Operand: TypeAlias = "DType | str | type | HasDType | Scalar"
"""An operand of promotion: a dtype or its name, an object with a dtype, or a Python scalar, which is weak."""

_RANKS = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}


@dataclass(frozen=True, slots=True)
class LiteralRules:
    """The ladders of dtypes for scalars whose kind is above the tensor's, or that meet no tensor.

    The first fit wins.
    """

    integers: tuple[DType, ...]
    floats: tuple[DType, ...]
    complexes: tuple[DType, ...] = ()
    cells: Mapping[tuple[DType, str], DType | None] = field(default_factory=dict)
    """Exceptions to the ladders, by dtype and kind ("bool", "int", "float", "complex"); None is an error."""

    def __post_init__(self) -> None:
        if not self.integers or not self.floats:
            raise UserError("the literal rules need at least one dtype for integers and one for floats")
        for height, ladder in enumerate((self.integers, self.floats, self.complexes), start=1):
            for dtype in ladder:
                if rank(dtype) != height or dtype.is_abstract:
                    kind = ("integers", "floats", "complex numbers")[height - 1]
                    raise UserError(f"the literal rules give Python {kind} the dtype {dtype}, which is of another kind")

    @property
    def float_default(self) -> DType:
        return self.floats[0]

    def default(self, value: Scalar) -> DType:
        """Return the dtype of a scalar that stands alone.

        Raises `UserError` if no dtype of the ladder holds it.
        """
        if isinstance(value, bool):
            return DTYPES["bool"]
        ladder = (self.complexes, self.floats, self.integers)[
            0 if isinstance(value, complex) else 1 if isinstance(value, float) else 2
        ]
        if not ladder:
            raise UserError(
                f"literal {value!r}: complex scalars take part in no arithmetic; "
                "fix: keep real and imaginary part in two tensors"
            )
        for dtype in ladder:
            if fits(value, dtype):
                return dtype
        raise UserError(_misfit(value, ladder[-1]))


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Return whether `value` is a Python scalar.

    No NumPy scalar is one, not even np.float64, which is a `float`: see `number_of`.
    """
    return isinstance(value, (bool, int, float, complex)) and not hasattr(value, "dtype")


def is_numpy_scalar(value: object) -> TypeGuard[np.generic]:
    """Return whether `value` is a NumPy scalar such as `np.sqrt(64)` returns.

    An array of rank 0 is an array.
    """
    numpy = sys.modules.get("numpy")  # no NumPy scalar exists before NumPy is imported
    return numpy is not None and isinstance(value, numpy.generic)


def number_of(value: np.generic) -> Scalar:
    """Return the Python number that a NumPy scalar holds.

    Raises `UserError` for dtypes that joinery does not have.
    """
    DType.from_numpy(value.dtype)
    number: Scalar = value.item()
    return number


def rank(dtype: DType) -> int:
    """Return the position of a dtype's kind in bool < integer < float < complex."""
    return _RANKS[dtype.kind]


def scalar_rank(value: Scalar) -> int:
    """Return the position of a Python scalar's kind in bool < integer < float < complex."""
    if isinstance(value, bool):
        return 0
    return 1 if isinstance(value, int) else 2 if isinstance(value, float) else 3


def fits(value: Scalar, dtype: DType) -> bool:
    """Return whether `value` is in the range of `dtype`.

    Rounding is allowed, wrapping and overflow are not.
    """
    if isinstance(value, complex):
        return dtype.is_complex and fits(value.real, dtype) and fits(value.imag, dtype)
    if not (dtype.is_float or dtype.is_complex):
        if isinstance(value, float):
            return False
        return dtype.min_value <= value <= dtype.max_value
    if isinstance(value, float) and not math.isfinite(value):
        return dtype.has_nan if math.isnan(value) else dtype.has_infinity
    if not dtype.is_signed and value <= 0:  # float8_e8m0fnu has neither zero nor negative numbers
        return False
    return abs(value) < overflow_limit(dtype)


def check_literal(value: Scalar, dtype: DType, op: str = "literal") -> LossClass:
    """Check that `value` may be written as a constant of `dtype`.

    Returns "exact", or "rounding" when the constant differs from the value (0.1 in any float; 16777217 in
    float32). Raises `UserError` when the value does not fit, naming `op`, the value, the range and a dtype
    that holds it.
    """
    if not fits(value, dtype):
        raise UserError(f"{op}: {_misfit(value, dtype)}")
    if isinstance(value, complex):
        losses = (check_literal(value.real, dtype, op), check_literal(value.imag, dtype, op))
        return "rounding" if "rounding" in losses else "exact"
    if not (dtype.is_float or dtype.is_complex) or (isinstance(value, float) and not math.isfinite(value)):
        return "exact"
    return "exact" if _representable(value, dtype) else "rounding"


def _representable(value: float | int, dtype: DType) -> bool:
    """Return whether a finite number in range is a value of the float type: its bits fit the mantissa."""
    if value == 0:
        return True
    numerator, denominator = abs(value).as_integer_ratio()
    lowest = (
        numerator & -numerator
    ).bit_length() - denominator.bit_length()  # exponent of the lowest set bit
    highest = numerator.bit_length() - denominator.bit_length()  # exponent of the highest set bit
    return lowest >= max(highest, dtype.min_exponent) - dtype.mantissa_bits


def _misfit(value: Scalar, dtype: DType) -> str:
    if isinstance(value, float) and dtype.is_integer:
        return (
            f"the float {value!r} cannot become {dtype}; fix: cast the tensor to float32, or write an integer"
        )
    low, high = dtype.min_value, dtype.max_value
    span = f"[{low:g}, {high:g}]" if dtype.exponent_bits else f"[{low}, {high}]"
    text = f"literal {value!r} does not fit {dtype}, whose range is {span}"
    wider = _holder(value, dtype)
    if value == 0 and wider is not None and dtype.min_value > 0:
        return f"{text}: it has no zero; fix: another value where there is a choice, or .cast({wider}) of the tensor operand"
    if wider is None:
        return f"{text}; fix: no dtype holds this value, rescale the computation"
    return f"{text}; fix: cast the tensor operand with .cast({wider}), which holds the value"


def _holder(value: Scalar, dtype: DType) -> DType | None:
    """Return the smallest usual dtype of the kind that holds `value` and all of `dtype`.

    Failing that, return the last one that holds `value`, or None.
    """
    names: Sequence[str]
    if dtype.is_float:
        names = ("float16", "float32", "float64")
    elif dtype.is_complex or isinstance(value, complex):
        names = ("complex64", "complex128")
    else:
        names = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64", "int64")
    candidates = [DTYPES[name] for name in names if fits(value, DTYPES[name])]
    covering = [c for c in candidates if c.min_value <= dtype.min_value and c.max_value >= dtype.max_value]
    if covering:
        return covering[0]
    return candidates[-1] if candidates else None
