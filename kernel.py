"""Block kernels: read from text in the tt dialect, looked at, interpreted, and run on the CPU.

    k = joinery.kernel.from_ttir("softmax.ttir")
    k.launch((rows,), x, out, columns)      # arrays are written in place
    k.interpret((rows,), x, out, columns)   # the same, by the NumPy interpreter that defines the dialect
    print(k.ttir, k.llvm_ir("host"), k.asm("host"))
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowering.libdevice.signatures import CALLS
from .lowering.llvm.compile import host_target
from .lowering.llvm.host.launcher import LAUNCH, HostKernel, lower_for_launch
from .lowering.tt.arguments import Parameter, grid_extents, parameters_of
from .lowering.tt.expand_inline_asm import expand_inline_asm
from .lowering.tt.expand_libdevice import expand_libdevice
from .lowering.tt.inlining import inline_calls
from .lowering.tt.interpret import find_function, interpret
from .lowering.tt.licm import hoist_invariants
from .lowering.tt.passes import simplify
from .lowering.tt.text import parse, print_module
from .lowering.tt.verify import verify
from .promotion.errors import UnsupportedError, UserError
from .runtime.native.codegen import link
from .runtime.native.library import library_symbols, native_library
from .runtime.threads import pool_address, resolve_threads

Array = NDArray[Any]

MAX_TEXT = 1 << 26
"""Bytes of text that are read at most."""

CHUNKS_PER_THREAD = 16


class Kernel:
    """One block function of a module. Make one with `from_ttir`.

    Attributes:
        name: the function's name.
        ttir: the module as text.
    """

    def __init__(self, module: Any, name: str | None) -> None:
        self._module = module
        self._function = find_function(module, name)
        self.name: str = self._function.sym_name.data
        self.ttir: str = print_module(module)
        self._host: HostKernel | None = None
        self._code: Any = None
        self._launch: Any = None
        self._lock = threading.Lock()  # code is linked once: replacing it would unmap what another thread runs

    def __repr__(self) -> str:
        return f"<Kernel {self.name!r}: {len(self.parameters)} parameters>"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What a launch takes, in order. Raises `UserError` for a declaration."""
        return parameters_of(self._function)

    def interpret(self, grid: int | Sequence[int], *args: Any) -> None:
        """Run all programs with NumPy, one after the other: slow, and the definition of what the kernel does.

        Args:
            grid: number of programs, or one number per axis x, y, z.
            args: one per parameter: C-contiguous arrays for pointers, written in place; numbers for scalars.

        Raises `UserError` for arguments that do not fit, `AccessError` (with program and operation) for accesses outside the
        arrays, `UnsupportedError` for operations the interpreter does not know.
        """
        interpret(self._module, grid, args, self.name)

    def launch(
        self,
        grid: int | Sequence[int],
        *args: Any,
        device: str = "cpu",
        target: str | None = None,
        sanitize: bool = False,
        threads: int | None = None,
    ) -> None:
        """Run all programs of the grid, natively; the kernel is compiled at the first launch.

        Args:
            grid: number of programs, or one number per axis x, y, z.
            args: one per parameter: C-contiguous arrays for pointers, written in place; numbers for scalars.
            device: "cpu".
            threads: threads to use; None for the default.

        Nothing checks that masks keep accesses inside the arrays: `interpret` does. Raises `UserError` for arguments that do
        not fit, `UnsupportedError` for operations, devices and options this version does not have.
        """
        if device != "cpu" or target is not None:
            raise UnsupportedError(f"launch: device {device!r}, target {target!r}; this version launches on device='cpu'")
        if sanitize:
            raise UnsupportedError("launch: sanitize=True is not part of this version; fix: interpret() checks every access")
        extents = grid_extents(grid)
        words = self._words(args, extents)
        programs = prod(extents)
        if programs > (1 << 62):
            raise UserError(f"grid {extents}: more than 2**62 programs")
        count = resolve_threads(threads)
        run = self._compiled()
        if programs:
            grain = max(1, programs // (count * CHUNKS_PER_THREAD))
            run(pool_address(count), ctypes.addressof(words), programs, grain)

    def llvm_ir(self, target: str = "host") -> str:
        """The LLVM IR for a target; "host" is the CPU of this process."""
        _only_host("llvm_ir", target)
        return self._lowered().llvm_ir

    def asm(self, target: str = "host") -> str:
        """The assembly for a target."""
        _only_host("asm", target)
        return self._lowered().assembly()

    def _lowered(self) -> HostKernel:
        if self._host is None:
            simplified = find_function(self._module.clone(), self.name)  # the passes change it; `interpret` runs the original
            inline_calls(simplified)
            expand_libdevice(simplified)
            expand_inline_asm(simplified)
            simplify(simplified)
            hoist_invariants(simplified)
            self._host = lower_for_launch(simplified, host_target())
        return self._host

    def _compiled(self) -> Any:
        with self._lock:
            if self._launch is None:
                self._link()
            return self._launch

    def _link(self) -> None:
        code = self._lowered().object_code()
        imports = {"jn_parallel": native_library().parallel}
        imports |= {name: at for name, at in library_symbols().items() if f"{name}\0".encode() in code}
        missing = [name for name in sorted(CALLS) if name not in library_symbols() and f"\0{name}\0".encode() in code]
        if missing:
            raise UnsupportedError(f"launch: the C library of this machine has no {', '.join(missing)}")
        self._code = link([code], (LAUNCH,), imports)
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._launch = signature(self._code[LAUNCH])

    def _words(self, args: Sequence[Any], extents: tuple[int, int, int]) -> Any:
        """The argument words. The caller keeps the arrays alive."""
        parameters = parameters_of(self._function, len(args))
        words = (ctypes.c_int64 * (len(parameters) + 3))()
        for position, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            if parameter.is_pointer:
                array = parameter.array(arg)
                if not array.flags.writeable:
                    raise UserError(f"{parameter.what}: the array is read-only; pass a copy, or make it writeable")
                words[position] = int(array.__array_interface__["data"][0])
            else:
                words[position] = _bits(parameter.scalar(arg))
        for axis, extent in enumerate(extents):
            words[len(parameters) + axis] = extent
        return words


def _bits(value: Any) -> int:
    """A scalar as the word the kernel reads: 16-bit floats travel as float32, as they are computed with."""
    array = np.asarray(value)
    if array.dtype.itemsize <= 2 and array.dtype.kind not in "biu":
        array = array.astype(np.float32)
    return int.from_bytes(array.tobytes().ljust(8, b"\0"), "little", signed=True)


def _only_host(what: str, target: str) -> None:
    if target != "host":
        raise UnsupportedError(f"{what}: target {target!r} is not part of this version; fix: target='host'")


def from_ttir(text_or_path: str | os.PathLike[str], name: str | None = None) -> Kernel:
    """A block kernel from text in the tt dialect, as Triton prints it or written by hand.

    Args:
        text_or_path: the module's text, or the path of a file that holds it: a `Path`, or one line ending in .ttir or .mlir.
        name: which `tt.func`, when there are several public ones.

    Raises `UserError` with line and column for text that is no valid module, and for functions that are not there.
    """
    text, source = _source(text_or_path)
    module = parse(text, source)
    verify(module)
    return Kernel(module, name)


def _source(text_or_path: str | os.PathLike[str]) -> tuple[str, str]:
    if not isinstance(text_or_path, str | os.PathLike):
        raise UserError(f"from_ttir: expected text or a path, got {type(text_or_path).__name__}")
    is_text = isinstance(text_or_path, str) and ("\n" in text_or_path or not text_or_path.endswith((".ttir", ".mlir")))
    if is_text:
        text = str(text_or_path)
        if len(text) > MAX_TEXT:
            raise UserError(f"from_ttir: {len(text)} characters; at most {MAX_TEXT} are read")
        return text, "<text>"
    path = Path(text_or_path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_TEXT + 1)
    except OSError as error:
        raise UserError(f"from_ttir: {path} cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_TEXT:
        raise UserError(f"from_ttir: {path} is larger than {MAX_TEXT} bytes")
    try:
        return content.decode("utf-8"), path.name
    except UnicodeDecodeError as error:
        raise UserError(f"from_ttir: {path} is no UTF-8 text: {error}") from None


__all__ = ["Kernel", "from_ttir"]
