"""Proofs leave Ctrl-C as it was: z3's own handler made it wait for whatever the process waited for."""

from __future__ import annotations

import os
import signal
import threading
import time

import joinery as jn
import pytest

pytest.importorskip("z3")

COPY = """
tt.func public @copy(%x: !tt.ptr<f32>, %n: i32) {
  %p = tt.get_program_id x : i32
  %inside = arith.cmpi slt, %p, %n : i32
  %at = tt.addptr %x, %p : !tt.ptr<f32>, i32
  %v = tt.load %at, %inside : !tt.ptr<f32>
  tt.store %at, %v, %inside : !tt.ptr<f32>
  tt.return
}
"""


def test_an_interrupt_after_a_proof_ends_what_is_waited_for() -> None:
    assert jn.kernel.from_ttir(COPY).prove(extents={"x": "n"}).verdict("bounds") == "proven"
    lock = threading.Lock()
    lock.acquire()
    release, interrupt = threading.Timer(15, lock.release), threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    release.start()
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert time.monotonic() - begin < 10
    release.cancel()
