"""Defines the element types.

A `DType` is one interned object per name, so identity is equality and a table of dtypes is a plain dict. Its
fields describe the format; how an operator treats it is decided by rule sets (`rules.py`) and by the op
table, never here. The table of formats is `formats.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, cast

from .errors import UserError, close_names
from .formats import ABSTRACT_FORMATS, FOREIGN_NAMES, FORMATS, HOST_FORMATS, Format, Kind, Names

if TYPE_CHECKING:
    import numpy as np

_INTERNED: dict[str, DType] = {}
_ABSTRACT_INTERNED: dict[str, DType] = {}
_HOST_INTERNED: dict[str, DType] = {}


class DType:
    """An element type.

    `DType("bfloat16")` returns the one object of that name; unknown names raise `UserError`.

    Attributes:
        name: the type's name, as accepted by the constructor.
        kind: "bool", "int" (signed), "uint", "float", "complex", or "string", which only host operations take. `index` and
            `address` are "uint".
        bits: width of a value in bits (bool: 1); in memory a value takes `itemsize` bytes.
        exponent_bits, mantissa_bits: of a float (stored mantissa, without the implicit one) or of a complex
            type's components; 0 for other kinds. tensor_float32 has 10 mantissa bits although it is stored as
            float32.
        storage_only: values can be stored, viewed and bit-cast, but not computed with or converted.
        is_abstract: an element of promotion orders only (`weak_int`, `weak_float`, `weak_complex`,
            `wide_int`, `complex32`), which no tensor has as its dtype. `DTYPES` leaves these out.
    """

    __slots__ = ("_format", "bits", "exponent_bits", "is_abstract", "kind", "mantissa_bits", "name", "storage_only")

    name: str
    kind: Kind
    bits: int
    exponent_bits: int
    mantissa_bits: int
    storage_only: bool
    is_abstract: bool
    _format: Format

    def __new__(cls, name: str | DType) -> DType:
        if isinstance(name, DType):
            return name
        found = _INTERNED.get(name) if isinstance(name, str) else None
        if found is None:
            found = (_ABSTRACT_INTERNED.get(name) or _HOST_INTERNED.get(name)) if isinstance(name, str) else None
        if found is None:
            raise_unknown(name)
        return found

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"DType is immutable: cannot set {attribute!r} of {self.name}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"DType is immutable: cannot delete {attribute!r} of {self.name}")

    # Equality and hash are those of `object`: with one object per name identity is equality, and the C-level
    # hash keeps the cost of a join at one dict lookup. Pickle and copy go through the constructor.
    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return DType, (self.name,)

    def __repr__(self) -> str:
        return f'DType("{self.name}")'

    def __str__(self) -> str:
        return self.name

    @property
    def is_weak(self) -> bool:
        """True for weak_int, weak_float and weak_complex."""
        return self.is_abstract and not self.bits

    @property
    def is_bool(self) -> bool:
        """Whether the dtype is `bool`."""
        return self.kind == "bool"

    @property
    def is_float(self) -> bool:
        """Whether values are floats, of any format."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """Whether values are complex numbers."""
        return self.kind == "complex"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers (with index and address); False for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """True when negative values exist: signed integers, complex, all floats but float8_e8m0fnu."""
        return self.kind in ("int", "complex") or (self.kind == "float" and self.name != "float8_e8m0fnu")

    @property
    def has_arithmetic(self) -> bool:
        """True for the types that operators compute with. Others can be stored, viewed and mostly cast."""
        return self._format.has_arithmetic

    @property
    def itemsize(self) -> int:
        """Bytes that one value takes in memory; types below 8 bits take a whole byte, as in ml_dtypes."""
        return max(1, self.bits // 8)

    @property
    def names(self) -> Names:
        """The names that other systems give this type."""
        return self._format.names

    @property
    def unsigned_zero(self) -> bool:
        """True for floats with a single zero, in which the bits of -0.0 mean NaN."""
        return self._format.unsigned_zero

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype that holds the values (index and address: uint64; tensor_float32: float32).

        Raises `UserError` for abstract elements.
        """
        if self.is_abstract:
            raise UserError(f"{self} is an element of promotion tables only; fix: cast to a dtype that tensors can have")
        return _numpy_dtype(self.names.numpy)

    @property
    def min_value(self) -> int | float:
        """Smallest finite value: an int for bool and integers, a float for floats and complex components."""
        if self.kind == "int":
            return -(1 << (self.bits - 1))
        if self.kind in ("bool", "uint"):
            return 0
        if self.name == "float8_e8m0fnu":
            return self.smallest_normal
        return -self._format.max_finite

    @property
    def max_value(self) -> int | float:
        """Largest finite value: an int for bool and integers, a float for floats and complex components."""
        if self.kind == "int":
            return (1 << (self.bits - 1)) - 1
        if self.kind in ("bool", "uint"):
            return (1 << self.bits) - 1
        return self._format.max_finite

    @property
    def smallest_normal(self) -> float:
        """Smallest positive normal number of a float type; 0.0 for other kinds."""
        return 2.0**self._format.min_exponent if self.exponent_bits else 0.0

    @property
    def smallest_subnormal(self) -> float:
        """Smallest positive number of a float type; 0.0 for other kinds."""
        return 2.0 ** (self._format.min_exponent - self.mantissa_bits) if self.exponent_bits else 0.0

    @property
    def min_exponent(self) -> int:
        """Power of two of the smallest normal number of a float type; 0 for other kinds."""
        return self._format.min_exponent

    @property
    def has_infinity(self) -> bool:
        """Whether the type represents infinities."""
        return self._format.has_infinity

    @property
    def has_nan(self) -> bool:
        """Whether the type represents NaN."""
        return self._format.has_nan

    def contains_integer(self, value: int) -> bool:
        """Return whether `value` lies in the finite range of this type.

        A float type may still need to round it.
        """
        return self.min_value <= value <= self.max_value

    @staticmethod
    def from_numpy(dtype: object) -> DType:
        """Return the `DType` of a NumPy dtype, scalar type or dtype name.

        NumPy's uint64 is `uint64`, its float32 `float32`. Raises `UserError` for types without a counterpart
        in joinery, and for non-native byte order.
        """
        numpy = importlib.import_module("numpy")
        try:
            concrete = numpy.dtype(dtype)
        except TypeError as error:
            raise UserError(f"{dtype!r} is not a NumPy dtype") from error
        if not concrete.isnative:
            raise UserError(
                f"arrays of {concrete} have non-native byte order; "
                'fix: array.astype(array.dtype.newbyteorder("="))'
            )
        found = _INTERNED.get(concrete.name)
        if found is None:
            fix = (
                "array.astype(numpy.float64)"
                if concrete.kind == "f"
                else "convert the array to a numeric dtype"
            )
            raise UserError(
                f"NumPy's {concrete} has no joinery dtype; fix: {fix}. Known: {', '.join(FORMATS)}"
            )
        return found


def raise_unknown(name: object) -> NoReturn:
    if not isinstance(name, str):
        raise UserError(
            f"a dtype name must be a string or a DType, not {name!r}; for NumPy types use DType.from_numpy"
        )
    guesses = close_names(name.lower(), FORMATS, n=3, cutoff=0.5)
    foreign = FOREIGN_NAMES.get(name) or FOREIGN_NAMES.get(name.lower())
    if foreign is not None:
        guesses = [foreign, *(guess for guess in guesses if guess != foreign)]
    hint = f"did you mean {', '.join(guesses)}?" if guesses else f"known dtypes: {', '.join(FORMATS)}"
    raise UserError(f"unknown dtype {name!r}; {hint}")


@cache
def _numpy_dtype(name: str) -> np.dtype[np.generic]:
    numpy = importlib.import_module("numpy")
    # ml_dtypes is loaded only when one of its types is asked for: importing joinery stays cheap.
    found = getattr(numpy, name, None) or getattr(importlib.import_module("ml_dtypes"), name)
    return cast("np.dtype[np.generic]", numpy.dtype(found))


def _intern(name: str, layout: Format, abstract: bool = False, host: bool = False) -> DType:
    dtype = object.__new__(DType)
    values = (
        name,
        layout.kind,
        layout.bits,
        layout.exponent_bits,
        layout.mantissa_bits,
        layout.storage_only,
        abstract,
        layout,
    )
    slots = ("name", "kind", "bits", "exponent_bits", "mantissa_bits", "storage_only", "is_abstract", "_format")
    for slot, value in zip(slots, values, strict=True):
        object.__setattr__(dtype, slot, value)
    (_HOST_INTERNED if host else _ABSTRACT_INTERNED if abstract else _INTERNED)[name] = dtype
    return dtype


def cut(below: str, kind: Kind) -> DType:
    """Return the element that a completion adds directly above `below` (names joined by "|").

    See `lattices/completion.py`.
    """
    return _ABSTRACT_INTERNED.get(below) or _intern(below, Format(kind, 1024, storage_only=True), abstract=True)


for _name, _layout in FORMATS.items():
    _intern(_name, _layout)
for _name, _layout in HOST_FORMATS.items():
    _intern(_name, _layout, host=True)
for _name, _layout in ABSTRACT_FORMATS.items():
    _intern(_name, _layout, abstract=True)

DTYPES: Mapping[str, DType] = MappingProxyType(_INTERNED)
"""Every dtype by name, in the order of the type table; `string`, which no kernel moves, is none of them."""

ABSTRACT = tuple(_ABSTRACT_INTERNED.values())
"""The named elements of promotion orders that no tensor has as its dtype."""

BY_MLIR_NAME: Mapping[str, DType] = MappingProxyType({
    dtype.names.mlir: dtype for dtype in reversed(_INTERNED.values()) if dtype.names.mlir and dtype.kind != "uint"
})
"""Dtype by its scalar type in the block IR; integers, which are signless there, are the signed ones."""

BY_PTX_NAME: Mapping[str, DType] = MappingProxyType({
    dtype.names.ptx: dtype for dtype in reversed(_INTERNED.values()) if dtype.names.ptx
})
"""Dtype by its type in PTX instructions."""

bool_ = DType("bool")
int2 = DType("int2")
int4 = DType("int4")
int8 = DType("int8")
int16 = DType("int16")
int32 = DType("int32")
int64 = DType("int64")
uint2 = DType("uint2")
uint4 = DType("uint4")
uint8 = DType("uint8")
uint16 = DType("uint16")
uint32 = DType("uint32")
uint64 = DType("uint64")
index = DType("index")
address = DType("address")
float16 = DType("float16")
bfloat16 = DType("bfloat16")
float32 = DType("float32")
tensor_float32 = DType("tensor_float32")
float64 = DType("float64")
float8_e4m3fn = DType("float8_e4m3fn")
float8_e5m2 = DType("float8_e5m2")
float8_e4m3fnuz = DType("float8_e4m3fnuz")
float8_e5m2fnuz = DType("float8_e5m2fnuz")
float8_e4m3b11fnuz = DType("float8_e4m3b11fnuz")
float8_e4m3 = DType("float8_e4m3")
float8_e3m4 = DType("float8_e3m4")
float8_e8m0fnu = DType("float8_e8m0fnu")
float6_e2m3fn = DType("float6_e2m3fn")
float6_e3m2fn = DType("float6_e3m2fn")
float4_e2m1fn = DType("float4_e2m1fn")
complex64 = DType("complex64")
complex128 = DType("complex128")
string = DType("string")
