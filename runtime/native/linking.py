"""Links object code to callable addresses, without LLVM where `elf.py` can: what is compiled already runs without it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping

from ...lowering.machine import machine
from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError
from . import elf
from .codegen import link_by_llvm
from .profilers import announce


@dataclass(frozen=True, slots=True)
class LinkedCode:
    """Code in memory: the addresses of the exported symbols, valid for as long as this object lives."""

    addresses: Mapping[str, int]
    _kept: object

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


def link(objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int]) -> LinkedCode:
    """Links object code. imports: the address of every symbol that the objects need and do not define.

    Raises `InternalError` when a symbol is missing. The bytes must come from LLVM or from a store that verified
    them: they are run.
    """
    objects, names = tuple(objects), tuple(exports)
    if all(map(elf.can_load, objects)):
        image = elf.load(objects, imports)
        missing = [name for name in names if name not in image.symbols]
        if missing:
            raise InternalError(f"object code cannot be linked: symbol {missing[0]!r} is missing")
        code = LinkedCode({name: image.symbols[name] for name in names}, image)
    else:
        code = LinkedCode(*link_by_llvm(objects, names, imports))
    announce(objects, code.addresses)
    return code


def target_key() -> str:
    """Returns a text that identifies everything about this machine and this LLVM on which object code of
    `codegen.emit_object` depends."""
    found = machine()
    return f"{found.triple}|{found.cpu}|{found.features}|llvm {found.llvm}"


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Returns the address of a function of a library. Raises `AttributeError` when the library has none of
    that name."""
    function = getattr(library, name)
    address = ctypes.cast(function, ctypes.c_void_p).value
    if address is None:
        raise InternalError(f"{function!r} has no address")
    return address
