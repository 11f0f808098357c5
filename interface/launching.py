"""Packs the arguments of a launch on the CPU."""

from __future__ import annotations

import numpy as np

from ..lowering.tt.analysis.alias_sets import UNKNOWN, AliasSet
from ..lowering.tt.arguments import Parameter
from ..lowering.tt.host_values import DescriptorArgument, TableArgument, address_of
from ..promotion.arrays import Array
from .argument_packing import ArgumentPacker, check_writeable
from .reach import Reach, known_memory


def encode_argument(value: np.generic) -> int:
    """Encode a scalar as the 64-bit value that the kernel reads.

    16-bit floats become float32, in which they are computed.
    """
    array = np.asarray(value)
    if array.dtype.itemsize <= 2 and array.dtype.kind not in "biu":
        array = array.astype(np.float32)
    return int.from_bytes(array.tobytes().ljust(8, b"\0"), "little", signed=True)


class HostArguments(ArgumentPacker):
    """Packs the arguments of a launch as the 64-bit values that native code reads.

    Attributes:
        spans: (position of the address, first byte, end) of every array.
        listed: (first byte, end) of the arrays that the kernel finds the addresses of in others.
    """

    __slots__ = ("_written", "listed", "spans", "values")

    def __init__(self, written: AliasSet) -> None:
        self.values: list[int] = []
        self.spans: list[tuple[int, int, int]] = []
        self.listed: list[tuple[int, int]] = []
        self._written = written

    def add_plain_memory(self, size: int, arg: object) -> bool:
        """Add a contiguous, writeable array."""
        if type(arg) is not np.ndarray or arg.itemsize != size or arg.dtype.hasobject:
            return False
        flags = arg.flags
        if not (flags.c_contiguous and flags.writeable):
            return False
        self._array(arg)
        return True

    def add_memory(self, parameter: Parameter, arg: object) -> None:
        self._checked(parameter, parameter.array(arg))

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

    def _array(self, array: Array) -> None:
        address = address_of(array)
        self.spans.append((len(self.values), address, address + array.nbytes))
        self.values.append(address)

    def reach(self) -> Reach:
        """The memory that the kernel may reach."""
        return Reach(self.spans, known_memory([*self.listed, *[(first, end) for _, first, end in self.spans]]))


def _span(array: Array) -> tuple[int, int]:
    address = address_of(array)
    return address, address + array.nbytes
