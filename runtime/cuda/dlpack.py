"""Reads and makes DLPack capsules with ctypes, since NumPy has no arrays in a device's memory.

Both kinds of capsules are supported: "dltensor" (versions 0.x) and "dltensor_versioned" (1.x). A capsule is consumed once;
its memory lives until its deleter is called. Every field of a capsule is checked before it is used.

Sources: DLPack, dlpack.h 1.1; "Python Specification for DLPack"; Python array API standard, `__dlpack__`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from math import prod

from ...promotion.arrays import NumpyDType
from ...promotion.dtype import DTYPES
from ...promotion.errors import UserError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
DEVICES = {
    1: "the CPU", 2: "a CUDA device", 3: "page-locked memory of the host", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI",
    10: "ROCm", 11: "page-locked memory for ROCm", 12: "an extension device", 13: "CUDA managed memory", 14: "oneAPI",
    15: "WebGPU", 16: "Hexagon", 17: "Maia", 18: "Trainium",
}  # fmt: skip
MAX_RANK = 64
READ_ONLY = 1


@functools.cache  # ml_dtypes loads with it
def _codes() -> dict[tuple[int, int], NumpyDType]:
    """Returns (type code, bits) → NumPy dtype, for types whose elements occupy whole bytes."""
    return {
        (dtype.names.dlpack, dtype.itemsize * 8): dtype.numpy
        for dtype in DTYPES.values()
        if dtype.names.dlpack is not None and (dtype.bits >= 8 or dtype.is_bool)
    }


@functools.cache
def _of_dtype() -> dict[NumpyDType, tuple[int, int]]:
    return {dtype: key for key, dtype in _codes().items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NAME, _NAME_VERSIONED = b"dltensor", b"dltensor_versioned"
_USED, _USED_VERSIONED = b"used_dltensor", b"used_dltensor_versioned"
_api = ctypes.pythonapi
# Capsules are passed as addresses where they may be dying: a new reference would resurrect them.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _api))


class Imported:
    """The content of a capsule: a tensor in memory that another library owns, valid until `release`.

    Attributes:
        address: of the first element.
        shape, dtype: as those of a NumPy array.
        strides: in elements; None for row-major.
        device_type, device_id: as DLPack numbers them.
        is_read_only: whether the exporter forbids writes.

    Raises `UserError` for consumed or invalid capsules and for tensors that are not supported.
    """

    def __init__(self, capsule: object) -> None:
        at = id(capsule)
        if _is_valid(at, _NAME_VERSIONED):
            versioned = _Versioned.from_address(_get_pointer(at, _NAME_VERSIONED))
            _set_name(capsule, _USED_VERSIONED)
            self._release(versioned)
            version = int(versioned.major), int(versioned.minor)
            if version[0] != 1:
                self.release()
                raise UserError(f"a DLPack capsule of version {version[0]}.{version[1]}; known are 0.x and 1.x")
            self.is_read_only = bool(versioned.flags & READ_ONLY)
            tensor = versioned.tensor
        elif _is_valid(at, _NAME):
            managed = _Managed.from_address(_get_pointer(at, _NAME))
            _set_name(capsule, _USED)
            self._release(managed)
            self.is_read_only = False
            tensor = managed.tensor
        elif _is_valid(at, _USED) or _is_valid(at, _USED_VERSIONED):
            raise UserError("the DLPack capsule was consumed before; fix: ask the exporter for another one")
        else:
            raise UserError(f"expected a DLPack capsule, got {type(capsule).__name__}")
        try:
            self._read(tensor)
        except BaseException:
            self.release()
            raise

    def _release(self, managed: _Managed | _Versioned) -> None:
        address, deleter = ctypes.addressof(managed), managed.deleter
        self._delete: Callable[[], object] | None = (lambda: _DELETER(deleter)(address)) if deleter else None

    def _read(self, tensor: _Tensor) -> None:
        rank = int(tensor.ndim)
        if not 0 <= rank <= MAX_RANK:
            raise UserError(f"a DLPack tensor of {rank} axes; at most {MAX_RANK} are taken")
        if rank and not tensor.shape:
            raise UserError("a DLPack tensor without a shape")
        self.shape = tuple(int(tensor.shape[axis]) for axis in range(rank))
        self.strides = tuple(int(tensor.strides[axis]) for axis in range(rank)) if tensor.strides else None
        self.device_type, self.device_id = int(tensor.device_type), int(tensor.device_id)
        if any(extent < 0 for extent in self.shape):
            raise UserError(f"a DLPack tensor of shape {self.shape}")
        if int(tensor.lanes) != 1:
            raise UserError(f"a DLPack tensor whose elements are vectors of {int(tensor.lanes)}; fix: one more axis instead")
        found = _codes().get((int(tensor.code), int(tensor.bits)))
        if found is None:
            kind = f"type code {int(tensor.code)} with {int(tensor.bits)} bits"
            raise UserError(f"a DLPack tensor of {kind}, which is not known here")
        self.dtype = found
        nbytes = prod(self.shape) * found.itemsize
        if nbytes >= 1 << 63 or int(tensor.byte_offset) >= 1 << 63:
            raise UserError(f"a DLPack tensor of shape {self.shape}, more than memory can hold")
        if nbytes and not tensor.data:
            raise UserError(f"a DLPack tensor of shape {self.shape} without memory")
        self.address = int(tensor.data or 0) + int(tensor.byte_offset)

    def release(self) -> None:
        """Tells the exporter that the memory is no longer needed. A second call does nothing."""
        delete, self._delete = getattr(self, "_delete", None), None
        if delete is not None:
            delete()

    def __del__(self) -> None:
        self.release()


def is_row_major(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """Returns whether the elements are adjacent in memory, with the last axis fastest. Strides are in
    elements; those of axes of extent 1 do not count."""
    if strides is None or 0 in shape:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


# -- export ----------------------------------------------------------------------------------

_exported: dict[int, tuple[_Managed | _Versioned, ctypes.Array[ctypes.c_int64], object]] = {}
"""Address of a managed tensor → the tensor, its shape and strides, and the object that keeps the memory alive."""


def _forget(address: int) -> None:
    _exported.pop(address, None)


def _capsule_dies(capsule: int) -> None:
    """Frees the tensor of a capsule that was never consumed, and so still owns it."""
    for name in (_NAME, _NAME_VERSIONED):
        if _is_valid(capsule, name):
            _forget(_get_pointer(capsule, name))


_FORGET, _DIES = _DELETER(_forget), _DELETER(_capsule_dies)


def make_capsule(
    address: int,
    shape: tuple[int, ...],
    dtype: NumpyDType,
    device_type: int,
    device_id: int,
    owner: object,
    versioned: bool = True,
    read_only: bool = False,
) -> object:
    """Makes a capsule of a row-major tensor; `owner` is kept alive until the consumer is done. Raises
    `UserError` for dtypes that DLPack lacks."""
    if dtype not in _of_dtype():
        raise UserError(f"dtype {dtype} has no DLPack type; fix: view the bits as unsigned integers")
    code, bits = _of_dtype()[dtype]
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    numbers = (ctypes.c_int64 * (2 * len(shape) or 1))(*shape, *strides)
    first = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
    second = ctypes.cast(ctypes.addressof(numbers) + 8 * len(shape), ctypes.POINTER(ctypes.c_int64))
    tensor = _Tensor(address, device_type, device_id, len(shape), code, bits, 1, first, second, 0)
    deleter = ctypes.cast(_FORGET, ctypes.c_void_p)
    managed: _Managed | _Versioned
    if versioned:
        managed = _Versioned(1, 0, None, deleter, READ_ONLY if read_only else 0, tensor)
    else:
        managed = _Managed(tensor, None, deleter)
    at = ctypes.addressof(managed)
    _exported[at] = managed, numbers, owner
    name = _NAME_VERSIONED if versioned else _NAME
    capsule: object = _new(at, name, ctypes.cast(_DIES, ctypes.c_void_p))
    return capsule
