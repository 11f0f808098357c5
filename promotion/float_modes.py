"""Floating-point modes while Python code works for the user: constants are folded, and definitions run, in the default ones.

Native code sees to its own modes (`native/modes.ll`). This asks the C library, which has them on POSIX systems; elsewhere
they stay as they are.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

_Function: TypeAlias = "ctypes._NamedFuncPointer"
_ENVIRONMENT_BYTES = 64
"""More than any platform's `fenv_t` takes."""


@functools.cache
def _functions() -> tuple[_Function, _Function, ctypes.c_void_p] | None:
    """`fegetenv`, `fesetenv`, and what stands for the default environment."""
    if sys.platform not in ("linux", "darwin"):
        return None
    try:
        library = ctypes.CDLL("/usr/lib/libSystem.dylib" if sys.platform == "darwin" else "libm.so.6")
    except OSError:  # where the C library holds the functions itself (musl)
        library = ctypes.CDLL(None)
    default = ctypes.c_void_p(-1)
    if sys.platform == "darwin":
        default = ctypes.c_void_p(ctypes.addressof(ctypes.c_byte.in_dll(library, "_FE_DFL_ENV")))
    return library.fegetenv, library.fesetenv, default


@contextmanager
def default_modes() -> Iterator[None]:
    """Inside, float arithmetic of this thread rounds to nearest and keeps denormal numbers; afterwards as before."""
    functions = _functions()
    if functions is None:
        yield
        return
    get, set_, default = functions
    saved = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    get(saved)
    set_(default)
    try:
        yield
    finally:
        set_(saved)
