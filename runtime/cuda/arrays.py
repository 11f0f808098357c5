"""Makes arrays in the memory of a CUDA device inputs and outputs of models."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.arrays import DeviceArray, NumpyDType
from ...promotion.errors import UserError
from .buffers import Buffer, buffer_of
from .device import CudaDevice


class CudaArrays:
    """Implements `runtime.gpu.DeviceArrays`."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device

    def array_of(self, value: object) -> Buffer | None:
        found = buffer_of(value)
        if found is not None and found.cuda is not self._device:
            raise UserError(
                f"{found!r} does not lie on {self._device.name}, where the model runs; fix: copy it there, or compile for "
                f"device={found.device!r}"
            )
        return found

    def new_array(self, shape: tuple[int, ...], dtype: NumpyDType) -> Buffer:
        return Buffer(shape, dtype, self._device)

    def is_writeable(self, array: DeviceArray) -> bool:
        return not (isinstance(array, Buffer) and array.is_read_only)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._device.copy_between(target, source, nbytes)

    def wait_for_foreign(self, arrays: Sequence[DeviceArray]) -> None:
        if any(isinstance(array, Buffer) and array.is_foreign for array in arrays):
            self._device.synchronize()
