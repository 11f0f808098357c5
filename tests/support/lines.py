"""Reads line tables of code with tools that are not joinery's: binutils on objects and cubins, NVIDIA's assembler on PTX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

_DEBUG_LINE = re.compile(
    r"(?:\t\.loc\t\d+ \d+ \d+|\t\.file\t\d+ \"[^\"\n]*\"|\$L__(?:func_begin|func_end|tmp)\d+:"
    r"|\t\.section\t\.debug_macinfo\t{\t})\n"
)
"""What PTX with lines has more than PTX without: the guide says so."""
_ROW = re.compile(r"^(.+?)\s+(\d+|-)\s+(0x[0-9a-f]+|0)\b", re.MULTILINE)
_SYMBOL = re.compile(r"^\s*\d+: ([0-9a-f]+)\s+(\d+) FUNC\s+\S+\s+\S+\s+\S+\s+(\S+)$", re.MULTILINE)


def tool(name: str) -> str:
    """Returns the path of a tool; skips the test where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def without_lines(ptx: str) -> str:
    """Returns PTX without the lines of text that tell where instructions come from, and those that only these refer to."""
    return "".join([line for line in ptx.splitlines(keepends=True) if not _DEBUG_LINE.fullmatch(line)])


def sections(code: bytes) -> dict[str, bytes]:
    """Returns the bytes of an object's loaded sections by name, as LLVM's own reader finds them."""
    reader = llvm.ObjectFileRef.from_data(code)
    found = {}
    for section in reader.sections():
        name = (section.name() or b"").decode()
        if name.startswith((".text", ".rodata", ".data")):
            found[name] = section.data()
    assert len(found[".text"]) > 100
    return found


def line_rows(path: Path) -> list[tuple[int, int]]:
    """Returns the (address, line) pairs of the line table, in order of address; line 0 stands for none."""
    shown = subprocess.run([tool("readelf"), "--debug-dump=decodedline", path], capture_output=True, text=True, check=True)
    rows = [(int(row[3], 16), 0 if row[2] == "-" else int(row[2])) for row in _ROW.finditer(shown.stdout)]
    return sorted(rows, key=lambda row: row[0])


def lines_of(path: Path, function: str) -> set[int]:
    """Returns the lines that instructions of a function come from."""
    shown = subprocess.run([tool("readelf"), "--syms", "-W", path], capture_output=True, text=True, check=True).stdout
    start, size = next((int(m[1], 16), int(m[2])) for m in _SYMBOL.finditer(shown) if m[3] == function)
    return {line for address, line in line_rows(path) if start <= address < start + size and line}


def assemble(ptx: str, target: str, path: Path) -> Path:
    """Assembles a cubin with NVIDIA's assembler, with the lines of the PTX."""
    (path / "kernel.ptx").write_text(ptx, encoding="utf-8")
    cubin = path / "kernel.cubin"
    command: list[Any] = [tool("ptxas"), "-lineinfo", "-arch", target, "-o", cubin, path / "kernel.ptx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return cubin
