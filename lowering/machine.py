"""Says which CPU this process runs on, as LLVM names it. A store keeps the answer, so that processes with nothing to compile
need not load LLVM."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import llvmlite

_CPU = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU implementer", "CPU part")
"""What Linux tells of a CPU, x86-64 and AArch64, that LLVM's answer may depend on."""


class Store(Protocol):
    """Keeps texts between processes."""

    def recall(self, key: str) -> bytes | None: ...

    def put_bytes(self, key: str, data: bytes) -> None: ...


class Machine(NamedTuple):
    """LLVM's triple, name and features of the CPU (`+a,-b,…`), and LLVM's version."""

    triple: str
    cpu: str
    features: str
    llvm: str


_stores: list[Store] = []


def use_store(store: Store) -> None:
    """Let `machine` look into a store before it asks LLVM; the first store that is given counts."""
    if not _stores:
        _stores.append(store)


@functools.cache
def machine() -> Machine:
    """Return the description of this machine."""
    key = _key() if _stores else None
    if key is None:
        return _ask()
    found = _decoded(_stores[0].recall(key))
    if found is None:
        found = _ask()
        _stores[0].put_bytes(key, json.dumps(found).encode())
    return found


def measured_caches() -> tuple[int, ...] | None:
    """Return the bytes of the caches of this CPU, level by level, that a store has from a measurement; None without one."""
    key = _key("caches") if _stores else None
    data = None if key is None else _stores[0].recall(key)
    try:
        sizes = None if data is None else json.loads(data)
    except ValueError:
        return None
    if not isinstance(sizes, list) or len(sizes) != 3 or not all(type(each) is int and each > 0 for each in sizes):
        return None
    return tuple(sizes)


def keep_caches(sizes: Sequence[int]) -> bool:
    """Put the bytes of the caches of this CPU into the store; return whether there is one that tells CPUs apart."""
    key = _key("caches") if _stores else None
    if key is not None:
        _stores[0].put_bytes(key, json.dumps(list(sizes)).encode())
    return key is not None


def _ask() -> Machine:
    import llvmlite.binding as llvm

    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), version)


def _key(what: str = "machine") -> str | None:
    """Return a digest of what LLVM's answer depends on: the CPU as Linux describes it, and LLVM itself; None elsewhere.

    what: is kept under the key.
    """
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
        package = Path(llvmlite.__file__).parent
        found = [(each, each.stat()) for each in sorted(package.glob("binding/*llvmlite*"))]
        libraries = [f"{each} {status.st_size} {status.st_mtime_ns}" for each, status in found]
    except OSError:
        return None
    pairs = [line.partition(":") for line in first.splitlines()]
    facts = [f"{name.strip()}={value.strip()}" for name, _, value in pairs if name.strip() in _CPU]
    if not facts or not libraries:
        return None
    parts = [*facts, *libraries, llvmlite.__version__, platform.machine(), os.name]
    return hashlib.sha256("\n".join([f"joinery {what}", *parts]).encode()).hexdigest()


def _decoded(data: bytes | None) -> Machine | None:
    try:
        fields = None if data is None else json.loads(data)
    except ValueError:
        return None
    if not isinstance(fields, list) or len(fields) != 4 or not all(isinstance(each, str) for each in fields):
        return None
    return Machine(*fields)
