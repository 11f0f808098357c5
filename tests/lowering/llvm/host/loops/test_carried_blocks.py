"""Loops whose next blocks are made from the old ones at other positions: scratch must not be overwritten too soon."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

M = 16
TILE = f"tensor<{M}x{M}xf32>"
DOT = f"inputPrecision = ieee : {TILE} * {TILE} -> {TILE}"
TURN = f"%t = tt.trans %a {{order = array<i32: 1, 0>}} : {TILE} -> {TILE}\n"


def kernel(lines: str, results: str, loop: str) -> str:
    """Carries %a and %b, two tiles, through n turns that yield the results; %w is the second one at first."""
    start = {
        "for": f"""%r:2 = scf.for %k = %zero to %n step %one iter_args(%a = %x0, %b = %w) -> ({TILE}, {TILE}) : i32 {{
      {lines}
      scf.yield {results} : {TILE}, {TILE}
    }}""",
        "while": f"""%r:3 = scf.while (%k = %zero, %p = %x0, %q = %w) : (i32, {TILE}, {TILE}) -> (i32, {TILE}, {TILE}) {{
      %c = arith.cmpi slt, %k, %n : i32
      scf.condition(%c) %k, %p, %q : i32, {TILE}, {TILE}
    }} do {{
    ^bb0(%k: i32, %a: {TILE}, %b: {TILE}):
      {lines}
      %k1 = arith.addi %k, %one : i32
      scf.yield %k1, {results} : i32, {TILE}, {TILE}
    }}""",
    }[loop]
    first = 0 if loop == "for" else 1
    pointers = f"tensor<{M}x{M}x!tt.ptr<f32>>"
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : {TILE}
    %i = tt.make_range {{end = {M * M} : i32, start = 0 : i32}} : tensor<{M * M}xi32>
    %at = tt.reshape %i : tensor<{M * M}xi32> -> tensor<{M}x{M}xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> {pointers}
    %px = tt.addptr %bx, %at : {pointers}, tensor<{M}x{M}xi32>
    %by = tt.splat %y : !tt.ptr<f32> -> {pointers}
    %py = tt.addptr %by, %at : {pointers}, tensor<{M}x{M}xi32>
    %x0 = tt.load %px : {pointers}
    %w = tt.load %py : {pointers}
    {start}
    tt.store %px, %r#{first} : {pointers}
    tt.store %py, %r#{first + 1} : {pointers}
    tt.return
  }}
}}
"""


Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
STEPS: dict[str, tuple[str, str, Step]] = {
    "a matrix power": (f"%d = tt.dot %a, %w, %none, {DOT}", "%d, %b", lambda a, b: (a @ b, b)),
    "a factor and the sum": (f"%d = tt.dot %b, %a, %a, {DOT}", "%d, %b", lambda a, b: (b @ a + a, b)),
    "a transposed factor": (f"{TURN}%d = tt.dot %t, %b, %a, {DOT}", "%d, %b", lambda a, b: (a.T @ b + a, b)),
    "a transposed sum": (f"{TURN}%d = tt.dot %b, %b, %t, {DOT}", "%d, %b", lambda a, b: (b @ b + a.T, b)),
    "a transposed tile": (TURN, "%t, %b", lambda a, b: (a.T, b)),
    "a tile and its transpose": (f"{TURN}%d = arith.subf %a, %t : {TILE}", "%d, %b", lambda a, b: (a - a.T, b)),
    "an exchange": (TURN, "%b, %t", lambda a, b: (b, a.T)),
    "an exchange of sums": (f"{TURN}%d = arith.addf %b, %t : {TILE}", "%d, %a", lambda a, b: (b + a.T, a)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("loop", ["for", "while"])
@pytest.mark.parametrize("name", STEPS)
def test_carried_tiles(agree, name: str, loop: str) -> None:
    lines, results, step = STEPS[name]
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-2, 3, (M, M)).astype(np.float32) for _ in range(2))
    for turns in (0, 1, 3):
        found = agree(kernel(lines, results, loop), 1, x, y, turns)
        a, b = x, y
        for _ in range(turns):
            a, b = step(a, b)
        np.testing.assert_array_equal(found[0], a)
        np.testing.assert_array_equal(found[1], b)
