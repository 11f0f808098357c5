"""Lists the parameters of block functions, and checks arguments against them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from . import types as t
from .dialect.functions import FuncOp
from .dialect.memory.descriptor_types import TensorDescType
from .host_values import DescriptorArgument, TableArgument
from .types import numpy_dtype

MAX_PROGRAMS = (1 << 31) - 1
MAX_COUNT = 1 << 62
"""Programs of a whole grid, which are counted in 64 bits."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a block function."""

    name: str
    type: Attribute
    function: str

    @property
    def what(self) -> str:
        """Name of the parameter in messages."""
        return f"@{self.function}, parameter {self.name} of type {self.type}"

    @property
    def is_pointer(self) -> bool:
        return isinstance(self.type, t.PointerType)

    def is_null(self, arg: object) -> bool:
        """Returns whether the argument is None, a null pointer: address 0, behind which no program may look."""
        return arg is None and isinstance(self.type, t.PointerType) and not t.is_tensor(self.type.pointee)

    def array(self, arg: object) -> Array:
        """Returns the argument if it is a C-contiguous array whose elements have the pointee's width. Raises
        `UserError` otherwise."""
        assert isinstance(self.type, t.PointerType)
        pointee = self.type.pointee
        if t.is_tensor(pointee):
            raise UserError(f"{self.what}: pointers to blocks are made by tt.make_tensor_ptr, not passed from outside")
        if isinstance(arg, DescriptorArgument | TableArgument):
            raise UserError(
                f"{self.what}: {arg!r} does not go to this parameter; a TensorDescriptor goes to a !tt.tensordesc, or to a "
                f"!tt.ptr<i8> that holds a tensor map, a PointerTable to a !tt.ptr<i64>"
            )
        if not isinstance(arg, np.ndarray):
            raise UserError(f"{self.what}: expected a NumPy array, got {type(arg).__name__}")
        size = max(1, t.bit_width(pointee) // 8)
        if arg.itemsize != size:
            raise UserError(
                f"{self.what}: the array has dtype {arg.dtype} of {arg.itemsize} bytes, expected elements of "
                f"{size}; convert it with .astype()"
            )
        if isinstance(arg, np.ma.MaskedArray):
            raise UserError(f"{self.what}: a MaskedArray, whose mask kernels do not see; fix: array.filled(…), or array.data")
        if arg.dtype.hasobject:
            raise UserError(f"{self.what}: an array of Python objects has no memory a kernel could read")
        if not arg.flags.c_contiguous:
            raise UserError(f"{self.what}: the array is not C-contiguous; pass numpy.ascontiguousarray(array)")
        return arg

    def scalar(self, arg: object) -> np.generic:
        """Converts the argument to a NumPy scalar of the parameter's type: floats are rounded, integers must
        fit. Raises `UserError`."""
        if isinstance(self.type, TensorDescType):
            raise UserError(f"{self.what}: expected a joinery.TensorDescriptor, got {type(arg).__name__}")
        if t.is_pointer(self.type) or t.is_tensor(self.type):
            raise UserError(f"{self.what} cannot be passed from outside")
        dtype = numpy_dtype(self.type)
        if not isinstance(arg, int | float | np.number | np.bool_):
            raise UserError(f"{self.what}: expected a number, got {type(arg).__name__}")
        if t.is_float(self.type):
            with np.errstate(over="ignore"):  # beyond the range it is infinite, as a launch's other roundings
                rounded: np.generic = dtype.type(arg)
            return rounded
        if isinstance(arg, float | np.floating) and not (np.isfinite(arg) and int(arg) == arg):
            raise UserError(f"{self.what}: {arg} is not an integer")
        width = t.bit_width(self.type)
        if not -(1 << (width - 1)) <= int(arg) < 1 << width:
            raise UserError(f"{self.what}: {arg} does not fit into {width} bits")
        low = int(arg) & ((1 << width) - 1)
        if width == 1:
            return np.bool_(low)
        value: np.generic = dtype.type(low - (1 << width) if low >> (width - 1) else low)
        return value


    def descriptor(self, arg: object) -> DescriptorArgument:
        """Returns the argument if it is a descriptor with the rank, the block shape and the element width of
        the type. Raises `UserError` otherwise."""
        assert isinstance(self.type, TensorDescType)
        if not isinstance(arg, DescriptorArgument):
            raise UserError(f"{self.what}: expected a joinery.TensorDescriptor, got {type(arg).__name__}")
        if arg.fitting.get(id(self)) is self:
            return arg
        size = max(1, t.bit_width(self.type.elem) // 8)
        if arg.tensor.itemsize != size:
            dtype = arg.tensor.dtype
            raise UserError(
                f"{self.what}: the array has dtype {dtype} of {dtype.itemsize} bytes, expected elements of {size}"
            )
        if len(arg.shape) != len(self.type.shape):
            raise UserError(f"{self.what}: the tensor has shape {arg.shape}, expected {len(self.type.shape)} axes")
        if arg.block_shape is not None and arg.block_shape != self.type.shape:
            raise UserError(f"{self.what}: block_shape is {arg.block_shape}, expected {self.type.shape}")
        if arg.padding == "nan" and not t.is_float(self.type.elem):
            raise UserError(f"{self.what}: padding 'nan' of integers; fix: padding='zero'")
        arg.fitting = {id(self): self}
        return arg

    @property
    def is_table(self) -> bool:
        """Whether the parameter points to 64-bit words that may be addresses."""
        if not isinstance(self.type, t.PointerType):
            return False
        pointee = self.type.pointee
        return pointee == t.I64 or isinstance(pointee, t.PointerType)

    @property
    def is_map(self) -> bool:
        """Whether the parameter may point to a tensor map."""
        return isinstance(self.type, t.PointerType) and self.type.pointee == t.I8


def supplied(name: str, parameters: Sequence[Parameter], args: Sequence[object]) -> list[tuple[Parameter, object]]:
    """Pairs every parameter of a function of this name with its argument.

    The front end lets a descriptor be followed by one i32 extent and one i64 stride per axis. One `TensorDescriptor`
    supplies all of them, unless there are as many arguments as parameters. Raises `UserError` for a wrong number of
    arguments.
    """
    if len(args) == len(parameters):
        return list(zip(parameters, args, strict=True))
    found: list[tuple[Parameter, object]] = []
    rest = list(parameters)
    expected = 0
    while rest:
        parameter = rest.pop(0)
        arg = args[expected] if expected < len(args) else None
        expected += 1
        found.append((parameter, arg))
        if isinstance(parameter.type, TensorDescType):
            rank = len(parameter.type.shape)
            if [each.type for each in rest[: 2 * rank]] == [t.I32] * rank + [t.I64] * rank:
                values = (*arg.shape, *arg.strides) if isinstance(arg, DescriptorArgument) else (0,) * (2 * rank)
                # A tensor of another rank is refused when the descriptor itself is checked.
                values = (*values, *((0,) * (2 * rank)))[: 2 * rank]
                found += zip(rest[: 2 * rank], values, strict=True)
                del rest[: 2 * rank]
    if len(args) != expected:
        either = f"{expected} or {len(parameters)}" if expected != len(parameters) else str(expected)
        raise UserError(f"@{name} takes {either} arguments, got {len(args)}")
    return found


def parameters_of(function: FuncOp, count: int | None = None) -> tuple[Parameter, ...]:
    """Returns the parameters of a function with a body. Raises `UserError` for a declaration, or when there
    are not `count` of them."""
    where = f"@{function.sym_name.data}"
    if not function.body.blocks:
        raise UserError(f"{where} is a declaration without a body; nothing to run")
    found = []
    for index, argument in enumerate(function.body.blocks[0].args):
        name = argument.name_hint or f"argument {index}"
        found.append(Parameter(name, argument.type, function.sym_name.data))
    if count is not None and count != len(found):
        raise UserError(f"{where} takes {len(found)} arguments, got {count}")
    return tuple(found)


def grid_extents(grid: int | Sequence[int]) -> tuple[int, int, int]:
    """Returns the numbers of programs along x, y and z. Raises `UserError` unless `grid` is one to three
    integers from 0 to MAX_PROGRAMS, whose product is at most MAX_COUNT."""
    if type(grid) is tuple and 1 <= len(grid) <= 3 and all([type(e) is int and 0 <= e <= MAX_PROGRAMS for e in grid]):
        x, y, z = (*grid, 1, 1, 1)[:3]
        return _counted(x, y, z)
    extents: tuple[int, ...] = (grid,) if not isinstance(grid, Sequence | np.ndarray) else tuple(grid)
    if not 1 <= len(extents) <= 3 or any(isinstance(e, bool) or not isinstance(e, int | np.integer) for e in extents):
        raise UserError(f"grid {grid}: expected one to three numbers of programs")
    if any(not 0 <= extent <= MAX_PROGRAMS for extent in extents):
        raise UserError(f"grid {grid}: expected one to three numbers of programs from 0 to {MAX_PROGRAMS}, none negative")
    x, y, z = (*(int(extent) for extent in extents), 1, 1, 1)[:3]
    return _counted(x, y, z)


def _counted(x: int, y: int, z: int) -> tuple[int, int, int]:
    if x * y * z > MAX_COUNT:
        raise UserError(f"grid {(x, y, z)}: more than 2**62 programs")
    return x, y, z
