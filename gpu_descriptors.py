"""Which descriptors of a launch become tensor maps: those of tensors that fit one, in memory that nothing else reaches.

A descriptor has a number: that of the parameter, or behind the parameters its place among those that the kernel makes
(`made_descriptors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from .lowering.llvm.nvptx.tma import mapped_block
from .lowering.tt.arguments import Parameter
from .lowering.tt.descriptor_types import TensorDescType
from .lowering.tt.host_values import DeviceArray, PointerTable, TensorDescriptor, address_of
from .lowering.tt.made_descriptors import MadeDescriptor

MULTIPLE = 16
"""Addresses (in bytes) and numbers that are multiples of it make wide accesses possible; code is made for those there are.
Tensor maps take no other addresses and strides."""
MOST_STRIDE = 1 << 40
"""Bytes."""

Supplied = Sequence[tuple[Parameter, Any]]


@dataclass(frozen=True, slots=True)
class DescribedTensor:
    """A tensor at a launch. array: whose memory it lies in, from the start on.  Extents; strides in elements."""

    array: NDArray[Any] | DeviceArray
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pads_with_nan: bool

    @property
    def fits(self) -> bool:
        """Whether there is a tensor map of it; not of tensors whose elements overlap."""
        size = self.array.itemsize
        strides = [stride * size for stride in self.strides]
        if strides[-1] != size or any(each % MULTIPLE for each in strides[:-1]) or min(self.shape) <= 0:
            return False
        if self.pads_with_nan and size == 1:
            return False
        if min(strides) <= 0 or max(strides) >= MOST_STRIDE or not _is_aligned(self.array):
            return False
        axes = sorted((stride, extent) for stride, extent in zip(strides, self.shape, strict=True) if extent > 1)
        return all(outer >= stride * extent for (stride, extent), (outer, _) in pairwise(axes))

    @property
    def lies_inside(self) -> bool:
        """Whether the array holds all of it; extents and strides are above 0."""
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return last < self.array.size

    @property
    def is_dense(self) -> bool:
        step = 1
        for stride, extent in zip(reversed(self.strides), reversed(self.shape), strict=True):
            if stride != step and extent > 1:
                return False
            step *= extent
        return True


def has_map(type_: Attribute) -> bool:
    """Whether it is the type of a descriptor whose blocks TMA copies."""
    return isinstance(type_, TensorDescType) and mapped_block(type_) is not None


def fitting_descriptors(
    supplied: Supplied, mappable: Sequence[int], made: Sequence[MadeDescriptor], words: Sequence[Any]
) -> dict[int, DescribedTensor]:
    """The descriptors whose tensors fit a tensor map, by number.

    supplied: the arguments.  mappable: numbers of descriptors whose blocks TMA copies.  made: the descriptors that the kernel
    makes, all of them.  words: what the arguments come to, integers at least.
    """
    if not mappable:
        return {}
    ranges = [each for parameter, arg in supplied for each in _ranges(parameter, arg)]
    found = {}
    for number in mappable:
        if number < len(supplied):
            position, tensor = number, _of_argument(*supplied[number])
        else:
            each = made[number - len(supplied)]
            position, tensor = each.parameter, _of_kernel(each, supplied[each.parameter][1], words)
        if tensor is not None:
            ((on_device, low, high),) = _ranges(*supplied[position])
            if sum(on_device == other and low < end and start < high for other, start, end in ranges) == 1:
                found[number] = tensor
    return found


def _of_argument(parameter: Parameter, arg: Any) -> DescribedTensor | None:
    described = parameter.descriptor(arg)
    tensor = DescribedTensor(described.tensor, described.shape, described.strides, described.padding == "nan")
    if described.has_map is None:
        described.has_map = tensor.fits
    return tensor if described.has_map else None


def _of_kernel(made: MadeDescriptor, arg: Any, words: Sequence[Any]) -> DescribedTensor | None:
    """None also where the tensor leaves its array: what the kernel does outside is its pointers' affair, and seen there."""
    sizes = made.source.sizes(words)
    if sizes is None or not (isinstance(arg, np.ndarray) or hasattr(arg, "address")):
        return None
    tensor = DescribedTensor(arg, sizes.extents, sizes.strides, sizes.pads_with_nan)
    return tensor if tensor.fits and tensor.lies_inside else None


def _ranges(parameter: Parameter, arg: Any) -> list[tuple[bool, int, int]]:
    """Memory that an argument is: whether it is a device's, its first address and the one behind it."""
    arrays: Sequence[Any] = ()
    if isinstance(arg, TensorDescriptor):
        arrays = (arg.tensor,)
    elif isinstance(arg, PointerTable):
        arrays = arg.tensors
    elif parameter.is_pointer and (isinstance(arg, np.ndarray) or hasattr(arg, "address")):
        arrays = (arg,)
    found = []
    for each in arrays:
        is_on_host = isinstance(each, np.ndarray)
        start = address_of(each) if is_on_host else each.address
        found.append((not is_on_host, start, start + each.nbytes))
    return found


def root_address(array: NDArray[Any]) -> int:
    """The address of the array that an array is a view of."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return address_of(root)


def is_multiple(value: Any) -> bool:
    """Whether an integer, or where an array starts in the one that it is a view of, is a multiple of 16."""
    if isinstance(value, np.ndarray):
        return (address_of(value) - root_address(value)) % MULTIPLE == 0
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) % MULTIPLE == 0


def _is_aligned(tensor: NDArray[Any] | DeviceArray) -> bool:
    return is_multiple(tensor if isinstance(tensor, np.ndarray) else tensor.address)
