"""Computes cache keys from everything that decides what code is generated, and from nothing else.

The key is computed before any lowering. Weights enter by dtype and shape only (their values never reach the
code), so keys of large models are cheap; small constants enter by their bytes, because the lowering embeds
them.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..graph.graph import Graph
from ..graph.ops.control import regions_of
from ..graph.text.printing import INLINE_BYTES, attributes_text, shape_list
from ..promotion.arrays import Array
from .choices.options import FEW_THREADS
from .llvm.compile import llvm_version
from .llvm.nvptx.targets import GpuTarget
from .target import HostTarget

_SOURCES = ("lowering", "graph", "promotion")


@functools.cache
def source_fingerprint() -> str:
    """Returns a digest of joinery's own sources that take part in compiling, by path, size and modification
    time."""
    root = Path(__file__).resolve().parent.parent
    lines = [line for package in _SOURCES for line in _sources(str(root / package), len(str(root)))]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _sources(directory: str, start: int) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path, start)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{entry.path[start:]} {status.st_size} {status.st_mtime_ns}"


def constant_labels(graph: Graph) -> dict[int, str]:
    """Returns the name under which each constant and weight is stored, by the `id` of its array object.

    A weight has its own name, the n-th constant `#n`.
    """
    labels: dict[int, str] = {}
    count = 0
    for symbol in graph.symbols:
        if symbol.op.name == "weight":
            labels[id(symbol.attrs["value"])] = symbol.attrs.get("name") or symbol.name or ""
        elif symbol.op.name == "constant":
            labels[id(symbol.attrs["value"])] = f"#{count}"
            count += 1
    return labels


def structure_text(graph: Graph) -> str:
    """Returns the graph as text without the bytes of large arrays, locations or the graph's name."""

    def array_text(array: Array) -> str:
        if array.nbytes <= INLINE_BYTES:
            return f'hex"{array.tobytes().hex()}"'
        return f"array[{array.dtype} {array.shape}]"

    lines = []
    for symbol in graph.symbols:
        lines += [f"region\n{structure_text(region)}" for region in regions_of(symbol)]
        operands = ", ".join(f"%{operand.id}" for operand in symbol.inputs)
        attrs = attributes_text(symbol.attrs, array_text)
        lines.append(f"%{symbol.id} = {symbol.op.name}({operands}){attrs} : {symbol.dtype.name} {shape_list(symbol.shape)}")
    lines += [f"check {check[0]} {check[1]} {check[2]}" for check in (*graph.checks, *graph.limits)]
    lines.append(f"output {', '.join(f'%{s.id}' for s in graph.outputs)} {graph.output_names}")
    return "\n".join(lines)


def lines_text(graph: Graph) -> str:
    """Returns the user's line and file of every symbol, which are part of code with line tables."""
    lines = []
    for symbol in graph.symbols:
        lines += [lines_text(region) for region in regions_of(symbol)]
        lines.append(f"{symbol.location.line} {symbol.location.file!r}")
    return "\n".join(lines)


def compile_key(
    graph: Graph, target: HostTarget | GpuTarget, numerics: str = "strict", debug: bool = False, schedule: str = "",
    threads: int = FEW_THREADS,
) -> str:
    """Returns the SHA-256 of the graph's structure and rule set, the target, `numerics`, `schedule`, the threads that programs
    on CPUs are planned for, LLVM's version and joinery's sources.

    debug: digest also the lines at which the graph was built; code without line tables does not depend on
    them.
    """
    digest = hashlib.sha256()
    parts = [structure_text(graph), graph.rules.hash, target.key, numerics, schedule, llvm_version(), source_fingerprint()]
    if isinstance(target, HostTarget):
        parts.append(str(threads))
    for part in [*parts, lines_text(graph)] if debug else parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()
