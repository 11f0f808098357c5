"""Launches that are looked at: interpreted, sanitized, or run as simulated PTX."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...lowering.tt.interpret.memory import AccessError
from ...lowering.tt.sanitize.findings import Report, SanitizerError
from ...promotion.arrays import Array, PointerArgument
from ...promotion.errors import ResourceError, UserError
from ...runtime.ptxsim.checks.findings import PtxCheckError
from ..tensor_arguments import PointerTable, TensorDescriptor
from .memory import EVERYWHERE, MAX_TABLE, SMALLEST_ADDRESS, Span, flattened, live_storages, storage_of
from .settings import Settings, current
from .testing import record, unwritten

_WIDTHS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FLOATS: dict[int, Any] = {2: np.float16, 4: np.float32, 8: np.float64}


class FailedAssertionError(SanitizerError, RuntimeError):
    """Findings of which one is a failed assertion of the kernel: a `RuntimeError`, as it is on a GPU."""

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
    accesses outside of the tensors, and Triton's `OutOfResources` for a kernel that no GPU has the shared memory for.
    """
    kernel = loaded.kernel
    given = list(flattened(names, types, args))
    arguments = [_argument(what, type_, arg) for what, type_, arg in given]
    try:
        if settings.mode == "interpret":
            kernel.interpret(extents, *arguments)
        elif settings.mode == "sanitize":
            report = kernel.sanitize(extents, *arguments, unwritten=_unwritten(given), needs_barriers=True, notes=False)
            if report.findings:
                fails = any(each.kind == "error" and each.operation.startswith("tt.assert") for each in report.findings)
                raise (FailedAssertionError if fails else SanitizerError)(kernel.name, report)
        else:
            kernel.launch(extents, *arguments, device="ptxsim", target=settings.target, warps=min(warps, 32))
    except ResourceError as error:
        from triton.runtime.errors import OutOfResources

        raise OutOfResources(error.required, error.limit, error.what) from error
    except (SanitizerError, PtxCheckError, AccessError) as error:
        record.found(loaded.name, error)
        raise


def _argument(what: str, type_: str, arg: Any) -> Any:
    """An argument as joinery's kernels take it."""
    if type_.startswith("tensordesc"):
        address, span = storage_of(arg.base, what)
        size = int(arg.base.element_size())
        memory = _bytes(what, span)[address - span[0] :]
        is_nan = getattr(arg, "padding", "zero") == "nan"
        dtype = (_FLOATS if is_nan else _WIDTHS)[size]
        whole = memory[: len(memory) // size * size].view(dtype)
        shape, strides = [int(each) for each in arg.shape], [int(each) for each in arg.strides]
        return TensorDescriptor(whole, shape, strides, None, "nan" if is_nan else "zero")
    if not type_.startswith("*"):
        return _wrapped(type_, arg)
    address, span = storage_of(arg, what)
    if span == EVERYWHERE:
        span = _storage_around(address, what)
    memory = _bytes(what, span)
    if type_ in ("*i64", "*u64") and (table := _table(memory, address - span[0])) is not None:
        return table
    return PointerArgument(memory, address - span[0])


def _wrapped(type_: str, arg: Any) -> Any:
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


def _bytes(what: str, span: Span) -> Array:
    """The memory of a span, as bytes."""
    first, end = span
    if first == end:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * (end - first)).from_address(first)), np.uint8)


def _storage_around(address: int, what: str) -> Span:
    """The memory of the live tensor that holds an address. Raises `UserError` if none does."""
    for first, end in live_storages():
        if first <= address < end:
            return first, end
    raise UserError(f"{what}: the address {address:#x} lies in no tensor that is alive; fix: pass the tensor, or keep it")


class _Table(PointerTable):
    """A table some of whose addresses lie in no tensor that is alive: they stay as they are, so that a use of one is seen."""

    def __init__(self, arrays: Sequence[Array], addresses: Array, positions: Array) -> None:
        super().__init__(arrays)
        self._all, self._positions = addresses, positions

    @property
    def entries(self) -> Sequence[Array | int]:
        found: list[Array | int] = self._all.tolist()
        for position, array in zip(self._positions.tolist(), self.arrays, strict=True):
            found[position] = array
        return found

    def addresses(self, address_in: Callable[[Array], int]) -> Array:
        found = self._all.copy()
        found[self._positions] = super().addresses(address_in)
        return found


def _table(memory: Array, offset: int) -> PointerTable | None:
    """The tensors behind a tensor of addresses; None if its integers are none: not one of them lies in a tensor."""
    addresses = memory[offset : len(memory) - (len(memory) - offset) % 8].view(np.int64)
    if not 0 < len(addresses) <= MAX_TABLE or not (addresses >= SMALLEST_ADDRESS).any():
        return None
    storages = sorted(set(live_storages()))
    if not storages:
        return None
    starts = np.array([first for first, _ in storages], np.int64)
    ends = np.array([end for _, end in storages], np.int64)
    numbers = np.searchsorted(starts, addresses, side="right") - 1
    positions = np.flatnonzero((numbers >= 0) & (addresses < ends[numbers]))
    if not len(positions):
        return None
    arrays = [_bytes("", (int(addresses[at]), int(ends[numbers[at]]))) for at in positions]
    return _Table(arrays, addresses, positions)

