"""joinery as a back end of Triton: `@triton.jit` kernels run on the CPU, on tensors of torch or arrays of NumPy.

    import joinery.triton
    joinery.triton.enable()                     # or the environment variable JOINERY_TRITON=1

    kernel[grid](x, y, n, BLOCK=1024)           # native code
    kernel[grid](x, y, n, BLOCK=1024, sanitize=True)

Triton finds the back end by the entry point "cpu" of the group `triton.backends`, and uses it only where it is asked to.
"""

from __future__ import annotations

from typing import Any

__all__ = ["disable", "enable", "is_enabled"]


def enable(
    mode: str = "native",
    *,
    threads: int | None = None,
    target: str = "sm_90a",
    numerics: str = "strict",
    check_bounds: bool = False,
) -> None:
    """Make joinery the device of Triton's launches in this process, in place of a GPU's driver.

    Args:
        mode: how launches run that do not say it themselves: "native"; "interpret", by NumPy, the definition; "sanitize",
            which raises `joinery.SanitizerError` for accesses outside of tensors, undefined values and races; "ptxsim", which
            runs the kernel's PTX in the simulator.
        threads: threads of the CPU for native code; None for the default.
        target: the GPU that PTX is made for.
        numerics: "strict", "fast" or "reproducible", as `joinery.kernel.from_ttir` takes it.
        check_bounds: whether native code compares every access with the memory of its tensor. One outside of it raises
            `AccessError`, a `joinery.UserError`, and touches nothing.

    Kernels that were launched on another device before are compiled again. Raises `UserError` for values that say nothing, and
    `ImportError` without Triton.
    """
    from .activation import activate

    activate(mode, threads, target, numerics, check_bounds)


def disable() -> None:
    """Give Triton's launches back to the driver that they had before `enable`."""
    from .activation import deactivate

    deactivate()


def is_enabled() -> bool:
    """Whether Triton's launches run through joinery."""
    from .activation import is_active

    return is_active()


def __getattr__(name: str) -> Any:
    if name == "Settings":
        from .settings import Settings

        return Settings
    if name == "ArgumentError":
        from .patches.arguments import ArgumentError

        return ArgumentError
    if name == "FailedAssertionError":
        from .slow_launches import FailedAssertionError

        return FailedAssertionError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
