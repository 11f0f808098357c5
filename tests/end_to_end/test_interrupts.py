"""Loops of native code can be interrupted, and let other threads run."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.native.library import load_interrupts, native_library

from ..support.interrupting import is_interrupted

F32, I64 = jn.float32, jn.int64
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="loops are interrupted on POSIX systems"),
    pytest.mark.skipif(native_library().entry is None, reason="no native entry"),
]


@pytest.fixture(autouse=True)
def on_the_main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled on the main thread")


def endless() -> Any:
    """A model that never ends for positive numbers, and gives negative ones back."""
    g = jn.Graph("g", [jn.TensorType(F32, (3,), "x")])
    g.output(jn.while_loop(lambda v: jn.sum(v) > 0.0, lambda v: v * 1.0, g.inputs[0]))
    return jn.compile(g, "cpu")


def nested() -> Any:
    """An endless loop in a branch in a scan."""
    g = jn.Graph("g", [jn.TensorType(F32, ("n", 3), "x")])
    (x,) = g.inputs
    inner = lambda v: jn.while_loop(lambda u: jn.sum(u) > 0.0, lambda u: u * 1.0, v)  # noqa: E731
    g.output(*jn.scan(lambda c, r: (c + 1, jn.cond(r[0] > 0.0, lambda: inner(r), lambda: r)), g.scalar(0, I64), x))
    return jn.compile(g, "cpu")


def counting() -> Any:
    """A model that computes for a while: it halves a number and adds 1, as often as it is told."""
    g = jn.Graph("g", [jn.TensorType(F32, (), "x"), jn.TensorType(I64, (), "trips")])
    x, trips = g.inputs
    g.output(jn.fori_loop(0, trips, lambda i, v: v * 0.5 + 1.0, x))
    return jn.compile(g, "cpu")


def interrupted(call: Callable[[], object]) -> None:
    assert is_interrupted(call, 0.05), "the loop has ended"


def test_calls_are_interrupted_and_the_model_runs_on() -> None:
    model = endless()
    ones, less = np.ones(3, np.float32), -np.ones(3, np.float32)
    model(less)
    swapped = ones.astype(ones.dtype.newbyteorder())  # is converted in Python
    for call in (lambda: model(ones), lambda: model(x=ones), lambda: model.run({"x": ones}), lambda: model(swapped)):
        interrupted(call)
        assert model(less).tolist() == [-1, -1, -1]
    bound = model.bind(ones.copy())
    interrupted(bound)
    bound.inputs["x"][...] = -1  # it is not busy any more
    assert bound().tolist() == [-1, -1, -1]


def test_a_loop_inside_others_ends_all_of_them() -> None:
    model = nested()
    rows = -np.ones((4, 3), np.float32)
    assert int(model(rows)[0]) == 4
    rows[2] = 1
    interrupted(lambda: model(rows))
    assert int(model(-np.abs(rows))[0]) == 4


@contextmanager
def alarm(handler: Callable[[Any, Any], object], every: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_handlers_run_while_a_loop_does() -> None:
    """A handler may call the model, and what it raises ends the loop; if it raises nothing the loop goes on."""
    model, calls, results = endless(), [0], []

    class Enough(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        calls[0] += 1
        results.append(model(-np.ones(3, np.float32)).tolist())
        if calls[0] == 3:
            raise Enough

    with alarm(handler, 0.05), pytest.raises(Enough):
        model(np.ones(3, np.float32))
    assert results == [[-1, -1, -1]] * 3


def test_other_threads_run_meanwhile() -> None:
    """A run of 10 bytes would keep the GIL, and no other thread would get a turn until it ends."""
    model, found = counting(), []
    trips = 1 << 20
    started = time.perf_counter()
    model(np.float32(1), np.int64(trips))
    trips = int(trips * 0.5 / (time.perf_counter() - started))  # half a second
    thread = threading.Thread(target=lambda: found.append(model(np.float32(1), np.int64(trips))))
    thread.start()
    ticks = 0
    while thread.is_alive():
        time.sleep(0.002)
        ticks += 1
    thread.join()
    assert ticks > 10
    assert found == [np.float32(2)]


def test_where_nothing_interrupts_loops_go_on() -> None:
    found = load_interrupts(alone=True)
    assert (found.retake, found.released) == (0, None)
    poll = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(found.poll)
    assert poll(0, 1) > 1 << 60


def test_a_forked_child_is_interrupted() -> None:
    model = endless()
    model(-np.ones(3, np.float32))
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if is_interrupted(lambda: model(np.ones(3, np.float32)), 0.1) else 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child runs on")
