"""Launches block kernels on CUDA devices: packs arguments, copies host arrays, raises reported errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..lowering.artifact import KernelCode, TensorMap, TensorSizes
from ..lowering.llvm.nvptx.targets import DEFAULT_WARPS
from ..lowering.tt import types
from ..lowering.tt.analysis.alias_sets import UNKNOWN, AliasSet
from ..lowering.tt.arguments import Parameter, grid_extents, supplied
from ..lowering.tt.host_values import DescriptorArgument, TableArgument, address_of
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.errors import DeviceError, KernelAssertionError, UnsupportedError, UserError, printable
from ..promotion.float_modes import default_modes
from ..runtime.cuda.buffers import Buffer, buffer_of
from ..runtime.cuda.device import CudaDevice, CudaMemory, cuda_device
from ..runtime.cuda.driver import ASSERT
from ..runtime.cuda.tensor_maps import FIRST_CAPABILITY
from ..runtime.cuda.torch_tensors import address_of_tensor, stream_of_torch
from ..runtime.gpu import ALIGNMENT, to_bits
from .argument_packing import ArgumentPacker, check_writeable, may_write
from .gpu_code import GpuEntry, GpuKernelCompiler, GpuRequest, no_maps_in_memory
from .gpu_descriptors import MappedTensor, root_address, widths
from .tensor_arguments import on_device
from .texts import MakeArguments

FIRST_WITH_SMALL_MAPS, SMALL = 100, 128 << 10
"""Compute capability (times 10), bytes. NVIDIA's release notes of driver 595.71 say that from 10.0 on, tensor
maps of tensors that are not dense may be wrong in allocations below this size. Such tensors get none here."""


MAX_KEPT = 64
"""Most tensor maps that are kept of one buffer or descriptor."""


@dataclass(slots=True)
class _Range:
    """Host arrays whose bytes overlap, so that they share memory on the device, too."""

    low: int
    high: int
    skew: int


@dataclass(frozen=True, slots=True)
class _OnDevice:
    """A range with its memory on the device."""

    range: _Range
    memory: CudaMemory

    def offset(self, array: Array) -> int:
        """Return the bytes from the start of the memory to an array of the range."""
        return self.range.skew + address_of(array) - self.range.low

    def address(self, array: Array) -> int:
        return self.memory.address + self.offset(array)


@dataclass(slots=True)
class CudaArguments(ArgumentPacker):
    """Packs the arguments of a launch: a 64-bit value per parameter, and the host arrays to be copied."""

    device: CudaDevice
    written: AliasSet
    values: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # positions of integers and addresses
    arrays: list[tuple[int, Array, bool]] = field(default_factory=list)  # position, array, whether it may be written
    tables: list[tuple[int, list[Array | Buffer]]] = field(default_factory=list)
    maps: dict[int, dict[object, int]] = field(default_factory=dict)
    """Position of an address → the tensor maps made of the memory there, which live as long as it does."""
    has_foreign: bool = False
    has_own: bool = False  # memory whose uses are ordered by the device's own stream
    stream: int | None = None
    """The stream that torch uses, if one of its tensors was added as plain memory: the launch goes there."""

    def add_plain_memory(self, size: int, arg: object) -> bool:
        """Add a buffer on this device, or a tensor of torch."""
        if type(arg) is Buffer:
            if not arg.is_plain or arg.dtype.itemsize != size or arg.cuda is not self.device:
                return False
            self.has_own = True
            self.maps[len(self.values)] = arg.maps
            self.add_integer(arg.address)
            return True
        address = address_of_tensor(arg, size, self.device.ordinal)
        if address is None or self.device.is_recording:
            return False
        if self.stream is None:
            self.stream = stream_of_torch(self.device.ordinal)
        self.add_integer(address)
        return True

    def add_memory(self, parameter: Parameter, arg: object) -> None:
        whole = buffer_of(arg)
        if whole is None:
            self._array(parameter, parameter.array(arg))
        else:
            assert isinstance(parameter.type, types.PointerType)
            self.maps[len(self.values)] = whole.maps
            self._buffer(parameter, whole, max(1, types.bit_width(parameter.type.pointee) // 8))

    def add_descriptor_address(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        if isinstance(descriptor.tensor, np.ndarray):
            self._array(parameter, descriptor.array)
        else:
            buffer = on_device(descriptor.tensor, descriptor.source, parameter)
            self.maps[len(self.values)] = descriptor.maps
            self._buffer(parameter, buffer, buffer.itemsize)

    def add_map(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        raise no_maps_in_memory(parameter)

    def add_table(self, parameter: Parameter, table: TableArgument) -> None:
        self.has_own = True
        entries: list[Array | Buffer] = []
        for tensor, source in zip(table.tensors, table.sources, strict=True):
            if isinstance(tensor, np.ndarray):
                check_writeable(parameter, tensor.flags.writeable, UNKNOWN, self.written)
                self.arrays.append((-1, tensor, may_write(UNKNOWN, self.written)))
                entries.append(tensor)
            else:
                buffer = on_device(tensor, source, parameter)
                self._bind_buffer(parameter, buffer, UNKNOWN)
                entries.append(buffer)
        self.tables.append((len(self.values), entries))
        self.add_integer(0)

    def add_integer(self, number: int) -> None:
        self.numbers.append(len(self.values))
        self.values.append(number)

    def add_scalar(self, value: np.generic) -> None:
        if value.dtype.kind in "iu":
            self.add_integer(int(value))
        else:
            self.values.append(to_bits(value))

    def _array(self, parameter: Parameter, array: Array) -> None:
        slot = len(self.values)
        self.has_own = True
        check_writeable(parameter, array.flags.writeable, slot, self.written)
        self.arrays.append((slot, array, may_write(slot, self.written)))
        self.add_integer(0)

    def _buffer(self, parameter: Parameter, buffer: Buffer, size: int) -> None:
        """Add a buffer; `size` is that of the elements that the parameter points to, in bytes."""
        if buffer.dtype.itemsize != size:
            raise UserError(
                f"{parameter.what}: the buffer has dtype {buffer.dtype} of {buffer.dtype.itemsize} bytes, expected elements of "
                f"{size}"
            )
        self._bind_buffer(parameter, buffer, len(self.values))
        self.add_integer(buffer.address)

    def _bind_buffer(self, parameter: Parameter, buffer: Buffer, slot: int) -> None:
        if buffer.cuda is not self.device:
            raise UserError(
                f"{parameter.what}: {buffer!r} does not lie on {self.device.name}, where the kernel runs; fix: "
                f"device={buffer.device!r}, or a copy there"
            )
        check_writeable(parameter, not buffer.is_read_only, slot, self.written, "the buffer")
        self.has_own, self.has_foreign = True, self.has_foreign or buffer.is_foreign

    # -- memory

    def ranges(self) -> list[_Range]:
        """Merge overlapping host arrays into ranges.

        On the device they keep their distance, modulo the alignment, from the start of the array that they
        are views of.
        """
        found: list[_Range] = []
        for array in sorted((array for _, array, _ in self.arrays if array.nbytes), key=address_of):
            low = address_of(array)
            if found and low < found[-1].high:
                found[-1].high = max(found[-1].high, low + array.nbytes)
            else:
                found.append(_Range(low, low + array.nbytes, (low - root_address(array)) % ALIGNMENT))
        return found


class CudaLaunches:
    """Launches one kernel on CUDA devices."""

    def __init__(
        self,
        kernels: GpuKernelCompiler,
        name: str,
        parameters: Sequence[Parameter],
        arguments: MakeArguments,
        sizes: Sequence[int],
        written: AliasSet,
    ) -> None:
        """Take the kernel. sizes: those of its parameters, as `CudaArguments.add_plain` takes them."""
        self._arguments = arguments
        self._kernels = kernels
        self._name = name
        self._parameters = parameters
        self._sizes = sizes
        self._written = written

    def launch(
        self,
        device: CudaDevice,
        grid: tuple[int, int, int],
        args: Sequence[Any],
        target: str | None = None,
        sanitize: bool = False,
        warps: int = DEFAULT_WARPS,
    ) -> None:
        """Run all programs of the grid on a device.

        Arrays of the host are copied there, and back if the kernel may write them. With such arrays, where other
        libraries share memory, and if the kernel prints or asserts, this waits for the kernel; otherwise it
        returns at once. With plain tensors of torch the kernel runs on torch's stream, in its order. Raises
        `KernelAssertionError` for an assertion that fails, `UnsupportedError` for `target` and `sanitize`.
        """
        if sanitize:
            raise UnsupportedError("launch: sanitize=True on a CUDA device; fix: device='cpu', or device='ptxsim' for its PTX")
        if target is not None:
            raise UnsupportedError(f"launch: target {target!r} on {device.name}, whose own is {device.target}; fix: leave out")
        arguments, mapped = self._packed(device, args)
        if 0 in grid:
            return
        ranges: list[_OnDevice] = []
        made: list[CudaMemory] = []
        try:
            for each in arguments.ranges():
                made.append(device.allocate(each.skew + each.high - each.low))
                ranges.append(_OnDevice(each, made[-1]))
            for slot, array, _ in arguments.arrays:
                if array.nbytes:
                    own = _range_of(ranges, array)
                    device.upload(own.memory, own.offset(array), array)
                    if slot >= 0:
                        arguments.values[slot] = own.address(array)
            for slot, entries in arguments.tables:
                addresses = np.array([_address(ranges, each) for each in entries], np.int64)
                memory = device.allocate(addresses.nbytes)
                made.append(memory)
                device.upload(memory, 0, addresses)
                arguments.values[slot] = memory.address
            _run(self._kernels, device, grid, arguments, ranges, mapped, warps)
        finally:
            for memory in made:
                memory.free()

    def request(self, device: str, grid: int | Sequence[int], args: Sequence[Any], warps: int) -> GpuRequest:
        """Return what a launch by `Kernel.launch` asks the compiler for. Raises what it raises for its arguments.

        Arrays of the host have no address yet: 0 stands for it.
        """
        on = cuda_device(device)
        with default_modes():
            arguments, mapped = self._packed(on, self._arguments(grid, args))
            return _request(on, grid_extents(grid), arguments, mapped, warps)

    def keep(self, entry: GpuEntry) -> KernelCode:
        """Take code that `Kernel.gpu_entry` of an equal kernel made; return what a device loads of it."""
        self._kernels.keep(entry)
        return entry[1].kernel

    def _packed(self, device: CudaDevice, args: Sequence[Any]) -> tuple[CudaArguments, dict[int, MappedTensor]]:
        """Return the packed arguments, and the tensors that fit a tensor map, by the number of their descriptor."""
        given: Sequence[tuple[Parameter, Any]] = supplied(self._name, self._parameters, args)
        arguments = CudaArguments(device, self._written)
        may_fit = self._kernels.may_fit(device.capability >= FIRST_CAPABILITY)
        if may_fit:
            given = [(parameter, _buffer_or(arg) if parameter.is_pointer else arg) for parameter, arg in given]
        for (parameter, arg), size in zip(given, self._sizes, strict=True):
            if not arguments.add_plain(size, arg):
                arguments.add(parameter, arg)
        return arguments, _mapped_tensors(device, self._kernels, given, arguments.values) if may_fit else {}


def _request(
    device: CudaDevice,
    grid: tuple[int, int, int],
    arguments: CudaArguments,
    mapped: dict[int, MappedTensor],
    warps: int,
) -> GpuRequest:
    values = arguments.values
    return GpuRequest(device.target, warps, widths(arguments.numbers, values), tuple(mapped), (grid, values))


def _run(
    kernels: GpuKernelCompiler,
    device: CudaDevice,
    grid: tuple[int, int, int],
    arguments: CudaArguments,
    ranges: list[_OnDevice],
    mapped: dict[int, MappedTensor],
    warps: int,
) -> None:
    """Launch the code for these arguments, and copy written host arrays back.

    mapped: the tensors that fit a tensor map, by the number of their descriptor.
    """
    values = arguments.values
    code = kernels.code(*_request(device, grid, arguments, mapped, warps))
    loaded = kernels.loaded(device, code)
    values += [
        _map(device, facts, values[facts.parameter], mapped[number].sizes, arguments.maps.get(facts.parameter))
        for facts, number in zip(loaded.code.tensor_maps, code.mapped, strict=True)
    ]
    stream = arguments.stream
    try:
        if stream is not None and arguments.has_own:
            device.let_wait(stream)
        device.launch(loaded, grid, values, stream=stream)
        if stream is not None and (arguments.has_own or code.reports):
            device.wait_for(stream)
        for _, array, is_written in arguments.arrays:
            if is_written and array.nbytes and array.flags.writeable:
                own = _range_of(ranges, array)
                device.download(own.memory, own.offset(array), array)
        if arguments.arrays or arguments.has_foreign or code.reports:
            device.synchronize()
    except DeviceError as error:
        assertions = list(dict.fromkeys(each.message for each in code.lowered.assertions.values()))
        if error.code != ASSERT or not assertions:
            raise
        message = assertions[0] if len(assertions) == 1 else ""
        which = f": {printable(message)}" if message else f"; it has {len(assertions)}: {printable('; '.join(assertions))}"
        text = f"an assertion of @{code.lowered.name} fails in a launch on grid {grid}{which}. {error}"
        raise KernelAssertionError(text, message) from error


def _buffer_or(arg: Any) -> Any:
    """Return the buffer of another library's array on a device; return other arguments as they are."""
    if isinstance(arg, np.ndarray | TableArgument | DescriptorArgument):
        return arg
    buffer = buffer_of(arg)
    return arg if buffer is None else buffer


def _mapped_tensors(
    device: CudaDevice, kernels: GpuKernelCompiler, supplied: Sequence[tuple[Parameter, Any]], values: Sequence[int]
) -> dict[int, MappedTensor]:
    found = kernels.fitting(supplied, values, device.capability >= FIRST_CAPABILITY)
    if device.capability >= FIRST_WITH_SMALL_MAPS:
        found = {number: each for number, each in found.items() if each.is_dense or each.array.nbytes >= SMALL}
    return found


def _map(device: CudaDevice, facts: TensorMap, address: int, sizes: TensorSizes, kept: dict[object, int] | None) -> int:
    """Return the argument for a tensor map.

    `kept` holds maps already made of the same memory, which does not move.
    """
    key = (facts.element, facts.box, facts.swizzle, address, sizes)
    found = None if kept is None else kept.get(key)
    if found is None:
        found = device.tensor_map(facts, address, sizes.extents, sizes.strides, sizes.pads_with_nan)
        if kept is not None:
            if len(kept) >= MAX_KEPT:
                kept.clear()
            kept[key] = found
    return found


def _address(ranges: list[_OnDevice], array: Array | Buffer) -> int:
    if isinstance(array, Buffer):
        return array.address
    return _range_of(ranges, array).address(array) if array.nbytes else 0


def _range_of(ranges: list[_OnDevice], array: Array) -> _OnDevice:
    low = address_of(array)
    return next(each for each in ranges if each.range.low <= low < each.range.high)
