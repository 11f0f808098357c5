"""Reads from LLVM's ELF object code what profilers need: its functions, and the source line of each instruction.

The objects come from LLVM or from a verified store, so their structure is not checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...promotion.dataclass import dataclass

_TEXT, _LINES = b".text", b".debug_line"
_SYMBOLS, _RELOCATIONS = 2, 4  # types of sections
_FUNCTION = 2  # type of a symbol


class CodeSymbol(NamedTuple):
    """A function: its name, and its first byte and size within the code of its object."""

    name: str
    start: int
    size: int


class LineEntry(NamedTuple):
    """One row of a line table: instructions from this byte of the object's code on come from the line; 0
    means no line."""

    start: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ObjectLines:
    """The functions and line table of an object. code: the bytes of its code before linking; lines: ordered
    by `start`, empty without debug information."""

    code: bytes
    symbols: tuple[CodeSymbol, ...]
    lines: tuple[LineEntry, ...]


class _Section(NamedTuple):
    name: bytes
    type: int
    data: bytes
    link: int
    info: int


def read_object(data: bytes) -> ObjectLines | None:
    """Reads functions and lines of a 64-bit little-endian ELF object; returns None for other formats."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    sections = _sections(data)
    text = next((number for number, section in enumerate(sections) if section.name == _TEXT), 0)
    symbols = next((section for section in sections if section.type == _SYMBOLS), None)
    if not text or symbols is None:
        return None
    names = sections[symbols.link].data
    found = [
        CodeSymbol(_string(names, name), value, size)
        for name, kind, _, where, value, size in struct.iter_unpack("<IBBHQQ", symbols.data)
        if kind & 15 == _FUNCTION and where == text
    ]
    lines: list[LineEntry] = []
    for number, section in enumerate(sections):
        if section.name == _LINES:
            relocations = next((each.data for each in sections if each.type == _RELOCATIONS and each.info == number), b"")
            lines += _entries(_relocated(section.data, relocations))
    ordered = sorted(lines, key=lambda entry: entry.start)  # stable: of several rows at one byte the last counts
    return ObjectLines(sections[text].data, tuple(sorted(found, key=lambda each: each.start)), tuple(ordered))


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", data, table + number * size) for number in range(count)]
    strings = headers[names][4]
    found = []
    for name, kind, _, _, offset, length, link, info in headers:
        found.append(_Section(_bytes(data, strings + name), kind, data[offset : offset + length], link, info))
    return found


def _bytes(data: bytes, start: int) -> bytes:
    return data[start : data.index(b"\0", start)]


def _string(data: bytes, start: int) -> str:
    return _bytes(data, start).decode("utf-8", "replace")


def _relocated(data: bytes, relocations: bytes) -> bytes:
    """Replaces the addresses in a section by offsets into the code: the symbols that they refer to are the
    section's start."""
    patched = bytearray(data)
    for offset, _, addend in struct.iter_unpack("<QQq", relocations):
        patched[offset : offset + 8] = struct.pack("<q", addend)
    return bytes(patched)


class _Reader:
    """Reads numbers and strings one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def leb(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def string(self) -> str:
        found = _bytes(self.data, self.at)
        self.at += len(found) + 1
        return found.decode("utf-8", "replace")


def _entries(data: bytes) -> Iterator[LineEntry]:
    """Yields the rows of the line programs of a section (DWARF 4, section 6.2)."""
    at = 0
    while at < len(data):
        reader = _Reader(data, at)
        length = reader.number("I")
        at = reader.at + length
        if reader.number("H") == 4:
            yield from _rows(reader, at)


def _rows(reader: _Reader, end: int) -> Iterator[LineEntry]:
    header = reader.number("I")
    program = reader.at + header
    step, _, _, line_base = (reader.number(form) for form in "BBBb")
    line_range, opcode_base = reader.number("B"), reader.number("B")
    operands = [reader.number("B") for _ in range(opcode_base - 1)]
    directories = [""]
    while name := reader.string():
        directories.append(name)
    files = [""]
    while name := reader.string():
        directory = directories[reader.leb()]
        reader.leb(), reader.leb()
        files.append(f"{directory.rstrip('/')}/{name}" if directory else name)
    reader.at = program
    address, file, line = 0, 1, 1
    while reader.at < end:
        code = reader.number("B")
        if code >= opcode_base:
            code -= opcode_base
            address += code // line_range * step
            line += line_base + code % line_range
            yield LineEntry(address, files[file], line)
        elif code == 0:
            size = reader.leb()
            following = reader.at + size
            match reader.number("B"):
                case 1:
                    yield LineEntry(address, "", 0)
                    address, file, line = 0, 1, 1
                case 2:
                    address = reader.number("Q")
            reader.at = following
        else:
            match code:
                case 1:
                    yield LineEntry(address, files[file], line)
                case 2:
                    address += reader.leb() * step
                case 3:
                    line += reader.leb(True)
                case 4:
                    file = reader.leb()
                case 8:
                    address += (255 - opcode_base) // line_range * step
                case 9:
                    address += reader.number("H")
                case _:
                    for _ in range(operands[code - 1]):
                        reader.leb()


__all__ = ["CodeSymbol", "LineEntry", "ObjectLines", "read_object"]
