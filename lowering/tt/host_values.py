"""Defines the launch arguments that are more than an array or a number: tensor descriptors and tables of
pointers.

`joinery.TensorDescriptor` and `joinery.PointerTable`, which users call, also take arrays of other libraries
on GPUs, which only the interface knows: `interface/tensor_arguments.py` derives them from the classes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from ...promotion.arrays import Array, DeviceArray
from ...promotion.errors import UserError

PADDINGS = ("zero", "nan")
MAX_EXTENT = (1 << 31) - 1

# A tensor map in memory: sixteen 64-bit words. Axes go from the innermost one outwards, as `ttng.tensormap_create` names them.
TENSOR_MAP_WORDS = 16
TENSOR_MAP_MAGIC = 0x70616D2D6E696A00
MAP_MAGIC, MAP_ADDRESS, MAP_KIND, MAP_NAN, MAP_EXTENTS, MAP_STRIDES = 0, 1, 2, 3, 4, 9
"""Indices of the magic number, the address, `map_kind`, 1 for padding with NaN, five extents, five strides in bytes."""
MAX_MAP_RANK = 5


def map_kind(rank: int, element_bytes: int) -> int:
    """Returns the word of a tensor map that holds its rank and the bytes of an element."""
    return rank | element_bytes << 8


class DescriptorArgument:
    """A tensor in an array, for a parameter of type `!tt.tensordesc<…>`.

    Args:
        array: C-contiguous; only its memory matters, so a flat buffer that is longer than the tensor will do. For launches
            on a GPU also an array in its memory: a `Buffer`, or anything with `__dlpack__` or `__cuda_array_interface__`.
        shape: extents of the tensor; the array's by default.
        strides: distances in elements along every axis; those of a dense row-major tensor by default.
        block_shape: the shape of the blocks; it must be the one of the parameter's type, which is the default.
        padding: the value that is read outside the tensor: "zero" or "nan" (floats only).

    A `!tt.ptr<i8>` parameter takes a descriptor too: it then points to the tensor map that the older
    operations read.

    Raises `UserError` for extents and strides that do not fit each other or the array.
    """

    def __init__(
        self,
        array: Array | DeviceArray,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        block_shape: Sequence[int] | None = None,
        padding: str = "zero",
    ) -> None:
        self.tensor = _checked(array, "TensorDescriptor")
        self.source: Array | DeviceArray = array
        """The array that the user gave; the tensor may be a view of it."""
        self.maps: dict[object, int] = {}
        """Tensor maps that launches on GPUs made from the descriptor. They live as long as the memory is
        held."""
        self.has_map: bool | None = None
        """Whether the tensor has a tensor map; None until a launch finds out."""
        self.fitting: dict[int, object] = {}
        """Parameters that the descriptor was found to fit, by identity."""
        self.shape = _integers("shape", self.tensor.shape if shape is None else shape)
        self.strides = _dense(self.shape) if strides is None else _integers("strides", strides)
        self.block_shape = None if block_shape is None else _integers("block_shape", block_shape)
        if not self.shape:
            raise UserError("TensorDescriptor: a tensor has at least one axis; fix: reshape the array")
        rank = len(self.shape)
        for name, values in (("strides", self.strides), ("block_shape", self.block_shape)):
            if values is not None and len(values) != rank:
                raise UserError(f"TensorDescriptor: shape {self.shape} has {rank} axes, {name} {values} has {len(values)}")
        if any(not 0 <= extent <= MAX_EXTENT for extent in self.shape):
            raise UserError(f"TensorDescriptor: shape {self.shape}, expected extents from 0 to {MAX_EXTENT}")
        if padding not in PADDINGS:
            raise UserError(f"TensorDescriptor: padding {padding!r}, expected 'zero' or 'nan'")
        if padding == "nan" and self.tensor.dtype.kind in "biu":
            raise UserError(f"TensorDescriptor: padding 'nan' of {self.tensor.dtype} elements; integers are padded with zeros")
        self.padding = padding
        self._check_reach()
        self._map: Array | None = None

    def __repr__(self) -> str:
        return f"<TensorDescriptor {self.tensor.dtype}: shape {self.shape}, strides {self.strides}, padding {self.padding}>"

    @property
    def array(self) -> Array:
        """The array. Raises `UserError` if it lies in the memory of a GPU."""
        return _on_host(self.tensor, "TensorDescriptor")

    def _check_reach(self) -> None:
        if 0 in self.shape:
            return
        steps = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
        if low < 0 or high >= self.tensor.size:
            worst = low if low < 0 else high
            raise UserError(
                f"TensorDescriptor: shape {self.shape} with strides {self.strides} reaches element {worst}, "
                f"the array has elements 0 … {self.tensor.size - 1}"
            )

    def encode_map(self, address: int, what: str) -> Array:
        """Returns the tensor map of the tensor at this address, int64 of shape (TENSOR_MAP_WORDS,). Raises
        `UserError` for more than MAX_MAP_RANK axes, or a last stride other than 1."""
        rank = len(self.shape)
        if rank > MAX_MAP_RANK or (self.strides[-1] != 1 and self.shape[-1] > 1):
            raise UserError(
                f"{what}: {self!r} has no tensor map; that takes at most {MAX_MAP_RANK} axes and a last stride of 1"
            )
        size = self.array.itemsize
        encoded = np.zeros(TENSOR_MAP_WORDS, np.int64)
        encoded[MAP_MAGIC], encoded[MAP_ADDRESS], encoded[MAP_KIND] = TENSOR_MAP_MAGIC, address, map_kind(rank, size)
        encoded[MAP_NAN] = self.padding == "nan"
        encoded[MAP_EXTENTS : MAP_EXTENTS + rank] = self.shape[::-1]
        encoded[MAP_STRIDES : MAP_STRIDES + rank] = [stride * size for stride in self.strides[::-1]]
        return encoded

    def native_map(self, what: str) -> Array:
        """Returns the tensor map for code that runs in this process; it lives as long as the descriptor."""
        if self._map is None:
            self._map = self.encode_map(address_of(self.array), what)
        return self._map


class TableArgument:
    """The addresses of arrays, for a parameter `!tt.ptr<i64>` (or of pointers to pointers).

    The arrays are C-contiguous and written in place; the table keeps them alive. For launches on a GPU they may lie in its
    memory, as those of a `TensorDescriptor`. Raises `UserError` for anything else.
    """

    def __init__(self, arrays: Sequence[Array | DeviceArray]) -> None:
        if isinstance(arrays, np.ndarray) or not isinstance(arrays, Sequence):
            raise UserError(f"PointerTable: expected a list of NumPy arrays, got {type(arrays).__name__}")
        self.tensors = tuple(_checked(array, f"PointerTable, array {index}") for index, array in enumerate(arrays))
        self.sources: tuple[Array | DeviceArray, ...] = tuple(arrays)
        self._native: Array | None = None

    def __repr__(self) -> str:
        return f"<PointerTable of {len(self.tensors)} arrays>"

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays. Raises `UserError` if one lies in the memory of a GPU."""
        return tuple(_on_host(array, f"PointerTable, array {index}") for index, array in enumerate(self.tensors))

    def addresses(self, address_in: Callable[[Array], int]) -> Array:
        """Returns the table as int64, given a function that returns an array's address. Raises `UserError` if
        an array lies in the memory of a GPU."""
        return np.array([address_in(array) for array in self.arrays], np.int64)

    def native(self) -> Array:
        """Returns the table for code that runs in this process; it lives as long as the object, and keeps
        what a kernel writes to it."""
        if self._native is None:
            self._native = self.addresses(address_of)
        return self._native


def address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _lies_on_device(array: object) -> TypeGuard[DeviceArray]:
    """Returns whether an array has a `DeviceArray`'s main attributes, which is faster than to check all of
    the protocol."""
    return hasattr(array, "address") and hasattr(array, "itemsize") and isinstance(getattr(array, "dtype", None), np.dtype)


def _on_host(array: Array | DeviceArray, what: str) -> Array:
    if isinstance(array, np.ndarray):
        return array
    raise UserError(f"{what}: {array!r} lies on {array.device}; fix: launch there, or pass a NumPy array")


def _checked(array: object, what: str) -> Array | DeviceArray:
    if not isinstance(array, np.ndarray):
        if _lies_on_device(array):
            return array
        raise UserError(f"{what}: expected a NumPy array, got {type(array).__name__}")
    if array.dtype.hasobject:
        raise UserError(f"{what}: an array of Python objects has no memory a kernel could read")
    if not array.flags.c_contiguous:
        raise UserError(f"{what}: the array is not C-contiguous; pass numpy.ascontiguousarray(array), or its base with strides")
    return array


def _integers(name: str, values: object) -> tuple[int, ...]:
    found = tuple(values) if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else None
    if found is None or any(isinstance(v, bool) or not isinstance(v, int | np.integer) for v in found):
        raise UserError(f"TensorDescriptor: {name} {values!r}, expected a sequence of integers")
    if any(not -(1 << 63) <= value < 1 << 63 for value in found):
        raise UserError(f"TensorDescriptor: {name} {found} does not fit into 64 bits")
    return tuple(int(value) for value in found)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    if step >= 1 << 63:
        raise UserError(f"TensorDescriptor: shape {tuple(shape)} has more elements than fit into memory")
    return tuple(reversed(strides))
