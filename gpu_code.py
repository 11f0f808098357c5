"""PTX of block kernels, and launches of it in the simulator."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowering.artifact import KernelCode, TensorMap
from .lowering.gpu_stages import kernel_code
from .lowering.llvm.compile_ptx import compile_ptx
from .lowering.llvm.nvptx.kernel import GpuKernel, lower_to_threads
from .lowering.llvm.nvptx.targets import gpu_target
from .lowering.llvm.nvptx.tma import mapped_block
from .lowering.tt.arguments import Parameter
from .lowering.tt.descriptor_types import TensorDescType
from .lowering.tt.dialect_functions import FuncOp
from .lowering.tt.effects import assertion_error
from .lowering.tt.host_values import DeviceArray, PointerTable, TensorDescriptor, address_of
from .promotion.errors import KernelAssertionError, UnsupportedError, UserError
from .runtime.gpu import GpuDevice, LoadedKernel
from .runtime.ptxsim.arguments import PointerTable as DeviceTable
from .runtime.ptxsim.findings import Finding as PtxFinding
from .runtime.ptxsim.findings import PtxCheckError
from .runtime.ptxsim.launch import Module, Result
from .runtime.ptxsim.tensor_maps import TensorMap as SimulatedMap

DEFAULT_TARGET = "sm_80"
DEFAULT_WARPS = 4
WARPS = (1, 2, 4, 8, 16, 32)
MULTIPLE = 16
"""Addresses (in bytes) and numbers that are multiples of it make wide accesses possible; code is made for those there are."""

MOST_STRIDE = 1 << 40
"""Bytes; of a tensor map."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuCode:
    """A lowered kernel and its PTX. `reports`: whether it may print or assert."""

    lowered: GpuKernel
    ptx: str
    reports: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reports", "vprintf" in self.ptx or "__assertfail" in self.ptx)

    @property
    def kernel(self) -> KernelCode:
        """What a device needs of it."""
        return kernel_code(self.lowered, self.ptx)


class GpuKernels:
    """The code of one block function for the targets that were asked for."""

    def __init__(self, simplified: Callable[[Collection[int]], FuncOp], parameters: Sequence[Parameter]) -> None:
        """simplified: gives the function after the passes; they keep these parameters as descriptors.

        Attribute mappable: the parameters that are descriptors whose blocks TMA copies, if the tensor fits.
        """
        self._simplified = simplified
        self._parameters = parameters
        self.mappable = tuple([number for number, parameter in enumerate(parameters) if _has_map(parameter)])
        self._codes: dict[tuple[str, int, tuple[int, ...], tuple[int, ...]], GpuCode] = {}
        self._loaded: dict[tuple[str, GpuCode], LoadedKernel] = {}
        self._lock = threading.Lock()

    def loaded(self, device: GpuDevice, code: GpuCode) -> LoadedKernel:
        """The code on a device, where it stays as long as this object lives."""
        found = self._loaded.get((device.name, code))
        if found is None or found.device is not device:
            # Without the lock: a thread that records launches has the device, and may be waiting here.
            found = self._loaded[device.name, code] = device.load(code.kernel)
        return found

    def code(
        self,
        target: str,
        warps: int = DEFAULT_WARPS,
        multiples: tuple[int, ...] = (),
        described: tuple[int, ...] | None = (),
    ) -> GpuCode:
        """PTX for a target.

        multiples: parameters, after the passes, whose address or value is a multiple of 16.
        described: parameters, before the passes, that are descriptors of tensors that fit a tensor map; None: all descriptors.
        """
        resolved = gpu_target(target)
        if warps not in WARPS:
            raise UserError(f"{warps} warps for a program; fix: one of {', '.join(map(str, WARPS))}")
        if described is None:
            described = self.mappable
        fitting = [n for n in described if resolved.has_tensor_copies and n in self.mappable]
        key = (target, warps, multiples, tuple(fitting))
        with self._lock:
            if key not in self._codes:
                function = self._simplified(fitting)
                lowered = lower_to_threads(function, resolved, warps, dict.fromkeys(multiples, MULTIPLE))
                self._codes[key] = GpuCode(lowered, compile_ptx(lowered.llvm_ir, resolved))
            return self._codes[key]

    def simulate(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Any],
        target: str,
        level: int,
        described: tuple[int, ...] = (),
        warps: int = DEFAULT_WARPS,
    ) -> Result | None:
        """Run the PTX on arrays; None for an empty grid. What the kernel prints goes to `sys.stdout`. `described`, `warps`: see
        `code`.

        Raises `KernelAssertionError` for assertions of the kernel that fail, `PtxCheckError` for broken rules of PTX.
        """
        if 0 in grid:
            return None
        multiples = tuple(i for i, value in enumerate(values) if _is_multiple(value))
        code = self.code(target, warps, multiples, described)
        values = [*values, *(simulated_map(each, values) for each in code.lowered.tensor_maps)]
        kernel = Module(code.ptx).kernel(code.lowered.name)
        try:
            result = kernel.launch(grid, None, values, shared=code.lowered.shared_bytes, level=level)
        except PtxCheckError as error:
            sys.stdout.write(error.printed)
            failed = _failed_assertion(error.findings[0], code.lowered)
            if failed is None:
                raise
            raise failed from error
        sys.stdout.write(result.printed)
        return result


def _failed_assertion(finding: PtxFinding, lowered: GpuKernel) -> KernelAssertionError | None:
    """The kernel's own assertion behind a finding."""
    what = lowered.assertions.get(finding.message) if finding.kind == "assert" else None
    if what is None:
        return None
    lane = tuple(int(i) for i in np.unravel_index(what.first + finding.lanes[0], what.shape)) if what.shape else ()
    return assertion_error(what.message, what.place, finding.cta, lane)


def root_address(array: NDArray[Any]) -> int:
    """The address of the array that an array is a view of."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return address_of(root)


def _is_multiple(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return (address_of(value) - root_address(value)) % MULTIPLE == 0
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) % MULTIPLE == 0


def _is_aligned(tensor: NDArray[Any] | DeviceArray) -> bool:
    return _is_multiple(tensor if isinstance(tensor, np.ndarray) else tensor.address)


def _has_map(parameter: Parameter) -> bool:
    return isinstance(parameter.type, TensorDescType) and mapped_block(parameter.type) is not None


def simulated_map(facts: TensorMap, values: Sequence[Any]) -> SimulatedMap:
    """The tensor map of a parameter for the simulator, from the values of the parameters before the maps."""
    array, *sizes = values[facts.parameter : facts.parameter + 2 * facts.rank + 2]
    return SimulatedMap.of(facts, array, sizes[: facts.rank], sizes[facts.rank : -1], bool(sizes[-1]))


def described(supplied: Sequence[tuple[Parameter, Any]], mappable: Sequence[int]) -> tuple[int, ...]:
    """The parameters, of those that are mappable, whose tensors fit a tensor map."""
    if not mappable:
        return ()
    ranges = [each for parameter, arg in supplied for each in _ranges(parameter, arg)]
    found = []
    for number in mappable:
        tensor = supplied[number][0].descriptor(supplied[number][1])
        if tensor.has_map is None:
            tensor.has_map = _fits(tensor)
        if tensor.has_map:
            ((on_device, low, high),) = _ranges(*supplied[number])
            if sum(on_device == other and low < end and start < high for other, start, end in ranges) == 1:
                found.append(number)
    return tuple(found)


def _fits(tensor: TensorDescriptor) -> bool:
    """Whether there is a tensor map of it; not of tensors whose elements overlap."""
    size = tensor.tensor.itemsize
    strides = [stride * size for stride in tensor.strides]
    if strides[-1] != size or any(each % MULTIPLE for each in strides[:-1]) or 0 in tensor.shape:
        return False
    if tensor.padding == "nan" and size == 1:
        return False
    if min(strides) <= 0 or max(strides) >= MOST_STRIDE or not _is_aligned(tensor.tensor):
        return False
    axes = sorted((stride, extent) for stride, extent in zip(strides, tensor.shape, strict=True) if extent > 1)
    return all(outer >= stride * extent for (stride, extent), (outer, _) in pairwise(axes))


def _ranges(parameter: Parameter, arg: Any) -> list[tuple[bool, int, int]]:
    """Memory that an argument is: whether it is a device's, its first address and the one behind it."""
    arrays: Sequence[Any] = ()
    if isinstance(arg, TensorDescriptor):
        arrays = (arg.tensor,)
    elif isinstance(arg, PointerTable):
        arrays = arg.tensors
    elif parameter.is_pointer and (isinstance(arg, np.ndarray) or hasattr(arg, "address")):
        arrays = (arg,)
    found = []
    for each in arrays:
        is_on_host = isinstance(each, np.ndarray)
        start = address_of(each) if is_on_host else each.address
        found.append((not is_on_host, start, start + each.nbytes))
    return found


def device_values(supplied: Sequence[tuple[Parameter, Any]]) -> list[Any]:
    """Arguments as the kernel after the passes takes them: a descriptor is an array, extents, strides and its padding."""
    found: list[Any] = []
    for parameter, arg in supplied:
        if isinstance(parameter.type, TensorDescType):
            described = parameter.descriptor(arg)
            found += [described.array, *described.shape, *described.strides, int(described.padding == "nan")]
        elif isinstance(arg, TensorDescriptor):
            raise UnsupportedError(f"{parameter.what}: tensor maps on a GPU are not part of this version; fix: device='cpu'")
        elif isinstance(arg, PointerTable) and parameter.is_table:
            found.append(DeviceTable(list(arg.arrays)))
        elif parameter.is_pointer:
            array: NDArray[Any] = parameter.array(arg)
            found.append(array)
        else:
            value = parameter.scalar(arg)
            found.append(int(value) if value.dtype.kind in "biu" else value)
    return found
