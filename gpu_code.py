"""PTX of block kernels, and launches of it in the simulator."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowering.artifact import KernelCode
from .lowering.llvm.collection import no_collection
from .lowering.llvm.compile_ptx import compile_ptx
from .lowering.llvm.nvptx.kernel import GpuKernel, lower_to_threads
from .lowering.llvm.nvptx.targets import gpu_target
from .lowering.tt.arguments import Parameter
from .lowering.tt.descriptor_types import TensorDescType
from .lowering.tt.dialect_functions import FuncOp
from .lowering.tt.effects import assertion_error
from .lowering.tt.host_values import PointerTable, TensorDescriptor, address_of
from .promotion.errors import KernelAssertionError, UnsupportedError
from .runtime.ptxsim.arguments import PointerTable as DeviceTable
from .runtime.ptxsim.findings import Finding as PtxFinding
from .runtime.ptxsim.findings import PtxCheckError
from .runtime.ptxsim.launch import Module, Result

DEFAULT_TARGET = "sm_80"
DEFAULT_WARPS = 4
MULTIPLE = 16
"""Addresses (in bytes) and numbers that are multiples of it make wide accesses possible; code is made for those there are."""


@dataclass(frozen=True, slots=True)
class GpuCode:
    """A lowered kernel and its PTX."""

    lowered: GpuKernel
    ptx: str

    @property
    def kernel(self) -> KernelCode:
        """What a device needs of it."""
        kernel = self.lowered
        return KernelCode(
            kernel.name,
            kernel.target.name,
            self.ptx,
            kernel.target.ptx,
            kernel.threads,
            kernel.shared_bytes,
            kernel.parameters,
        )


class GpuKernels:
    """The code of one block function for the targets that were asked for."""

    def __init__(self, function: FuncOp) -> None:
        self._function = function
        self._codes: dict[tuple[str, int, tuple[int, ...]], GpuCode] = {}
        self._lock = threading.Lock()

    def code(self, target: str, warps: int = DEFAULT_WARPS, multiples: tuple[int, ...] = ()) -> GpuCode:
        """PTX for a target. `multiples`: parameters whose address or value is a multiple of 16."""
        key = (target, warps, multiples)
        with self._lock:
            if key not in self._codes:
                resolved = gpu_target(target)
                with no_collection():
                    lowered = lower_to_threads(self._function, resolved, warps, dict.fromkeys(multiples, MULTIPLE))
                self._codes[key] = GpuCode(lowered, compile_ptx(lowered.llvm_ir, resolved))
            return self._codes[key]

    def simulate(self, grid: tuple[int, int, int], values: Sequence[Any], target: str, level: int) -> Result | None:
        """Run the PTX on arrays; None for an empty grid. What the kernel prints goes to `sys.stdout`.

        Raises `KernelAssertionError` for assertions of the kernel that fail, `PtxCheckError` for broken rules of PTX.
        """
        if 0 in grid:
            return None
        multiples = tuple(i for i, value in enumerate(values) if _is_multiple(value))
        code = self.code(target, DEFAULT_WARPS, multiples)
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


def _is_multiple(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        root: Any = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        return (address_of(value) - address_of(root)) % MULTIPLE == 0
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) % MULTIPLE == 0


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
