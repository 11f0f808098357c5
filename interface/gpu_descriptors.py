"""Decides which descriptors of a launch become tensor maps: tensors that fit one, in their own memory.

A descriptor has a number: that of its parameter or, for one that the kernel makes (`hoistable_descriptors`),
the number of parameters plus its position among these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from ..lowering.artifact import TensorSizes, TensorSource
from ..lowering.llvm.nvptx.memory.tma import mapped_block
from ..lowering.tt.analysis.alias_sets import UNKNOWN, AliasSet, may_alias
from ..lowering.tt.analysis.hoistable_descriptors import HoistableDescriptor, argument_offsets
from ..lowering.tt.arguments import Parameter
from ..lowering.tt.dialect.memory.descriptor_types import TensorDescType
from ..lowering.tt.host_values import DescriptorArgument, TableArgument, address_of
from ..lowering.tt.types import PointerType, bit_width
from ..promotion.arrays import Array, DeviceArray
from ..promotion.dataclass import dataclass
from ..runtime.cuda.tensor_maps import MAX_STRIDE, MULTIPLE

WIDTHS = tuple([next(width for width in (16, 8, 4, 1) if rest % width == 0) for rest in range(16)])
"""Divisor (16, 8, 4 or 1) that code may assume of an address (in bytes) or a number, indexed by its value modulo 16. There are
few, as code is compiled for each of them; larger ones allow wider accesses."""

MAX_MADE = 16
"""Most maps of descriptors that a kernel makes: 128 bytes each of the 4096 that parameters may take."""
MAX_KNOWN = 256
"""Most combinations of sizes that are kept."""

Supplied = Sequence[tuple[Parameter, Any]]


@dataclass(frozen=True, slots=True)
class MappedTensor:
    """A tensor that a launch makes a tensor map of. It begins where `array` begins and lies in its memory."""

    array: Array | DeviceArray
    sizes: TensorSizes

    @property
    def is_dense(self) -> bool:
        step = 1
        for stride, extent in zip(reversed(self.sizes.strides), reversed(self.sizes.extents), strict=True):
            if stride != step and extent > 1:
                return False
            step *= extent
        return True


class Descriptors:
    """The descriptors of a kernel, and which of them become tensor maps.

    Attributes:
        mappable: the numbers of those whose blocks TMA copies if the tensor fits.
    """

    def __init__(self, parameters: Sequence[Parameter], hoistable: Sequence[HoistableDescriptor]) -> None:
        self._count = len(parameters)
        self._hoistable = hoistable
        self._types = [each.type for each in parameters]
        self._offsets = argument_offsets(self._types)
        given = [number for number, each in enumerate(parameters) if _has_map(each.type)]
        own = [number for number, each in enumerate(hoistable, self._count) if _has_map(each.type)]
        self.mappable = (*given, *own[:MAX_MADE])
        expressions = [size for each in hoistable for size in (*each.source.extents, *each.source.strides)]
        self._used = sorted({argument for each in expressions for argument in each.arguments})
        self._known: dict[tuple[int, ...], list[tuple[TensorSizes, int] | None]] = {}

    @property
    def integers(self) -> tuple[int, ...]:
        """The positions, among the values of a launch, of addresses and integers, except last strides."""
        found: list[int] = []
        for type_, first in zip(self._types, self._offsets, strict=True):
            if isinstance(type_, TensorDescType):
                found += range(first, first + 2 * len(type_.shape))
            elif isinstance(type_, PointerType) or str(type_) in ("i32", "i64"):
                found.append(first)
        return tuple(found)

    def number_of(self, source: TensorSource, among: Sequence[int]) -> int:
        """Return the number of a descriptor, among these, of what a tensor map describes."""
        return next(number for number in among if self._source(number) == source)

    def _source(self, number: int) -> TensorSource:
        if number >= self._count:
            return self._hoistable[number - self._count].source
        type_ = self._types[number]
        assert isinstance(type_, TensorDescType)
        return TensorSource.of_parts(self._offsets[number], len(type_.shape))

    def regular(self, number: int) -> dict[int, int]:
        """Return parameter → divisor for a tensor that fits a tensor map.

        The parameters are its address (in bytes) and all strides but the last (in elements) that are
        parameters.
        """
        source = self._source(number)
        type_ = self._types[number] if number < self._count else self._hoistable[number - self._count].type
        assert isinstance(type_, TensorDescType)
        least = max(1, MULTIPLE // max(1, bit_width(type_.elem) // 8))
        numbers = [each.argument_number for each in source.strides[:-1]]
        return {source.parameter: MULTIPLE, **{number: least for number in numbers if number is not None}}

    def fitting(
        self, supplied: Supplied, arguments: Sequence[Any], written: Callable[[], AliasSet]
    ) -> dict[int, MappedTensor]:
        """Return the tensors that fit a tensor map, by the number of their descriptor.

        No other argument may lie in the same memory if the kernel may write either.

        Args:
            supplied: the arguments.
            arguments: the values that they become; integers at least.
            written: the alias set that the kernel may write.
        """
        found = {}
        for number in self.mappable:
            tensor = self._given(*supplied[number]) if number < self._count else self._own(number, supplied, arguments)
            if tensor is not None:
                found[number] = tensor
        if not found:
            return found
        ranges = [
            (position, each)
            for position, (parameter, arg) in enumerate(supplied)
            for each in _ranges(parameter, arg)
        ]
        alone = {position: self._is_alone(position, supplied, ranges, written) for position in map(self._position, found)}
        return {number: tensor for number, tensor in found.items() if alone[self._position(number)]}

    def _position(self, number: int) -> int:
        """Return the position of the argument whose memory a descriptor describes."""
        return number if number < self._count else self._hoistable[number - self._count].parameter

    def _is_alone(
        self, position: int, supplied: Supplied, ranges: Sequence[tuple[int, _Range]], written: Callable[[], AliasSet]
    ) -> bool:
        (on_device, low, high) = _ranges(*supplied[position])[0]
        for other, (other_on_device, start, end) in ranges:
            if other != position and on_device == other_on_device and low < end and start < high:
                is_table = isinstance(supplied[other][1], TableArgument)
                parameters = {self._offsets[position], UNKNOWN if is_table else self._offsets[other]}
                if may_alias(frozenset(parameters), written()):
                    return False
        return True

    def _given(self, parameter: Parameter, arg: Any) -> MappedTensor | None:
        descriptor = parameter.descriptor(arg)
        sizes = TensorSizes(descriptor.shape, descriptor.strides, descriptor.padding == "nan")
        if descriptor.has_map is None:
            descriptor.has_map = _fits(sizes, descriptor.tensor.itemsize) and _is_aligned(descriptor.tensor)
        return MappedTensor(descriptor.tensor, sizes) if descriptor.has_map else None

    def _own(self, number: int, supplied: Supplied, arguments: Sequence[Any]) -> MappedTensor | None:
        """Return the tensor of a descriptor that the kernel makes.

        The result is None if it fits no map or leaves its array. What the kernel does outside an array, it
        does by pointers, where it is checked.
        """
        key = tuple([arguments[argument] for argument in self._used])
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = [_sizes(each, arguments) for each in self._hoistable]
        index = number - self._count
        found, arg = known[index], supplied[self._hoistable[index].parameter][1]
        if found is None or not (isinstance(arg, np.ndarray) or hasattr(arg, "address")):
            return None
        sizes, elements = found
        return MappedTensor(arg, sizes) if elements <= arg.size and _is_aligned(arg) else None


def _has_map(type_: Attribute) -> bool:
    return isinstance(type_, TensorDescType) and mapped_block(type_) is not None


def _sizes(hoistable: HoistableDescriptor, arguments: Sequence[Any]) -> tuple[TensorSizes, int] | None:
    """Return what the kernel describes, and how many elements the array needs for it.

    The result is None if it fits no map.
    """
    sizes = hoistable.source.sizes(arguments)
    if sizes is None or not _fits(sizes, max(1, bit_width(hoistable.type.elem) // 8)):
        return None
    return sizes, 1 + sum((extent - 1) * stride for extent, stride in zip(sizes.extents, sizes.strides, strict=True))


def _fits(sizes: TensorSizes, size: int) -> bool:
    """Return whether a tensor of elements of `size` bytes has a tensor map.

    One with overlapping elements has none.
    """
    strides = [stride * size for stride in sizes.strides]
    if strides[-1] != size or any(each % MULTIPLE for each in strides[:-1]) or min(sizes.extents) <= 0:
        return False
    if sizes.pads_with_nan and size == 1:
        return False
    if min(strides) <= 0 or max(strides) >= MAX_STRIDE:
        return False
    axes = sorted((stride, extent) for stride, extent in zip(strides, sizes.extents, strict=True) if extent > 1)
    return all(outer >= stride * extent for (stride, extent), (outer, _) in pairwise(axes))


_Range = tuple[bool, int, int]
"""Whether the memory is a device's, its first address, and the address after its end."""


def _ranges(parameter: Parameter, arg: Any) -> list[_Range]:
    """Return the memory ranges that an argument occupies."""
    arrays: Sequence[Any] = ()
    if isinstance(arg, DescriptorArgument):
        arrays = (arg.tensor,)
    elif isinstance(arg, TableArgument):
        arrays = arg.tensors
    elif parameter.is_pointer and (isinstance(arg, np.ndarray) or hasattr(arg, "address")):
        arrays = (arg,)
    found = []
    for each in arrays:
        is_on_host = isinstance(each, np.ndarray)
        start = address_of(each) if is_on_host else each.address
        found.append((not is_on_host, start, start + each.nbytes))
    return found


def root_address(array: Array) -> int:
    """Return the address of the array that an array is a view of."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return address_of(root)


def width_of(value: Any, absolute: bool = False) -> int:
    """Return which of `WIDTHS` divides an integer, or the offset of an array in the one it is a view of.

    The result is 1 for anything else. absolute: whether arrays stay at their addresses, which it then divides.
    """
    if isinstance(value, np.ndarray):
        return WIDTHS[(address_of(value) - (0 if absolute else root_address(value))) % 16]
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return WIDTHS[int(value) % 16]
    return 1


def widths(positions: Iterable[int], arguments: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Return (position, divisor) for the integers at these positions of a launch with a divisor above 1."""
    return tuple([(position, width) for position in positions if (width := WIDTHS[arguments[position] % 16]) > 1])


def _is_aligned(tensor: Array | DeviceArray) -> bool:
    return width_of(tensor if isinstance(tensor, np.ndarray) else tensor.address) == MULTIPLE
