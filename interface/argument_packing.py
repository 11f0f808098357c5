"""Splits the arguments of a launch into the values of a kernel's parameters, alike for every device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ..lowering.tt import types
from ..lowering.tt.analysis.alias_sets import AliasSet, may_alias
from ..lowering.tt.arguments import Parameter
from ..lowering.tt.dialect.memory.descriptor_types import TensorDescType
from ..lowering.tt.host_values import DescriptorArgument, TableArgument
from ..promotion.errors import UserError


class ArgumentPacker(ABC):
    """Assigns arguments to parameters, in order; a subclass says how its device takes memory and numbers.

    A tensor descriptor is an address, its extents, strides and whether it is padded with NaN
    (`descriptor_types.part_types`). Methods raise `UserError` for arguments that do not fit.
    """

    __slots__ = ()

    def add(self, parameter: Parameter, arg: object) -> None:
        """Add the argument of one parameter."""
        if isinstance(parameter.type, TensorDescType):
            descriptor = parameter.descriptor(arg)
            self.add_descriptor_address(parameter, descriptor)
            for number in (*descriptor.shape, *descriptor.strides, int(descriptor.padding == "nan")):
                self.add_integer(number)
        elif isinstance(arg, DescriptorArgument) and parameter.is_map:
            self.add_map(parameter, arg)
        elif isinstance(arg, TableArgument) and parameter.is_table:
            self.add_table(parameter, arg)
        elif parameter.is_null(arg):
            self.add_null()
        elif parameter.is_pointer:
            self.add_memory(parameter, arg)
        else:
            self.add_scalar(parameter.scalar(arg))

    def add_plain(self, size: int, arg: object) -> bool:
        """Add an argument that need not be checked against its parameter; return whether it was added.

        Plain memory and integers that fit are added. `size` is the parameter's entry in `plain_sizes`.
        """
        if size > 0:
            return self.add_plain_memory(size, arg)
        if size < -1 and type(arg) is int and -(1 << (-size - 1)) <= arg < 1 << (-size - 1):
            self.add_integer(arg)
            return True
        return False

    def add_plain_memory(self, size: int, arg: object) -> bool:
        """Add memory of elements of `size` bytes that kernels may write.

        Return False, and add nothing, for anything else.
        """
        return False

    def add_null(self) -> None:
        """Add the address 0."""
        self.add_integer(0)

    @abstractmethod
    def add_memory(self, parameter: Parameter, arg: object) -> None:
        """Add the address of an array, which is checked against the parameter."""

    @abstractmethod
    def add_descriptor_address(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        """Add the address of a described tensor."""

    @abstractmethod
    def add_map(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        """Add the address of a tensor map in memory. Raises `UnsupportedError` where there are none."""

    @abstractmethod
    def add_table(self, parameter: Parameter, table: TableArgument) -> None:
        """Add the address of a table of addresses."""

    @abstractmethod
    def add_integer(self, number: int) -> None:
        """Add an integer of at most 64 bits."""

    @abstractmethod
    def add_scalar(self, value: np.generic) -> None:
        """Add a NumPy scalar of the parameter's type."""


def plain_sizes(parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """Return sizes for `add_plain`: bytes of a pointer's elements, negated bits of an integer, else 0."""
    found = []
    for parameter in parameters:
        type_ = parameter.type
        if isinstance(type_, types.PointerType) and not types.is_tensor(type_.pointee):
            found.append(max(1, types.bit_width(type_.pointee) // 8))
        else:
            found.append(-types.bit_width(type_) if types.is_integer(type_) else 0)
    return tuple(found)


def may_write(slot: int, written: AliasSet) -> bool:
    """Return whether a kernel that writes to `written` may write through the address at this position.

    `UNKNOWN` is the position of addresses in a table.
    """
    return may_alias(frozenset({slot}), written)


def check_writeable(parameter: Parameter, is_writeable: bool, slot: int, written: AliasSet, what: str = "the array") -> None:
    """Raise `UserError` for read-only memory that the kernel may write."""
    if not is_writeable and may_write(slot, written):
        raise UserError(f"{parameter.what}: {what} is read-only; pass a copy, or make it writeable")
