"""Chains of operations on blocks that are longer than what is one expression, or one value from another."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

from ....support.tiers import each

BLOCK, HALVES = "tensor<128xi32>", "tensor<128xf16>"


def steps(kind: str, value: str, i: int) -> tuple[list[str], str]:
    """One link of a chain, and its end."""
    rows, columns = 2 ** (i % 3 + 1), 128 // 2 ** (i % 3 + 1)
    lines = {
        "hash": [f"%a{i} = arith.muli {value}, %c : {BLOCK}", f"%b{i} = arith.remsi %a{i}, %d : {BLOCK}"],
        "sum": [f"%a{i} = arith.addi {value}, %c : {BLOCK}", f"%b{i} = arith.xori %a{i}, %d : {BLOCK}"],
        "choice": [
            f"%m{i} = arith.cmpi slt, {value}, %d : {BLOCK}", f"%a{i} = arith.addi {value}, %c : {BLOCK}",
            f"%b{i} = arith.select %m{i}, %a{i}, {value} : tensor<128xi1>, {BLOCK}",
        ],
        "views": [
            f"%a{i} = tt.reshape {value} : {BLOCK} -> tensor<{rows}x{columns}xi32>",
            f"%t{i} = tt.trans %a{i} {{order = array<i32: 1, 0>}} : "
            f"tensor<{rows}x{columns}xi32> -> tensor<{columns}x{rows}xi32>",
            f"%b{i} = tt.reshape %t{i} : tensor<{columns}x{rows}xi32> -> {BLOCK}",
        ],
        "halves": [
            f"%a{i} = arith.bitcast {value} : {BLOCK} to tensor<128xf32>",
            f"%h{i} = arith.truncf %a{i} : tensor<128xf32> to {HALVES}",
            f"%g{i} = arith.addf %h{i}, %h{i} : {HALVES}", f"%e{i} = arith.extf %g{i} : {HALVES} to tensor<128xf32>",
            f"%b{i} = arith.bitcast %e{i} : tensor<128xf32> to {BLOCK}",
        ],
    }  # fmt: skip
    return lines[kind], f"%b{i}"


def chain(kind: str, value: str, length: int) -> jn.kernel.Kernel:
    lines, pointers = [], "%q"
    for number in range(length):
        if kind == "pointers":
            step = ("one", "back")[number % 2]
            lines.append(f"%q{number} = tt.addptr {pointers}, %{step} : tensor<128x!tt.ptr<i32>>, {BLOCK}")
            pointers = f"%q{number}"
        else:
            more, value = steps(kind, value, number)
            lines += more
    body = "\n".join(lines)
    return jn.kernel.from_ttir(
        f"""tt.func @k(%p: !tt.ptr<i32>) {{
%r = tt.make_range {{start = 0 : i32, end = 128 : i32}} : {BLOCK}
%s = tt.splat %p : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
%q = tt.addptr %s, %r : tensor<128x!tt.ptr<i32>>, {BLOCK}
%v = tt.load %q : tensor<128x!tt.ptr<i32>>
%c = arith.constant dense<1103515245> : {BLOCK}
%d = arith.constant dense<1000003> : {BLOCK}
%one = arith.constant dense<1> : {BLOCK}
%back = arith.constant dense<-1> : {BLOCK}
{body}
tt.store {pointers}, {value} : tensor<128x!tt.ptr<i32>>
tt.return
}}""",
        cache=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "start"), each(["hash", "sum", "choice", "views", "halves", "pointers"], ["%r", "%v"]))
def test_long_chains_are_cut(kind: str, start: str) -> None:
    kernel = chain(kind, start, 400)
    expected = np.arange(128, dtype=np.int32) * 8191
    found = expected.copy()
    with np.errstate(all="ignore"):
        kernel.interpret(1, expected)
    kernel.launch(1, found, device="ptxsim", target="sm_80")
    if kind == "halves":  # any NaN is one
        expected, found = (np.where(np.isnan(x.view(np.float32)), 0, x) for x in (expected, found))
    np.testing.assert_array_equal(found, expected)
