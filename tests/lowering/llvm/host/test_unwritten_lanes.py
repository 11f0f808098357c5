"""What the stack held before is no operand: denormal numbers there would make code a hundred times as slow.

The witness is the processor's flag that an operand was denormal, which stays set: the stack is filled with denormal numbers
before a model is called whose own numbers have none.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.host_stages import compile_object
from joinery.lowering.llvm.compile import host_target
from joinery.runtime.native.linking import link

pytestmark = pytest.mark.skipif(not host_target().is_x86, reason="the flags of x86-64")
DENORMAL, WORDS = 5, 300_000
CODE = f"""
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @fill(i32 %value) {{
entry:
  %memory = alloca i32, i64 {WORDS}
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %each ]
  %at = getelementptr i32, ptr %memory, i64 %i
  store volatile i32 %value, ptr %at
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, {WORDS}
  br i1 %again, label %each, label %done
done:
  ret void
}}
define void @clear() {{
  %word = alloca i32
  store i32 8064, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}}
define i32 @flags() {{
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %value = load i32, ptr %word
  ret i32 %value
}}
"""


@functools.lru_cache
def _linked() -> Any:
    return link([compile_object(CODE, host_target())], ("fill", "clear", "flags"), {})


def _code() -> tuple[Any, Any, Any]:
    linked = _linked()
    return (
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(linked["fill"]),
        ctypes.CFUNCTYPE(None)(linked["clear"]),
        ctypes.CFUNCTYPE(ctypes.c_int32)(linked["flags"]),
    )


def meets_denormals(model: jn.Model, *arguments: np.ndarray) -> bool:
    """Calls a model after the stack has been filled with denormal numbers; returns whether the processor met one."""
    fill, clear, flags = _code()
    model(*arguments)
    fill(DENORMAL)
    clear()
    model(*arguments)
    return bool(flags() & 2)


def compiled(shapes: list[tuple[int, ...]], make: Callable[..., jn.Symbol]) -> tuple[jn.Model, list[np.ndarray]]:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, name=f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    rng = np.random.default_rng(0)
    return jn.compile(graph, device="cpu", threads=1), [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def attention(q: jn.Symbol, k: jn.Symbol, v: jn.Symbol) -> jn.Symbol:
    return jn.softmax(q @ jn.permute(k, (0, 2, 1)) * 0.2, axis=-1) @ v


def test_the_flag_tells() -> None:
    model, (x,) = compiled([(100,)], lambda x: x + 1.0)
    assert meets_denormals(model, x * np.float32(1e-40))
    assert not meets_denormals(model, x)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("tokens", [17, 33, 49, 65, 100])
def test_attention_over_part_of_a_block(tokens: int) -> None:
    model, arguments = compiled([(3, tokens, 32)] * 3, attention)
    assert not meets_denormals(model, *arguments)
    model, arguments = compiled([(3, tokens, 64)] * 3, lambda q, k, v: jn.attention(q, k, v, is_causal=True))
    assert not meets_denormals(model, *arguments)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (7, 33), (33, 49), (13, 100)])
def test_rows_of_part_of_a_block(rows: int, columns: int) -> None:
    for make in (jn.layer_norm, lambda x: jn.logsumexp(x, axis=1), lambda x: jn.softmax(x @ jn.permute(x, (1, 0)), axis=-1)):
        model, arguments = compiled([(rows, columns)], make)
        assert not meets_denormals(model, *arguments)


def test_means_of_windows() -> None:
    model, arguments = compiled([(2, 3, 56, 56)], lambda x: jn.mean(jn.reshape(x, (2, 3, 7, 8, 7, 8)), axis=(3, 5)))
    assert not meets_denormals(model, *arguments)
