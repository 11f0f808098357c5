"""What joinery's device is called in Triton, and what its compiled kernels are called on disk."""

from __future__ import annotations

from typing import Any

NAME = "cpu"
"""Of the back end and of its targets. Programs take it for the device of their tensors."""
BINARY = "joinery"
"""The last stage of a compilation, and the suffix of its result."""
_WARP_SIZE = 32
MAX_WARPS = 32
"""Of a program on a GPU: its threads have to fit one block."""
_masquerade: list[Any] = []


def current_target() -> Any:
    """The `GPUTarget` that kernels are compiled for."""
    return _masquerade[0] if _masquerade else _target(NAME, 0)


def set_masquerade(arch: int | None) -> None:
    """Call the target that of CUDA of a compute capability (90, say), for test suites that know no other; None: by its name."""
    _masquerade[:] = [] if arch is None else [_target("cuda", arch)]


def stands_for_cuda() -> bool:
    """Whether suites find joinery under CUDA's name, and its tensors on CUDA's device."""
    return bool(_masquerade)


def is_ours(target: Any) -> bool:
    """Whether kernels for this target are compiled by joinery."""
    return bool(target.backend == NAME) or (stands_for_cuda() and target.backend == "cuda")


def _target(backend: str, arch: int) -> Any:
    from triton.backends.compiler import GPUTarget  # importing Triton imports this module

    return GPUTarget(backend, arch, _WARP_SIZE)
