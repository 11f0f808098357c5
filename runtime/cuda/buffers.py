"""Provides arrays in the memory of a CUDA device: allocated here, or shared with other libraries without a copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from ...promotion.arrays import Array, NumpyDType
from ...promotion.dtype import DType
from ...promotion.errors import DeviceError, UserError
from .device import ANYWHERE, LEGACY, LEGACY_STREAM, CudaDevice, CudaMemory, cuda_device
from .dlpack import CUDA, CUDA_MANAGED, DEVICES, Imported, is_row_major, make_capsule

MAX_BYTES = 1 << 48


class Buffer:
    """A row-major array in the memory of a CUDA device.

        x = jn.Buffer(numpy_array)                     # a copy, on device "cuda"
        y = jn.Buffer((64, 1024), dtype=jn.bfloat16)   # undefined contents
        z = jn.Buffer.from_dlpack(torch_tensor)        # the same memory
        kernel.launch((64,), x, y, device="cuda")      # used in place
        y.numpy()

    Kernels, copies and frees are carried out in the order of the calls. Other libraries share it by `__dlpack__` and
    `__cuda_array_interface__`. Its memory is freed by `free`, at the end of a `with`, or when nothing refers to it.

    Args:
        source: a NumPy array to copy, or the shape of an array with undefined contents.
        dtype: a `DType`, its name or a NumPy dtype; by default the array's, or float32 for a shape.
        device: "cuda", or "cuda:1" and so on.

    Attributes:
        shape, dtype, size, nbytes: as those of a NumPy array.
        address: of the first element.
        device: the device's name.
        is_read_only: whether the library that shares the memory forbids writes.

    Raises `UserError` for an invalid shape, dtype or device; `DeviceError` without a driver or device;
    `DeviceMemoryError` if there is too little memory.
    """

    def __init__(
        self,
        source: Array | int | Sequence[int],
        dtype: DType | DTypeLike | None = None,
        device: str | CudaDevice = "cuda",
    ) -> None:
        owner = device if isinstance(device, CudaDevice) else cuda_device(device)
        array: Array | None = None
        if isinstance(source, np.ndarray):
            array = np.ascontiguousarray(source, None if dtype is None else _numpy_dtype(dtype))
            if array.dtype.hasobject:
                raise UserError("Buffer: an array of Python objects has no memory a device could hold")
            shape, found = source.shape, array.dtype
        else:
            shape, found = _shape(source), _numpy_dtype("float32" if dtype is None else dtype)
        self._set(owner, shape, found, False)
        memory = owner.allocate(self.nbytes)
        self._owner: CudaMemory | Imported | object = memory
        self.address = memory.address
        if array is not None:
            try:
                owner.upload(memory, 0, array)
            except BaseException:
                memory.free()
                raise

    def _set(self, device: CudaDevice, shape: tuple[int, ...], dtype: NumpyDType, is_read_only: bool) -> None:
        self.cuda = device
        self.shape = tuple(int(extent) for extent in shape)
        self.dtype = dtype
        self.is_read_only = is_read_only
        self._is_freed = False
        self._is_shared = False  # whether other libraries may use the memory
        self.maps: dict[object, int] = {}
        """Tensor maps that launches encoded for this buffer."""

    @classmethod
    def _over(
        cls, device: CudaDevice, address: int, shape: tuple[int, ...], dtype: NumpyDType, owner: object,
        is_read_only: bool, is_shared: bool = False,
    ) -> Buffer:  # fmt: skip
        """Makes a buffer of memory that another object owns."""
        self = cls.__new__(cls)
        self._set(device, shape, dtype, is_read_only)
        self._is_shared = is_shared
        self._owner, self.address = owner, address
        return self

    # -- properties

    @property
    def device(self) -> str:
        """The CUDA device that holds the memory."""
        return self.cuda.name

    @property
    def is_foreign(self) -> bool:
        """Whether another library owns the memory, and uses it on streams of its own."""
        return not isinstance(self._owner, CudaMemory)

    @property
    def is_plain(self) -> bool:
        """Whether the buffer is in use, owns its memory and may be written."""
        return type(self._owner) is CudaMemory and not self.is_read_only

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        state = ", freed" if self._is_freed else ", read-only" if self.is_read_only else ""
        return f"<Buffer {self.dtype.name}{list(self.shape)} on {self.device}{state}>"

    def __reduce__(self) -> NoReturn:
        raise UserError(
            "a Buffer cannot be copied or pickled by Python: it is memory of a device; "
            "fix: joinery.Buffer(buffer.numpy()) for a copy, and buffer.numpy() to pickle its contents"
        )

    # -- copies

    def numpy(self) -> Array:
        """Copies the elements to a NumPy array; waits for the kernels that write them."""
        self.check()
        array = np.empty(self.shape, self.dtype)
        self.cuda.download(self._memory(), 0, array)
        return array

    def copy_from(self, array: Array | Buffer) -> None:
        """Copies the elements of a NumPy array, or of a buffer on the same device, into this one. Raises
        `UserError` if shape or dtype differ or the buffer is read-only."""
        self.check()
        fits = isinstance(array, np.ndarray | Buffer) and array.shape == self.shape and array.dtype == self.dtype
        if not fits or (isinstance(array, Buffer) and array.cuda is not self.cuda):
            what = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            what = repr(array) if isinstance(array, Buffer) else what
            raise UserError(f"Buffer.copy_from: expected an array {self.dtype}{list(self.shape)}, got {what}")
        if self.is_read_only:
            raise UserError(f"Buffer.copy_from: {self!r} belongs to a library that forbids writes")
        if isinstance(array, Buffer):
            array.check()
            self.cuda.copy(self._memory(), 0, array._memory(), 0, self.nbytes)
        else:
            self.cuda.upload(self._memory(), 0, np.ascontiguousarray(array))
        if self.is_foreign or (isinstance(array, Buffer) and array.is_foreign):
            self.cuda.synchronize()

    def _memory(self) -> CudaMemory:
        return self._owner if isinstance(self._owner, CudaMemory) else _View(self.cuda, self.address, self.nbytes)

    # -- lifetime

    def check(self) -> None:
        """Raises `UserError` if the buffer was freed."""
        if self._is_freed:
            raise UserError(f"{self!r} is used; fix: free it later")

    def free(self) -> None:
        """Frees the memory once the operations that were queued before are done. A second call does nothing.

        Memory that other libraries share is freed only once they and their streams are done with it.
        """
        if self._is_freed:
            return
        self._is_freed, self.address = True, 0
        self.maps.clear()
        owner, self._owner = self._owner, None
        if not self._is_shared:
            if isinstance(owner, CudaMemory):
                owner.free()
            elif isinstance(owner, Imported):
                owner.release()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.free()

    # -- other libraries

    @classmethod
    def from_dlpack(cls, source: object) -> Buffer:
        """Shares the memory of another library's array, of any object with `__dlpack__` or
        `__cuda_array_interface__`, without a copy.

        The exporter's array stays alive as long as the buffer. Raises `UserError` for arrays that are not on a CUDA device,
        not row-major, or of an unknown type.
        """
        if isinstance(source, Buffer):
            source.check()
            source._is_shared = True
            return cls._over(source.cuda, source.address, source.shape, source.dtype, source._owner, source.is_read_only, True)
        if hasattr(source, "__dlpack__"):
            return cls._from_capsule(source)
        if hasattr(source, "__cuda_array_interface__"):
            return cls._from_interface(source)
        raise UserError(
            f"Buffer.from_dlpack: expected an object with __dlpack__ or __cuda_array_interface__, got {type(source).__name__}"
        )

    @classmethod
    def _from_capsule(cls, source: Any) -> Buffer:
        what = f"Buffer.from_dlpack, {type(source).__name__}"
        try:
            kind, ordinal = (int(number) for number in source.__dlpack_device__())
        except (AttributeError, TypeError, ValueError) as error:
            raise UserError(f"{what}: its __dlpack_device__ does not say where it lies: {error}") from error
        _check_device(what, kind)
        device = cuda_device(ordinal)
        device.check_alive()
        try:
            capsule = source.__dlpack__(stream=device.stream, max_version=(1, 0))
        except TypeError:  # exporters older than version 1 have no max_version
            capsule = source.__dlpack__(stream=device.stream)
        found = Imported(capsule)
        try:
            _check_device(what, found.device_type)
            if found.device_type == CUDA and found.device_id != device.ordinal:
                raise UserError(f"{what}: it said device {device.ordinal}, its capsule says {found.device_id}")
            if not is_row_major(found.shape, found.strides):
                raise UserError(
                    f"{what}: shape {found.shape} with strides {found.strides} is not row-major; fix: make it contiguous"
                )
        except BaseException:
            found.release()
            raise
        return cls._over(device, found.address, found.shape, found.dtype, found, found.is_read_only)

    @classmethod
    def _from_interface(cls, source: Any) -> Buffer:
        what = f"Buffer.from_dlpack, {type(source).__name__}"
        interface = source.__cuda_array_interface__
        try:
            shape = _shape(interface["shape"])
            address, is_read_only = int(interface["data"][0] or 0), bool(interface["data"][1])
            dtype, strides, stream = np.dtype(interface["typestr"]), interface.get("strides"), interface.get("stream")
            steps = None if strides is None else tuple(int(step) for step in strides)
            if steps is not None and len(steps) != len(shape):
                raise ValueError(f"{len(steps)} strides for {len(shape)} axes")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(f"{what}: its __cuda_array_interface__ cannot be read: {error!r}") from error
        if interface.get("mask") is not None:
            raise UserError(f"{what}: masked arrays are not taken")
        if dtype.hasobject or dtype.byteorder == ">" or dtype.names is not None:
            raise UserError(f"{what}: dtype {dtype} is not taken; fix: numbers in the machine's byte order")
        if stream == 0:
            raise UserError(f"{what}: its __cuda_array_interface__ names stream 0, which may mean two things")
        if steps is not None and any(step % dtype.itemsize for step in steps):
            raise UserError(f"{what}: strides {steps} are no multiples of the element's {dtype.itemsize} bytes")
        if steps is not None and not is_row_major(shape, tuple(step // dtype.itemsize for step in steps)):
            raise UserError(f"{what}: shape {shape} with strides {steps} (bytes) is not row-major; fix: make it contiguous")
        if prod(shape) and not address:
            raise UserError(f"{what}: shape {shape} without memory")
        device = cuda_device(0)
        if prod(shape):
            device = cuda_device(_ordinal_of(device, address, what))
        if stream is not None:
            device.wait_for(int(stream))
        return cls._over(device, address, shape, dtype, source, is_read_only)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.cuda.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Returns a DLPack capsule of the memory.

        stream: the consumer's stream, which waits for the operations queued on this device; with -1 it does not wait.
        Raises `BufferError` for another device, for a copy, and for a read-only buffer without versioned capsules.
        """
        self.check()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"{self!r} goes to device {self.__dlpack_device__()} only, not to {tuple(dl_device)}")
        if copy:
            raise BufferError(f"{self!r} is shared, not copied; fix: copy on the other side")
        versioned = max_version is not None and max_version[0] >= 1
        if self.is_read_only and not versioned:
            raise BufferError(f"{self!r} is read-only, which capsules before version 1 cannot say")
        if stream == 0:
            raise BufferError("stream 0 may mean two things; fix: 1 for the legacy default stream, 2 for that of the thread")
        consumer = LEGACY_STREAM if stream is None else int(stream)
        if consumer != -1:
            self.cuda.let_wait(consumer)
        self._lend(LEGACY if consumer == LEGACY_STREAM else ANYWHERE)
        capsule = make_capsule(
            self.address, self.shape, self.dtype, CUDA, self.cuda.ordinal, self._owner, versioned, self.is_read_only
        )
        self._is_shared = True
        return capsule

    def _lend(self, streams: int) -> None:
        """Records which streams besides this device's may use the memory: it is freed after them."""
        if isinstance(self._owner, CudaMemory):
            self._owner.elsewhere = max(self._owner.elsewhere, streams)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The CUDA array interface, version 3. Waits for kernels that write the memory, as not every consumer
        heeds streams."""
        self.check()
        self.cuda.synchronize()
        self._lend(ANYWHERE)
        is_numeric = self.dtype.kind in "biufc"
        return {
            "shape": self.shape, "typestr": self.dtype.str if is_numeric else f"|V{self.dtype.itemsize}",
            "data": (self.address, self.is_read_only), "strides": None, "stream": None, "version": 3,
        }  # fmt: skip


class _View(CudaMemory):
    """Memory of another library, for copies; never freed here."""

    __slots__ = ()

    def free(self) -> None:
        self.address = 0

    def __del__(self) -> None:
        pass


def buffer_of(value: object) -> Buffer | None:
    """Returns the buffer that a value is, or shares memory with; None if it is not an array on a device."""
    if isinstance(value, Buffer):
        value.check()
        return value
    if isinstance(value, np.ndarray | np.generic) or not (
        hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")
    ):
        return None
    return Buffer.from_dlpack(value)


def _check_device(what: str, kind: int) -> None:
    if kind not in (CUDA, CUDA_MANAGED):
        device = DEVICES.get(kind, f"device type {kind}")
        raise UserError(f"{what}: it lies on {device}, not on a CUDA device; fix: a NumPy array, or an array on the device")


def _ordinal_of(device: CudaDevice, address: int, what: str) -> int:
    try:
        return device.ordinal_of(address)
    except DeviceError as failure:
        raise UserError(f"{what}: its address {address:#x} is none that the driver knows") from failure


def _shape(value: int | Iterable[int]) -> tuple[int, ...]:
    extents = (value,) if isinstance(value, int | np.integer) else tuple(value)
    if any(isinstance(e, bool) or not isinstance(e, int | np.integer) or e < 0 for e in extents):
        raise UserError(f"shape {value}: expected integers, none negative")
    shape = tuple(int(extent) for extent in extents)
    if prod(shape) > MAX_BYTES:
        raise UserError(f"shape {shape}: more than 2**48 elements")
    return shape


def _numpy_dtype(dtype: DType | DTypeLike) -> NumpyDType:
    if isinstance(dtype, DType | str):
        return DType(dtype).numpy
    try:
        found: NumpyDType = np.dtype(dtype)
        return found
    except TypeError as error:
        raise UserError(f"dtype {dtype!r}: expected a joinery.DType, its name or a NumPy dtype") from error
