"""Launches that are looked at: interpreted, sanitized, or run as simulated PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...lowering.tt.interpret.memory import AccessError
from ...lowering.tt.sanitize.findings import Report, SanitizerError
from ...promotion.arrays import Array, PointerArgument
from ...promotion.errors import KernelAssertionError, ResourceError
from ...runtime.ptxsim.checks.findings import PtxCheckError
from ..tensor_arguments import TensorDescriptor
from .known.holders import Span
from .memory import EVERYWHERE, Elsewhere, bytes_of, flattened, memory_around, storage_of
from .settings import Settings, current
from .targets import MAX_WARPS
from .testing import record, unwritten

_WIDTHS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FLOATS: dict[int, Any] = {2: np.float16, 4: np.float32, 8: np.float64}


class FailedAssertionError(SanitizerError, KernelAssertionError):
    """Findings of which one is a failed assertion of the kernel: a `RuntimeError`, as it is on a GPU."""

    __module__ = "joinery.triton"

    def __init__(self, name: str, report: Report) -> None:
        super().__init__(name, report)


def run(
    loaded: Any,
    extents: tuple[int, int, int],
    names: Sequence[str],
    types: Sequence[Any],
    args: Sequence[Any],
    settings: Settings,
    warps: int,
) -> None:
    """Run a launch as `settings.mode` says.

    Raises `SanitizerError` for what the sanitizer finds, `PtxCheckError` for what the simulator does, `AccessError` for
    accesses outside of the tensors, `KernelAssertionError` for assertions of the kernel that fail, and Triton's
    `OutOfResources` for a kernel that no GPU has the shared memory or the threads for.
    """
    if settings.mode == "ptxsim" and warps > MAX_WARPS:
        from triton.runtime.errors import OutOfResources

        raise OutOfResources(32 * warps, 32 * MAX_WARPS, "threads")
    kernel = loaded.kernel
    given = list(flattened(names, types, args))
    blank = _unwritten(given) if settings.mode == "sanitize" else {}

    def note(span: Span) -> None:
        known = unwritten.unwritten_bytes(span) if settings.mode == "sanitize" and span[0] not in blank else None
        if known is not None:
            blank[span[0]] = known

    elsewhere = Elsewhere(note)
    arguments = [_argument(what, type_, arg, elsewhere) for what, type_, arg in given]
    try:
        if settings.mode == "interpret":
            kernel.interpret(extents, *arguments)
        elif settings.mode == "sanitize":
            report = kernel.sanitize(
                extents, *arguments, unwritten=blank, needs_barriers=True, undefined_arithmetic=True, notes=False
            )
            if report.findings:
                fails = any(each.kind == "error" and each.operation.startswith("tt.assert") for each in report.findings)
                raise (FailedAssertionError if fails else SanitizerError)(kernel.name, report)
        else:
            kernel.launch(extents, *arguments, device="ptxsim", target=settings.target, warps=warps)
    except ResourceError as error:
        from triton.runtime.errors import OutOfResources

        raise OutOfResources(error.required, error.limit, error.what) from error
    except (SanitizerError, PtxCheckError, AccessError, KernelAssertionError) as error:
        record.found(loaded.name, error)
        raise


def _argument(what: str, type_: str, arg: Any, elsewhere: Elsewhere) -> Any:
    """An argument as joinery's kernels take it."""
    if type_.startswith("tensordesc"):
        address, span = storage_of(arg.base, what)
        size = int(arg.base.element_size())
        memory = bytes_of(span)[address - span[0] :]
        is_nan = getattr(arg, "padding", "zero") == "nan"
        dtype = (_FLOATS if is_nan else _WIDTHS)[size]
        whole = memory[: len(memory) // size * size].view(dtype)
        shape, strides = [int(each) for each in arg.shape], [int(each) for each in arg.strides]
        return TensorDescriptor(whole, shape, strides, None, "nan" if is_nan else "zero")
    if not type_.startswith("*"):
        return wrapped(type_, arg)
    address, span = storage_of(arg, what)
    if span == EVERYWHERE:
        if not address:
            return None  # a null pointer
        span = memory_around(address, what, elsewhere)
    memory = bytes_of(span)
    return PointerArgument(memory, address - span[0], elsewhere)


def wrapped(type_: str, arg: Any) -> Any:
    """A number as its parameter holds it: of an integer that is too large, Triton's launchers take the last bits."""
    if not isinstance(arg, int) or type_[0] not in "iu" or not type_[1:].isdecimal():
        return arg
    bits = int(type_[1:])
    return arg if -1 << (bits - 1) <= arg < 1 << bits else arg & ((1 << bits) - 1)


def _unwritten(given: Sequence[tuple[str, str, Any]]) -> dict[int, Array]:
    """Which bytes nothing has written, by the addresses at which the memory of arguments begins for the kernel."""
    if current().mode == "sanitize":
        unwritten.follow()  # torch may have been imported after all else
    blank: dict[Span, Array | None] = {}
    found: dict[int, Array] = {}
    for what, type_, arg in given:
        is_descriptor = type_.startswith("tensordesc")
        if not is_descriptor and not type_.startswith("*"):
            continue
        address, span = storage_of(arg.base if is_descriptor else arg, what)
        if span not in blank:
            blank[span] = unwritten.unwritten_bytes(span)
        known = blank[span]
        if known is not None:  # a descriptor begins at its tensor, a pointer may reach the whole storage
            found[address if is_descriptor else span[0]] = known[address - span[0] :] if is_descriptor else known
    return found
