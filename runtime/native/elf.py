"""Links LLVM's ELF object code for x86-64 into memory, without LLVM: what loading a compiled model needs.

Sections are laid out in one private mapping, by what may be done with them: code, then constants and a table of addresses, then
data. Calls that leave the object go through a jump of six bytes each, since what they call may be further away than they reach.
Then the code becomes executable and no longer writable. Formats: System V ABI, and its AMD64 supplement.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...promotion.errors import InternalError

_NOBITS, _RELA, _REL, _SYMTAB = 8, 4, 9, 2
_WRITE, _ALLOC, _EXECUTE, _TLS = 1, 2, 4, 0x400
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_ABS64, _PC32, _PLT32, _PC64, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX = 1, 2, 4, 24, 9, 41, 42
_GOT = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)
_KNOWN = {_ABS64, _PC32, _PLT32, _PC64, *_GOT}
_DAMAGE = (struct.error, IndexError, KeyError, OverflowError, ValueError)
_JUMP, _SLOT = 16, 8  # bytes of a jump, with padding, and of an address


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    size: int


class Image:
    """Linked code in memory, which stays there as long as this object lives.

    Attributes:
        symbols: the address of each symbol that the objects define for others.
    """

    def __init__(self, memory: mmap.mmap, symbols: Mapping[str, int]) -> None:
        self._memory = memory
        self.symbols = symbols


@functools.cache
def is_supported() -> bool:
    """Return whether this process runs code that `load` can link."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64") and struct.calcsize("P") == 8


def can_load(data: bytes) -> bool:
    """Return whether `load` links an object: ELF for x86-64 without line tables, which debuggers read from LLVM's linker,
    thread-local variables, or relocations of other kinds than LLVM writes for position-independent code.

    Raises `InternalError` for an object that is damaged.
    """
    if not is_supported() or data[:6] != b"\x7fELF\x02\x01" or data[16:20] != b"\x01\x00\x3e\x00":
        return False
    try:
        found = _Object(data)
        if any(s.flags & _TLS or (s.kind == _REL and found.sections[s.info].flags & _ALLOC) for s in found.sections):
            return False
        if b".debug_line\0" in found.names_of_sections:
            return False
        return all(kind in _KNOWN for at in found.relocated for _, kind, _, _ in found.relocations(at))
    except _DAMAGE as error:
        raise InternalError(f"object code is damaged: {error}") from error


def load(objects: Iterable[bytes], imports: Mapping[str, int]) -> Image:
    """Link objects, of each of which `can_load` is true.

    Args:
        imports: the address of every symbol that the objects need and do not define.

    Raises `InternalError` for symbols that are missing or defined twice, and for damaged objects.
    """
    try:
        return _Linker([_Object(data) for data in objects], imports).link()
    except _DAMAGE as error:
        raise InternalError(f"object code is damaged: {error}") from error


class _Object:
    """The parts of an object file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (table,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        if size != 64 or names >= count:
            raise ValueError("the table of its sections has another form")
        self.sections: list[_Section] = []
        for number in range(count):
            header = struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * number)
            name, kind, flags, _, offset, length, link, info, align, _ = header
            if kind != _NOBITS and offset + length > len(data):
                raise ValueError(f"section {number} ends behind its end")
            if align & (align - 1) or align > mmap.PAGESIZE:
                raise ValueError(f"section {number} is aligned to {align} bytes")
            self.sections.append(_Section(name, kind, flags, offset, length, link, info, max(align, 1)))
        self.names_of_sections = b"\0" + self.bytes_of(names)
        self.symbols = self._read_symbols()
        self.kept = [n for n, s in enumerate(self.sections) if s.flags & _ALLOC]
        self.relocated = [n for n, s in enumerate(self.sections) if s.kind == _RELA and self.sections[s.info].flags & _ALLOC]

    def bytes_of(self, number: int) -> bytes:
        section = self.sections[number]
        return b"" if section.kind == _NOBITS else self.data[section.offset : section.offset + section.size]

    def _read_symbols(self) -> list[tuple[_Symbol, bool]]:
        """Return the symbols, and whether others may use each."""
        found = []
        for section in self.sections:
            if section.kind == _SYMTAB:
                names = self.bytes_of(section.link)
                body = self.data[section.offset : section.offset + section.size]
                for name, info, _, where, value, size in struct.iter_unpack("<IBBHQQ", body):
                    text = names[name : names.index(b"\0", name)].decode()
                    found.append((_Symbol(text, where, value, size), info >> 4 != 0))
        return found

    def relocations(self, number: int) -> Iterable[tuple[int, int, int, int]]:
        """Return the offset, kind, symbol and addend of each relocation in a section of them."""
        for offset, info, addend in struct.iter_unpack("<QQq", self.bytes_of(number)):
            yield offset, info & 0xFFFFFFFF, info >> 32, addend


class _Linker:
    """Links objects into one mapping. Offsets are from its start."""

    def __init__(self, objects: Sequence[_Object], imports: Mapping[str, int]) -> None:
        self.objects, self.imports = objects, imports
        self.offsets: dict[tuple[int, int], int] = {}  # (object, section) → where it lies
        self.definitions: dict[str, tuple[int, int]] = {}  # a name for others → (object, symbol)
        self.jumps: dict[str, int] = {}
        self.slots: dict[tuple[int, int], int] = {}  # (object, symbol) → where its address is kept
        self.addresses: dict[str, int] = {}  # an imported symbol → where its address is kept

    def link(self) -> Image:
        code, constants, total = self._lay_out()
        memory = mmap.mmap(-1, max(total, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for (number, section), offset in self.offsets.items():
            body = self.objects[number].bytes_of(section)
            memory[offset : offset + len(body)] = body
        for name, jump in self.jumps.items():
            memory[jump : jump + 6] = b"\xff\x25" + struct.pack("<i", self.addresses[name] - jump - 6)
        for name, slot in self.addresses.items():
            memory[slot : slot + _SLOT] = struct.pack("<Q", self.imports[name])
        for (number, symbol), slot in self.slots.items():
            memory[slot : slot + _SLOT] = struct.pack("<Q", base + self._location(number, symbol))
        for number, each in enumerate(self.objects):
            for relocations in each.relocated:
                self._relocate(memory, base, number, relocations)
        _protect(base, code, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(base + code, constants - code, mmap.PROT_READ)
        return Image(memory, {name: base + self._location(*found) for name, found in self.definitions.items()})

    def _lay_out(self) -> tuple[int, int, int]:
        """Decide where everything lies; return where the code, the constants and the data end."""
        self._define_names()
        at = 0
        kinds = ((_EXECUTE, _EXECUTE), (_EXECUTE | _WRITE, 0), (_EXECUTE | _WRITE, _WRITE))  # the flags looked at, and wanted
        ends: list[int] = []
        for mask, wanted in kinds:
            for number, each in enumerate(self.objects):
                for section in each.kept:
                    if each.sections[section].flags & mask == wanted:
                        at += -at % each.sections[section].align
                        self.offsets[number, section] = at
                        at += each.sections[section].size
            if not ends:
                at = self._lay_out_jumps(at)
            elif len(ends) == 1:
                at = self._lay_out_slots(at)
            at += -at % mmap.PAGESIZE
            ends.append(at)
        if at >= 1 << 31:
            raise ValueError(f"it has {at} bytes, more than relative addresses reach")
        if len(self.offsets) < sum(len(each.kept) for each in self.objects):
            raise ValueError("a section of code can be written")
        return ends[0], ends[1], ends[2]

    def _define_names(self) -> None:
        """Note the symbols that objects define for others."""
        for number, each in enumerate(self.objects):
            for index, (symbol, is_global) in enumerate(each.symbols):
                if is_global and symbol.section != _UNDEFINED:
                    if symbol.name in self.definitions:
                        raise InternalError(f"object code cannot be linked: {symbol.name!r} is defined twice")
                    if symbol.section in (_ABSOLUTE, _COMMON):
                        raise ValueError(f"symbol {symbol.name!r} lies in no section")
                    self.definitions[symbol.name] = number, index

    def _lay_out_jumps(self, at: int) -> int:
        at += -at % _JUMP
        for number, each in enumerate(self.objects):
            for section in each.relocated:
                for _, kind, index, _ in each.relocations(section):
                    name = self._imported(number, index)
                    if name is not None and kind not in _GOT and name not in self.jumps:
                        self.jumps[name] = at
                        at += _JUMP
        return at

    def _lay_out_slots(self, at: int) -> int:
        at += -at % _SLOT
        for number, each in enumerate(self.objects):
            for section in each.relocated:
                for _, kind, index, _ in each.relocations(section):
                    name = self._imported(number, index)
                    if name is None and kind in _GOT and (number, index) not in self.slots:
                        self.slots[number, index] = at
                        at += _SLOT
                    elif name is not None and name not in self.addresses:
                        self.addresses[name] = at
                        at += _SLOT
        return at

    def _imported(self, number: int, index: int) -> str | None:
        """Return the name of a symbol that no object defines; None for others. Raises `InternalError` if it is missing."""
        symbol, _ = self.objects[number].symbols[index]
        if symbol.section != _UNDEFINED or symbol.name in self.definitions:
            return None
        if symbol.name not in self.imports:
            raise InternalError(f"object code cannot be linked: symbol {symbol.name!r} is missing")
        return symbol.name

    def _location(self, number: int, index: int) -> int:
        """Return where a symbol lies that an object defines."""
        symbol, _ = self.objects[number].symbols[index]
        if symbol.section == _UNDEFINED:
            return self._location(*self.definitions[symbol.name])
        section = self.objects[number].sections[symbol.section]
        if (number, symbol.section) not in self.offsets or symbol.value > section.size:
            raise ValueError(f"symbol {symbol.name!r} lies in no section")
        return self.offsets[number, symbol.section] + symbol.value

    def _relocate(self, memory: mmap.mmap, base: int, number: int, relocations: int) -> None:
        each = self.objects[number]
        target = each.sections[each.sections[relocations].info]
        start = self.offsets[number, each.sections[relocations].info]
        for offset, kind, index, addend in each.relocations(relocations):
            width = 8 if kind in (_ABS64, _PC64) else 4
            if offset + width > target.size:
                raise ValueError("a relocation lies behind its section")
            at, name = start + offset, self._imported(number, index)
            if kind in _GOT:
                found = self.addresses[name] if name is not None else self.slots[number, index]
            elif name is not None and kind == _ABS64:
                memory[at : at + 8] = struct.pack("<Q", (self.imports[name] + addend) & 0xFFFFFFFFFFFFFFFF)
                continue
            else:
                found = self.jumps[name] if name is not None else self._location(number, index)
            if kind == _ABS64:
                memory[at : at + 8] = struct.pack("<Q", (base + found + addend) & 0xFFFFFFFFFFFFFFFF)
            else:
                memory[at : at + width] = struct.pack("<q" if width == 8 else "<i", found + addend - at)


def _protect(start: int, size: int, rights: int) -> None:
    if size:
        library = ctypes.CDLL(None, use_errno=True)
        if library.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_int(rights)) != 0:
            code = ctypes.get_errno()
            raise InternalError(f"object code cannot be made executable: {os.strerror(code)}")
