"""Runs a compiled block function on the CPU: links it, packs its launch block, and raises what stops the launch."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from ..lowering.libdevice.signatures import CALLS
from ..lowering.llvm.elementwise import stored_dtype
from ..lowering.llvm.host.control.effects import PRINT
from ..lowering.llvm.host.control.status import CANCELLED, RUNNING, STOPPED, WORDS, Printed, PrintSite, Site
from ..lowering.llvm.host.launcher import KERNEL, HostKernel
from ..lowering.llvm.module import SharedFunction, module_of
from ..lowering.tt.analysis.aliasing import UNKNOWN, AliasSet
from ..lowering.tt.arguments import Parameter
from ..lowering.tt.host_values import DescriptorArgument, TableArgument, address_of
from ..lowering.tt.interpret.effects import assertion_error
from ..lowering.tt.interpret.memory import AccessError
from ..lowering.tt.interpret.print_format import print_lines
from ..lowering.tt.types import numpy_dtype, scalar_type
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.errors import InternalError, UnsupportedError
from ..runtime.host.threads import pool_address
from ..runtime.native.codegen import LinkedCode, link
from ..runtime.native.library import cached_object, library_symbols, native_library
from ..runtime.storage.cache import CompileCache
from .argument_packing import ArgumentPacker, check_writeable

CHUNKS_PER_THREAD = 16
_LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
"""Takes a pool, a function of (words, low, high), words, the count of programs, and that of a thread's chunk."""


class HostProgram:
    """The native code of one block function. Keep it as long as it may run: dropping it unmaps the code."""

    def __init__(self, lowered: HostKernel, store: CompileCache | None) -> None:
        self.lowered = lowered
        code = lowered.object_code()
        imports = {name: _shared(name, function, store) for name, function in lowered.shared.items()}
        imports[PRINT] = _PRINT_ADDRESS
        imports |= {name: at for name, at in library_symbols().items() if f"{name}\0".encode() in code}
        missing = [name for name in sorted(CALLS) if name not in imports and f"\0{name}\0".encode() in code]
        if missing:
            raise UnsupportedError(f"launch: the C library of this machine has no {', '.join(missing)}")
        self._code = link([code], (KERNEL,), imports)
        self._launch = _LAUNCH(native_library(store).launch)

    def run(self, name: str, arguments: Sequence[int], extents: tuple[int, int, int], threads: int) -> None:
        """Run all programs of the grid and wait for them.

        Raises `KeyboardInterrupt` if that cancelled the launch, and the error of a program that stopped the
        launch. Programs that had not started by then have not run.
        """
        programs = prod(extents)
        count = len(arguments)
        words = (ctypes.c_int64 * (count + 3 + 1 + WORDS))(*arguments, *extents)
        status = ctypes.addressof(words) + 8 * (count + 4)
        words[count + 3] = status
        failure: list[BaseException] = []
        if programs:
            grain = max(1, programs // (threads * CHUNKS_PER_THREAD))
            with _interruptible(status), _printing(status, self.lowered.sites, extents) as failure:
                pool, first_word = pool_address(threads), ctypes.addressof(words)
                self._launch(pool, self._code[KERNEL], first_word, programs, grain)
        state, site, program, lane = words[count + 4 :]
        if failure:
            raise failure[0]
        if state == CANCELLED:
            raise KeyboardInterrupt
        if state == STOPPED:
            found = self.lowered.sites[site]
            assert isinstance(found, Site)
            raise _mistake(name, found, _place(program, extents), lane)
        if state != RUNNING:
            raise InternalError(f"@{name}: the launch ended in state {state}")


def _mistake(name: str, site: Site, program: tuple[int, int, int], lane: int) -> Exception:
    if site.kind == "assert":
        place = () if not site.shape else tuple(int(index) for index in np.unravel_index(lane, site.shape))
        return assertion_error(site.message, site.place, program, place)
    line = f"{site.place[0]}:{site.place[1]}: " if site.place is not None else ""
    text = f"{line}@{name}, program {program}: {site.message}"
    return MemoryError(text) if site.kind == "memory" else AccessError(text)


def encode_argument(value: np.generic) -> int:
    """Encode a scalar as the 64-bit value that the kernel reads.

    16-bit floats become float32, in which they are computed.
    """
    array = np.asarray(value)
    if array.dtype.itemsize <= 2 and array.dtype.kind not in "biu":
        array = array.astype(np.float32)
    return int.from_bytes(array.tobytes().ljust(8, b"\0"), "little", signed=True)


class HostArguments(ArgumentPacker):
    """Packs the arguments of a launch as the 64-bit values that native code reads.

    Attributes:
        spans: (position of the address, first byte, end) of every array.
    """

    __slots__ = ("_written", "spans", "values")

    def __init__(self, written: AliasSet) -> None:
        self.values: list[int] = []
        self.spans: list[tuple[int, int, int]] = []
        self._written = written

    @property
    def bytes(self) -> int:
        return sum(end - first for _, first, end in self.spans)

    def add_plain_memory(self, size: int, arg: object) -> bool:
        """Add a contiguous, writeable array."""
        if type(arg) is not np.ndarray or arg.itemsize != size or arg.dtype.hasobject:
            return False
        flags = arg.flags
        if not (flags.c_contiguous and flags.writeable):
            return False
        self._array(arg)
        return True

    def add_memory(self, parameter: Parameter, arg: object) -> None:
        self._checked(parameter, parameter.array(arg))

    def add_described(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        self._checked(parameter, descriptor.array)

    def add_map(self, parameter: Parameter, descriptor: DescriptorArgument) -> None:
        check_writeable(parameter, descriptor.array.flags.writeable, UNKNOWN, self._written)
        self._checked(parameter, descriptor.native_map(parameter.what))

    def add_table(self, parameter: Parameter, table: TableArgument) -> None:
        for array in table.arrays:
            check_writeable(parameter, array.flags.writeable, UNKNOWN, self._written)
        self._checked(parameter, table.native())

    def add_integer(self, number: int) -> None:
        self.values.append(number)

    def add_scalar(self, value: np.generic) -> None:
        self.values.append(encode_argument(value))

    def _checked(self, parameter: Parameter, array: Array) -> None:
        check_writeable(parameter, array.flags.writeable, len(self.values), self._written)
        self._array(array)

    def _array(self, array: Array) -> None:
        address = address_of(array)
        self.spans.append((len(self.values), address, address + array.nbytes))
        self.values.append(address)


_shared_lock = threading.Lock()
_shared_code: dict[SharedFunction, LinkedCode] = {}


def _shared(name: str, function: SharedFunction, store: CompileCache | None) -> int:
    """Return the address of a function that kernels share. Its code is never unloaded."""
    with _shared_lock:
        if function not in _shared_code:
            _shared_code[function] = link([cached_object(name, module_of(function), store)], (name,), {})
        return _shared_code[function][name]


def _place(program: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the coordinates of a program, which are numbered along x first, then y, then z."""
    x, rest = program % extents[0], program // extents[0]
    return x, rest % extents[1], rest // extents[1]


# Prints. Kernels call back with the address of their launch's status words, which tells the launches apart.


@dataclass(slots=True)
class _Launch:
    sites: Sequence[Site | PrintSite]
    extents: tuple[int, int, int]
    failure: list[BaseException]


_launches: dict[int, _Launch] = {}


@contextmanager
def _printing(
    status: int, sites: Sequence[Site | PrintSite], extents: tuple[int, int, int]
) -> Iterator[list[BaseException]]:
    """Write the prints of a launch while the block runs.

    Their errors end the launch and are in the yielded list.
    """
    launch = _Launch(sites, extents, [])
    _launches[status] = launch
    try:
        yield launch.failure
    finally:
        del _launches[status]


def _print(status: int, site: int, program: int, addresses: int) -> None:
    launch = _launches[status]
    try:
        printed = launch.sites[site]
        assert isinstance(printed, PrintSite)
        values = [
            _operand(operand, ctypes.c_int64.from_address(addresses + 8 * number).value)
            for number, operand in enumerate(printed.operands)
        ]
        pointers = [operand.elem == "ptr" for operand in printed.operands]
        place = _place(program, launch.extents)
        lines = print_lines(printed.prefix, printed.hexadecimal, printed.signed, place, values, pointers)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    except BaseException as error:  # a callback cannot raise: the launch does, when it has ended
        launch.failure.append(error)
        ctypes.c_int64.from_address(status).value = CANCELLED


_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_print)
_PRINT_ADDRESS = int(ctypes.cast(_PRINT, ctypes.c_void_p).value or 0)


def _operand(operand: Printed, address: int) -> Array:
    """Return the printed values, read from scratch memory."""
    in_memory = stored_dtype(operand.elem)
    size = in_memory.itemsize + sum(s * (n - 1) for s, n in zip(operand.strides, operand.shape, strict=True))
    raw = (ctypes.c_uint8 * size).from_address(address)
    values = np.ndarray(operand.shape, in_memory, memoryview(raw), strides=operand.strides).copy()
    dtype = numpy_dtype(scalar_type("i64" if operand.elem == "ptr" else operand.elem))
    return values.view(dtype) if values.dtype.itemsize == dtype.itemsize else values.astype(dtype)


# Ctrl-C. Python runs signal handlers between bytecodes of the main thread, which is inside native code during a launch. The C
# handler writes to the wakeup descriptor at once, though: a thread that waits there stops the launch.


class _Watcher:
    """The thread that waits for signals while the main thread is inside a launch."""

    def __init__(self) -> None:
        self.status: int | None = None  # address of the status words of the running launch
        self.previous = -1  # the wakeup descriptor that was there before
        self._reading, self.writing = socket.socketpair()
        self.writing.setblocking(False)
        threading.Thread(target=self._watch, name="joinery-interrupts", daemon=True).start()

    def _watch(self) -> None:
        while numbers := self._reading.recv(64):
            status, previous = self.status, self.previous
            if previous >= 0:
                os.write(previous, numbers)
            if status is not None and signal.SIGINT in numbers:
                ctypes.c_int64.from_address(status).value = CANCELLED


_watchers: list[_Watcher] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watchers.clear)  # threads do not survive a fork


@contextmanager
def _interruptible(status: int) -> Iterator[None]:
    """Let Ctrl-C cancel the launch with these status words while the block runs."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    if not _watchers:
        _watchers.append(_Watcher())
    watcher = _watchers[0]
    watcher.status = status
    watcher.previous = signal.set_wakeup_fd(watcher.writing.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(watcher.previous)
        watcher.status = None
