"""The thread pool: every index exactly once, from any number of callers, asleep when idle, alive after
fork."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from joinery.promotion.errors import UserError
from joinery.runtime.host import memory, threads
from joinery.runtime.model.model import Model
from joinery.runtime.native.codegen import emit_object
from joinery.runtime.native.library import load_pool, native_library
from joinery.runtime.native.linking import link
from joinery.runtime.storage.serialize import encode_compiled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the pool is for Linux")

# args: ptr counts (i32 per index), ptr calls (i64), pool, scratch counts.  Plain kernel: counts[i] += 1,
# calls += 1.
KERNELS = """
declare void @jn_parallel(ptr, ptr, ptr, i64, i64)
declare i64 @syscall(i64, ...)
define void @count(ptr %args, i64 %low, i64 %high) nounwind {
entry:
  %counts = load ptr, ptr %args, align 8
  %calls.b = getelementptr ptr, ptr %args, i64 1
  %calls = load ptr, ptr %calls.b, align 8
  %old = atomicrmw add ptr %calls, i64 1 seq_cst
  br label %next
next:
  %i = phi i64 [ %low, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %high
  br i1 %more, label %body, label %done
body:
  %p = getelementptr i32, ptr %counts, i64 %i
  %was = atomicrmw add ptr %p, i32 1 monotonic
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
; every index runs `count` over 10 indices of its own, on the same pool
define void @nested(ptr %args, i64 %low, i64 %high) nounwind {
entry:
  %counts = load ptr, ptr %args, align 8
  %calls.b = getelementptr ptr, ptr %args, i64 1
  %calls = load ptr, ptr %calls.b, align 8
  %pool.b = getelementptr ptr, ptr %args, i64 2
  %pool = load ptr, ptr %pool.b, align 8
  %inner = alloca [2 x ptr], align 8
  %inner1 = getelementptr ptr, ptr %inner, i64 1
  store ptr %calls, ptr %inner1, align 8
  br label %next
next:
  %i = phi i64 [ %low, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %high
  br i1 %more, label %body, label %done
body:
  %first = mul i64 %i, 10
  %own = getelementptr i32, ptr %counts, i64 %first
  store ptr %own, ptr %inner, align 8
  call void @jn_parallel(ptr %pool, ptr @count, ptr %inner, i64 10, i64 3)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
; counts[i] = 64 times the id of the thread that ran index i, plus how many were run before (modulo 64), after half a
; millisecond of work
define void @who(ptr %args, i64 %low, i64 %high) nounwind {
entry:
  %counts = load ptr, ptr %args, align 8
  %id = call i64 (i64, ...) @syscall(i64 186)
  %calls.b = getelementptr ptr, ptr %args, i64 1
  %calls = load ptr, ptr %calls.b, align 8
  %before = atomicrmw add ptr %calls, i64 1 seq_cst
  %id64 = shl i64 %id, 6
  %number = and i64 %before, 63
  %both = or i64 %id64, %number
  %id32 = trunc i64 %both to i32
  %p = getelementptr i32, ptr %counts, i64 %low
  store i32 %id32, ptr %p, align 4
  br label %spin
spin:
  %i = phi i64 [ 0, %entry ], [ %i.next, %spin ]
  %x = phi double [ 1.0, %entry ], [ %x.next, %spin ]
  %x.next = fdiv double %x, 1.0000001
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, 100000
  br i1 %more, label %spin, label %done
done:
  %keep = fcmp oeq double %x.next, 3.0
  br i1 %keep, label %never, label %out
never:
  store i32 0, ptr %p, align 4
  br label %out
out:
  ret void
}
"""


@pytest.fixture(scope="module")
def kernels():
    syscall = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value
    imports = {"jn_parallel": native_library().parallel, "syscall": syscall}
    return link([emit_object(KERNELS)], ("count", "nested", "who"), imports)


class Job:
    """jn_parallel over one kernel, with its counters."""

    def __init__(self, kernel: int, pool: int, size: int, parallel: int | None = None) -> None:
        self.counts = np.zeros(size, np.int32)
        self.calls = np.zeros(1, np.int64)
        self.args = (ctypes.c_void_p * 3)(memory.address(self.counts), memory.address(self.calls), pool)
        word = ctypes.c_void_p
        run = ctypes.CFUNCTYPE(None, word, word, word, ctypes.c_int64, ctypes.c_int64)(
            parallel or native_library().parallel
        )
        self.run = lambda n, grain: run(pool, kernel, ctypes.addressof(self.args), n, grain)

    @property
    def workers(self) -> np.ndarray:
        """The threads that ran the indices of `who`."""
        return self.counts >> 6


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_index_runs_once(kernels, count):
    rng = np.random.default_rng(count)
    for turn in range(300):
        n, grain = int(rng.integers(0, 5000)), int(rng.integers(1, 300))
        job = Job(kernels["count"], threads.pool_address(count), n + 1)
        job.run(n, grain)
        assert (job.counts[:n] == 1).all()
        assert job.counts[n] == 0
        assert job.calls[0] == (0 if n == 0 else 1 if count == 1 or n <= grain else -(-n // grain)), (
            n,
            grain,
        )
        if turn % 60 == 0:
            time.sleep(0.003)  # let the workers fall asleep: waking them is another path


def test_how_long_idle_workers_look_for_work():
    """At least about as long as it says, on processors with pauses of any length."""
    pause = ctypes.CFUNCTYPE(None, ctypes.c_int64)(native_library().code["jn_pause"])
    number = threads._spin_pauses()
    start = time.perf_counter_ns()
    pause(number)
    assert time.perf_counter_ns() - start > threads._SPIN_NS / 3
    pause(0)


@pytest.fixture(scope="module")
def portable():
    """The pool other POSIX systems get, and a pool of it: the memory is the same."""
    return load_pool("posix")["jn_parallel"], threads.create_pool(3)


def test_the_portable_pool(kernels, portable):
    parallel, pool = portable
    rng = np.random.default_rng(0)
    for turn in range(300):
        n, grain = int(rng.integers(0, 5000)), int(rng.integers(1, 300))
        job = Job(kernels["count"], pool, n + 1, parallel)
        job.run(n, grain)
        assert (job.counts[:n] == 1).all()
        assert job.counts[n] == 0
        if turn % 20 == 0:
            time.sleep(0.003)
    for _ in range(20):
        job = Job(kernels["who"], pool, 60, parallel)
        job.run(60, 1)
        assert (job.counts != 0).all()
    assert len(set(job.workers.tolist())) > 1
    time.sleep(0.02)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


def test_the_serial_pool(kernels):
    job = Job(kernels["count"], threads.create_pool(3), 100, load_pool("serial")["jn_parallel"])
    job.run(100, 7)
    assert (job.counts == 1).all()
    assert job.calls[0] == 1
    job.run(0, 7)
    job.run(-1, 7)
    assert job.calls[0] == 1


def test_sizes_at_the_edge(kernels):
    pool = threads.pool_address(2)
    for n, grain, calls in [
        (-5, 1, 0),
        (0, 0, 0),
        (7, 0, 7),
        (7, -3, 7),
        (7, 2**62, 1),
        (7, 7, 1),
        (8, 7, 2),
    ]:
        job = Job(kernels["count"], pool, 8)
        job.run(n, grain)
        assert job.counts.sum() == max(n, 0)
        assert job.calls[0] == calls, (n, grain)


def test_a_null_pool_runs_inline(kernels):
    job = Job(kernels["count"], 0, 100)
    job.run(100, 3)
    assert (job.counts == 1).all()
    assert job.calls[0] == 1


def test_nested_calls_finish(kernels):
    pool = threads.pool_address(3)
    for _ in range(50):
        job = Job(kernels["nested"], pool, 400)
        job.run(40, 2)
        assert (job.counts == 1).all()


def test_many_callers_share_a_pool(kernels):
    pool = threads.pool_address(3)
    failures = []

    def call() -> None:
        for _ in range(200):
            job = Job(kernels["count"], pool, 1000)
            job.run(1000, 7)
            if not (job.counts == 1).all():
                failures.append(job.counts)

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert not any(caller.is_alive() for caller in callers), "deadlock"
    assert failures == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_thread_begins_with_a_share_of_its_own(kernels):
    """So it finds in its core's cache what it wrote in the job before."""
    caller = threading.get_native_id()
    for _ in range(20):
        job = Job(kernels["who"], threads.pool_address(2), 40)
        job.run(40, 1)
        order = np.argsort(job.counts & 63)
        helped = job.workers[order] != caller
        assert order[~helped][0] == 0
        if helped.any():  # by a worker that may have come late, when its share was begun
            assert order[helped][0] >= 20
            break


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_several_threads_take_part(kernels):
    for _ in range(20):
        job = Job(kernels["who"], threads.pool_address(2), 40)
        job.run(40, 1)
        if len(set(job.workers.tolist())) == 2:
            break
    assert len(set(job.workers.tolist())) == 2
    assert threading.get_native_id() in job.workers


def test_workers_take_no_signals(kernels):
    job = Job(kernels["who"], threads.pool_address(2), 40)
    for _ in range(20):
        job.run(40, 1)
    others = set(job.workers.tolist()) - {threading.get_native_id()}
    for other in others:
        status = Path(f"/proc/self/task/{other}/status").read_text()
        blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)
        assert blocked & 1 << (signal.SIGINT - 1)
        assert blocked & 1 << (signal.SIGTERM - 1)


def test_an_idle_pool_uses_no_cpu(kernels):
    job = Job(kernels["count"], threads.pool_address(4), 10_000)
    job.run(10_000, 10)
    time.sleep(0.02)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_the_users_affinity_is_left_alone(kernels):
    before = os.sched_getaffinity(0)
    job = Job(kernels["count"], threads.pool_address(2), 10_000)
    for _ in range(100):
        job.run(10_000, 10)
    assert os.sched_getaffinity(0) == before


def test_thread_counts():
    assert threads.resolve_threads(None) == threads.default_threads()
    assert 1 <= threads.default_threads() <= len(os.sched_getaffinity(0))
    assert threads.resolve_threads(3) == 3
    for wrong in (0, -1, 1025, 2.0, "2", True):
        with pytest.raises(UserError, match="threads must be an int from 1 to 1024"):
            threads.resolve_threads(wrong)
    assert threads.pool_address(1) == 0
    assert threads.pool_address(2) == threads.pool_address(2) != threads.pool_address(3)


def test_quota_limits_the_default(monkeypatch):
    monkeypatch.setattr(threads, "_allowed_cpus", lambda: set(range(16)))
    monkeypatch.setattr(threads, "_cores", len)
    for quota, expected in [(float("inf"), 16), (2.0, 2), (2.5, 3), (0.3, 1), (99.0, 16)]:
        monkeypatch.setattr(threads, "_quota", lambda quota=quota: quota)
        assert threads.default_threads() == expected


def test_the_default_can_be_chosen(monkeypatch, symbolic):
    monkeypatch.delenv("JOINERY_THREADS", raising=False)
    found = threads.default_threads()
    monkeypatch.setenv("JOINERY_THREADS", " 7 ")
    assert threads.default_threads() == threads.resolve_threads(None) == 7
    assert Model(symbolic, [], "").threads == 7
    assert threads.resolve_threads(3) == 3
    try:
        threads.set_threads(5)
        assert threads.default_threads() == threads.launch_threads(None) == 5
        with pytest.raises(UserError, match="threads must be an int from 1 to 1024"):
            threads.set_threads(0)
        assert threads.default_threads() == 5
    finally:
        threads.set_threads(None)
    assert threads.default_threads() == threads.launch_threads(None) == 7
    monkeypatch.setenv("JOINERY_THREADS", "")
    assert threads.default_threads() == found


@pytest.mark.parametrize("wrong", ["0", "-1", "1025", "2.5", "many", "²", "9" * 400, "000000001999999"])
def test_a_wrong_variable_is_named(monkeypatch, wrong):
    monkeypatch.setenv("JOINERY_THREADS", wrong)
    with pytest.raises(UserError, match=r"the environment variable JOINERY_THREADS is .*; fix: a number from 1 to 1024"):
        threads.default_threads()


def test_fork_gives_the_child_a_working_pool(symbolic, kernels):
    model = Model(symbolic, [], "", threads=2)
    x = np.ones((5000, 4), np.float32)
    model(x, x)
    pool = threads.pool_address(2)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ok = True
            for _ in range(20):
                ok = ok and bool((model(x, x) == 3).all())
                job = Job(kernels["who"], pool, 30)
                job.run(30, 1)
                ok = ok and (job.counts != 0).all()
            # the pool created its threads anew
            code = 0 if ok and len(os.listdir("/proc/self/task")) == 2 else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 20
    done, status = os.waitpid(child, os.WNOHANG)
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    assert (model(x, x) == 3).all(), "the parent's pool must not notice"


def test_small_work_starts_no_thread(symbolic, tmp_path):
    script = textwrap.dedent(
        """
        import os, sys
        import numpy as np
        from joinery.runtime.model.model import Model
        from joinery.runtime.storage.serialize import decode_compiled
        with open(sys.argv[1], "rb") as file:
            model = Model(decode_compiled(file.read()), [], "", threads=2)
        tasks = lambda: len(os.listdir("/proc/self/task"))
        x = np.ones((64, 4), np.float32)
        before = tasks()
        for _ in range(100):
            model(x, x)
        small = tasks()
        big = np.ones((4096, 4), np.float32)
        model(big, big)
        print(small - before, tasks() - small)
        """
    )
    path = tmp_path / "compiled"
    path.write_bytes(encode_compiled(symbolic))
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "1"]
