"""Loads the native part of the runtime: it is compiled once per machine and linked once per process.

`pool.ll` (threads), `memory.ll` (aligned, recycled blocks), `entry.ll` (the Python call of a model), `launch.ll` (that of a
kernel) and `poll.ll` (interrupts) are LLVM IR templates. Parts that this platform or this interpreter cannot run are left out,
and callers see `None`: there is no entry on PyPy or a free-threaded build, for example, where `Executable` does the same work
in Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from ...promotion.arrays import Array, NumpyDType
from ...promotion.dataclass import dataclass
from ..device import Result
from .codegen import emit_object
from .linking import LinkedCode, address_of, link, target_key

_HERE = Path(__file__).parent

# Linux system call numbers by machine: futex, gettid
_SYSTEM_CALLS = {"x86_64": (202, 186), "aarch64": (98, 178)}
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_C_SYMBOLS = ("posix_memalign", "free", "mmap", "munmap", "madvise", "memcpy", "memset", "memmove")
_POOL_THREADS = (
    "pthread_create", "pthread_detach", "pthread_sigmask", "pthread_key_create", "pthread_setspecific", "pthread_getspecific",
)  # fmt: skip
_POOL_EXPORTS = ("jn_parallel", "jn_launch", "jn_pool_reset", "jn_worker", "jn_workers", "jn_pause")
_POOL_SYMBOLS = {
    "linux": (
        *_POOL_THREADS, "memcpy", "memset", "syscall", "sched_getcpu", "sched_setaffinity",
    ),
    "posix": (
        *_POOL_THREADS, "memcpy", "memset", "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock",
        "pthread_cond_init", "pthread_cond_wait", "pthread_cond_broadcast",
    ),
    "serial": (),
}  # fmt: skip
_PYTHON_SYMBOLS = (
    "PyObject_Vectorcall", "PyEval_SaveThread", "PyEval_RestoreThread", "PyTuple_New", "PyTuple_SetItem",
    "PyTuple_Size", "PyTuple_GetItem", "PyErr_Occurred", "Py_IncRef", "Py_DecRef", "PyLong_AsUnsignedLongLongMask",
    "PyBytes_FromStringAndSize", "PyLong_AsLongLongAndOverflow", "PyLong_FromLongLong", "PyFloat_AsDouble",
    "PyType_IsSubtype", "PyErr_Fetch", "PyErr_Restore",
)  # fmt: skip
_POLL_SYMBOLS = (
    "PyGILState_Ensure", "PyGILState_Release", "PyGILState_GetThisThreadState", "PyErr_CheckSignals", "PyEval_SaveThread",
    "PyEval_RestoreThread",
)  # fmt: skip
_NEW_COPY = 85  # index of PyArray_NewCopy in NumPy's C-API table; the table is append-only
_NEW_FROM_DESCR = 94  # index of PyArray_NewFromDescr
_GET_HANDLER = 305  # index of PyDataMem_GetHandler
_FASTCALL_KEYWORDS = 0x82
_FASTCALL = 0x80
_NOARGS = 0x04


class ObjectStore(Protocol):
    """Keeps compiled templates between processes."""

    def get_bytes(self, key: str) -> bytes | None: ...

    def put_bytes(self, key: str, data: bytes) -> None: ...


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _MemoryHandler(ctypes.Structure):
    """PyDataMem_Handler, version 1 (NumPy Enhancement Proposal 49)."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class Entry:
    """The native Python entry and its allocator. Every method needs the GIL, which a call from Python holds.

    Attributes:
        memory: the addresses of the allocator's functions by name, for other native code.
    """

    def __init__(self, code: LinkedCode, keep_alive: tuple[object, ...]) -> None:
        self._keep_alive = (code, *keep_alive)
        prototype = ctypes.PYFUNCTYPE  # keeps the GIL: the block lists rely on it
        self.trim: Callable[[], None] = prototype(None)(code["jn_trim"])
        self._new_array = prototype(
            ctypes.c_void_p, ctypes.py_object, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        )(code["jn_new_array"])
        self.cached_bytes = ctypes.c_int64.from_address(code["jn_cached_bytes"])
        self.cached_limit = ctypes.c_int64.from_address(code["jn_cached_limit"])
        self.memory = {name: code[name] for name in ("jn_alloc", "jn_free")}
        self._fastcalls: dict[int, _MethodDef] = {}
        self._call = _MethodDef(b"model", code["jn_entry"], _FASTCALL_KEYWORDS, b"Runs the compiled model.")
        self._bound = _MethodDef(b"bound_call", code["jn_bound"], _NOARGS, b"Runs the prepared call.")
        self._start = _MethodDef(b"start", code["jn_start"], _FASTCALL, b"Runs all programs of a kernel.")
        self._launch = _MethodDef(b"launch", code["jn_launch_plain"], _FASTCALL, b"Launches a kernel with plain arguments.")
        self._new_function = ctypes.pythonapi.PyCFunction_NewEx
        self._new_function.restype = ctypes.py_object
        self._new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

    def start_function(self) -> Callable[..., bytes | None]:
        """Returns the Python callable that launches a single kernel (see `jn_start` in `entry.ll`)."""
        function: Callable[..., bytes | None] = self._new_function(ctypes.addressof(self._start), None, None)
        return function

    def launch_function(self, table: Array) -> Callable[..., Literal[False] | bytes | None]:
        """Returns the Python callable that launches a kernel (see `launch.ll`); it keeps the table alive, not what is in it."""
        function: Callable[..., Literal[False] | bytes | None]
        function = self._new_function(ctypes.addressof(self._launch), table, None)
        return function

    def fastcall(self, name: bytes, address: int, table: Array) -> Callable[..., object]:
        """Returns a Python callable of native code whose first argument is a table; it keeps the table alive, not the code."""
        if address not in self._fastcalls:
            self._fastcalls[address] = _MethodDef(name, address, _FASTCALL, b"Runs native code.")
        function: Callable[..., object] = self._new_function(ctypes.addressof(self._fastcalls[address]), table, None)
        return function

    def new_array(self, shape: tuple[int, ...], dtype: NumpyDType) -> Array | None:
        """Allocates an uninitialised array in a block of its own; returns None when the size overflows or
        there is no memory."""
        extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        # a py_object result would be simpler, but ctypes crashes on a null one
        reference = self._new_array(dtype, dtype.itemsize, len(shape), ctypes.addressof(extents))
        if reference is None:
            return None
        array: Array = ctypes.cast(reference, ctypes.py_object).value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(array))  # `value` took a reference of its own
        return array

    def call_function(self, table: Array) -> Callable[..., Result]:
        """Returns the Python callable over a model's table (see `entry.ll`); it keeps the table alive."""
        function: Callable[..., Result] = self._new_function(ctypes.addressof(self._call), table, None)
        return function

    def bound_function(self, table: Array) -> Callable[[], Result]:
        """Returns the Python callable over a prepared call's table (see `entry.ll`); it keeps the table alive."""
        function: Callable[[], Result] = self._new_function(ctypes.addressof(self._bound), table, None)
        return function


@dataclass(frozen=True, slots=True)
class Interrupts:
    """What ends loops early (see `poll.ll`).

    poll: the address of `jn_poll`, which loops call.
    retake: that of `jn_retake`, 0 where nothing can interrupt them.
    released: calls `jn_run` without the GIL, and raises what interrupted it; None where nothing can.
    """

    poll: int
    retake: int
    released: Callable[[int, int, int, int], None] | None


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The addresses of the pool's functions, of which `jn_parallel`, `jn_launch` and `jn_pool_reset` have names here, whether
    there are threads, and the entry, None where it cannot run."""

    code: LinkedCode
    parallel: int
    launch: int
    pool_reset: int
    threaded: bool
    entry: Entry | None


def _machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def template(name: str, values: Mapping[str, str]) -> str:
    """Returns the text of a file of LLVM IR with values for its names in double braces."""
    text = (_HERE / f"{name}.ll").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    return text


def cached_object(name: str, text: str, store: ObjectStore | None) -> bytes:
    """Returns the object code of an LLVM module for this machine, from the store if it is there."""
    key = hashlib.sha256(f"joinery runtime {name}\n{target_key()}\n{text}".encode()).hexdigest()
    cached = store.get_bytes(key) if store is not None else None
    if cached is not None:
        return cached
    code = emit_object(text)
    if store is not None:
        store.put_bytes(key, code)
    return code


@functools.cache
def mark_function() -> LinkedCode | None:
    """Return the function that notes times (`jn_mark` in `profile.ll`); None where threads have no POSIX clock."""
    clock = getattr(time, "CLOCK_MONOTONIC", None)
    if os.name != "posix" or clock is None:
        return None
    text = template("profile", {"CLOCK_MONOTONIC": str(clock)})
    return link([emit_object(text)], ("jn_mark",), _addresses(c_library(), ("pthread_self", "clock_gettime")))


def has_known_layout() -> bool:
    """Returns whether the interpreter and NumPy lay out objects as `entry.ll` reads them, as far as a live
    array can tell."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8 or sys.byteorder != "little":
        return False
    if os.name != "posix" or "t" in sys.abiflags or object.__basicsize__ != 16:  # t: built without the lock
        return False
    if np.ndarray.__basicsize__ < 96:
        return False
    probe = np.empty((3, 5), np.float32)
    field = [ctypes.c_int64.from_address(id(probe) + 8 * i).value for i in range(12)]
    if field[1] != id(np.ndarray) or field[2] != probe.ctypes.data or field[3] & 0xFFFFFFFF != probe.ndim:
        return False
    extents = (ctypes.c_int64 * 2).from_address(field[4])
    strides = (ctypes.c_int64 * 2).from_address(field[5])
    if tuple(extents) != probe.shape or tuple(strides) != probe.strides:
        return False
    if field[6] != 0 or field[7] != id(probe.dtype):
        return False
    if field[8] & 0xFFFFFFFF != probe.flags.num:
        return False
    get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(_numpy_function(_GET_HANDLER))
    return field[11] == id(get_handler())


def _numpy_function(index: int) -> int:
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(ctypes.cast(get_pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))[index])


def c_library() -> ctypes.CDLL:
    """Returns the C library of this process."""
    return ctypes.CDLL(None if os.name == "posix" else "ucrtbase")


def _addresses(library: ctypes.CDLL, names: tuple[str, ...]) -> dict[str, int]:
    return {name: address_of(library, name) for name in names}


def _cache_limit() -> int:
    """Returns how many bytes of free blocks are kept: an eighth of the machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
    except (ValueError, OSError):
        return 1 << 30


def _load_entry(launch: int, store: ObjectStore | None) -> Entry:
    text = entry_text(sys.platform)
    handler = _MemoryHandler(name=b"joinery", version=1)
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule_name = ctypes.c_char_p(b"mem_handler")
    capsule = new_capsule(ctypes.addressof(handler), capsule_name, None)
    imports = _addresses(c_library(), _C_SYMBOLS) | _addresses(ctypes.pythonapi, _PYTHON_SYMBOLS)
    imports["PyArray_NewCopy"] = _numpy_function(_NEW_COPY)
    imports["PyArray_NewFromDescr"] = _numpy_function(_NEW_FROM_DESCR)
    imports["PyArray_Type"] = id(np.ndarray)
    imports["jn_handler_capsule"] = id(capsule)
    imports["_Py_NoneStruct"] = id(None)
    imports["_Py_FalseStruct"] = id(False)
    types = {"Long": int, "Bool": bool, "Float": float, "Tuple": tuple}
    imports |= {f"Py{name}_Type": id(type_) for name, type_ in types.items()}
    imports["jn_launch"] = launch
    exports = (
        "jn_trim", "jn_new_array", "jn_entry", "jn_bound", "jn_cached_bytes", "jn_cached_limit", "jn_alloc", "jn_free",
        "jn_handler_malloc", "jn_handler_calloc", "jn_handler_realloc", "jn_start", "jn_launch_plain",
    )  # fmt: skip
    code = link([cached_object("entry", text, store)], exports, imports)
    handler.malloc = code["jn_handler_malloc"]
    handler.calloc = code["jn_handler_calloc"]
    handler.realloc = code["jn_handler_realloc"]
    handler.free = code["jn_free"]
    entry = Entry(code, (handler, capsule_name, capsule))
    entry.cached_limit.value = _cache_limit()
    # arrays refer to the handler and may outlive everything else at exit, so these objects are never released
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))
    return entry


def pool_platform() -> str:
    """Returns which pool this system uses: "linux" (futex, CPU masks), "posix" (condition variable), or
    "serial" (none)."""
    if os.name != "posix" or _machine() not in _PAUSE:
        return "serial"
    return "linux" if sys.platform == "linux" and _machine() in _SYSTEM_CALLS else "posix"


def pool_text(platform_name: str, machine: str, system: str) -> str:
    """Returns the LLVM IR of the pool. `machine` and `system` are named as by `platform.machine` and
    `sys.platform`."""
    modes = template("modes", {}) + template(f"modes_{machine if machine in _PAUSE else 'unknown'}", {})
    if platform_name == "serial":
        return template("pool_serial", {}) + modes
    declaration, pause = _PAUSE[machine]
    futex, gettid = _SYSTEM_CALLS[machine]
    mask = "3" if system == "darwin" else "2"
    values = {"SYS_FUTEX": str(futex), "SYS_GETTID": str(gettid), "SIG_SETMASK": mask}
    values |= {"PAUSE_DECLARATION": declaration, "PAUSE": pause}
    return template("pool", values) + template(f"pool_{platform_name}", values) + modes


def entry_text(system: str) -> str:
    """Returns the LLVM IR of the allocator and the Python entry."""
    linux = system == "linux"
    values = {"MAP_PRIVATE_ANONYMOUS": "34" if linux else "4098", "MADV_HUGEPAGE": "14" if linux else "0"}
    return template("memory", values) + template("entry", {}) + template("launch", {})


def load_pool(platform_name: str, store: ObjectStore | None = None) -> LinkedCode:
    """Links the functions of the pool for a platform. The code is never unmapped: worker
    threads run in it."""
    text = pool_text(platform_name, _machine(), sys.platform)
    imports = _addresses(c_library(), _POOL_SYMBOLS[platform_name])
    code = link([cached_object("pool", text, store)], _POOL_EXPORTS, imports)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    ctypes.CFUNCTYPE(None)(code["jn_pool_reset"])()
    return code


def load_interrupts(store: ObjectStore | None = None, alone: bool = False) -> Interrupts:
    """Link what interrupts loops; the code is never unmapped. alone: for interpreters without signals as CPython has them."""
    clock = getattr(time, "CLOCK_MONOTONIC", None)
    states = [name for name in ("PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet") if hasattr(ctypes.pythonapi, name)]
    if alone or sys.implementation.name != "cpython" or os.name != "posix" or clock is None or not states:
        code = link([cached_object("poll_never", template("poll_never", {}), store)], ("jn_poll",), {})
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
        return Interrupts(code["jn_poll"], 0, None)
    imports = _addresses(c_library(), ("pthread_self", "clock_gettime"))
    imports |= _addresses(ctypes.pythonapi, (*_POLL_SYMBOLS, states[0]))
    text = template("poll", {"CLOCK_MONOTONIC": str(clock), "CURRENT": states[0]})
    exports = ("jn_poll", "jn_retake", "jn_released", "jn_main_thread")
    code = link([cached_object("poll", text, store)], exports, imports)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    main = ctypes.c_uint64.from_address(code["jn_main_thread"])

    def remember() -> None:
        main.value = threading.main_thread().ident or 0

    remember()
    os.register_at_fork(after_in_child=remember)
    released = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)  # this prototype raises what is set when the function returns
    return Interrupts(code["jn_poll"], code["jn_retake"], released(code["jn_released"]))


def _load(store: ObjectStore | None) -> NativeLibrary:
    name = pool_platform()
    code = load_pool(name, store)
    entry = _load_entry(code["jn_launch"], store) if has_known_layout() else None
    return NativeLibrary(code, code["jn_parallel"], code["jn_launch"], code["jn_pool_reset"], name != "serial", entry)


_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # a forked child finds the library loaded, or loading not yet begun
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_loaded: list[NativeLibrary] = []
_interrupts: list[Interrupts] = []


def native_library(store: ObjectStore | None = None) -> NativeLibrary:
    """Returns the process's native library. The first call compiles it, or takes it from `store`; later calls
    return the same."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load(store))
    return _loaded[0]


def interrupts(store: ObjectStore | None = None) -> Interrupts:
    """Returns what interrupts loops in this process. The first call, for the first model with a loop, compiles it."""
    if not _interrupts:
        with _lock:
            if not _interrupts:
                _interrupts.append(load_interrupts(store))
    return _interrupts[0]


def preload_native_library(store: ObjectStore | None = None) -> None:
    """Loads the native library in a thread of its own, while the caller works towards its first use: LLVM
    releases the GIL."""
    if _loaded or _lock.locked():
        return

    def load() -> None:
        with contextlib.suppress(Exception):  # the first use of the library tries again, and raises the error
            native_library(store)

    threading.Thread(target=load, name="joinery: native library").start()


_LIBRARY_FUNCTIONS = ("memcpy", "memmove", "memset", "memcmp", "malloc", "free", "clock_gettime", "sched_yield")
_MATH_FUNCTIONS = (
    "acos", "asin", "atan", "atan2", "cbrt", "ceil", "copysign", "cos", "cosh", "erf", "erfc", "exp", "exp2",
    "expm1", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "ldexp", "log", "log10", "log1p", "log2", "j0", "j1",
    "jn", "lgamma", "nearbyint", "pow", "remainder", "rint", "round", "roundeven", "sin", "sinh", "tan", "tanh",
    "tgamma", "trunc", "y0", "y1", "yn",
)  # fmt: skip


@functools.cache
def library_symbols() -> dict[str, int]:
    """Returns the addresses of the C library's functions that generated code may call, by name; missing
    functions are left out."""
    libraries = [c_library()]
    if sys.platform == "linux":
        # a C library that holds the math functions itself (musl) has no such file
        with contextlib.suppress(OSError):
            libraries.append(ctypes.CDLL("libm.so.6"))
    names = [*_LIBRARY_FUNCTIONS, *_MATH_FUNCTIONS, *(f"{name}f" for name in _MATH_FUNCTIONS)]
    found: dict[str, int] = {}
    for name in names:
        owner = next((library for library in libraries if hasattr(library, name)), None)
        if owner is not None:
            found[name] = address_of(owner, name)
    return found
