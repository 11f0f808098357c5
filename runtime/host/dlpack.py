"""Takes arrays of other libraries in the host's memory by DLPack, formats that NumPy does not have itself among them."""

from __future__ import annotations

import ctypes

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ..cuda.dlpack import CPU, CUDA_HOST, Imported


def is_exported(value: object) -> bool:
    """Returns whether a value offers memory of the host by DLPack."""
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        return False
    try:
        return value.__dlpack_device__()[0] in (CPU, CUDA_HOST)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return False


def host_array(value: object, what: str) -> Array:
    """Returns the array of an exporter as one of NumPy over the same memory, which lives as long.

    Raises `UserError` for what the exporter or `Imported` refuses.
    """
    if callable(negated := getattr(value, "is_neg", None)) and negated():  # PyTorch exports its memory without the sign
        value = value.resolve_neg()  # type: ignore[attr-defined]
    try:
        capsule = value.__dlpack__()  # type: ignore[attr-defined]
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        problem = str(error).partition("\n")[0]
        raise UserError(
            f"{what}: its {type(value).__name__} cannot be exported ({problem}); fix: a dense copy of it without a gradient"
        ) from error
    found = Imported(capsule)
    steps = None
    if found.strides is not None and all(found.shape):
        if any(step < 0 for step in found.strides):
            raise UserError(f"{what} has strides {found.strides}; fix: a copy of it")
        steps = tuple([step * found.dtype.itemsize for step in found.strides])
    nbytes = _span(found.shape, steps, found.dtype.itemsize)
    memory = (ctypes.c_uint8 * nbytes).from_address(found.address) if nbytes else (ctypes.c_uint8 * 1)()
    memory.owner = found  # type: ignore[attr-defined]
    array: Array = np.ndarray(found.shape, found.dtype, memoryview(memory), strides=steps)
    if found.is_read_only:
        array.flags.writeable = False
    return array


def _span(shape: tuple[int, ...], steps: tuple[int, ...] | None, itemsize: int) -> int:
    """Returns how many bytes lie between the first and the end of the last element."""
    if steps is None:
        return itemsize * int(np.prod(shape, dtype=np.int64))
    return itemsize + sum(step * (extent - 1) for step, extent in zip(steps, shape, strict=True))
