"""Compiled graphs for the runtime's tests, hand-written in LLVM IR to the host ABI
(docs/design/001-architecture.md)."""

from __future__ import annotations

import numpy as np
import pytest
from joinery.lowering.artifact import CompiledGraph, ConstantSpec, KernelReport, TensorSpec
from joinery.runtime.host.device import HostDevice
from joinery.runtime.native.codegen import emit_object
from joinery.runtime.storage.cache import CompileCache

# z = x + y, 16 elements: the smallest useful model.  The store is as aligned as the ABI promises.
ADD16 = """
define i64 @jn_prepare(ptr %dims, ptr %sizes) nounwind {
  store i64 0, ptr %sizes, align 8
  %extent = getelementptr i64, ptr %sizes, i64 1
  store i64 16, ptr %extent, align 8
  ret i64 -1
}
define void @jn_run(ptr %pool, ptr %buffers, ptr %dims) nounwind {
  %x.p = load ptr, ptr %buffers, align 8
  %y.b = getelementptr ptr, ptr %buffers, i64 1
  %y.p = load ptr, ptr %y.b, align 8
  %z.b = getelementptr ptr, ptr %buffers, i64 2
  %z.p = load ptr, ptr %z.b, align 8
  %x = load <16 x float>, ptr %x.p, align 4
  %y = load <16 x float>, ptr %y.p, align 4
  %z = fadd <16 x float> %x, %y
  store <16 x float> %z, ptr %z.p, align 64
  ret void
}
"""

# t = 2 * x in the arena, then z = t + y, both through jn_parallel.  Shapes (rows, 4) with symbolic rows; the
# number of rows must be even (check 0).
SYMBOLIC = """
declare void @jn_parallel(ptr, ptr, ptr, i64, i64)
define i64 @jn_prepare(ptr %dims, ptr %sizes) nounwind {
  %rows = load i64, ptr %dims, align 8
  %odd = and i64 %rows, 1
  %bad = icmp ne i64 %odd, 0
  br i1 %bad, label %no, label %yes
yes:
  %bytes = mul i64 %rows, 16
  store i64 %bytes, ptr %sizes, align 8
  %s1 = getelementptr i64, ptr %sizes, i64 1
  store i64 %rows, ptr %s1, align 8
  %s2 = getelementptr i64, ptr %sizes, i64 2
  store i64 4, ptr %s2, align 8
  ret i64 -1
no:
  ret i64 0
}
; args: in, other (or null), out; one row of four per program
define void @double_rows(ptr %args, i64 %low, i64 %high) nounwind {
entry:
  %in = load ptr, ptr %args, align 8
  %out.b = getelementptr ptr, ptr %args, i64 1
  %out = load ptr, ptr %out.b, align 8
  br label %next
next:
  %i = phi i64 [ %low, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %high
  br i1 %more, label %body, label %done
body:
  %a = getelementptr [4 x float], ptr %in, i64 %i
  %b = getelementptr [4 x float], ptr %out, i64 %i
  %v = load <4 x float>, ptr %a, align 4
  %w = fadd <4 x float> %v, %v
  store <4 x float> %w, ptr %b, align 16
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
define void @add_rows(ptr %args, i64 %low, i64 %high) nounwind {
entry:
  %in = load ptr, ptr %args, align 8
  %other.b = getelementptr ptr, ptr %args, i64 1
  %other = load ptr, ptr %other.b, align 8
  %out.b = getelementptr ptr, ptr %args, i64 2
  %out = load ptr, ptr %out.b, align 8
  br label %next
next:
  %i = phi i64 [ %low, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %high
  br i1 %more, label %body, label %done
body:
  %a = getelementptr [4 x float], ptr %in, i64 %i
  %b = getelementptr [4 x float], ptr %other, i64 %i
  %c = getelementptr [4 x float], ptr %out, i64 %i
  %v = load <4 x float>, ptr %a, align 16
  %w = load <4 x float>, ptr %b, align 4
  %s = fadd <4 x float> %v, %w
  store <4 x float> %s, ptr %c, align 16
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
define void @jn_run(ptr %pool, ptr %buffers, ptr %dims) nounwind {
  %rows = load i64, ptr %dims, align 8
  %y.b = getelementptr ptr, ptr %buffers, i64 1
  %z.b = getelementptr ptr, ptr %buffers, i64 2
  %t.b = getelementptr ptr, ptr %buffers, i64 3
  %x = load ptr, ptr %buffers, align 8
  %y = load ptr, ptr %y.b, align 8
  %z = load ptr, ptr %z.b, align 8
  %t = load ptr, ptr %t.b, align 8
  %args = alloca [3 x ptr], align 8
  %args1 = getelementptr ptr, ptr %args, i64 1
  %args2 = getelementptr ptr, ptr %args, i64 2
  store ptr %x, ptr %args, align 8
  store ptr %t, ptr %args1, align 8
  call void @jn_parallel(ptr %pool, ptr @double_rows, ptr %args, i64 %rows, i64 64)
  store ptr %t, ptr %args, align 8
  store ptr %y, ptr %args1, align 8
  store ptr %z, ptr %args2, align 8
  call void @jn_parallel(ptr %pool, ptr @add_rows, ptr %args, i64 %rows, i64 64)
  ret void
}
"""

# x: float32[n], constant w: float32[4] -> total: float32[] = sum(x) + w[0], shifted: int64[n] = bits of x as
# integers, none: float32[0, n].
MANY = """
define i64 @jn_prepare(ptr %dims, ptr %sizes) nounwind {
  %n = load i64, ptr %dims, align 8
  store i64 0, ptr %sizes, align 8
  %s1 = getelementptr i64, ptr %sizes, i64 1
  store i64 %n, ptr %s1, align 8
  %s2 = getelementptr i64, ptr %sizes, i64 2
  store i64 0, ptr %s2, align 8
  %s3 = getelementptr i64, ptr %sizes, i64 3
  store i64 %n, ptr %s3, align 8
  ret i64 -1
}
define void @jn_run(ptr %pool, ptr %buffers, ptr %dims) nounwind {
entry:
  %n = load i64, ptr %dims, align 8
  %x = load ptr, ptr %buffers, align 8
  %w.b = getelementptr ptr, ptr %buffers, i64 1
  %w = load ptr, ptr %w.b, align 8
  %total.b = getelementptr ptr, ptr %buffers, i64 2
  %total = load ptr, ptr %total.b, align 8
  %bits.b = getelementptr ptr, ptr %buffers, i64 3
  %bits = load ptr, ptr %bits.b, align 8
  %first = load float, ptr %w, align 64
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %sum = phi float [ %first, %entry ], [ %sum.next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p, align 4
  %sum.next = fadd float %sum, %v
  %raw = bitcast float %v to i32
  %wide = zext i32 %raw to i64
  %q = getelementptr i64, ptr %bits, i64 %i
  store i64 %wide, ptr %q, align 8
  %i.next = add i64 %i, 1
  br label %next
done:
  store float %sum, ptr %total, align 64
  ret void
}
"""


def _graph(name, ir, dims, inputs, outputs, constants=(), checks=(), kernels=(), ttir=None):
    return CompiledGraph(
        name, "host", f"key-{name}", emit_object(ir), tuple(dims), tuple(inputs), tuple(outputs),
        tuple(constants),
        tuple(checks), tuple(kernels), dict(ttir or {}), ir,
    )  # fmt: skip


@pytest.fixture(scope="session")
def add16():
    kernel = KernelReport("jn_run", "map", ("add",), 1, (("i", 16),), 128, 64, 16)
    specs = [TensorSpec(name, "float32", (16,)) for name in ("x", "y")]
    return _graph(
        "add16",
        ADD16,
        (),
        specs,
        [TensorSpec("z", "float32", (16,))],
        kernels=[kernel],
        ttir={"jn_run": "tt"},
    )


@pytest.fixture(scope="session")
def symbolic():
    kernels = [
        KernelReport("double_rows", "map", ("mul",), "rows", (("i", 64),), "16*rows", "16*rows", "4*rows"),
        KernelReport(
            "add_rows", "map", ("add", "cast"), "rows", (("i", 64),), "32*rows", "16*rows", "4*rows"
        ),
    ]
    specs = [TensorSpec(name, "float32", ("rows", 4)) for name in ("x", "y")]
    outputs = [TensorSpec("z", "float32", ("rows", 4))]
    return _graph(
        "symbolic", SYMBOLIC, ["rows"], specs, outputs, checks=["rows must be even"], kernels=kernels
    )


@pytest.fixture(scope="session")
def many():
    return _graph(
        "many", MANY, ["n"], [TensorSpec("x", "float32", ("n",))],
        [TensorSpec("total", "float32", ()), TensorSpec("bits", "int64", ("n",)),
         TensorSpec("none", "float32", (0, "n"))],
        [ConstantSpec("w", "float32", (4,))],
    )  # fmt: skip


@pytest.fixture(scope="session")
def weight():
    return np.arange(3.5, 7.5, dtype=np.float32)


@pytest.fixture(scope="session", autouse=True)
def host(tmp_path_factory):
    """The native library, compiled once for all tests."""
    return HostDevice(CompileCache(tmp_path_factory.mktemp("native")))
