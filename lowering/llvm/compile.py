"""Compiles LLVM IR text to object code through llvmlite: the only place where host lowering meets LLVM itself.

The wheel's LLVM aborts the process on IR that parses but is malformed, so every module is verified before code generation,
and target intrinsics are emitted only behind `HostTarget.has`.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ...promotion.errors import InternalError
from ..machine import machine, measured_caches
from ..target import HostTarget

LEVEL = 1
"""The optimization level of LLVM's back end, of 3. Level 2 takes a tenth longer and makes code that is no faster."""


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm  # which takes a twentieth of a second, and what is compiled already does not need

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _cache_size(index: int) -> int | None:
    """Returns the size in bytes of a cache of CPU 0 as Linux reports it; None elsewhere."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size").read_text().strip()
    except OSError:
        return None
    scale = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 0)
    return int(text[:-1]) * scale if scale else None


L3_SHARE = 32 << 20
"""The bytes of last-level cache to count on: a machine, and still more a virtual one, shares it with others."""


def reported_caches() -> tuple[int, ...]:
    """Returns the bytes of this CPU's caches, level by level, as the system reports them, or usual ones where it does not."""
    return tuple([_cache_size(index) or usual for index, usual in ((0, 32 << 10), (2, 1 << 20), (3, L3_SHARE))])


@functools.cache
def host_target() -> HostTarget:
    """Describes the machine that this process runs on."""
    found = machine()
    features = frozenset(name[1:] for name in found.features.split(",") if name.startswith("+"))
    if "avx512f" in features and "avx512vl" in features and "avx512bw" in features and "avx512dq" in features:
        vector_bytes = 64
    elif "avx2" in features:
        vector_bytes = 32
    else:
        vector_bytes = 16
    sizes = measured_caches() or reported_caches()
    return HostTarget(
        found.triple,
        found.cpu,
        features,
        vector_bytes,
        sizes[0],
        sizes[1],
        min(sizes[2], L3_SHARE),
    )


def llvm_version() -> str:
    return machine().llvm


@functools.lru_cache(maxsize=8)
def _target_machine(target: HostTarget, level: int) -> Any:
    return _llvm().Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.llvm_features, opt=level, reloc="pic", codemodel="small"
    )


def _module(text: str, target: HostTarget, machine: Any) -> Any:
    try:
        module = _llvm().parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"generated LLVM IR is invalid: {str(error).strip()}") from error
    return module


def compile_object(text: str, target: HostTarget, level: int = LEVEL) -> bytes:
    """Compiles a module to object code, without IR passes, which do not improve the explicit vectors of the emitters."""
    machine = _target_machine(target, level)
    return bytes(machine.emit_object(_module(text, target, machine)))


def compile_assembly(text: str, target: HostTarget, level: int = LEVEL) -> str:
    """Compiles a module to assembly text, for inspection."""
    machine = _target_machine(target, level)
    return str(machine.emit_assembly(_module(text, target, machine)))
