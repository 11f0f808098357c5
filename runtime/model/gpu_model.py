"""Runs compiled graphs on GPUs: constants live on the device, and the launches are recorded for every set of dims.

A run copies the inputs to the device, replays the recording and copies the outputs back. Sizes are dim expressions as
text; they are evaluated once per set of dims. Memory and recordings are freed with the objects that hold them.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...graph.dims.binding import extent_at
from ...lowering.artifact import CompiledGraph, ConstantSpec, GpuProgram, TensorSpec
from ...promotion.arrays import Array, DeviceArray, NumpyDType
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import InternalError
from ..device import GpuLinkedModel, LinkedModel
from ..gpu import ALIGNMENT, DeviceArrays, GpuDevice, GpuMemory, Recording
from ..host import memory
from ..native.library import ObjectStore, native_library
from ..storage.weight_packing import stored_shape
from .gpu_steps import GpuStepRunner, ProgramOnGpu

MAX_RECORDINGS = 8
"""How many sets of dims keep their memory and recording: the most recently used ones."""


def _tensor_bytes(spec: TensorSpec, dims: Mapping[str, int]) -> int:
    return prod(extent_at(extent, dims) for extent in spec.shape) * DType(spec.dtype).itemsize


def _constant_bytes(spec: ConstantSpec) -> int:
    return prod(stored_shape(spec.shape, spec.layout)) * DType(spec.dtype).itemsize


def _bytes_at(address: int, nbytes: int) -> NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The device's part of runs with certain dims: one allocation, and the launches that use it.

    inputs, outputs: (offset, bytes) of each array in the allocation.
    """

    memory: GpuMemory
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    recording: Recording

    def free(self) -> None:
        self.recording.free()
        self.memory.free()


class _Bound:
    """Implements `BoundLaunches`; keeps alive the memory and the model that the launches use."""

    def __init__(self, recording: Recording, arena: GpuMemory, model: GpuModel) -> None:
        self._recording = recording
        self._keep_alive = (arena, model)

    def replay(self) -> None:
        self._recording.replay()


class GpuModel:
    """A compiled graph, loaded on a GPU, for arrays of the host; implements `LinkedModel`. Runs are
    serialised by a lock."""

    prepare_address = None
    run_address = None
    profile_address = None
    is_interruptible = False  # an exception ends a run between two launches, as in any code in Python

    @property
    def on_device(self) -> GpuLinkedModel | None:
        return None

    def __init__(self, compiled: CompiledGraph, device: GpuDevice) -> None:
        if compiled.gpu is None:
            raise InternalError(f"model {compiled.name!r} was compiled for {compiled.target}, not for a GPU")
        self._compiled = compiled
        self._program: GpuProgram = compiled.gpu
        self._device = device
        preloaded = device.preload(self._program.kernels)
        self._kernels = tuple([device.load(code) for code in self._program.kernels])
        del preloaded
        self._constants: list[GpuMemory] = []
        self._prepared: OrderedDict[tuple[int, ...], _Prepared] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self, dims: int, sizes: int) -> int:
        """Does what `jn_prepare` does; asks for no arena, since that is in the device's memory."""
        values = self._dims(dims)
        for number, (left, right) in enumerate(self._program.checks):
            if extent_at(left, values) != extent_at(right, values):
                return number
        extents = [extent_at(extent, values) for spec in self._compiled.outputs for extent in spec.shape]
        (ctypes.c_int64 * (1 + len(extents))).from_address(sizes)[:] = [0, *extents]
        return -1

    def _dims(self, address: int) -> dict[str, int]:
        names = self._compiled.dims
        return dict(zip(names, (ctypes.c_int64 * len(names)).from_address(address), strict=True))

    def run(self, pool: int, buffers: int, dims: int) -> None:
        """Does what `jn_run` does: `buffers` is the address of a table of host addresses."""
        del pool
        compiled = self._compiled
        counts = (len(compiled.inputs), len(compiled.constants), len(compiled.outputs))
        addresses = [int(at or 0) for at in (ctypes.c_void_p * sum(counts)).from_address(buffers)]
        inputs = addresses[: counts[0]]
        outputs = addresses[counts[0] + counts[1] :]
        with self._lock:
            self._upload_constants(addresses[counts[0] : counts[0] + counts[1]])
            prepared = self._prepare_for(self._dims(dims))
            device = self._device
            for at, (offset, nbytes) in zip(inputs, prepared.inputs, strict=True):
                if nbytes:
                    device.upload(prepared.memory, offset, _bytes_at(at, nbytes))
            prepared.recording.replay()
            device.synchronize()
            for at, (offset, nbytes) in zip(outputs, prepared.outputs, strict=True):
                if nbytes:
                    device.download(prepared.memory, offset, _bytes_at(at, nbytes))

    def _upload_constants(self, addresses: Sequence[int]) -> None:
        """Uploads the constants, once: a model's constants do not change."""
        for number in range(len(self._constants), len(addresses)):
            nbytes = _constant_bytes(self._compiled.constants[number])
            allocated = self._device.allocate(nbytes)
            if nbytes:
                self._device.upload(allocated, 0, _bytes_at(addresses[number], nbytes))
            self._constants.append(allocated)

    def _prepare_for(self, dims: Mapping[str, int]) -> _Prepared:
        key = tuple(dims.values())
        found = self._prepared.get(key)
        if found is None:
            while len(self._prepared) >= MAX_RECORDINGS:
                self._prepared.popitem(last=False)[1].free()
            found = self._prepared[key] = self._prepare_anew(dims)
        self._prepared.move_to_end(key)
        return found

    def _prepare_anew(self, dims: Mapping[str, int]) -> _Prepared:
        compiled, end = self._compiled, 0

        def reserve(nbytes: int) -> tuple[int, int]:
            nonlocal end
            start, end = end, end + -(-nbytes // ALIGNMENT) * ALIGNMENT
            return start, nbytes

        reserve(extent_at(self._program.arena_bytes, dims))
        inputs = tuple([reserve(_tensor_bytes(spec, dims)) for spec in compiled.inputs])
        outputs = tuple([reserve(_tensor_bytes(spec, dims)) for spec in compiled.outputs])
        whole = self._device.allocate(end)
        array_addresses = {
            "input": [whole.address + start for start, _ in inputs],
            "output": [whole.address + start for start, _ in outputs],
        }
        try:
            recording = self._record(dims, whole.address, array_addresses)
        except BaseException:
            whole.free()
            raise
        return _Prepared(whole, inputs, outputs, recording)

    def _record(self, dims: Mapping[str, int], arena: int, array_addresses: Mapping[str, Sequence[int]]) -> Recording:
        """Records all launches, or prepares the steps that repeat them.

        array_addresses: addresses of the arrays, by "input" and "output".
        """
        program = self._program
        addresses = {
            **array_addresses,
            "temporary": [arena + extent_at(offset, dims) for offset in program.offsets],
            "constant": [constant.address for constant in self._constants],
        }
        there = ProgramOnGpu(self._device, program, self._kernels, self._compiled.name)
        if program.steps:
            return GpuStepRunner(there, dims, addresses)
        launches = there.launches(0, len(program.launches), dims, addresses)
        return self._device.capture(lambda: there.launch(launches))


class ArrayGpuModel(GpuModel):
    """A compiled graph on a GPU that also takes users' arrays on the device; implements `GpuLinkedModel`."""

    def __init__(self, compiled: CompiledGraph, device: GpuDevice, arrays: DeviceArrays) -> None:
        super().__init__(compiled, device)
        self.arrays = arrays

    @property
    def on_device(self) -> GpuLinkedModel:
        return self

    def run_on_device(
        self, inputs: Sequence[Array | DeviceArray], constants: Sequence[int], outputs: Sequence[DeviceArray], dims: int
    ) -> None:
        """Implements `GpuLinkedModel`: the recording stays, and arrays are copied on the device to and from
        its memory."""
        with self._lock:
            self._upload_constants(constants)
            prepared = self._prepare_for(self._dims(dims))
            base = prepared.memory.address
            for array, (offset, nbytes) in zip(inputs, prepared.inputs, strict=True):
                if isinstance(array, np.ndarray):
                    self._device.upload(prepared.memory, offset, array)
                else:
                    self.arrays.copy(base + offset, array.address, nbytes)
            prepared.recording.replay()
            for array, (offset, nbytes) in zip(outputs, prepared.outputs, strict=True):
                self.arrays.copy(array.address, base + offset, nbytes)

    def record_on_device(
        self, inputs: Sequence[DeviceArray], constants: Sequence[int], outputs: Sequence[DeviceArray], dims: int
    ) -> _Bound:
        """Implements `GpuLinkedModel`: records launches that use the arrays where they are."""
        with self._lock:
            self._upload_constants(constants)
            values = self._dims(dims)
            arena = self._device.allocate(extent_at(self._program.arena_bytes, values))
            array_addresses = {"input": [array.address for array in inputs], "output": [array.address for array in outputs]}
            try:
                recording = self._record(values, arena.address, array_addresses)
            except BaseException:
                arena.free()
                raise
            return _Bound(recording, arena, self)


class GpuBackend:
    """The GPU backend of models; implements `runtime.device.Device`.

    Args:
        store: as for `HostDevice`.
        arrays: recognises and allocates users' arrays on the device; None where it takes arrays of the host only.
    """

    def __init__(
        self, device: GpuDevice, store: ObjectStore | None = None, arrays: DeviceArrays | None = None
    ) -> None:
        self._device = device
        self._arrays = arrays
        self._store = store
        self.name = device.name

    def link(self, compiled: CompiledGraph) -> LinkedModel:
        native_library(self._store)
        if self._arrays is None:
            return GpuModel(compiled, self._device)
        return ArrayGpuModel(compiled, self._device, self._arrays)

    def empty(self, shape: tuple[int, ...], dtype: NumpyDType) -> Array:
        return memory.empty(shape, dtype)
