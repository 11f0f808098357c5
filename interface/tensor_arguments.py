"""Defines tensor descriptors and tables of pointers as users make them, over NumPy and GPU arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lowering.tt import host_values
from ..lowering.tt.arguments import Parameter
from ..promotion.errors import UserError
from ..runtime.cuda.buffers import Buffer, buffer_of


class TensorDescriptor(host_values.DescriptorArgument):
    __doc__ = host_values.DescriptorArgument.__doc__

    def __init__(
        self,
        array: Any,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        block_shape: Sequence[int] | None = None,
        padding: str = "zero",
    ) -> None:
        super().__init__(_adopted(array), shape, strides, block_shape, padding)
        self.source = array


class PointerTable(host_values.TableArgument):
    __doc__ = host_values.TableArgument.__doc__

    def __init__(self, arrays: Sequence[Any]) -> None:
        is_list = isinstance(arrays, Sequence)
        super().__init__([_adopted(array) for array in arrays] if is_list else arrays)
        self.sources = tuple(arrays)


def _adopted(array: Any) -> Any:
    """Return a buffer for another library's array on a GPU.

    Return NumPy arrays, and what is neither, as they are.
    """
    buffer = buffer_of(array)
    return array if buffer is None else buffer


def on_device(tensor: Any, source: Any, parameter: Parameter) -> Buffer:
    """Return the buffer that a launch uses for an array of a descriptor or a table that lies on a device.

    Another library's array is asked again, which makes the device wait for the library's pending work on it.
    Raises `UserError` if its memory is not where it was, or was freed.
    """
    if source is tensor and type(source) is Buffer:
        source.check()
        return source
    buffer = buffer_of(source)
    identity = (tensor.address, tensor.nbytes, tensor.cuda)
    if buffer is None or (buffer.address, buffer.nbytes, buffer.cuda) != identity:
        moved = f"the memory of its {type(source).__name__} has moved since it was described; fix: do it anew"
        raise UserError(f"{parameter.what}: {moved}")
    return buffer
