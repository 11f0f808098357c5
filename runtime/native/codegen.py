"""Compiles the runtime's own LLVM IR modules to object code, and links object code to callable addresses.

One LLJIT serves the process. Objects are linked into libraries whose names are never reused; the returned
`LinkedCode` keeps the code mapped, and the code is unmapped when that dies.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Iterable, Mapping

import llvmlite.binding as llvm

from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError
from .profilers import announce

_lock = threading.Lock()
_numbers = itertools.count()
if hasattr(os, "register_at_fork"):
    # a child that is forked while another thread compiles finds LLVM in a consistent state, and the lock free
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@functools.cache
def target_machine() -> llvm.TargetMachine:
    """Returns the code generator for the CPU that this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


def target_key() -> str:
    """Returns a text that identifies everything about this machine and this LLVM on which object code of
    `emit_object` depends."""
    features = llvm.get_host_cpu_features().flatten()
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"{llvm.get_process_triple()}|{llvm.get_host_cpu_name()}|{features}|llvm {version}"


def _module(text: str) -> llvm.ModuleRef:
    machine = target_machine()
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


@dataclass(frozen=True, slots=True)
class LinkedCode:
    """Code in memory: the addresses of the exported symbols, valid for as long as this object lives."""

    addresses: Mapping[str, int]
    _tracker: llvm.ResourceTracker

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


@functools.cache
def _jit() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(target_machine(), suppress_errors=True)


def link(objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int]) -> LinkedCode:
    """Links object code. imports: the address of every symbol that the objects need and do not define.

    Raises `InternalError` when a symbol is missing. The bytes must come from LLVM or from a store that verified
    them: LLVM aborts the process on damaged object files.
    """
    builder = llvm.JITLibraryBuilder()
    objects = tuple(objects)
    for code in objects:
        builder.add_object_img(code)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    names = tuple(exports)
    for name in names:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(_jit(), f"joinery.{next(_numbers)}")
        except RuntimeError as error:
            raise InternalError(f"object code cannot be linked: {str(error).strip()}") from error
        addresses = {name: int(tracker[name]) for name in names}
        announce(objects, addresses)
    return LinkedCode(addresses, tracker)


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Returns the address of a function of a library. Raises `AttributeError` when the library has none of
    that name."""
    function = getattr(library, name)
    address = ctypes.cast(function, ctypes.c_void_p).value
    if address is None:
        raise InternalError(f"{function!r} has no address")
    return address
