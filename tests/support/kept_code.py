"""Keeps what LLVM makes of a text from one run of the tests to the next: to make it anew takes a fifth of a run.

Code depends on the text, the target, LLVM, and the module that calls it, and on nothing else: all of them are in the key. A
text that a test compiles again is compiled for real, so that tests that compare two compilations compare two. The nightly
profile keeps nothing; `pytest --cache-clear` begins anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

import llvmlite
from joinery.interface import gpu_code
from joinery.lowering import gpu_stages, host_stages
from joinery.lowering.llvm import compile as host
from joinery.lowering.llvm import compile_ptx as gpu
from joinery.lowering.llvm.host import launcher
from joinery.lowering.llvm.nvptx.targets import GpuTarget
from joinery.lowering.machine import machine
from joinery.lowering.target import HostTarget
from joinery.runtime.native import codegen, library
from joinery.runtime.storage.cache import CompileCache

from . import native_code

BUDGET_BYTES = 1 << 30
_NONE: Mapping[str, str] = MappingProxyType({})


class Kept:
    """What a module that calls LLVM has made of texts. module: the one that holds the function whose results these are."""

    def __init__(self, directory: Path, module: ModuleType) -> None:
        self.directory, self.module = directory, module
        self.store: CompileCache | None = None
        self.seen: set[str] = set()

    def found(self, facts: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        """Returns what is kept for these facts, or makes it and keeps it."""
        if self.store is None:  # some workers compile nothing
            self.store = CompileCache(self.directory, BUDGET_BYTES)
            source = Path(str(self.module.__file__)).read_text(encoding="utf-8")
            self.start = source, llvmlite.__version__, *machine()
        key = hashlib.sha256(repr((self.start, facts)).encode()).hexdigest()
        data = None if key in self.seen else self.store.get_bytes(key)
        self.seen.add(key)
        if data is None:
            data = make()
            self.store.put_bytes(key, data)
        return data


_installed: list[Kept] = []


def begin_test() -> None:
    """Forgets what was compiled before: another test may have the code of an earlier one."""
    for kept in _installed:
        kept.seen.clear()


def install(directory: Path) -> None:
    """Puts what is kept in front of all calls from below `jn.compile` and launches, of the runtime, and of the harness."""
    objects, texts, runtime, harness = (Kept(directory, module) for module in (host, gpu, codegen, native_code))
    _installed.extend((objects, texts, runtime, harness))
    compile_object, compile_ptx, emit_object = host.compile_object, gpu.compile_ptx, codegen.emit_object

    def kept_object(text: str, target: HostTarget, level: int = host.LEVEL) -> bytes:
        return objects.found((text, target.key, str(level)), lambda: compile_object(text, target, level))

    def kept_ptx(text: str, target: GpuTarget, linked: Mapping[str, str] = _NONE) -> str:
        facts = (text, repr(target), str(gpu.MAX_INLINED), *(part for pair in sorted(linked.items()) for part in pair))
        return texts.found(facts, lambda: compile_ptx(text, target, linked).encode()).decode()

    def kept_runtime(text: str) -> bytes:
        return runtime.found((text,), lambda: emit_object(text))

    library.emit_object, native_code.kept = kept_runtime, harness.found
    host_stages.compile_object = launcher.compile_object = kept_object
    gpu_stages.compile_ptx = gpu_code.compile_ptx = kept_ptx
