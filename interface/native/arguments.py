"""Packs the arguments of a launch on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...lowering.tt import types
from ...lowering.tt.analysis.alias_sets import UNKNOWN, AliasSet
from ...lowering.tt.arguments import Parameter
from ...lowering.tt.host_values import DescriptorArgument, TableArgument, address_of
from ...promotion.arrays import Array, PointerArgument
from ...promotion.float_modes import default_modes
from ...runtime.native import objects
from ..argument_packing import ArgumentPacker, check_writeable
from .plain_launches import FLOAT32, FLOAT64, INTEGER, MEMORY, Record
from .reach import NOTHING, Reach, known_memory


def encode_argument(value: np.generic) -> int:
    """Encode a scalar as the 64-bit value that the kernel reads.

    16-bit floats become float32, in which they are computed.
    """
    array = np.asarray(value)
    if array.dtype.itemsize <= 2 and array.dtype.kind not in "biu":
        array = array.astype(np.float32)
    return int.from_bytes(array.tobytes().ljust(8, b"\0"), "little", signed=True)


Spans = list[tuple[int, int, int]]
"""(position of the address, first byte, end) of every array."""


def plain_arguments(
    parameters: Sequence[Parameter], sizes: Sequence[int], args: Sequence[object]
) -> tuple[list[int], Spans] | None:
    """The values that native code reads, and the spans of the arrays; None unless all arguments are plain.

    Plain are arrays that are contiguous, aligned and writeable, integers that fit, and floats. sizes: of the parameters, as
    `plain_sizes` says. Asking an array for its address by NumPy's protocol takes as long as the rest of a launch.

    Raises `UserError` for floats that do not go to their parameters.
    """
    if len(args) != len(sizes) or not objects.are_readable():
        return None
    values: list[int] = []
    spans: Spans = []
    for parameter, size, arg in zip(parameters, sizes, args, strict=True):
        if size > 0:
            if type(arg) is not np.ndarray or arg.itemsize != size or not arg.flags.carray:
                return None
            if size == 8 and arg.dtype.hasobject:
                return None
            address = objects.address_in(arg)
            spans.append((len(values), address, address + arg.nbytes))
            values.append(address)
        elif size < -1 and type(arg) is int and -(1 << (-size - 1)) <= arg < 1 << (-size - 1):
            values.append(arg)
        elif size == 0 and type(arg) is float:
            with default_modes():
                values.append(encode_argument(parameter.scalar(arg)))
        else:
            return None
    return values, spans


def plain_records(parameters: Sequence[Parameter], sizes: Sequence[int]) -> list[Record] | None:
    """What `launch.ll` takes for plain arguments of parameters; None if one takes none. sizes: as for `plain_arguments`."""
    floats = {types.scalar_type("f32"): FLOAT32, types.scalar_type("f64"): FLOAT64}
    found: list[Record] = []
    for parameter, size in zip(parameters, sizes, strict=True):
        if size > 0:
            found.append((MEMORY[0], 0, size))
        elif size < -1:
            found.append((INTEGER[0], -size, 0))
        elif parameter.type in floats:
            found.append(floats[parameter.type])
        else:
            return None
    return found


class HostArguments(ArgumentPacker):
    """Packs the arguments of a launch as the 64-bit values that native code reads.

    Attributes:
        spans: (position of the address, first byte, end) of every array.
        listed: (first byte, end) of the arrays that the kernel finds the addresses of in others.
    """

    __slots__ = ("_written", "listed", "spans", "values")

    def __init__(self, written: AliasSet) -> None:
        self.values: list[int] = []
        self.spans: Spans = []
        self.listed: list[tuple[int, int]] = []
        self._written = written

    def add_memory(self, parameter: Parameter, arg: object) -> None:
        if isinstance(arg, PointerArgument):
            check_writeable(parameter, arg.memory.flags.writeable, len(self.values), self._written)
            self._array(arg.memory, arg.offset)
        else:
            self._checked(parameter, parameter.array(arg))

    def add_null(self) -> None:
        self.spans.append((len(self.values), 0, 0))  # no byte lies behind it
        self.values.append(0)

    def add_descriptor_address(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        self._checked(parameter, descriptor.array)

    def add_map(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        check_writeable(parameter, descriptor.array.flags.writeable, UNKNOWN, self._written)
        self.listed.append(_span(descriptor.array))
        self._checked(parameter, descriptor.native_map(parameter.what))

    def add_table(self, parameter: Parameter, table: TableArgument) -> None:
        for array in table.arrays:
            check_writeable(parameter, array.flags.writeable, UNKNOWN, self._written)
            self.listed.append(_span(array))
        self._checked(parameter, table.native())

    def add_integer(self, number: int) -> None:
        self.values.append(number)

    def add_scalar(self, value: np.generic) -> None:
        self.values.append(encode_argument(value))

    def _checked(self, parameter: Parameter, array: Array) -> None:
        check_writeable(parameter, array.flags.writeable, len(self.values), self._written)
        self._array(array)

    def _array(self, array: Array, offset: int = 0) -> None:
        address = address_of(array)
        self.spans.append((len(self.values), address, address + array.nbytes))
        self.values.append(address + offset)

    def reach(self, follows: bool) -> Reach:
        """The memory that the kernel may reach. follows: whether it follows addresses that it loads or makes."""
        known = known_memory([*self.listed, *[(first, end) for _, first, end in self.spans]]) if follows else NOTHING
        return Reach(self.spans, known)


def _span(array: Array) -> tuple[int, int]:
    address = address_of(array)
    return address, address + array.nbytes
