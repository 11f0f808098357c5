"""Builds texts of small kernels that make descriptors of two matrices, and compares launches of them with the
interpreter."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np

TYPE, BLOCK = "!tt.tensordesc<8x32xf32>", "tensor<8x32xf32>"
MORE = """  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %eight = arith.constant 8 : i32
  %unit = arith.constant 1 : i64
  %wide = arith.extsi %n : i32 to i64
"""


def text_of(body: str, parameters: str = "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %n: i32") -> str:
    """Returns a kernel @f, whose body may use the values of MORE."""
    return f"tt.func public @f({parameters}) {{\n{MORE}{body}\n  tt.return\n}}\n"


def make(name: str, base: str, extents: str = "%m, %n", strides: str = "%wide, %unit", more: str = "") -> str:
    """Returns the line that makes a descriptor of type TYPE."""
    return f"%{name} = tt.make_tensor_descriptor %{base}, [{extents}], [{strides}]{more} : <f32>, <8x32xf32>\n"


def load(name: str, desc: str, place: str = "%zero, %two") -> str:
    return f"%{name} = tt.descriptor_load %{desc}[{place}] : {TYPE} -> {BLOCK}\n"


def store(desc: str, value: str, place: str = "%zero, %zero") -> str:
    return f"tt.descriptor_store %{desc}[{place}], %{value} : {TYPE}, {BLOCK}\n"


def some(*shape: int) -> Any:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def code_of(kernel: jn.kernel.Kernel) -> Any:
    """Returns the only code of a kernel that was launched."""
    (code,) = kernel._gpu._codes.values()
    assert ("bulk.tensor" in code.ptx) == bool(code.lowered.tensor_maps)
    return code


def launched(kernel: jn.kernel.Kernel, grid: tuple[int, ...], *args: Any, target: str = "sm_90a", **options: Any) -> int:
    """Runs a kernel under the simulator's strictest checks and compares it with the interpreter; returns the
    number of tensor maps."""
    expected = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
    kernel.interpret(grid, *expected)
    kernel.launch(grid, *args, device="ptxsim", target=target, sanitize=True, **options)
    for found, right in zip(args, expected, strict=True):
        np.testing.assert_array_equal(found, right)
    return len(code_of(kernel).lowered.tensor_maps)
