"""A single block function as host code that can be launched over a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ....promotion.dataclass import dataclass
from ...gc_paused import gc_paused
from ...target import HostTarget
from ...tt.dialect.functions import FuncOp
from ..compile import compile_assembly, compile_object
from ..metadata import Metadata
from ..module import Module, SharedFunction
from .control.sites import KERNEL, PrintSite, Site
from .kernel import lower_kernel
from .launch_specialization import GENERIC, LaunchSpecialization


@dataclass(frozen=True, slots=True)
class HostKernel:
    """The LLVM IR of a block function: `jn_kernel(slots, low, high)` runs the programs from low to high.

    `slots` holds eight bytes per parameter (addresses, or the low bytes of scalars), then the extents of the grid, then the
    address of the status words (`control/status.py`), and those. In checked launches, (first byte, size) of the memory behind
    every parameter and (address, length) of a table of known memory follow (`memory/bounds.py`).
    `sites`: the site that each number in the status words stands for. `shared`: functions that the code calls, by name.
    """

    llvm_ir: str
    target: HostTarget
    sites: tuple[Site | PrintSite, ...] = ()
    shared: Mapping[str, SharedFunction] = field(default_factory=dict)

    def object_code(self) -> bytes:
        return compile_object(self.llvm_ir, self.target)

    def assembly(self) -> str:
        return compile_assembly(self.llvm_ir, self.target)


@gc_paused()
def lower_for_launch(
    function: FuncOp, target: HostTarget, specialization: LaunchSpecialization = GENERIC, debug: bool = False
) -> HostKernel:
    """Lowers a block function to host code for launches of this specialization. debug: with line tables.

    Raises `UnsupportedError` naming the first operation that the host back end does not implement.
    """
    module = Module(shared={}, opaque_indices=True, metadata=Metadata("LineTablesOnly" if debug else None))
    sites = lower_kernel(module, function, KERNEL, target, specialization)
    return HostKernel(module.text(), target, sites, dict(module.shared or {}))
