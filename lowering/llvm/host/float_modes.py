"""Sets floating-point modes around emitted code: it means the default ones, whatever its caller has set.

x86 keeps modes and sticky flags in MXCSR, AArch64 modes in FPCR. Reading it takes a store and a comparison; the register is
written only if the modes differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...target import HostTarget
from ..ir import Function
from ..values import i32, i64

_MXCSR_MODES, _MXCSR_DEFAULT = 0xFFC0, 0x1F80
"""The bits of traps, rounding and flushing; the default: nothing traps, to nearest, no flushing."""


@contextmanager
def default_modes(f: Function, target: HostTarget) -> Iterator[None]:
    """Runs what is emitted inside in the default modes and restores the caller's afterwards.

    Flags that the code raised are lost where modes had to change.
    """
    if target.is_x86:
        with _x86(f):
            yield
    elif target.triple.startswith(("aarch64", "arm64")):
        f.module.declare("llvm.aarch64.get.fpcr", "i64", [])
        f.module.declare("llvm.aarch64.set.fpcr", "void", ["i64"])
        was = f.call("llvm.aarch64.get.fpcr", "i64", [])
        other = f.icmp("ne", was, i64(0))
        with f.when(other):
            f.call("llvm.aarch64.set.fpcr", "void", [i64(0)])
        yield
        with f.when(other):
            f.call("llvm.aarch64.set.fpcr", "void", [was])
    else:
        yield


@contextmanager
def _x86(f: Function) -> Iterator[None]:
    load, store = "llvm.x86.sse.ldmxcsr", "llvm.x86.sse.stmxcsr"
    for name in (load, store):
        f.module.declare(name, "void", ["ptr"])
    saved, default = f.alloca("i32", 1, 4), f.alloca("i32", 1, 4)
    f.call(store, "void", [saved])
    modes = f.binary("and", f.load("i32", saved, 4), i32(_MXCSR_MODES))
    other = f.icmp("ne", modes, i32(_MXCSR_DEFAULT))
    with f.when(other):
        f.store(i32(_MXCSR_DEFAULT), default, 4)
        f.call(load, "void", [default])
    yield
    with f.when(other):
        f.call(load, "void", [saved])
