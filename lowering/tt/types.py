"""Defines the types of the block IR: scalars, pointers `!tt.ptr<T>` and blocks (`tensor<…>` of either).

Types are interned: the helpers return one object per type, so that building an operation neither allocates
nor validates types. Equality of types is still structural (`==`); text read from outside may hold equal types
that are other objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import FixedBitwidthType, IntAttr, IntegerType, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...promotion.arrays import NumpyDType
from ...promotion.dtype import BY_MLIR_NAME, DTYPES, DType
from ...promotion.errors import InternalError, UnsupportedError

GLOBAL_ADDRESS_SPACE = 1
ADDRESS_SPACES = {"global": GLOBAL_ADDRESS_SPACE, "constant": 4}
"""Names that Triton 3.9 prints. Constant memory is global memory that the kernel does not write."""
MAX_BLOCK_ELEMENTS = 1 << 20
"""Largest number of elements of one block (the tt dialect's own limit)."""


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!tt.ptr<T>`, `!tt.ptr<T, "space">` or `!tt.ptr<T, number>`: the address of a `T`. Global memory is not printed."""

    name = "tt.ptr"

    pointee: Attribute
    address_space: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            space = GLOBAL_ADDRESS_SPACE
            if parser.parse_optional_punctuation(","):
                space = _address_space(parser)
        return (pointee, IntAttr(space))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            space = self.address_space.data
            if space != GLOBAL_ADDRESS_SPACE:
                names = {number: f'"{name}"' for name, number in ADDRESS_SPACES.items()}
                printer.print_string(f", {names.get(space, space)}")


def _address_space(parser: AttrParser) -> int:
    position = parser.pos
    name = parser.parse_optional_str_literal()
    if name is None:
        return parser.parse_integer(allow_boolean=False, allow_negative=False)
    if name not in ADDRESS_SPACES:
        known = ", ".join(f'"{known}"' for known in ADDRESS_SPACES)
        parser.raise_error(f'unknown address space "{name}"; there are {known}, and numbers', position, parser.pos)
    return ADDRESS_SPACES[name]


I1, I8, I16, I32, I64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = builtin.f16, builtin.bf16, builtin.f32, builtin.f64

_FLOATS: dict[str, Attribute] = {kind.name: kind() for kind in get_args(builtin.AnyFloat)}
_SCALARS: dict[str, Attribute] = {
    text: IntegerType(dtype.bits) if text.startswith("i") else _FLOATS[text] for text, dtype in BY_MLIR_NAME.items()
} | {"i1": I1, "i8": I8, "i16": I16, "i32": I32, "i64": I64, "f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


class _Info(NamedTuple):
    type: Attribute  # keeps the object alive, so that its id stays its own
    elem: Attribute
    shape: tuple[int, ...]


_INFO: dict[int, _Info] = {}
_INFO_LIMIT = 1 << 14  # text read from outside makes new type objects; start over rather than grow for ever
_TENSORS: dict[tuple[Attribute, tuple[int, ...]], Attribute] = {}
_POINTERS: dict[tuple[Attribute, int], PointerType] = {}


def _info(type_: Attribute) -> _Info:
    info = _INFO.get(id(type_))
    if info is None:
        if len(_INFO) >= _INFO_LIMIT:
            _INFO.clear()
        if isinstance(type_, TensorType):
            info = _Info(type_, type_.element_type, tuple(type_.get_shape()))
        else:
            info = _Info(type_, type_, ())
        _INFO[id(type_)] = info
    return info


def scalar_type(name: DType | str | Attribute) -> Attribute:
    """Returns the scalar type of a `DType`, of a DType's name or of MLIR text (`"i32"`, `"bf16"`,
    `"f8E5M2"`).

    bool is `i1`, `index`/`address` are `i64`, `tensor_float32` is `f32`. A scalar type is returned as it is.

    Raises:
        UnsupportedError: the block IR has no such element type (complex, packed 4/6-bit floats, …).
    """
    if isinstance(name, Attribute):
        return name
    text = name.name if isinstance(name, DType) else name
    dtype = DTYPES.get(text)
    found = _SCALARS.get(text if dtype is None else dtype.names.mlir)
    if found is None:
        raise UnsupportedError(f"the block IR has no element type {text!r}; it has {', '.join(BY_MLIR_NAME)}")
    return found


def ptr(pointee: DType | str | Attribute, address_space: int = GLOBAL_ADDRESS_SPACE) -> PointerType:
    """Returns `!tt.ptr<pointee>`."""
    elem_type = scalar_type(pointee)
    key = (elem_type, address_space)
    found = _POINTERS.get(key)
    if found is None:
        if len(_POINTERS) >= _INFO_LIMIT:
            _POINTERS.clear()
        found = _POINTERS[key] = PointerType(elem_type, IntAttr(address_space))
    return found


def tensor(elem_type: Attribute, shape: Sequence[int]) -> Attribute:
    """Returns `tensor<shape x elem_type>`; the empty shape gives the scalar type itself."""
    key = (elem_type, shape if type(shape) is tuple else tuple(shape))
    found = _TENSORS.get(key)
    if found is None:
        if isinstance(elem_type, TensorType):
            raise InternalError(f"a block of blocks: element type {elem_type}")
        if not key[1]:
            return elem_type
        if len(_TENSORS) >= _INFO_LIMIT:
            _TENSORS.clear()
        found = _TENSORS[key] = TensorType(elem_type, key[1])
    return found


def elem(type_: Attribute) -> Attribute:
    """Returns the element type of a block; a scalar's own type."""
    return _info(type_).elem


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """Returns the shape of a block; `()` for scalars."""
    return _info(type_).shape


def with_elem(type_: Attribute, elem_type: Attribute) -> Attribute:
    """Returns the type of the same shape with another element type."""
    return tensor(elem_type, _info(type_).shape)


def with_shape(type_: Attribute, shape: Sequence[int]) -> Attribute:
    """Returns the type of the same elements in another shape (`()`: the scalar)."""
    return tensor(_info(type_).elem, shape)


def mask_type(type_: Attribute) -> Attribute:
    """Returns the type of a mask over `type_`: i1 of the same shape."""
    return tensor(I1, _info(type_).shape)


def value_type(pointer_type: Attribute) -> Attribute:
    """Returns the type of what a load through `pointer_type` (a pointer or a block of pointers) reads. Raises
    `InternalError` for other types."""
    found, shape = pointee(pointer_type), _info(pointer_type).shape
    return tensor(found, shape) if shape else found  # older texts have pointers to blocks


def pointee(pointer_type: Attribute) -> Attribute:
    """Returns the type of what a pointer, or each of a block of pointers, points to. Raises `InternalError` for other types."""
    element = _info(pointer_type).elem
    if not isinstance(element, PointerType):
        raise InternalError(f"not a pointer or a block of pointers: {pointer_type}")
    return element.pointee


def pointee_size(pointer_type: Attribute) -> int:
    """Returns the distance in bytes between neighbouring elements behind a pointer."""
    return max(1, bit_width(pointee(pointer_type)) // 8)


def is_tensor(type_: Attribute) -> bool:
    """Returns whether the type is a block (of any rank)."""
    return isinstance(type_, TensorType)


def is_float(type_: Attribute) -> bool:
    """Returns whether the (element) type is a float."""
    return isinstance(_info(type_).elem, builtin.AnyFloat)


def is_integer(type_: Attribute) -> bool:
    """Returns whether the (element) type is an integer, i1 included."""
    return isinstance(_info(type_).elem, IntegerType)


def is_pointer(type_: Attribute) -> bool:
    """Returns whether the (element) type is a pointer to a scalar."""
    element = _info(type_).elem
    return isinstance(element, PointerType) and not isinstance(element.pointee, TensorType)


def is_block_pointer(type_: Attribute) -> bool:
    """Returns whether the type is `!tt.ptr<tensor<…>>`: the pointer to a block that older texts have."""
    return isinstance(type_, PointerType) and isinstance(type_.pointee, TensorType)


def bit_width(type_: Attribute) -> int:
    """Returns the width in bits of the (element) type; pointers have 64. Raises `UnsupportedError` for types
    without a known width."""
    element = _info(type_).elem
    if isinstance(element, FixedBitwidthType):
        return element.bitwidth
    if isinstance(element, PointerType):
        return 64
    raise UnsupportedError(f"no known width for element type {element}")


_DTYPES: dict[type, NumpyDType] = {}
"""Those of types without parameters, by class: launches ask for that of every float, and printing a type takes microseconds."""


def numpy_dtype(type_: Attribute) -> NumpyDType:
    """Returns the NumPy dtype of the elements of a type; pointers are 64-bit addresses, int64. Raises
    `UnsupportedError` if NumPy has none."""
    element = elem(type_)
    known = _DTYPES.get(type(element))
    if known is not None:
        return known
    name = str(element)
    if isinstance(element, PointerType) or name == "index":
        return np.dtype(np.int64)
    dtype = BY_MLIR_NAME.get(name)
    if dtype is None or not (dtype.kind == "float" or dtype.has_arithmetic):
        raise UnsupportedError(f"NumPy has no elements of type {element}")
    if isinstance(element, ParametrizedAttribute) and not element.parameters:
        _DTYPES[type(element)] = dtype.numpy
    return dtype.numpy


def element_count(type_: Attribute) -> int:
    """Returns the number of elements; 1 for scalars."""
    count = 1
    for extent in _info(type_).shape:
        count *= extent
    return count
