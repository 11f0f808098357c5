"""Proofs leave Ctrl-C as it was: z3's own handler made it wait for whatever the process waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


COLLECTED = """
import gc, os, signal
import joinery as jn, z3.z3 as z3
kernel = jn.kernel.from_ttir(COPY)
gc.disable()
kernel.prove(extents={"x": "n"})
delete = z3.Z3_del_context

def deleted(context):
    delete(context)
    z3.Z3_del_context = delete
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100):
        pass

z3.Z3_del_context = deleted
try:
    gc.collect()
except KeyboardInterrupt:
    pass
assert z3.Z3_del_context is delete, "no context was deleted"
print("alive")
"""


@pytest.mark.slow
def test_an_interrupt_while_a_proof_is_collected_ends_nothing() -> None:
    """Formulas are freed with their context: who gives them back later touches what is no more."""
    program = COLLECTED.replace("COPY", repr(COPY))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "alive\n"
