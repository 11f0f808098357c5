"""Builds kernels around a few operations on blocks, and runs them in the simulator and by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
from joinery.runtime.ptxsim.launch import Module

DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i64": np.int64, "i32": np.int32,
    "i16": np.int16, "i8": np.int8,
}  # fmt: skip
Block = tuple[Sequence[int] | None, str]
"""(shape, element type); shape () is a scalar, None a parameter that only the body uses."""


def block_type(shape: Sequence[int], elem: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{elem}>" if shape else elem


def kernel(inputs: Sequence[Block], outputs: Sequence[Block], body: str) -> jn.kernel.Kernel:
    """Builds a kernel that reads %x0, %x1, … from the first parameters %p0, %p1, …, runs the body, and writes
    %y0, %y1, … to the others."""
    lines: list[str] = []
    parameters = [f"%p{number}: !tt.ptr<{elem}>" for number, (_, elem) in enumerate([*inputs, *outputs])]
    for number, (shape, elem) in enumerate(inputs):
        if shape is None:
            continue
        lines += _place(number, shape, elem)
        flat = block_type((prod(shape),), elem)
        if shape:
            lines.append(f"%l{number} = tt.load %q{number} : tensor<{prod(shape)}x!tt.ptr<{elem}>>")
            lines.append(f"%x{number} = tt.reshape %l{number} : {flat} -> {block_type(shape, elem)}")
        else:
            lines.append(f"%x{number} = tt.load %p{number} : !tt.ptr<{elem}>")
    lines.append(body)
    for number, (shape, elem) in enumerate(outputs):
        assert shape is not None
        place = len(inputs) + number
        lines += _place(place, shape, elem)
        flat = block_type((prod(shape),), elem)
        if shape:
            lines.append(f"%z{number} = tt.reshape %y{number} : {block_type(shape, elem)} -> {flat}")
            lines.append(f"tt.store %q{place}, %z{number} : tensor<{prod(shape)}x!tt.ptr<{elem}>>")
        else:
            lines.append(f"tt.store %p{place}, %y{number} : !tt.ptr<{elem}>")
    text = "\n    ".join(lines)
    return jn.kernel.from_ttir(f"tt.func public @k({', '.join(parameters)}) {{\n    {text}\n    tt.return\n}}\n")


def _place(number: int, shape: Sequence[int], elem: str) -> list[str]:
    """Computes %q, the pointers to the elements of a parameter."""
    if not shape:
        return []
    count, pointers = prod(shape), f"tensor<{prod(shape)}x!tt.ptr<{elem}>>"
    return [
        f"%r{number} = tt.make_range {{start = 0 : i32, end = {count} : i32}} : tensor<{count}xi32>",
        f"%s{number} = tt.splat %p{number} : !tt.ptr<{elem}> -> {pointers}",
        f"%q{number} = tt.addptr %s{number}, %r{number} : {pointers}, tensor<{count}xi32>",
    ]


def simulate(
    k: jn.kernel.Kernel, *arrays: Any, grid: int = 1, target: str = "sm_80", races: bool = True
) -> list[Any]:
    """Returns the arrays after a launch in the simulator, by default at the level that finds races."""
    own = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
    k.launch((grid,), *own, device="ptxsim", target=target, sanitize=races)
    return own


def simulate_with(k: jn.kernel.Kernel, warps: int, *arrays: Any, grid: int = 1) -> list[Any]:
    """Does the same with another number of warps; nothing is known about the addresses."""
    own = [array.copy() for array in arrays]
    code = k._gpu.code("sm_80", warps)
    ptx = Module(code.ptx).kernel(code.lowered.name)
    ptx.launch(grid, None, own, shared=code.lowered.shared_bytes, level=3)
    return own


def check(k: jn.kernel.Kernel, *arrays: Any, grid: int = 1, target: str = "sm_80", rtol: float = 0.0) -> list[Any]:
    """Compares a launch in the simulator with the interpreter; returns the arrays afterwards."""
    expected = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
    k.interpret((grid,), *expected)
    found = simulate(k, *arrays, grid=grid, target=target)
    for one, other in zip(found, expected, strict=True):
        if rtol and isinstance(one, np.ndarray):
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(one, other)
    return found


def some(shape: Sequence[int], elem: str, seed: int = 0) -> Any:
    """Returns random numbers of both signs."""
    rng = np.random.default_rng([seed, *shape])
    dtype = np.dtype(DTYPES[elem])
    if dtype.kind == "i":
        return rng.integers(-100, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def empty(shape: Sequence[int], elem: str) -> Any:
    return np.full(shape, 77, DTYPES[elem])
