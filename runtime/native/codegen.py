"""Compiles the runtime's own LLVM IR modules to object code, and links what `elf.py` does not.

LLVM is loaded when it is first asked for anything. One LLJIT serves the process. Objects are linked into libraries whose names
are never reused.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...promotion.errors import InternalError

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_lock = threading.Lock()
_numbers = itertools.count()
if hasattr(os, "register_at_fork"):
    # a child that is forked while another thread compiles finds LLVM in a consistent state, and the lock free
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm  # which takes a twentieth of a second, and what is compiled already does not need

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def target_machine() -> llvm.TargetMachine:
    """Returns the code generator for the CPU that this process runs on."""
    llvm = _llvm()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


def _module(text: str) -> llvm.ModuleRef:
    machine, llvm = target_machine(), _llvm()
    try:
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()  # the wheel's LLVM aborts the process on malformed IR that was not verified
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses a module: {str(error).strip()}") from error
    return module


def emit_object(text: str) -> bytes:
    """Compiles an LLVM IR module to object code for this machine. Raises `InternalError` when LLVM rejects
    the text."""
    with _lock:
        return bytes(target_machine().emit_object(_module(text)))


def emit_assembly(text: str) -> str:
    """Compiles an LLVM IR module to assembly text for this machine, for reading."""
    with _lock:
        return str(target_machine().emit_assembly(_module(text)))


@functools.cache
def _jit() -> llvm.LLJIT:
    return _llvm().create_lljit_compiler(target_machine(), suppress_errors=True)


def link_by_llvm(
    objects: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]
) -> tuple[dict[str, int], llvm.ResourceTracker]:
    """Links object code; returns the addresses of the exports, and what keeps the code mapped.

    Raises `InternalError` when a symbol is missing. The bytes must come from LLVM or from a store that verified
    them: LLVM aborts the process on damaged object files.
    """
    builder = _llvm().JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    for name, address in imports.items():
        # each definition costs the linker time, so only names in an object's string table are offered
        if any(f"{name}\0".encode() in code for code in objects):
            builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(_jit(), f"joinery.{next(_numbers)}")
        except RuntimeError as error:
            raise InternalError(f"object code cannot be linked: {str(error).strip()}") from error
        return {name: int(tracker[name]) for name in exports}, tracker
