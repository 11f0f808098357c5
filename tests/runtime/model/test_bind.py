"""Prepared calls: no copies, the caller's buffers, one at a time."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from joinery.lowering.artifact import CompiledGraph, TensorSpec
from joinery.promotion.errors import UserError
from joinery.runtime.host import memory
from joinery.runtime.model.model import Model
from joinery.runtime.native.codegen import emit_object


def aligned(shape, dtype=np.float32):
    return memory.empty(shape, np.dtype(dtype))


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32)


def test_bound_calls_read_and_write_the_given_arrays(symbolic):
    model = Model(symbolic, [], "")
    x, y, z = rows(100), rows(100, 1), aligned((100, 4))
    bound = model.bind(x, y, outputs=z)
    assert bound() is z
    np.testing.assert_array_equal(z, x + x + y)
    x[:] = rows(100, 2)
    bound()
    np.testing.assert_array_equal(z, x + x + y)
    assert (bound.staged, bound.outputs["z"] is z, bound.inputs["x"] is x) == ((), True, True)
    assert "x: float32[100, 4]" in repr(bound)


def test_bind_makes_outputs_when_none_are_given(many, weight):
    model = Model(many, [weight], "")
    bound = model.bind(x=np.ones(3, np.float32))
    total, bits, none = bound()
    assert bound()[0] is total
    assert (total, bits.shape, none.shape) == (6.5, (3,), (0, 3))
    assert list(bound.outputs) == ["total", "bits", "none"]
    assert bound.staged == ()


def test_unaligned_buffers_are_staged(symbolic):
    model = Model(symbolic, [], "")
    raw = aligned((404,))
    z = raw[1:401].reshape(100, 4)
    x, y = rows(100), rows(100, 1)
    bound = model.bind(x, y, outputs=[z])
    assert bound.staged == ("z",)
    assert bound() is z
    np.testing.assert_array_equal(z, x + x + y)


def test_outputs_by_name(many, weight):
    model = Model(many, [weight], "")
    buffers = {"none": aligned((0, 2)), "total": aligned(()), "bits": aligned((2,), np.int64)}
    result = model.bind(np.ones(2, np.float32), outputs=buffers)()
    assert all(result[i] is buffers[name] for i, name in enumerate(["total", "bits", "none"]))
    with pytest.raises(UserError, match="outputs must name exactly total, bits, none, got total"):
        model.bind(np.ones(2, np.float32), outputs={"total": buffers["total"]})


def expect(message: str):
    return pytest.raises(UserError, match=message)


def test_inputs_that_would_need_a_copy_are_refused(symbolic):
    model = Model(symbolic, [], "")
    x = rows(8)
    with expect(
        r"bind makes no copies, but input 'x' would need one .*; fix: bind numpy.ascontiguousarray\(x\)"
    ):
        model.bind(np.asfortranarray(x), x)
    with expect("input 'y' would need one"):
        model.bind(x, x.astype(x.dtype.newbyteorder()))
    with expect("takes 2 inputs"):
        model.bind(x)
    with expect("rows is 8 from input 'x' axis 0 but 6"):
        model.bind(x, rows(6))


def test_buffers_that_do_not_fit_are_refused(symbolic, many, weight):
    model = Model(symbolic, [], "")
    x, y = rows(8), rows(8, 1)
    read_only = aligned((8, 4))
    read_only.flags.writeable = False
    for buffer, message in [
        (
            aligned((7, 4)),
            r"output 'z' must be float32\[8, 4\], got float32\[7, 4\]; fix: numpy.empty\(\(8, 4\), 'f",
        ),
        (aligned((8, 4), np.float64), r"got float64\[8, 4\]"),
        (aligned((4, 8)).T, "not C-contiguous"),
        (read_only, "read-only"),
        ([[0.0]], "must be an array, got a list"),
        (x, "overlaps input 'x'"),
    ]:
        with expect(message):
            model.bind(x, y, outputs=[buffer])
    with expect("has 1 outputs, got 2 buffers"):
        model.bind(x, y, outputs=[aligned((8, 4)), aligned((8, 4))])
    storage = aligned((16,))
    constant = memory.aligned_copy(weight)
    heads = Model(many, [constant], "")
    with expect("output 'total' overlaps constant 'w'"):
        heads.bind(storage[:2], outputs=[constant[:1].reshape(()), aligned((2,), np.int64), aligned((0, 2))])
    shared = aligned((2,), np.int64)
    with expect("output 'bits' overlaps output 'total'"):
        heads.bind(storage[:2], outputs=[shared.view(np.float32)[:1].reshape(()), shared, aligned((0, 2))])


SLOW = """
define i64 @jn_prepare(ptr %dims, ptr %sizes) nounwind {
  store i64 0, ptr %sizes, align 8
  %s1 = getelementptr i64, ptr %sizes, i64 1
  store i64 8192, ptr %s1, align 8
  ret i64 -1
}
define void @jn_run(ptr %pool, ptr %buffers, ptr %dims) nounwind {
entry:
  %out.b = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %out.b, align 8
  br label %spin
spin:
  %i = phi i64 [ 0, %entry ], [ %next, %spin ]
  %x = phi double [ 1.0, %entry ], [ %y, %spin ]
  %y = fdiv double %x, 1.0000001
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 60000000
  br i1 %more, label %spin, label %done
done:
  store double %y, ptr %out, align 64
  ret void
}
"""


def slow_model() -> Model:
    """Runs for a few hundred milliseconds; its traffic is large enough for the GIL to be released."""
    specs = (TensorSpec("x", "float64", ()),), (TensorSpec("y", "float64", (8192,)),)
    return Model(CompiledGraph("slow", "host", "", emit_object(SLOW), (), *specs, (), (), (), {}, ""), [], "")


def test_a_second_caller_is_refused_and_the_gil_is_free():
    bound = slow_model().bind(np.array(1.0))
    started, outcome = threading.Event(), []

    def run() -> None:
        started.set()
        outcome.append(bound())

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    refused = ""
    deadline = time.monotonic() + 10
    while not refused and not outcome and time.monotonic() < deadline:
        time.sleep(0.002)
        try:
            bound()
        except UserError as error:
            refused = str(error)
    thread.join()
    assert "already running in another thread; fix: bind once per thread" in refused
    assert len(outcome) == 1
    assert bound() is outcome[0], "free again"


def test_other_threads_run_during_a_call():
    model = slow_model()
    ticks = []
    thread = threading.Thread(target=lambda: model(np.array(1.0)))
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    assert len(ticks) > 20, "the call held the GIL"
