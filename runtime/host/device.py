"""Implements the host CPU as a device."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import field

from ...lowering.artifact import CompiledGraph
from ...promotion.arrays import Array, NumpyDType
from ...promotion.dataclass import dataclass
from ..native.library import ObjectStore, interrupts, library_symbols, native_library
from ..native.linking import LinkedCode, link
from . import memory

_PREPARE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class HostModel:
    """Linked host code; implements `LinkedModel`. The code is unmapped when this object dies."""

    code: LinkedCode
    is_interruptible: bool
    _prepare: Callable[[int, int], int] = field(repr=False)
    _run: Callable[[int, int, int], None] = field(repr=False)

    @property
    def on_device(self) -> None:
        return None

    @property
    def prepare_address(self) -> int:
        return self.code["jn_prepare"]

    @property
    def run_address(self) -> int:
        return self.code["jn_run"]

    @property
    def profile_address(self) -> int | None:
        return self.code.addresses.get("jn_profile")

    def prepare(self, dims: int, sizes: int) -> int:
        return self._prepare(dims, sizes)

    def run(self, pool: int, buffers: int, dims: int) -> None:
        self._run(pool, buffers, dims)


class HostDevice:
    """The CPU that this process runs on.

    Args:
        store: keeps the runtime's own compiled templates between processes (`CompileCache` is one); None
            compiles them anew.
    """

    name = "cpu"

    def __init__(self, store: ObjectStore | None = None) -> None:
        self._store = store

    def link(self, compiled: CompiledGraph) -> HostModel:
        """Links a compiled graph. Raises `InternalError`, which names the symbols that cannot be found."""
        library = native_library(self._store)
        code = compiled.object_code
        imports = {"jn_parallel": library.parallel, **library_symbols()}
        found = interrupts(self._store) if b"jn_poll\0" in code else None
        if found is not None:
            imports["jn_poll"] = found.poll
        exports = ["jn_prepare", "jn_run"]
        if b"jn_profile\0" in code:  # not in code of earlier versions
            exports.append("jn_profile")
        linked = link([code], exports, imports)
        run: Callable[[int, int, int], None] = _RUN(linked["jn_run"])
        is_interruptible = found is not None and found.released is not None
        if found is not None and found.released is not None:
            run = functools.partial(found.released, linked["jn_run"])
        return HostModel(linked, is_interruptible, _PREPARE(linked["jn_prepare"]), run)

    def empty(self, shape: tuple[int, ...], dtype: NumpyDType) -> Array:
        native_library(self._store)
        return memory.empty(shape, dtype)
