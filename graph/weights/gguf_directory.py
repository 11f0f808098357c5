"""Reads where the arrays of a file in the format GGUF lie, within budgets, before anything of them is read.

The reader of the package `gguf` maps the file and believes its counts: a file from a stranger could let it loop for years,
or end the process. Of the package the loader takes the block formats and their decoding.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

from ...promotion.errors import UnsupportedError, UserError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
"""Multiple of the arrays' offsets where the file states none."""
_STRING, _ARRAY = 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Kinds of numbers in the metadata → their bytes."""

MAX_HEADER_BYTES = 1 << 28
MAX_ENTRIES = 1 << 22
"""Metadata, elements of arrays of texts and arrays of tensors, together."""
MAX_TENSORS = 1 << 18
MAX_NAME_BYTES = 1 << 16
MAX_TEXT_BYTES = 1 << 24
MAX_AXES = 8
MAX_DEPTH = 4
_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class Entry:
    """One array of a file.

    Attributes:
        name: its name.
        shape: its sizes, the last one along memory; GGUF has them the other way round.
        code: the number of its block format.
        offset: where it begins, in bytes from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    code: int
    offset: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class _Header:
    """The beginning of a file, read from front to back; every read is checked against the file's size and the budget."""

    def __init__(self, stream: BinaryIO, what: str) -> None:
        self.stream, self.what, self.order = stream, what, "<"
        self.size = os.fstat(stream.fileno()).st_size
        self.position = self.entries = 0

    def fail(self, reason: str, fix: str = "fetch the file again") -> NoReturn:
        raise UserError(f"{self.what}, at byte {self.position}: {reason}; fix: {fix}")

    def _room(self, count: int, reason: str) -> None:
        if count > self.size - self.position:
            self.fail(f"{reason} of {count} bytes, and the file ends after {self.size - self.position}")
        if self.position + count > MAX_HEADER_BYTES:
            self.fail(f"names and metadata of more than {MAX_HEADER_BYTES} bytes", "a file with less metadata")

    def take(self, count: int, reason: str) -> bytes:
        self._room(count, reason)
        data = self.stream.read(count)
        if len(data) != count:
            self.fail("the file changed while it was read", "read it again")
        self.position += count
        return data

    def skip(self, count: int, reason: str) -> None:
        self._room(count, reason)
        self.stream.seek(count, os.SEEK_CUR)
        self.position += count

    def number(self, form: str, reason: str) -> int:
        (value,) = struct.unpack(self.order + form, self.take(struct.calcsize(form), reason))
        return int(value)

    def count(self, limit: int, reason: str) -> int:
        """Read how many there are of something, at most `limit`."""
        value = self.number("Q", f"a number of {reason}")
        if value > limit:
            self.position -= 8
            self.fail(f"{value} {reason}; at most {limit} are read")
        return value

    def spend(self, count: int) -> None:
        self.entries += count
        if self.entries > MAX_ENTRIES:
            self.fail(f"more than {MAX_ENTRIES} entries of metadata", "a file with less metadata")

    def text(self, what: str, limit: int) -> str:
        length = self.number("Q", f"the length of {what}")
        if length > limit:
            self.position -= 8
            self.fail(f"{what} has {length} bytes; at most {limit} are read")
        data = self.take(length, what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            self.position -= length
            self.fail(f"{what} is no UTF-8")

    def value(self, kind: int, depth: int = 0) -> int | None:
        """Pass over a value of the metadata, and return it if it is a whole number of 32 bits."""
        if kind == _STRING:
            length = self.number("Q", "the length of a text")
            if length > MAX_TEXT_BYTES:
                self.position -= 8
                self.fail(f"a text has {length} bytes; at most {MAX_TEXT_BYTES} are read")
            self.skip(length, "a text")
        elif kind == _ARRAY:
            self._elements(depth)
        elif kind == 4:
            return self.number("I", "a number")
        elif kind in _WIDTHS:
            self.skip(_WIDTHS[kind], "a number")
        else:
            self.position -= 4
            self.fail(f"metadata of kind {kind}, which GGUF does not have")
        return None

    def _elements(self, depth: int) -> None:
        if depth == MAX_DEPTH:
            self.fail(f"metadata of more than {MAX_DEPTH} arrays within each other", "a file with simpler metadata")
        kind = self.number("I", "the kind of an array")
        count = self.number("Q", "the length of an array")
        if kind in _WIDTHS:
            self.skip(count * _WIDTHS[kind], f"an array of {count} numbers")
            return
        self.spend(count)
        for _ in range(count):
            self.value(kind, depth + 1)


def directory(stream: BinaryIO, what: str, formats: dict[int, tuple[int, int]]) -> tuple[list[Entry], bool]:
    """Return the arrays of a file in the order of their offsets, and whether its numbers begin with the highest byte.

    Args:
        stream: the file, at its start.
        what: the file, as errors name it.
        formats: block formats by their number: elements and bytes of a block.

    Raises `UserError` for a file that is not well formed: cut off, counts that it cannot hold, names that are twice,
    arrays that overlap or leave the file.
    """
    header = _Header(stream, what)
    if header.size < 4 or header.take(4, "the file's mark") != _MAGIC:
        header.position = 0
        header.fail("no GGUF file, which begins with 'GGUF'", "check the path")
    version = header.number("I", "the version")
    if version & 0xFFFF == 0:
        header.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in _VERSIONS:
        fix = "convert the file to version 3"
        raise UnsupportedError(f"{what}, at byte 4: version {version} of GGUF; versions 2 and 3 are read; fix: {fix}")
    tensors = header.count(MAX_TENSORS, "arrays")
    alignment = _metadata(header, header.count(MAX_ENTRIES, "entries of metadata"))
    header.spend(tensors)
    entries: dict[str, Entry] = {}
    for _ in range(tensors):
        entry = _entry(header)
        if entry.name in entries:
            header.fail(f"two arrays are called {entry.name[:200]!r}")
        entries[entry.name] = entry
    start = header.position + -header.position % alignment
    ordered = sorted(_absolute(header, entries.values(), start, alignment), key=lambda entry: entry.offset)
    end, before = start, ""
    for entry in ordered:
        if entry.offset < end:
            header.fail(f"arrays {before[:200]!r} and {entry.name[:200]!r} overlap")
        end, before = entry.offset + _bytes(header, entry, formats), entry.name
        if end > header.size:
            header.fail(f"array {entry.name[:200]!r} ends at byte {end}, and the file at byte {header.size}")
    return ordered, header.order == ">"


def _metadata(header: _Header, count: int) -> int:
    """Pass over the metadata, and return the alignment of the arrays that it states."""
    header.spend(count)
    keys: set[str] = set()
    alignment = _ALIGNMENT
    for _ in range(count):
        key = header.text("the name of an entry of metadata", MAX_NAME_BYTES)
        if key in keys:
            header.fail(f"metadata {key[:200]!r} is given twice")
        keys.add(key)
        found = header.value(header.number("I", "the kind of an entry"))
        if key == "general.alignment":
            if found is None or found not in {1 << bits for bits in range(21)}:
                given = "no uint32" if found is None else found
                header.fail(f"general.alignment is {given}; a power of two up to 2^20 is expected")
            alignment = found
    return alignment


def _entry(header: _Header) -> Entry:
    name = header.text("the name of an array", MAX_NAME_BYTES)
    axes = header.number("I", "a number of axes")
    if axes > MAX_AXES:
        header.fail(f"array {name[:200]!r} has {axes} axes; at most {MAX_AXES} are read")
    sizes = [header.number("Q", "a size") for _ in range(axes)]
    code = header.number("I", "a block format")
    offset = header.number("Q", "an offset")
    return Entry(name, tuple(reversed(sizes)), code, offset)


def _absolute(header: _Header, entries: Iterable[Entry], start: int, alignment: int) -> Iterator[Entry]:
    for entry in entries:
        if entry.offset % alignment or entry.offset > header.size:
            header.fail(f"array {entry.name[:200]!r} begins {entry.offset} bytes after the header; a multiple of {alignment} "
                        f"within the file of {header.size} is expected")  # fmt: skip
        yield Entry(entry.name, entry.shape, entry.code, start + entry.offset)


def _bytes(header: _Header, entry: Entry, formats: dict[int, tuple[int, int]]) -> int:
    """Return how many bytes an array has."""
    if entry.code not in formats:
        fix = "a newer version of the package gguf, or another quantisation"
        raise UnsupportedError(
            f"{header.what}: array {entry.name[:200]!r} has the block format {entry.code}, unknown here; fix: {fix}"
        )
    elements, size = formats[entry.code]
    total = entry.elements
    if math.prod(max(each, 1) for each in entry.shape) > _BYTES // size:  # of empty ones, too: NumPy counts so
        header.fail(f"array {entry.name[:200]!r} has the sizes {entry.shape}, which no file holds")
    row = entry.shape[-1] if entry.shape else 1
    if row % elements:
        header.fail(f"array {entry.name[:200]!r} has rows of {row} elements in blocks of {elements}")
    return total // elements * size
