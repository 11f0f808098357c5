"""Finds the library functions for kernels on GPUs: those that a libdevice on this machine supplies."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..lowering.libdevice.signatures import CALLS, SIGNATURES, known_signature
from ..lowering.llvm.nvptx.libdevice import Libdevice, TextStore
from ..lowering.llvm.nvptx.targets import GpuTarget
from ..lowering.tt.dialect.external import ExternElementwiseOp
from ..lowering.tt.dialect.functions import FuncOp
from ..lowering.tt.source_locations import naming_line
from ..promotion.errors import UnsupportedError, UserError
from ..runtime.toolchain.libdevice import NONE, VARIABLE, find_libdevice

MAX_BYTES = 1 << 26
"""Most bytes of a library file that is read; libdevice has half a megabyte."""


def called_symbols(module: ModuleOp) -> tuple[str, ...]:
    """Return the functions that code for GPUs calls where there is a libdevice.

    They are those that the text means, and those that expansions call in place of others.
    """
    found = set()
    for op in module.walk():
        if not isinstance(op, ExternElementwiseOp):
            continue
        signature = SIGNATURES.get(op.symbol.data)
        if signature is not None and op.names_libdevice:
            found.add(signature.symbol)
        elif signature is not None and signature.function in CALLS:
            found.add(signature.symbol.removesuffix("f"))
    return tuple(sorted(found))


def current_libdevice() -> Libdevice | None:
    """Return the libdevice that code is made with now, or None.

    Raises `UserError` where the environment variable names no file, or the file cannot be read.
    """
    found = find_libdevice()
    if found is None:
        return None
    try:
        status = os.stat(found.path)
        if status.st_size > MAX_BYTES:
            raise UserError(f"{found.path} is no libdevice: {status.st_size} bytes; fix: {VARIABLE}={NONE}, or another path")
        return _opened(found.path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise UserError(
            f"{found.path} cannot be read: {error.strerror or error}; fix: {VARIABLE}={NONE}, or another path"
        ) from None


@functools.lru_cache(maxsize=4)
def _opened(path: Path, changed: int, size: int) -> Libdevice:
    """Read a library. The cache distinguishes files by time and size, so that a changed one is read again."""
    return Libdevice(path.read_bytes(), str(path))


def linked_functions(
    symbols: Sequence[str], library: Libdevice | None, target: GpuTarget, store: TextStore | None
) -> dict[str, str]:
    """Return symbol → LLVM IR for the functions that the library has."""
    if library is None:
        return {}
    found = {symbol: library.function(symbol, target, store) for symbol in symbols}
    return {symbol: text for symbol, text in found.items() if text is not None}


def check_calls(function: FuncOp, linked: Collection[str], library: Libdevice | None) -> None:
    """Raise `UnsupportedError` where a function after the passes calls what only libdevice has on a GPU.

    These are the functions of `CALLS`, which expansions leave on float64, and what passes of the user's choice leave.
    """
    for op in function.walk():
        if isinstance(op, ExternElementwiseOp) and op.symbol.data not in linked:
            lacking = "none was found" if library is None else f"{library.name} lacks it"
            with naming_line(op):
                name = known_signature(op.symbol.data).function  # passes of the user's choice may leave any symbol
                raise UnsupportedError(
                    f"@{function.sym_name.data}: {name} ({op.symbol.data}) on a GPU is NVIDIA's "
                    f"libdevice's, and {lacking}; fix: install the CUDA toolkit or the package nvidia-nvvm, or set {VARIABLE} "
                    "to the path of libdevice.10.bc; or device='cpu'"
                )
