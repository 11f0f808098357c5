"""One memory, two tensors: on the CPU and on "cuda:0".

Tensors are handed over by DLPack, whose capsules say which device their memory is on: what they say is changed on the way.
Nothing is copied. The new tensor keeps the old one alive, so the old one must never be given other memory: no tensor of the
user's may be what a lasting tensor keeps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .quantized import Quantized

_CPU, _CUDA = 1, 2
"""Numbers of devices in DLPack."""

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Head(ctypes.Structure):
    """What a `DLTensor` begins with."""

    _fields_ = (("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class Aliases:
    """Hands tensors of one device over to the other.

    count: is told of memory that goes to "cuda:0", by the address of its `DLManagedTensor`.
    """

    def __init__(self, torch: Any, count: Callable[[int], Any]) -> None:
        self._count = count
        self._pack, self._unpack = torch._C._to_dlpack, torch._C._from_dlpack
        self._view, self._strided = torch.ops.aten.view.dtype, torch.ops.aten.as_strided.default
        self._set, self._empty = torch.ops.aten.set_.source_Storage_storage_offset, torch.ops.aten.empty.memory_format
        self._dense = torch.strided
        self._of_parts = torch.ops.aten._sparse_coo_tensor_unsafe.default
        self._of_compressed = torch.ops.aten._sparse_compressed_tensor_unsafe.default
        rows, columns = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
        self._compressed = {
            torch.sparse_csr: rows, torch.sparse_bsr: rows, torch.sparse_csc: columns, torch.sparse_bsc: columns
        }  # fmt: skip
        self._keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        self._integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        self._foreign: set[Any] = set()
        """dtypes that DLPack does not know."""
        self.quantized = Quantized(torch, self.on_cpu, self.on_cuda)

    def on_cpu(self, tensor: Any) -> Any:
        """The memory of a tensor on "cuda:0", as a tensor on the CPU."""
        if tensor.layout != self._dense:
            return self.sparse_moved(tensor, self.on_cpu)
        found = self._moved(tensor, _CPU)
        if tensor.is_conj():
            found = found.conj()
        return found._neg_view() if tensor.is_neg() else found

    def whole_on_cpu(self, tensor: Any) -> Any:
        """What `on_cpu` returns, with the memory of the whole storage around it."""
        return self._in_storage(tensor, self.on_cpu)

    def in_shared(self, storages: dict[int, Any], tensor: Any) -> Any:
        """What `on_cpu` returns, in one of these storages of the CPU's if the tensor lies in the memory of one."""
        if tensor.layout != self._dense or (storage := storages.get(tensor.untyped_storage().data_ptr())) is None:
            return self.on_cpu(tensor)
        found = self._empty([0], dtype=tensor.dtype, device="cpu")
        self._set.redispatch(self._keys, found, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.is_conj():
            found = found.conj()
        return found._neg_view() if tensor.is_neg() else found

    def on_cuda(self, tensor: Any) -> Any:
        """The memory of a tensor on the CPU, as a tensor on "cuda:0"."""
        if tensor.is_quantized:
            return self.quantized.on_cuda(tensor)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if tensor.storage_offset():
            return self._in_storage(tensor, lambda whole: self._moved(whole, _CUDA))
        return self._moved(tensor, _CUDA)

    def sparse_moved(self, tensor: Any, move: Callable[[Any], Any]) -> Any:
        """A sparse tensor of the same parts on the other device. Raises `NotImplementedError` for other kinds of tensors."""
        if tensor.is_sparse:
            parts = move(tensor._indices()), move(tensor._values())
            return self._of_parts(*parts, tensor.shape, is_coalesced=tensor.is_coalesced())
        for layout, names in self._compressed.items():
            if tensor.layout == layout:
                values, *indices = [move(getattr(tensor, name)()) for name in ("values", *names)]
                options = {"layout": layout, "dtype": values.dtype, "device": values.device}
                return self._of_compressed(*indices, values, tensor.shape, **options)
        raise NotImplementedError(f"tensors of {tensor.layout} are not there for the CPU that stands for a GPU")

    def viewed(self, tensor: Any, shape: Any, strides: Any) -> Any:
        """A view of a tensor from its first element on."""
        return self._strided.redispatch(self._keys, tensor, shape, strides, tensor.storage_offset())

    def _in_storage(self, tensor: Any, move: Callable[[Any], Any]) -> Any:
        """What lies in the moved storage as the tensor lies in its own."""
        number = tensor.untyped_storage().nbytes() // tensor.element_size()
        whole = self._strided.redispatch(self._keys, tensor, [number], [1], 0)
        return self._strided.redispatch(self._keys, move(whole), tensor.shape, tensor.stride(), tensor.storage_offset())

    def _moved(self, tensor: Any, kind: int) -> Any:
        dtype = tensor.dtype
        if dtype not in self._foreign:
            try:
                capsule = self._pack(tensor)
            except (BufferError, RuntimeError):
                self._foreign.add(dtype)
            else:
                address = _pointer(capsule, b"dltensor")
                head = _Head.from_address(address)
                head.kind, head.number = kind, 0
                if kind == _CUDA:
                    self._count(address)
                return self._unpack(capsule)
        as_integers = self._view.redispatch(self._keys, tensor, self._integers[tensor.element_size()])
        return self._view.redispatch(self._keys, self._moved(as_integers, kind), dtype)
