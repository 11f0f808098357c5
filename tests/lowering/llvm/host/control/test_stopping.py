"""Launches that end early: cancelled by Ctrl-C, or by a program whose 32-bit offsets wrap."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import joinery as jn
import numpy as np
import pytest
from joinery.interface import interrupts
from joinery.lowering.llvm.host.control.sites import CANCELLED

FOREVER = """
module {
  tt.func public @forever(%flag: !tt.ptr<i32>) {
    scf.while : () -> () {
      %seen = tt.load %flag {isVolatile = true} : !tt.ptr<i32>
      %zero = arith.constant 0 : i32
      %waiting = arith.cmpi eq, %seen, %zero : i32
      scf.condition(%waiting)
    } do {
      scf.yield
    }
    tt.return
  }
}
"""

SCRIPT = f"""
import signal, sys, numpy as np, joinery as jn
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of shells inherit that it is ignored
kernel = jn.kernel.from_ttir('''{FOREVER}''')
kernel.launch(0, np.zeros(1, np.int32))  # compiled
print("launching", flush=True)
try:
    kernel.launch(4, np.zeros(1, np.int32), threads=int(sys.argv[1]))
except KeyboardInterrupt:
    print("cancelled", flush=True)
kernel.launch(4, np.ones(1, np.int32), threads=int(sys.argv[1]))
print("and usable", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process of its own")
@pytest.mark.parametrize("threads", [1, 2])
def test_control_c_cancels_a_launch(threads: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(threads)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "launching\n"
        time.sleep(0.3)  # inside the launch by now; if not, the interrupt comes even earlier
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert rest == "cancelled\nand usable\n"
        assert process.returncode == 0
    finally:
        process.kill()


class TooLate(Exception):
    """What the handler of a time limit raises."""


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="has no alarms")
@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_handler_of_a_signal_raises_cancels_a_launch(threads: int) -> None:
    kernel = jn.kernel.from_ttir(FOREVER)
    kernel.launch(0, np.zeros(1, np.int32))  # compiled

    def expire(number: int, frame: object) -> None:
        raise TooLate

    before = signal.signal(signal.SIGALRM, expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TooLate):
            kernel.launch(4, np.zeros(1, np.int32), threads=threads)
        seen: list[int] = []
        signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        until = time.monotonic() + 5
        while not seen and time.monotonic() < until:  # a handler that raises nothing disturbs no launch
            kernel.launch(4, np.ones(1, np.int32), threads=threads)
        assert seen
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="sends a signal to a thread")
def test_a_signal_that_another_thread_receives_cancels_a_launch() -> None:
    """As the kernel chooses one where the main thread has another signal before it: waiting is not interrupted."""
    kernel = jn.kernel.from_ttir(FOREVER)
    kernel.launch(0, np.zeros(1, np.int32))  # compiled
    main, cancelled, timed_out = threading.get_ident(), threading.Event(), list[bool]()

    def expire(number: int, frame: object) -> None:
        raise TooLate

    def send() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGALRM)
        if not cancelled.wait(20):
            timed_out.append(True)
            signal.pthread_kill(main, signal.SIGALRM)  # or the test would never end

    before = signal.signal(signal.SIGALRM, expire)
    thread = threading.Thread(target=send)
    try:
        thread.start()
        with pytest.raises(TooLate):
            kernel.launch(4, np.zeros(1, np.int32))
        assert not timed_out, "only a signal to the main thread cancelled it"
    finally:
        cancelled.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("has_begun", [True, False])
def test_what_a_handler_raises_while_the_thread_starts_cancels_the_launch(
    has_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing launches when the caller goes on: the memory may be gone."""
    status, seen, started = ctypes.c_int64(0), list[str](), list[threading.Thread]()
    start = threading.Thread.start

    def launch() -> None:
        seen.append("begun")
        until = time.monotonic() + 20
        while status.value != CANCELLED and time.monotonic() < until:
            time.sleep(0.001)
        seen.append("cancelled" if status.value == CANCELLED else "never cancelled")

    def interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        if has_begun:
            start(thread)
            while not seen:
                time.sleep(0.001)
        raise TooLate

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(TooLate):
        interrupts.launch_aside(launch, ctypes.addressof(status))
    assert seen == (["begun", "cancelled"] if has_begun else [])
    if not has_begun:
        start(started[0])
    started[0].join()
    assert seen == (["begun", "cancelled"] if has_begun else [])


def offsets(lines: str) -> str:
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<i8>, %n: i32) {{
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    {lines}
    %b = tt.splat %x : !tt.ptr<i8> -> tensor<64x!tt.ptr<i8>>
    %p = tt.addptr %b, %at : tensor<64x!tt.ptr<i8>>, tensor<64xi32>
    %v = arith.constant dense<7> : tensor<64xi8>
    tt.store %p, %v : tensor<64x!tt.ptr<i8>>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("lines", "n"),
    [
        ("%at = arith.addi %r, %ns : tensor<64xi32>", 2**31 - 63),
        ("%at = arith.muli %r, %ns : tensor<64xi32>", 2**31 // 63 + 1),
        ("%at = arith.muli %r, %ns : tensor<64xi32>", -(2**31) // 63 - 1),
    ],
)
def test_offsets_that_wrap_stop_the_launch(lines: str, n: int) -> None:
    """Nothing is read or written at the wrapped address."""
    kernel = jn.kernel.from_ttir(offsets(lines))
    x = np.zeros(64, np.int8)
    message = r"program \([0-2], 0, 0\): the 32-bit offsets that tt.addptr uses pass 2\*\*31; fix: .*i64"
    with pytest.raises(jn.UserError, match=message):
        kernel.launch(3, x, n)
    assert not x.any()
    kernel.launch(3, x, 0 if "muli" not in lines else 1)
    assert x.any()


def test_arithmetic_that_wraps_is_no_mistake(agree) -> None:
    """Only addresses and bounds must not wrap; numbers may."""
    text = offsets("""%big = arith.muli %r, %ns : tensor<64xi32>
    %more = arith.addi %big, %ns : tensor<64xi32>
    %mask = arith.constant dense<63> : tensor<64xi32>
    %at = arith.andi %more, %mask : tensor<64xi32>""")
    found, _ = agree(text, 1, np.zeros(64, np.int8), 1664525)
    expected = np.zeros(64, np.int8)
    expected[(np.arange(1, 65) * 1664525) & 63] = 7
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("a", "b", "c", "said"),
    [(1, 1, 1, None), (0, 1, 1, "first"), (1, 0, 1, "second"), (1, 1, 0, "third"), (0, 0, 0, "first"), (1, 0, 0, "second")],
)
@pytest.mark.parametrize(
    "between", ["%t = arith.addi %a, %b : i32", "tt.store %x, %b : !tt.ptr<i32>", "%t = arith.divsi %a, %b : i32"]
)
def test_the_first_of_several_mistakes_is_reported(between: str, a: int, b: int, c: int, said: str | None) -> None:
    """Checks with nothing but arithmetic between them share a branch; what has effects is done between them."""
    kernel = jn.kernel.from_ttir(f"""
module {{
  tt.func public @f(%x: !tt.ptr<i32>, %a: i32, %b: i32, %c: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.cmpi ne, %a, %zero : i32
    tt.assert %one, "first" : i1
    {between}
    %two = arith.cmpi ne, %b, %zero : i32
    tt.assert %two, "second" : i1
    %three = arith.cmpi ne, %c, %zero : i32
    tt.assert %three, "third" : i1
    tt.store %x, %c : !tt.ptr<i32>
    tt.return
  }}
}}
""")
    x = np.full(1, 9, np.int32)
    if said is None:
        kernel.launch(1, x, a, b, c)
        assert x[0] == c
        return
    with pytest.raises(jn.KernelAssertionError, match=said):
        kernel.launch(1, x, a, b, c)
    assert x[0] == (b if "store" in between and said != "first" else 9)
