"""Native code of a block function on the CPU: linked, launched, and what stops a launch raised.

It loads neither xDSL nor the code generator, so that a process which finds its kernels in a cache starts soon.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...lowering.llvm.host.control.sites import (
    CANCELLED,
    KERNEL,
    PRINT,
    RUNNING,
    STATUS_WORDS,
    STOPPED,
    WORKER,
    WORKERS,
    Printed,
    PrintSite,
    Site,
)
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError, KernelAssertionError, UnsupportedError, called_from
from ...runtime.host.threadpools import register
from ...runtime.host.threads import pool_address
from ...runtime.native.library import cached_object, library_symbols, native_library
from ...runtime.native.linking import LinkedCode, link
from ...runtime.storage.cache import CompileCache
from ..interrupts import has_handlers, launch_aside, watcher_for_launches
from .reach import Reach

if TYPE_CHECKING:
    from ...lowering.llvm.module import SharedFunction


CHUNKS_PER_THREAD = 16
BRIEF = 1 << 30
"""The operations on single elements up to which a launch ends soon, within a second at the slowest, whatever its arguments.
Ctrl-C then waits for the end: to watch for it takes system calls, and 8 µs where a kernel's data has filled the caches."""
_LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
"""Pool, function of (slots, low, high), slots, programs, programs that a thread takes at a time."""


@dataclass(frozen=True, slots=True)
class HostObject:
    """Object code of a block function for one launch specialization, as data.

    code: it defines `KERNEL`, a function of (slots, low, high).
    sites: what the site in the status words of a launch means.
    shared: functions that the code calls, by name: as LLVM IR, or as what makes it.
    """

    code: bytes
    sites: tuple[Site | PrintSite, ...]
    shared: Mapping[str, SharedFunction | str]


class HostProgram:
    """The native code of one block function. Kept as long as it may run: dropping it unmaps the code.

    Attributes:
        address: of the function of (slots, low, high).
        unwatched: programs up to which launches end soon, so that nobody has to watch for Ctrl-C.
        prints: whether programs may print.
    """

    def __init__(self, compiled: HostObject, store: CompileCache | None, work: int | None = None) -> None:
        """Link the code. work: the operations on single elements that a program does; None if their time is not known."""
        code = compiled.code
        self.sites = compiled.sites
        imports = {name: _shared(name, function, store) for name, function in compiled.shared.items()}
        imports[PRINT] = _PRINT_ADDRESS
        imports |= library_symbols()
        pool = native_library(store).code
        imports |= {name: pool[name] for name in (WORKER, WORKERS)}
        _check_library(code, imports)
        register()
        self._code = link([code], (KERNEL,), imports)
        self.address: int = self._code[KERNEL]
        self._launch = _LAUNCH(native_library(store).launch)
        entry = native_library(store).entry
        self._start = None if entry is None else entry.start_function()
        self.prints = any(isinstance(site, PrintSite) for site in compiled.sites)
        self.unwatched = 0 if work is None else BRIEF // max(work, 1)
        self._layouts: dict[int, tuple[type[ctypes.Array[ctypes.c_int64]], Callable[..., None]]] = {}

    def run(
        self,
        name: str,
        arguments: Sequence[int],
        extents: tuple[int, int, int],
        threads: int,
        reach: Reach | None = None,
        first: int | None = None,
    ) -> None:
        """Run all programs of the grid and wait for them. `arguments` are the 64-bit values that the code reads.

        reach: the memory that accesses are compared with; given to code that compares them.
        first: how many programs to run, from the first on; None for all.

        Raises `KeyboardInterrupt` if that cancelled the launch, and what a program that stopped the launch found: programs that
        had not started by then have not run.
        """
        x, y, z = extents
        programs = x * y * z if first is None else first
        if not programs:
            return
        grain = programs // (threads * CHUNKS_PER_THREAD) or 1
        if programs <= self.unwatched and self._start is not None and reach is None and not self.prints:
            stopped = self._start(pool_address(threads), self.address, programs, grain, *arguments, x, y, z)
            if stopped is not None:
                self.raise_stopped(name, stopped, extents, None)
            return
        count = len(arguments)
        layout = self._layouts.get(count)
        if layout is None:
            more = 0 if reach is None else 2 * count + 2
            block = ctypes.c_int64 * (count + 4 + STATUS_WORDS + more)
            write = struct.Struct(f"{count + 4}q{8 * STATUS_WORDS}x{more}q").pack_into
            layout = self._layouts[count] = block, write
        slots = layout[0]()
        first_slot = ctypes.addressof(slots)
        status = first_slot + 8 * (count + 4)
        memory = () if reach is None else reach.slots(count)
        try:
            layout[1](slots, 0, *arguments, x, y, z, status, *memory)  # half the time of the constructor's
        except struct.error:  # an unsigned number
            slots[: count + 4] = [*arguments, x, y, z, status]
            slots[count + 4 + STATUS_WORDS :] = [*memory]
        pool = pool_address(threads)
        is_brief = programs <= self.unwatched
        watcher = None if is_brief else watcher_for_launches()
        launch = _Launch(self.sites, extents, []) if self.prints else None
        if launch is not None:
            _launches[status] = launch
        try:
            if not is_brief and has_handlers():
                launch_aside(lambda: self._launch(pool, self.address, first_slot, programs, grain), status)
            elif watcher is None:
                self._launch(pool, self.address, first_slot, programs, grain)
            else:
                watcher.start(status)
                try:
                    self._launch(pool, self.address, first_slot, programs, grain)
                finally:
                    try:
                        watcher.stop()
                    except KeyboardInterrupt:  # the handler of the signal ran first
                        watcher.stop()
                        raise
        finally:
            if launch is not None:
                del _launches[status]
        if slots[count + 4] != RUNNING or launch is not None:
            self._raise_for(name, slots[count + 4 : count + 4 + STATUS_WORDS], extents, launch, reach)

    def raise_stopped(self, name: str, status: bytes, extents: tuple[int, int, int], reach: Reach | None) -> None:
        """Raise what a program found that stopped the launch. status: the status words of the launch."""
        self._raise_for(name, struct.unpack(f"{STATUS_WORDS}q", status), extents, None, reach)

    def _raise_for(
        self,
        name: str,
        status: Sequence[int],
        extents: tuple[int, int, int],
        launch: _Launch | None,
        reach: Reach | None,
    ) -> None:
        state, site, program, lane, address = status
        if launch is not None and launch.failure:
            raise launch.failure[0]
        if state == CANCELLED:
            raise KeyboardInterrupt
        if state == STOPPED:
            found = self.sites[site]
            assert isinstance(found, Site)
            raise _mistake(name, found, _coordinates(program, extents), lane, address, reach)
        if state != RUNNING:
            raise InternalError(f"@{name}: the launch ended in state {state}")


def _check_library(code: bytes, imports: Mapping[str, int]) -> None:
    from ...lowering.libdevice.signatures import CALLS

    missing = [name for name in sorted(CALLS) if name not in imports and f"\0{name}\0".encode() in code]
    if missing:
        raise UnsupportedError(f"launch: the C library of this machine has no {', '.join(missing)}")


def _mistake(
    name: str, site: Site, program: tuple[int, int, int], lane: int, address: int, reach: Reach | None
) -> Exception:
    if site.kind == "assert":
        import numpy as np

        element = () if not site.shape else tuple(int(index) for index in np.unravel_index(lane, site.shape))
        return KernelAssertionError.of(site.message, site.location, program, element, site.callers)
    from ...lowering.tt.interpret.memory import AccessError

    line = f"{site.location[0]}:{site.location[1]}: " if site.location is not None else ""
    message = site.message
    if site.access is not None and reach is not None:
        message = reach.left_by(site, site.access, lane, address)
    text = f"{line}@{name}, program {program}: {message}{called_from(site.callers)}"
    if site.kind == "memory":
        return MemoryError(text)
    error = AccessError(text)
    error.program = program
    if site.location is not None:
        error.origin = f"{site.location[0]}:{site.location[1]}"
    return error


_shared_lock = threading.Lock()
_shared_code: dict[SharedFunction | str, LinkedCode] = {}


def _shared(name: str, function: SharedFunction | str, store: CompileCache | None) -> int:
    """The address of a function that kernels share. Its code stays for ever."""
    with _shared_lock:
        if function not in _shared_code:
            _shared_code[function] = link([cached_object(name, shared_text(function), store)], (name,), {})
        return _shared_code[function][name]


def shared_text(function: SharedFunction | str) -> str:
    """The LLVM IR of a module with a function that kernels share."""
    if isinstance(function, str):
        return function
    from ...lowering.llvm.module import module_of

    return module_of(function)


def _coordinates(program: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    """Where a program stands in the grid: programs are numbered along x first, then y, then z."""
    x, rest = program % extents[0], program // extents[0]
    return x, rest % extents[1], rest // extents[1]


# Prints. Kernels call back with the address of their launch's status words, which tells the launches apart.


@dataclass(slots=True)
class _Launch:
    """A launch whose kernel may print. What goes wrong with a print ends it and is in `failure`."""

    sites: Sequence[Site | PrintSite]
    extents: tuple[int, int, int]
    failure: list[BaseException]


_launches: dict[int, _Launch] = {}


def _print(status: int, site: int, program: int, addresses: int) -> None:
    from ...lowering.tt.interpret.print_format import print_lines

    launch = _launches[status]
    try:
        printed = launch.sites[site]
        assert isinstance(printed, PrintSite)
        values = [
            _operand(operand, ctypes.c_int64.from_address(addresses + 8 * number).value)
            for number, operand in enumerate(printed.operands)
        ]
        pointers = [operand.elem == "ptr" for operand in printed.operands]
        coordinates = _coordinates(program, launch.extents)
        lines = print_lines(printed.prefix, printed.hexadecimal, printed.signed, coordinates, values, pointers)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    except BaseException as error:  # a callback cannot raise: the launch does, when it has ended
        launch.failure.append(error)
        ctypes.c_int64.from_address(status).value = CANCELLED


_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_print)
_PRINT_ADDRESS = int(ctypes.cast(_PRINT, ctypes.c_void_p).value or 0)


def _operand(operand: Printed, address: int) -> Array:
    """The printed values, read from scratch."""
    import numpy as np

    from ...lowering.llvm.elementwise import stored_dtype
    from ...lowering.tt.types import numpy_dtype, scalar_type

    in_memory = stored_dtype(operand.elem)
    size = in_memory.itemsize + sum(s * (n - 1) for s, n in zip(operand.strides, operand.shape, strict=True))
    raw = (ctypes.c_uint8 * size).from_address(address)
    values: Array = np.ndarray(operand.shape, in_memory, memoryview(raw), strides=operand.strides).copy()
    dtype = numpy_dtype(scalar_type("i64" if operand.elem == "ptr" else operand.elem))
    return values.view(dtype) if values.dtype.itemsize == dtype.itemsize else values.astype(dtype)


__all__ = ["HostObject", "HostProgram", "shared_text"]
