"""Tells the profiler `perf` about the functions and lines of linked code, where the environment variable
JOINERY_PERF asks for it.

    JOINERY_PERF=map       appends names to /tmp/perf-PID.map, which `perf report` reads
    JOINERY_PERF=jitdump   writes code, names and lines to jit-PID.dump in the directory for temporary files: after
                           `perf record -k 1 …`, `perf inject --jit` makes object files of it, and annotates by line

Debuggers need none of this: LLVM links objects with line tables, and registers them with GDB's interface for code made at run
time.
"""

from __future__ import annotations

import functools
import mmap
import os
import platform
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from typing import IO

from ...promotion.errors import UserError
from .line_tables import CodeSymbol, LineEntry, ObjectLines, read_object

VARIABLE = "JOINERY_PERF"
KINDS = ("map", "jitdump")
_MACHINES = {"x86_64": 62, "aarch64": 183}  # ELF's numbers
_MAGIC, _VERSION = 0x4A695444, 1
_LOAD, _LINES = 0, 2  # kinds of records


@functools.cache
def _kind() -> str:
    """Returns the kind of output that the environment asks for when the first code is linked: "", "map" or
    "jitdump"."""
    found = os.environ.get(VARIABLE, "")
    if found and found not in KINDS:
        raise UserError(f"{VARIABLE}={found!r}; fix: one of {', '.join(KINDS)}, or leave it out")
    return found


def announce(objects: Iterable[bytes], addresses: Mapping[str, int]) -> None:
    """Writes records for objects that have been linked. addresses: those of symbols that the objects define."""
    kind = _kind()
    if not kind:
        return
    for data in objects:
        found = read_object(data)
        if found is None:
            continue
        start = next((addresses[each.name] - each.start for each in found.symbols if each.name in addresses), None)
        if start is not None:
            _write(kind, found, start)


def _own_file(path: str, flags: int) -> int:
    """Opens a file in a directory that others can write to; refuses symbolic links, which somebody else may
    have put there."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _write(kind: str, found: ObjectLines, start: int) -> None:
    if kind == "map":
        lines = [f"{start + each.start:x} {each.size:x} {each.name}\n" for each in found.symbols]
        where = f"/tmp/perf-{os.getpid()}.map"  # where perf looks
        with open(where, "a", encoding="utf-8", opener=_own_file) as names:
            names.writelines(lines)
        return
    stream, _ = _dump(os.getpid())
    for symbol in found.symbols:
        stream.write(_line_record(found, symbol, start))
        stream.write(_code_record(symbol, start))
    stream.flush()


@functools.lru_cache(maxsize=1)
def _dump(process: int) -> tuple[IO[bytes], mmap.mmap]:
    """Opens the jitdump file of a process, anew in a child after a fork. Its executable mapping tells perf
    about the file."""
    import tempfile  # which few processes need here, and takes as long as a tenth of opening a model

    path = os.path.join(tempfile.gettempdir(), f"jit-{process}.dump")
    stream = open(path, "w+b", opener=_own_file)  # noqa: SIM115 - as long as the process
    machine = _MACHINES.get(platform.machine(), 0)
    header = struct.pack("<IIIIIIQQ", _MAGIC, _VERSION, 40, machine, 0, process, time.monotonic_ns(), 0)
    stream.write(header)
    stream.flush()
    return stream, mmap.mmap(stream.fileno(), len(header), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)


def _record(kind: int, body: bytes) -> bytes:
    return struct.pack("<IIQ", kind, 16 + len(body), time.monotonic_ns()) + body


_indices = iter(range(1 << 62))


def _code_record(symbol: CodeSymbol, start: int) -> bytes:
    """Returns the record of a function's code as it was linked, read from memory."""
    import ctypes

    address = start + symbol.start
    code = ctypes.string_at(address, symbol.size)
    head = struct.pack(
        "<IIQQQQ", os.getpid(), threading.get_native_id(), address, address, symbol.size, next(_indices)
    )
    return _record(_LOAD, head + symbol.name.encode() + b"\0" + code)


def _line_record(found: ObjectLines, symbol: CodeSymbol, start: int) -> bytes:
    entries = _lines_of(found.lines, symbol)
    if not entries:
        return b""
    parts = [struct.pack("<QQ", start + symbol.start, len(entries))]
    for entry in entries:
        parts.append(struct.pack("<Qii", start + entry.start, entry.line, 0) + os.fsencode(entry.file) + b"\0")
    return _record(_LINES, b"".join(parts))


def _lines_of(lines: Iterable[LineEntry], symbol: CodeSymbol) -> list[LineEntry]:
    """Returns the line entries of one function. Instructions without a line count to the line before:
    profilers show no line 0."""
    own = [each for each in lines if symbol.start <= each.start < symbol.start + symbol.size and each.line]
    return [each for number, each in enumerate(own) if number == 0 or each[1:] != own[number - 1][1:]]


__all__ = ["KINDS", "VARIABLE", "announce"]
