"""GPU targets: the GPUs that PTX is generated for. Frozen values; nothing here looks for a device.

Sources: NVIDIA, "PTX ISA", "PTX ISA version" and "Release notes"; "CUDA C++ Programming Guide", "Compute capabilities".
"""

from __future__ import annotations

import re

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError, close_names
from ...ptx.targets import PTX_VERSIONS, SHARED_BYTES

WARP_SIZE = 32
MAX_WARPS = 32
"""The most warps of a thread block."""
REGISTERS = 1 << 16
"""The 32-bit registers of a multiprocessor."""
WARPS = (1, 2, 4, 8, 16, MAX_WARPS)
"""The numbers of warps that programs run on."""
DEFAULT_TARGET = "sm_80"
DEFAULT_WARPS = 4
"""The defaults for kernels from texts: the GPU that PTX is compiled for, and the warps per program."""
_KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A GPU that code is generated for.

    name: for the assembler.  ptx: the lowest PTX version (times ten) that has it.  shared_bytes: of shared memory
    that a block of threads may have.  processors: multiprocessors of the largest chip of its kind, for cost models.
    """

    name: str
    ptx: int
    shared_bytes: int
    processors: int

    def blocks(self, shared_bytes: int) -> int:
        """Returns how many blocks with this much shared memory fit on a multiprocessor.

        It has a KiB more than the largest block may take, and each block costs it one more than it asks for.
        """
        return (self.shared_bytes + _KIB) // (shared_bytes + _KIB)

    @property
    def capability(self) -> int:
        """The compute capability, 80 for sm_80, 90 for sm_90a."""
        return int(self.name.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz"))

    @property
    def features(self) -> frozenset[str]:
        """The features that emitters make use of: "tf32", rounding to tf32 to nearest even (PTX ISA 7.8, sm_90)."""
        return frozenset({"ptx", "tf32"} if self.capability >= 90 and self.ptx >= 78 else {"ptx"})

    @property
    def key(self) -> str:
        """The name in cache keys: everything that decides what code is generated."""
        return f"nvptx|{self.name}|ptx{self.ptx}|{self.shared_bytes}|{self.processors}"

    @property
    def has_wgmma(self) -> bool:
        """Whether there are products of warpgroups: on this architecture only, neither before nor after."""
        return self.name == "sm_90a"

    @property
    def has_tensor_copies(self) -> bool:
        """Whether there are copies of boxes of tensors (TMA), and mbarriers that count their bytes."""
        return self.capability >= 90

    @property
    def feature_text(self) -> str:
        return f"+ptx{self.ptx}"


def _target(name: str, processors: int) -> GpuTarget:
    return GpuTarget(name, PTX_VERSIONS[name], SHARED_BYTES[name], processors)


TARGETS: dict[str, GpuTarget] = {
    each.name: each
    for each in (
        _target("sm_80", 108),
        _target("sm_86", 84),
        _target("sm_89", 144),
        _target("sm_90a", 132),
        _target("sm_100a", 148),
        _target("sm_120a", 188),
    )
}


def gpu_target(name: str) -> GpuTarget:
    """Returns the target of that name. Raises `UserError` with the existing names."""
    found = TARGETS.get(name) if isinstance(name, str) else None
    if found is None:
        raise UserError(f"no GPU target {name!r}{_hint(str(name))} Targets: {', '.join(TARGETS)}")
    return found


def is_host(target: object) -> bool:
    """Return whether a target is the CPU, not a GPU. Raises `UserError` for what can be neither."""
    if not isinstance(target, str):
        raise UserError(f"target {target!r}: expected 'host', or a GPU such as {DEFAULT_TARGET!r}, got {type(target).__name__}")
    return target == "host"


def _hint(name: str) -> str:
    """Suggests what to use for an unknown target. PTX for targets without a letter runs on later GPUs too."""
    number = re.fullmatch(r"sm_?(\d{2,3})[a-z]?", name)
    if number is None or int(number[1]) > 130:
        near = close_names(name, TARGETS, 1)
        return f"; did you mean {near[0]!r}?" if near else "."
    capability = int(number[1])
    same = next((each.name for each in TARGETS.values() if each.capability == capability), None)
    if same is not None:
        return f"; did you mean {same!r}?"
    older = [each.name for each in TARGETS.values() if each.name[-1].isdigit() and each.capability < capability]
    return f"; its GPUs run the code for {older[-1]!r}." if older else "; its GPUs are older than all there is code for."
