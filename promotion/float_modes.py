"""Provides the default floating-point modes to Python code that folds constants or evaluates definitions.

Native code sets its own modes (`runtime/native/modes.ll`). This module calls the C library, on Linux and
macOS; on other systems the modes stay as they are.
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
    """Return `fegetenv`, `fesetenv` and a pointer to the default environment.

    The result is None where the system is not supported.
    """
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
    """Set the default float modes for a `with` block: round to nearest, keep subnormals.

    They apply to the calling thread, whose earlier modes are restored at the end.
    """
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
