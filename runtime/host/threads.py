"""Keeps thread pools: one per thread count, shared by all models of the process, created when first used.

The pool itself is native (`native/pool.ll`); this module gives it memory, the CPUs it may use, and a fresh
start after `fork`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
import time
from pathlib import Path

from ...promotion.errors import UserError
from ..native.library import c_library, native_library

MAX_THREADS = 1024
VARIABLE = "JOINERY_THREADS"
_SPIN_NS = 100_000
"""How long an idle worker looks for work before it sleeps: longer than the gap between two kernels, or launches from Python,
40 to 70 µs where a kernel's data has filled the caches; too short to be noticed as load."""
_MEASURED_PAUSES = 200
_HEADER_BYTES = 256
_WORKER_BYTES = 128
_LIMIT_OFFSET = 36
_KEPT_CALLS = 64
"""Calls of `limit_threads` that may still be entered as blocks while others are made."""

_lock = threading.Lock()
_pools: dict[int, int] = {}
_chosen: int | None = None  # by set_threads
_base: ThreadLimit | None = None  # the last call of limit_threads that was used in no `with` block
_blocks: list[tuple[ThreadLimit, int]] = []
"""The `with` blocks of limits that are not left, and the threads that entered them, in that order: the last one counts."""
_outside: int | None = None  # by threadpoolctl


def _quota() -> float:
    """Returns how many CPUs the control group of this process may use (cgroup v2, then v1); infinity without
    a limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_v1 = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        period_v1 = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text())
        return limit_v1 / period_v1 if limit_v1 > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _allowed_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _cores(cpus: set[int]) -> int:
    """Counts the physical cores among these CPUs: hardware threads of one core share its vector units."""
    siblings = set()
    for cpu in cpus:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings.add(path.read_text().strip())
        except OSError:
            return len(cpus)
    return len(siblings)


def default_threads() -> int:
    """Returns how many threads a model uses by default: what `set_threads` was given, else the variable JOINERY_THREADS,
    else the physical cores this process may run on, within its CPU quota. Raises `UserError` for a variable that is no
    such number."""
    if _chosen is None and (problem := variable_problem()) is not None:
        raise UserError(problem)
    return reported_threads()


def reported_threads() -> int:
    """Returns what `default_threads` does, but the cores where the variable is no number of threads: for reports, which show
    `variable_problem` as well."""
    if _chosen is not None:
        return _chosen
    wanted = _variable()
    if wanted and variable_problem() is None:
        return int(wanted)
    return max(1, min(_cores(_allowed_cpus()), math.ceil(_quota()) if _quota() < math.inf else MAX_THREADS))


def _variable() -> str:
    return os.environ.get(VARIABLE, "").strip()


def variable_problem() -> str | None:
    """Returns what is wrong with the variable JOINERY_THREADS, and how to mend it; None where it is unset, or a number of
    threads."""
    wanted = _variable()
    if not wanted or (wanted.isascii() and wanted.isdigit() and len(wanted) <= 9 and 1 <= int(wanted) <= MAX_THREADS):
        return None
    return f"the environment variable {VARIABLE} is {wanted[:60]!r}; fix: a number from 1 to {MAX_THREADS}, or unset it"


def set_threads(threads: int | None) -> None:
    """Set how many threads models and kernels of this process use where `threads` is not given.

    It is above the environment variable JOINERY_THREADS, which is above the cores and the CPU quota that the process has.
    Models that are there already keep their number (`Model.threads`).

    Args:
        threads: 1 to 1024, the calling thread included; None goes back to the variable or the cores.

    Raises `UserError` for other values.
    """
    global _chosen
    _chosen = None if threads is None else resolve_threads(threads)
    _forget_default()


class ThreadLimit:
    """What `limit_threads` returns: in a `with` block, it is a limit until that is left."""

    def __init__(self, limit: int | None, previous: ThreadLimit | None) -> None:
        self.limit, self.previous = limit, previous

    def __enter__(self) -> ThreadLimit:
        global _base
        with _lock:
            if _base is self:  # the call that made it was for this block alone
                _base = self.previous
            later = _base
            while later is not None:  # or another thread has called since
                if later.previous is self:
                    later.previous = self.previous
                later = later.previous
            _blocks.append((self, threading.get_ident()))
            _write_limits()
        return self

    def __exit__(self, *raised: object) -> None:
        with _lock:
            own = [at for at, (each, _) in enumerate(_blocks) if each is self]
            if own:  # a process that was forked in the block of another thread has forgotten it
                del _blocks[own[-1]]
            _write_limits()


def limit_threads(threads: int | None) -> ThreadLimit:
    """Limit how many threads any call of this process uses, of models and kernels that are there already, too.

        with jn.limit_threads(1):
            pool.map(model, blocks)  # threads of somebody else

    Results do not depend on it. Calls that run already go on as they are. The limit holds for the whole process, whichever
    thread sets it: of several `with` blocks the one that was entered last counts until it is left. A limit that
    `threadpoolctl.threadpool_limits` sets holds beside it.

    Args:
        threads: 1 to 1024, the calling thread included; None for no limit.

    Returns a context manager for a limit that ends with its block; without `with` it stays until the next such call.

    Raises `UserError` for other values.
    """
    global _base
    limit = None if threads is None else resolve_threads(threads)
    with _lock:
        _base = ThreadLimit(limit, _base)
        oldest: ThreadLimit | None = _base
        for _ in range(_KEPT_CALLS):
            oldest = None if oldest is None else oldest.previous
        if oldest is not None:
            oldest.previous = None
        _write_limits()
        return _base


def limit_from_outside(threads: int | None) -> None:
    """Set the limit of threadpoolctl, which holds beside that of `limit_threads`; None for none."""
    global _outside
    with _lock:
        _outside = threads
        _write_limits()


def thread_limit() -> int | None:
    """Return how many threads a call may use, by `limit_threads` and by threadpoolctl; None where there is no limit."""
    return min([limit for limit in (own_limit(), _outside) if limit is not None], default=None)


def outside_limit() -> int | None:
    """Return the limit of threadpoolctl; None where there is none."""
    return _outside


def own_limit() -> int | None:
    """Return what `limit_threads` was given; None where there is no limit."""
    if _blocks:
        return _blocks[-1][0].limit
    return None if _base is None else _base.limit


def widest_pool() -> int:
    """Return how many threads a call uses at most where there is no limit: the default, or more that a model was given.

    It does not raise for a variable JOINERY_THREADS that is no number: whoever asks may want to know about other libraries.
    """
    with _lock:
        return max([reported_threads(), *_pools])


def _write_limits() -> None:
    for pool in _pools.values():
        _write_limit(pool)


def _write_limit(pool: int) -> None:
    ctypes.c_int32.from_address(pool + _LIMIT_OFFSET).value = thread_limit() or 0


@functools.cache
def _default_for_launches() -> int:
    return default_threads()


def launch_threads(threads: int | None) -> int:
    """The thread count of a kernel's launch: as `resolve_threads`, but the default is found out once per process.

    Asking the control group takes longer than many a launch. Whoever changes the affinity later says how many threads to use.
    """
    return _default_for_launches() if threads is None else resolve_threads(threads)


def launch_pool(threads: int | None) -> int:
    """The address of the pool of a kernel's launch, see `launch_threads` and `pool_address`."""
    if threads is not None:
        return pool_address(resolve_threads(threads))
    known = _default_pool[:1]  # another thread may forget it at any time
    if known:
        return known[0]
    pool = pool_address(_default_for_launches())
    _default_pool.append(pool)
    return pool


_default_pool: list[int] = []
"""The pool of launches that do not say how many threads they use, once it is known."""


def _forget_default() -> None:
    _default_for_launches.cache_clear()
    _default_pool.clear()


def resolve_threads(threads: int | None) -> int:
    """Returns the thread count to use, `default_threads()` for `None`. Raises `UserError` for anything but
    1 … 1024."""
    if threads is None:
        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise UserError(
            f"threads must be an int from 1 to {MAX_THREADS}, not {threads!r}; fix: threads=None for the "
            "default"
        )
    return threads


def pool_address(threads: int) -> int:
    """Returns the address of the process-wide pool of this many threads, the caller included; 0 (run inline)
    for one thread."""
    found = _pools.get(threads)
    if found is not None:
        return found
    if threads <= 1 or not native_library().threaded:
        return 0
    with _lock:
        if threads not in _pools:
            _pools[threads] = create_pool(threads)
            _write_limit(_pools[threads])
        return _pools[threads]


@functools.cache
def _spin_pauses() -> int:
    """Returns how many pauses take `_SPIN_NS`. A pause takes 10 to 140 cycles, as the processor has it; the best of a few
    measurements is one that no other thread interrupted."""
    pause = ctypes.CFUNCTYPE(None, ctypes.c_int64)(native_library().code["jn_pause"])
    times = []
    for _ in range(5):
        start = time.perf_counter_ns()
        pause(_MEASURED_PAUSES)
        times.append(time.perf_counter_ns() - start)
    return max(_MEASURED_PAUSES, _MEASURED_PAUSES * _SPIN_NS // max(min(times), 1))


def create_pool(threads: int) -> int:
    """Allocates a pool, laid out as in `pool.ll`, and returns its address. It is never freed: its threads use
    it until the process ends."""
    cpus = _allowed_cpus()
    mask_bytes = (max(*cpus, os.cpu_count() or 1, 1) // 64 + 1) * 8
    workers_end = _HEADER_BYTES + _WORKER_BYTES * threads
    total = workers_end + 2 * mask_bytes + 64
    calloc = c_library().calloc
    calloc.restype = ctypes.c_void_p
    calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    base = calloc(1, total)
    if not base:
        raise MemoryError(f"no memory for a pool of {threads} threads")
    pool = (int(base) + 63) // 64 * 64
    allowed, scratch = pool + workers_end, pool + workers_end + mask_bytes
    for cpu in cpus:
        ctypes.c_uint8.from_address(allowed + cpu // 8).value |= 1 << cpu % 8
    ctypes.c_int32.from_address(pool).value = threads
    ctypes.c_int32.from_address(pool + 4).value = _spin_pauses()
    for offset, value in ((8, mask_bytes), (16, allowed), (24, scratch)):
        ctypes.c_int64.from_address(pool + offset).value = value
    for worker in range(threads):
        ctypes.c_int64.from_address(pool + _HEADER_BYTES + _WORKER_BYTES * worker + 16).value = pool
    return pool


def _after_fork_in_child() -> None:
    """Resets the pools in a forked child, which has their memory but not their threads: the next parallel
    kernel starts new ones. Limits of other threads go, since nobody is there to leave their blocks."""
    global _lock
    _lock = threading.Lock()
    _blocks[:] = [(limit, thread) for limit, thread in _blocks if thread == threading.get_ident()]
    _forget_default()
    if _pools:
        ctypes.CFUNCTYPE(None)(native_library().pool_reset)()
    for threads, pool in _pools.items():
        ctypes.c_int32.from_address(pool).value = threads
        ctypes.c_int32.from_address(pool + 32).value = 0  # started
        ctypes.c_int64.from_address(pool + 64).value = 0  # lock, joiner
        for worker in range(threads):
            ctypes.memset(pool + _HEADER_BYTES + _WORKER_BYTES * worker, 0, 16)
    _write_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
