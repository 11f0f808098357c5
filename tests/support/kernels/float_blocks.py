"""Runs functions of float32 numbers, many at a time."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np

BLOCK = 1024


def over_blocks(text: str, numerics: str = "strict") -> jn.kernel.Kernel:
    """Builds a kernel that computes %y from the block %x and the number %b, on as many blocks of float32
    numbers as programs run."""
    pointers = f"tensor<{BLOCK}x!tt.ptr<f32>>"
    return jn.kernel.from_ttir(
        f"""
tt.func @f(%p: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %o: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %b: f32) {{
  %i = tt.get_program_id x : i32
  %c = arith.constant {BLOCK} : i32
  %s = arith.muli %i, %c : i32
  %r = tt.make_range {{start = 0 : i32, end = {BLOCK} : i32}} : tensor<{BLOCK}xi32>
  %ss = tt.splat %s : i32 -> tensor<{BLOCK}xi32>
  %at = arith.addi %ss, %r : tensor<{BLOCK}xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> {pointers}
  %pa = tt.addptr %ps, %at : {pointers}, tensor<{BLOCK}xi32>
  %x = tt.load %pa : {pointers}
  {text}
  %os = tt.splat %o : !tt.ptr<f32> -> {pointers}
  %oa = tt.addptr %os, %at : {pointers}, tensor<{BLOCK}xi32>
  tt.store %oa, %y : {pointers}
  tt.return
}}
""",
        numerics=numerics,
    )


def on_all(k: jn.kernel.Kernel, x: Any, b: float = 0.0, target: str = "sm_80") -> Any:
    """Returns x, repeated up to whole blocks, and the results of the kernel. target: the simulator's; "host"
    is the CPU."""
    x = np.resize(x, -(-len(x) // BLOCK) * BLOCK)
    out = np.zeros_like(x)
    on = {"device": "cpu"} if target == "host" else {"device": "ptxsim", "target": target}
    k.launch((len(x) // BLOCK,), x, out, b, **on)
    return x, out


def ulps(found: Any, exact: Any) -> Any:
    """Returns the distance of float32 results from float64 values, in units in the last place of the values."""
    spacing = np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32)).astype(np.float64)
    return np.abs(found.astype(np.float64) - exact) / spacing


SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.2e-38, -1.2e-38, 3.4e38, -3.4e38, 1.0, -1.0], np.float32
)
