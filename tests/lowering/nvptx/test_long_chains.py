"""Chains of operations on blocks that are longer than what can be one expression."""

from __future__ import annotations

import joinery as jn
import pytest


def test_a_chain_that_is_too_long_is_refused() -> None:
    value, lines = "%r", []
    for number in range(400):
        lines += [
            f"%a{number} = arith.muli {value}, %c : tensor<128xi32>",
            f"%b{number} = arith.remsi %a{number}, %d : tensor<128xi32>",
        ]
        value = f"%b{number}"
    body = "\n".join(lines)
    text = f"""tt.func @k(%p: !tt.ptr<i32>) {{
%r = tt.make_range {{start = 0 : i32, end = 128 : i32}} : tensor<128xi32>
%c = arith.constant dense<1103515245> : tensor<128xi32>
%d = arith.constant dense<1000003> : tensor<128xi32>
{body}
%s = tt.splat %p : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
%q = tt.addptr %s, %r : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
tt.store %q, {value} : tensor<128x!tt.ptr<i32>>
tt.return
}}"""
    with pytest.raises(jn.UnsupportedError, match=r"@k: a chain of operations.* fix: store"):
        jn.kernel.from_ttir(text, cache=False).ptx("sm_80")
