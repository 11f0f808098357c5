"""Left operands whose bytes memory holds unsigned: read as they lie where masks allow it, and right in every case."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

ROWS, DEPTH, COLUMNS = 32, 64, 32
CASES = {
    "no masks": ("", "", ""), "both end along k": ("k", "k", ""), "b alone ends": ("", "k", ""), "a alone ends": ("k", "", ""),
    "a ends, and is zero there": ("k", "", "k"), "a is zero there, and b ends": ("k", "k", "k"), "rows end": ("m", "", ""),
    "rows and steps end": ("mk", "k", "k"), "zeros alone": ("", "", "k"),
}  # fmt: skip
"""Masks of the load of A, of the load of B, and of a select of A: rows below %m, steps of k below %k."""
IN_PLACE = {"no masks", "both end along k", "b alone ends", "a ends, and is zero there", "a is zero there, and b ends",
            "zeros alone"}  # fmt: skip
STORED_ROWS = {"rows end": True, "rows and steps end": True}


def _text(case: str, flip: int, stored_rows: bool) -> str:
    a_mask, b_mask, zeros = CASES[case]

    def mask(name: str, which: str, rows: int, columns: int, steps: int) -> str:
        """A mask of the bounds in `which`; steps: the dimension of k."""
        found = []
        for bound in which:
            value, dim = ("%rows", 0) if bound == "m" else ("%steps_a" if steps == 1 else "%steps_b", steps)
            shape = f"{rows}x1" if dim == 0 else f"1x{columns}"
            extent = rows if dim == 0 else columns
            found.append(f"""
    %{name}_{bound}0 = tt.expand_dims {value} {{axis = {1 - dim} : i32}} : tensor<{extent}xi1> -> tensor<{shape}xi1>
    %{name}_{bound} = tt.broadcast %{name}_{bound}0 : tensor<{shape}xi1> -> tensor<{rows}x{columns}xi1>""")
        both = f"\n    %{name} = arith.andi %{name}_m, %{name}_k : tensor<{rows}x{columns}xi1>" if len(which) == 2 else ""
        return "".join(found) + both

    def named(name: str, which: str) -> str:
        return f"%{name}" if len(which) == 2 else f"%{name}_{which}"

    def load(name: str, which: str, rows: int, columns: int) -> str:
        type_ = f"tensor<{rows}x{columns}x!tt.ptr<i8>>"
        return f"%{name} = tt.load %p{name}" + (f", {named('m' + name, which)}, %z{name}" if which else "") + f" : {type_}"

    def pointers(name: str, rows: int, columns: int) -> str:
        return f"""
    %r{name}0 = tt.make_range {{start = 0 : i32, end = {rows} : i32}} : tensor<{rows}xi32>
    %r{name}1 = tt.expand_dims %r{name}0 {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
    %w{name} = arith.constant dense<{columns}> : tensor<{rows}x1xi32>
    %r{name}2 = arith.muli %r{name}1, %w{name} : tensor<{rows}x1xi32>
    %r{name} = tt.broadcast %r{name}2 : tensor<{rows}x1xi32> -> tensor<{rows}x{columns}xi32>
    %c{name}0 = tt.make_range {{start = 0 : i32, end = {columns} : i32}} : tensor<{columns}xi32>
    %c{name}1 = tt.expand_dims %c{name}0 {{axis = 0 : i32}} : tensor<{columns}xi32> -> tensor<1x{columns}xi32>
    %c{name} = tt.broadcast %c{name}1 : tensor<1x{columns}xi32> -> tensor<{rows}x{columns}xi32>
    %o{name} = arith.addi %r{name}, %c{name} : tensor<{rows}x{columns}xi32>"""

    def base(name: str, argument: str, rows: int, columns: int, elem: str) -> str:
        type_ = f"tensor<{rows}x{columns}x!tt.ptr<{elem}>>"
        return f"""
    %b{name} = tt.splat {argument} : !tt.ptr<{elem}> -> {type_}
    %p{name} = tt.addptr %b{name}, %o{name} : {type_}, tensor<{rows}x{columns}xi32>"""

    select = "" if not zeros else f"""
    %left = arith.select {named("sel", zeros)}, %flipped, %za : tensor<{ROWS}x{DEPTH}xi1>, tensor<{ROWS}x{DEPTH}xi8>"""
    left = "%left" if zeros else "%flipped"
    out_mask = mask("out", "m", ROWS, COLUMNS, 1) if stored_rows else ""
    return f"""
module {{
  tt.func public @k(%a: !tt.ptr<i8>, %b: !tt.ptr<i8>, %c: !tt.ptr<i32>, %m: i32, %k: i32) {{
    %im = tt.make_range {{start = 0 : i32, end = {ROWS} : i32}} : tensor<{ROWS}xi32>
    %sm = tt.splat %m : i32 -> tensor<{ROWS}xi32>
    %rows = arith.cmpi slt, %im, %sm : tensor<{ROWS}xi32>
    %ik = tt.make_range {{start = 0 : i32, end = {DEPTH} : i32}} : tensor<{DEPTH}xi32>
    %sk = tt.splat %k : i32 -> tensor<{DEPTH}xi32>
    %steps_a = arith.cmpi slt, %ik, %sk : tensor<{DEPTH}xi32>
    %steps_b = arith.cmpi slt, %ik, %sk : tensor<{DEPTH}xi32>
    %za = arith.constant dense<0> : tensor<{ROWS}x{DEPTH}xi8>
    %zb = arith.constant dense<0> : tensor<{DEPTH}x{COLUMNS}xi8>
    %flip = arith.constant dense<{flip}> : tensor<{ROWS}x{DEPTH}xi8>
    {pointers("a", ROWS, DEPTH)}{base("a", "%a", ROWS, DEPTH, "i8")}
    {pointers("b", DEPTH, COLUMNS)}{base("b", "%b", DEPTH, COLUMNS, "i8")}
    {pointers("c", ROWS, COLUMNS)}{base("c", "%c", ROWS, COLUMNS, "i32")}
    {mask("ma", a_mask, ROWS, DEPTH, 1)}{mask("mb", b_mask, DEPTH, COLUMNS, 0)}{mask("sel", zeros, ROWS, DEPTH, 1)}{out_mask}
    {load("a", a_mask, ROWS, DEPTH)}
    {load("b", b_mask, DEPTH, COLUMNS)}
    %flipped = arith.xori %a_block, %flip : tensor<{ROWS}x{DEPTH}xi8>{select}
    %start = arith.constant dense<0> : tensor<{ROWS}x{COLUMNS}xi32>
    %sum = tt.dot {left}, %b_block, %start
        : tensor<{ROWS}x{DEPTH}xi8> * tensor<{DEPTH}x{COLUMNS}xi8> -> tensor<{ROWS}x{COLUMNS}xi32>
    tt.store %pc, %sum{", %out_m" if stored_rows else ""} : tensor<{ROWS}x{COLUMNS}x!tt.ptr<i32>>
    tt.return
  }}
}}""".replace("%a = tt.load", "%a_block = tt.load").replace("%b = tt.load", "%b_block = tt.load")


def _expected(case: str, flip: int, a: Any, b: Any, m: int, k: int) -> Any:
    a_mask, b_mask, zeros = CASES[case]
    left, right = a.copy(), b.astype(np.int64)
    left[m if "m" in a_mask else ROWS :] = 0
    left[:, k if "k" in a_mask else DEPTH :] = 0
    flipped = (left ^ np.uint8(flip & 0xFF)).view(np.int8).astype(np.int64)
    flipped[:, k if "k" in zeros else DEPTH :] = 0
    right[k if "k" in b_mask else DEPTH :] = 0
    return flipped @ right


@pytest.mark.one_in(12)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("flip", [-128, -127])
@pytest.mark.parametrize("stored_rows", [False, True])
def test_masks_of_unsigned_bytes(case: str, flip: int, stored_rows: bool) -> None:
    """What a mask leaves out of the bytes is 0, and so -128 in the product."""
    kernel = jn.kernel.from_ttir(_text(case, flip, stored_rows))
    rng = np.random.default_rng(len(case))
    a, b = rng.integers(0, 256, (ROWS, DEPTH)).astype(np.uint8), rng.integers(-128, 128, (DEPTH, COLUMNS)).astype(np.int8)
    for m, k in ((ROWS, DEPTH), (17, 33), (1, 2), (6, 64), (0, 0)):
        result = np.full((ROWS, COLUMNS), 77, np.int32)
        kernel.launch((1,), a.view(np.int8), b, result, m, k)
        expected = _expected(case, flip, a, b, m, k)
        if stored_rows:
            expected[m:] = 77
        np.testing.assert_array_equal(result, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stored_rows", [False, True])
def test_which_unsigned_bytes_are_multiplied_where_they_lie(case: str, stored_rows: bool) -> None:
    if not host_target().multiplies_unsigned:
        pytest.skip("this machine multiplies no unsigned bytes")
    taken = case in IN_PLACE or (stored_rows and case in STORED_ROWS)
    for flip in (-128, -127):
        text = jn.kernel.from_ttir(_text(case, flip, stored_rows)).llvm_ir("host")
        assert ("_moved" in text) == (taken and flip == -128)
