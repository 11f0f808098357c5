"""Where NumPy's dtypes and torch's tensors keep what a launch needs, found by looking at some whose values are known.

Asking a tensor by its methods takes half a microsecond, with the object that it makes of its storage. What cannot be found
exactly once is not read: such objects are asked as before.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...runtime.native import objects

_SLOT = 8
_OBJECT, _TENSOR, _STORAGE = range(2, 3), range(1, 22), range(1, 10)
"""Slots of objects that are looked through; the first are counts of references and tables of functions. In versions of torch
whose objects may also borrow a tensor, which takes a slot to tell, tensors are asked by their methods."""
_ELEMENT_SIZES = 64
_NUMBERS = {"uint8": 0, "int64": 4, "float16": 5, "float32": 6, "bool": 11, "bfloat16": 15}
"""Numbers of dtypes in torch's `ScalarType`, by which the offset of the number is found."""


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A table as `runtime/native/launch.ll` reads it.

    has_tensors: whether it is one of tensors, too. alive: what it refers to.
    """

    table: Array
    has_tensors: bool
    alive: tuple[object, ...]


def memory_layout(arrays: type, device: str) -> MemoryLayout | None:
    """The layout of arrays, also of a subclass that is memory and nothing else, and of tensors on a device if torch is loaded.

    None where arrays do not look as expected.
    """
    if not objects.are_readable():
        return None
    try:
        size = _offset((np.dtype(each), np.dtype(each).itemsize) for each in ("i1", "f4", "f8", "S1237", "V4099"))
    except LookupError:
        return None
    slots, alive = _of_tensors(device) if "torch" in sys.modules else ((), ())
    table = np.zeros(15 + _ELEMENT_SIZES // _SLOT, np.int64)
    table[:2] = id(arrays), size
    table[2 : 2 + len(slots)] = slots
    return MemoryLayout(table, bool(slots), (arrays, *alive))


def _offset(samples: Iterable[tuple[object, int]]) -> int:
    """The offset at which NumPy's dtypes have a number. Raises `LookupError` unless there is one."""
    return _only([(id(each), number) for each, number in samples], range(2, 8))


def _only(samples: Sequence[tuple[int, int]], slots: Iterable[int]) -> int:
    """The offset at which each object, given by its address, has its number. Raises `LookupError` unless there is one."""
    found = [slot for slot in slots if all(_read(address, slot) == number for address, number in samples)]
    if len(found) != 1:
        raise LookupError
    return _SLOT * found[0]


def _read(address: int, slot: int) -> int:
    return ctypes.c_int64.from_address(address + _SLOT * slot).value


@functools.cache
def _of_tensors(device: str) -> tuple[tuple[int, ...], tuple[object, ...]]:
    """Slots 2 and following of the table, and what they refer to; nothing where tensors do not look as expected."""
    torch = sys.modules["torch"]
    try:
        with torch.utils._python_dispatch._disable_current_modes():  # such as one that makes tensors without memory
            return _found(torch, device)
    except (AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError):
        return (), ()


def _found(torch: Any, device: str) -> tuple[tuple[int, ...], tuple[object, ...]]:
    shapes = ((37, 3), (101, 11), (53, 29))
    plain = [torch.empty(rows, 23, dtype=torch.float32, device="cpu")[skipped:, 5:] for rows, skipped in shapes]
    of_arrays = [torch.from_numpy(np.empty(each, np.uint8)) for each in (1237, 4099)]
    tensors = [*plain, *of_arrays]
    storages = [each.untyped_storage() for each in tensors]
    own = [each._cdata for each in tensors]

    def offset(objects: Sequence[int], numbers: Iterable[int], slots: Iterable[int]) -> int:
        return _only(list(zip(objects, numbers, strict=True)), slots)

    def keys(tensor: Any) -> int:
        return ctypes.c_int64(torch._C._dispatch_keys(tensor).raw_repr()).value

    in_object = offset([id(each) for each in tensors], own, _OBJECT)
    here = torch.empty(1, device=device)
    with torch.inference_mode():
        inferred = torch.empty(1, device=device)
    both = [here, inferred, torch.zeros((1, 2), device="cpu").to_sparse()]
    in_tensor = [
        offset([each._cdata for each in both], map(keys, both), _TENSOR),
        offset(own, [each.numel() for each in tensors], _TENSOR),
        offset(own, [each._cdata for each in storages], _TENSOR),
        offset(own, [each.storage_offset() for each in tensors], _TENSOR),
    ]
    number, sizes = _dtypes(torch)
    objects_of_storages = [each._cdata for each in storages]
    in_storage = [
        offset(objects_of_storages, [each.data_ptr() for each in storages], _STORAGE),
        offset(objects_of_storages, [each.nbytes() for each in storages], _STORAGE),
    ]
    state = _state(torch, objects_of_storages, in_storage[1])
    types = (torch.Tensor, torch.nn.Parameter)
    slots = (*map(id, types), in_object, in_tensor[0], keys(here), keys(inferred), *in_tensor[1:], number, *in_storage, state)
    return (*slots, *sizes), types


def _dtypes(torch: Any) -> tuple[int, list[int]]:
    """Where tensors have the number of their dtype, and the bytes of elements by number, as 64-bit slots."""
    known = {name: torch.empty(1, dtype=getattr(torch, name), device="cpu") for name in _NUMBERS}

    def number_in(tensor: Any, at: int) -> int:
        return ctypes.c_uint16.from_address(tensor._cdata + at).value

    offsets = range(_SLOT * _TENSOR.start, _SLOT * _TENSOR.stop, 2)
    found = [at for at in offsets if all(number_in(known[name], at) == number for name, number in _NUMBERS.items())]
    if len(found) != 1:
        raise LookupError
    sizes = bytearray(_ELEMENT_SIZES)
    for name, number in _NUMBERS.items():
        sizes[number] = known[name].element_size()
    for name in ("int8", "int16", "int32", "float64", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"):
        if hasattr(torch, name):
            tensor = torch.empty(1, dtype=getattr(torch, name), device="cpu")
            sizes[number_in(tensor, found[0])] = tensor.element_size()
    return found[0], np.frombuffer(bytes(sizes), np.int64).tolist()


def _state(torch: Any, storages: Sequence[int], size: int) -> int:
    """Where storages have the byte that says whether their memory is not to be used as it is: it is shared until it is written.

    The byte is among those behind the size.
    """
    shared = torch._lazy_clone(torch.empty(1237, device="cpu"))
    offsets = range(size + _SLOT, size + 2 * _SLOT)

    def byte(storage: int, at: int) -> int:
        return ctypes.c_uint8.from_address(storage + at).value

    found = [at for at in offsets if byte(shared.untyped_storage()._cdata, at) == 1 and not any(byte(s, at) for s in storages)]
    if len(found) != 1:
        raise LookupError
    return found[0]
