"""The sanitizer on undefined values: where they come from, how they travel, and which uses are mistakes."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest


def kernel(body: str) -> jn.kernel.Kernel:
    """%u: 8 lanes, the last %pid of them undefined … program 0 has none, program 3 has lanes 5, 6 and 7."""
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @f(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %l: !tt.ptr<i32>) {{
    %pid = tt.get_program_id x : i32
    %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
    %c8 = arith.constant 8 : i32
    %n = arith.subi %c8, %pid : i32
    %limit = tt.splat %n : i32 -> tensor<8xi32>
    %mask = arith.cmpi slt, %r, %limit : tensor<8xi32>
    %zero = arith.constant dense<0> : tensor<8xi32>
    %px = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %ax = tt.addptr %px, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %u = tt.load %ax, %mask : tensor<8x!tt.ptr<i32>> loc("f.py":5:1)
    %first = arith.muli %pid, %c8 : i32
    %start = tt.splat %first : i32 -> tensor<8xi32>
    %at = arith.addi %start, %r : tensor<8xi32>
    %po = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %po, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %own = tt.addptr %l, %pid : !tt.ptr<i32>, i32
    {body}
    tt.return
  }}
}}
""")


def run(body: str, programs: int = 4) -> tuple[Any, ...]:
    x = np.arange(8, dtype=np.int32) % 2
    return kernel(body).sanitize((programs,), x, np.zeros(32, np.int32), np.zeros(4, np.int32)).findings


def store(value: str, mask: str = "") -> str:
    return f'tt.store %p, {value}{mask} : tensor<8x!tt.ptr<i32>> loc("f.py":9:1)'


def reduce(
    value: str,
    body: str = "%s = arith.addi %a, %b : i32\n",
    shape: str = "8",
    result: str = "i32",
    axis: int = 0,
) -> str:
    return f"""%sum = "tt.reduce"({value}) <{{axis = {axis} : i32}}> ({{
    ^bb0(%a: i32, %b: i32):
      {body}
      tt.reduce.return %s : i32
    }}) : (tensor<{shape}xi32>) -> {result}
    """


def test_a_stored_value_names_lane_and_birth() -> None:
    body = f"%two = arith.addi %u, %u : tensor<8xi32>\n{store('%two')}"
    x, o = np.ones(8, np.int32), np.full(32, 7, np.int32)
    (found,) = kernel(body).sanitize((4,), x, o, np.zeros(4, np.int32)).findings
    assert (found.kind, found.program, found.lane) == ("uninitialised", (1, 0, 0), (7,))
    assert (found.line, found.origin, found.count) == ("f.py:9:1", "f.py:5:1", 1 + 2 + 3)
    assert found.address == "%o + 4 * 15 (array of 32 elements)"
    assert "the stored value is undefined" in found.message
    assert "%u = tt.load %ax, %mask" in found.message
    expected = np.array([[2 if lane < 8 - program else 7 for lane in range(8)] for program in range(4)])
    np.testing.assert_array_equal(o.reshape(4, 8), expected)


USES = {
    "the stored value": f"{store('%u')}",
    "the address": "%q = tt.addptr %p, %u : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
    '%v = tt.load %q : tensor<8x!tt.ptr<i32>> loc("f.py":9:1)',
    "the mask": f"%m = arith.cmpi sgt, %u, %zero : tensor<8xi32>\n{store('%r', ', %m')}",
    "an operand of the atomic": "%old = tt.atomic_rmw add, relaxed, gpu, %p, %u : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) "
    '-> tensor<8xi32> loc("f.py":9:1)',
}


@pytest.mark.parametrize("what", USES)
def test_uses_by_lanes(what: str) -> None:
    (found,) = run(USES[what])
    assert found.kind == "uninitialised"
    assert found.message.startswith(f"{what} is undefined")
    assert (found.program, found.lane, found.count) == ((1, 0, 0), (7,), 6)
    assert (found.line, found.origin) == ("f.py:9:1", "f.py:5:1")
    assert run(USES[what], 1) == ()  # program 0 loads every lane


DECISIONS = {
    "the branch condition": 'scf.if %is {\n tt.store %own, %c8 : !tt.ptr<i32>\n} loc("f.py":9:1)',
    "a bound of the loop": '%c1 = arith.constant 1 : i32\nscf.for %i = %c1 to %sum step %c1 : i32 {\n} loc("f.py":9:1)',
    "the condition of the loop": "%f = arith.constant false\n"
    "%w = scf.while (%c = %is) : (i1) -> i1 {\n scf.condition(%c) %c : i1\n} do {\n^bb0(%d: i1):\n scf.yield %f : i1\n}"
    ' loc("f.py":9:1)',
}


@pytest.mark.parametrize("what", DECISIONS)
def test_uses_that_decide(what: str) -> None:
    body = (
        reduce("%u")
        + "%none = arith.constant 0 : i32\n%is = arith.cmpi sgt, %sum, %none : i32\n"
        + DECISIONS[what]
    )
    (found,) = run(body)
    assert found.message.startswith(f"{what} is undefined")
    assert (found.program, found.lane, found.line, found.origin) == ((1, 0, 0), (), "f.py:9:1", "f.py:5:1")
    assert found.count == 3
    assert run(body, 1) == ()


def test_a_branch_between_blocks() -> None:
    body = (
        reduce("%u")
        + """
    %none = arith.constant 0 : i32
    %is = arith.cmpi sgt, %sum, %none : i32
    cf.cond_br %is, ^one, ^two
  ^one:
    tt.store %own, %c8 : !tt.ptr<i32>
    cf.br ^two
  ^two:"""
    )
    (found,) = run(body)
    assert found.message.startswith("the branch condition is undefined")
    assert found.operation.startswith("cf.cond_br")


CLEAN = {
    "masked store": store("%u", ", %mask"),
    "masked product": f"%two = arith.muli %u, %u : tensor<8xi32>\n{store('%two', ', %mask')}",
    "chosen away": f"%v = arith.select %mask, %u, %zero : tensor<8xi1>, tensor<8xi32>\n{store('%v')}",
    "other": f"%v = tt.load %ax, %mask, %zero : tensor<8x!tt.ptr<i32>>\n{store('%v')}",
    "false and anything": "%m = arith.cmpi sgt, %u, %zero : tensor<8xi32>\n"
    f"%both = arith.andi %m, %mask : tensor<8xi1>\n{store('%r', ', %both')}",
    "true or anything": "%t = arith.constant dense<true> : tensor<8xi1>\n%no = arith.xori %mask, %t : tensor<8xi1>\n"
    f"%m = arith.cmpi sgt, %u, %zero : tensor<8xi32>\n%any = arith.ori %m, %no : tensor<8xi1>\n{store('%r', ', %any')}",
    "nothing times anything": f"%v = arith.muli %u, %zero : tensor<8xi32>\n{store('%v')}",
    "reduced after choosing": "%v = arith.select %mask, %u, %zero : tensor<8xi1>, tensor<8xi32>\n"
    + reduce("%v")
    + "tt.store %own, %sum : !tt.ptr<i32>",
    "not used": reduce("%u"),
    "gathered around": "%seven = arith.constant dense<0> : tensor<8xi32>\n"
    f"%g = tt.gather %u[%seven] {{axis = 0 : i32}} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>\n{store('%g')}",
}


@pytest.mark.parametrize("name", CLEAN)
def test_harmless_undefined_lanes(name: str) -> None:
    assert run(CLEAN[name]) == ()


def lanes_of(body: str, value: str, programs: int = 2) -> list[int]:
    """The lanes whose stored value the last program of two finds undefined (lane 7 is undefined at the start)."""
    o = np.full(32, 99, np.int32)
    findings = (
        kernel(f"{body}\n{store(value)}")
        .sanitize((programs,), np.ones(8, np.int32), o, np.zeros(4, np.int32))
        .findings
    )
    assert all(found.kind == "uninitialised" for found in findings)
    return np.flatnonzero(o.reshape(4, 8)[programs - 1] == 99).tolist()


MATRIX = "%m0 = tt.reshape %u : tensor<8xi32> -> tensor<2x4xi32>\n"
MOVES = {
    "reshape": (MATRIX + "%v = tt.reshape %m0 : tensor<2x4xi32> -> tensor<8xi32>", [7]),
    "trans": (
        MATRIX + "%m1 = tt.trans %m0 {order = array<i32: 1, 0>} : tensor<2x4xi32> -> tensor<4x2xi32>\n"
        "%v = tt.reshape %m1 : tensor<4x2xi32> -> tensor<8xi32>",
        [7],
    ),
    "split": (
        "%m0 = tt.reshape %u : tensor<8xi32> -> tensor<4x2xi32>\n%e, %f = tt.split %m0 : tensor<4x2xi32> -> tensor<4xi32>\n"
        "%v = tt.cat %f, %e : tensor<4xi32> -> tensor<8xi32>",
        [3],
    ),
    "join": (
        "%m0 = tt.reshape %u : tensor<8xi32> -> tensor<4x2xi32>\n%e, %f = tt.split %m0 : tensor<4x2xi32> -> tensor<4xi32>\n"
        "%j = tt.join %f, %e : tensor<4xi32> -> tensor<4x2xi32>\n%v = tt.reshape %j : tensor<4x2xi32> -> tensor<8xi32>",
        [6],
    ),
    "sum of rows": (
        MATRIX + reduce("%m0", shape="2x4", result="tensor<2xi32>", axis=1)
        + "%e = tt.expand_dims %sum {axis = 1 : i32} : tensor<2xi32> -> tensor<2x1xi32>\n"
        "%w = tt.broadcast %e : tensor<2x1xi32> -> tensor<2x4xi32>\n%v = tt.reshape %w : tensor<2x4xi32> -> tensor<8xi32>",
        [4, 5, 6, 7],
    ),
    "sum of columns": (
        MATRIX + reduce("%m0", shape="2x4", result="tensor<4xi32>", axis=0)
        + "%e = tt.expand_dims %sum {axis = 0 : i32} : tensor<4xi32> -> tensor<1x4xi32>\n"
        "%w = tt.broadcast %e : tensor<1x4xi32> -> tensor<2x4xi32>\n%v = tt.reshape %w : tensor<2x4xi32> -> tensor<8xi32>",
        [3, 7],
    ),
    "scan": (
        '%v = "tt.scan"(%u) <{axis = 0 : i32, reverse = false}> ({\n^bb0(%a: i32, %b: i32):\n'
        "%s = arith.addi %a, %b : i32\ntt.scan.return %s : i32\n}) : (tensor<8xi32>) -> tensor<8xi32>",
        [7],
    ),
    "scan from the end": (
        '%v = "tt.scan"(%u) <{axis = 0 : i32, reverse = true}> ({\n^bb0(%a: i32, %b: i32):\n'
        "%s = arith.addi %a, %b : i32\ntt.scan.return %s : i32\n}) : (tensor<8xi32>) -> tensor<8xi32>",
        list(range(8)),
    ),
    "loop": (
        "%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32\n"
        "%v = scf.for %i = %c0 to %c8 step %c1 iter_args(%q = %zero) -> (tensor<8xi32>) : i32 {\n"
        "%s = arith.addi %q, %u : tensor<8xi32>\nscf.yield %s : tensor<8xi32>\n}",
        [7],
    ),
    "branch": (
        "%c1 = arith.constant 1 : i32\n%is = arith.cmpi eq, %pid, %c1 : i32\n"
        "%v = scf.if %is -> (tensor<8xi32>) {\nscf.yield %u : tensor<8xi32>\n} else {\nscf.yield %zero : tensor<8xi32>\n}",
        [7],
    ),
    "reduction with branches": (
        reduce(
            "%u",
            "%c9 = arith.constant 9 : i32\n%c = arith.cmpi sgt, %a, %c9 : i32\n"
            "%s = scf.if %c -> (i32) {\nscf.yield %a : i32\n} else {\nscf.yield %b : i32\n}",
        )
        + "%v = tt.splat %sum : i32 -> tensor<8xi32>",
        list(range(8)),
    ),
    "histogram": (
        "%v = tt.histogram %u : tensor<8xi32> -> tensor<8xi32>", list(range(8)),
    ),
    "undefined condition": (
        "%m = arith.cmpi sgt, %u, %zero : tensor<8xi32>\n%v = arith.select %m, %r, %zero : tensor<8xi1>, tensor<8xi32>", [7],
    ),
    "undefined index": (
        "%one = arith.constant dense<1> : tensor<8xi32>\n%i = arith.remui %u, %one : tensor<8xi32>\n"
        "%v = tt.gather %r[%i] {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>", [7],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_how_undefined_lanes_travel(name: str) -> None:
    body, expected = MOVES[name]
    assert lanes_of(body, "%v") == expected
    assert lanes_of(body, "%v", 1) == []


def test_a_call_hands_shadows_in_and_out() -> None:
    text = """
module {
  tt.func public @f(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>) {
    %no = arith.constant false
    %a = tt.load %x, %no : !tt.ptr<i32>
    %b, %c = tt.call @swap(%a, %o) : (i32, !tt.ptr<i32>) -> (!tt.ptr<i32>, i32)
    tt.store %b, %c : !tt.ptr<i32>
    tt.return
  }
  tt.func private @swap(%v: i32, %p: !tt.ptr<i32>) -> (!tt.ptr<i32>, i32) {
    tt.return %p, %v : !tt.ptr<i32>, i32
  }
}
"""
    o = np.zeros(1, np.int32)
    (found,) = jn.kernel.from_ttir(text).sanitize((1,), o.copy(), o).findings
    assert (found.kind, found.line, found.origin, found.lane) == ("uninitialised", "ttir:6", "ttir:4", ())
    assert found.address == "%o + 4 * 0 (array of 1 elements)"


def test_poison_and_products() -> None:
    text = """
module {
  tt.func public @f(%o: !tt.ptr<f32>) {
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c2 = arith.constant dense<2> : tensor<16xi32>
    %row = arith.divui %r, %c2 : tensor<16xi32>
    %five = arith.constant dense<5> : tensor<16xi32>
    %is = arith.cmpi eq, %r, %five : tensor<16xi32>
    %one = arith.constant dense<1.000000e+00> : tensor<16xf32>
    %bad = ub.poison : tensor<16xf32>
    %some = arith.select %is, %bad, %one : tensor<16xi1>, tensor<16xf32>
    %a = tt.reshape %some : tensor<16xf32> -> tensor<4x4xf32>
    %b = arith.constant dense<1.000000e+00> : tensor<4x4xf32>
    %c = arith.constant dense<0.000000e+00> : tensor<4x4xf32>
    %d = tt.dot LEFT, RIGHT, %c : tensor<4x4xf32> * tensor<4x4xf32> -> tensor<4x4xf32>
    %e = tt.reshape %d : tensor<4x4xf32> -> tensor<16xf32>
    %p0 = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %p = tt.addptr %p0, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %p, %e : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""
    for left, right, chosen in (("%a", "%b", np.s_[1]), ("%b", "%a", np.s_[:, 1])):
        o = np.zeros((4, 4), np.float32)
        (found,) = (
            jn.kernel.from_ttir(text.replace("LEFT", left).replace("RIGHT", right)).sanitize((1,), o).findings
        )
        assert "ub.poison" in found.message
        assert (found.origin, found.count) == ("ttir:9", 4)
        expected = np.full((4, 4), 4, np.float32)
        expected[chosen] = 0  # row 1 of the left, column 1 of the right: left out
        np.testing.assert_array_equal(o, expected)


def test_masked_lanes_of_atomics_give_nothing_defined() -> None:
    types = "(tensor<8x!tt.ptr<i32>>, tensor<8xi32>, tensor<8xi1>) -> tensor<8xi32>"
    atomic = f"%v = tt.atomic_rmw add, relaxed, gpu, %p, %r, %mask : {types}"
    (found,) = run(f"{atomic}\n{store('%v')}")
    assert (found.lane, found.count) == ((7,), 6)
    assert run(f"{atomic}\n{store('%v', ', %mask')}") == ()


def test_other_hands_its_own_shadow_on() -> None:
    (found,) = run(f"%v = tt.load %ax, %mask, %u : tensor<8x!tt.ptr<i32>>\n{store('%v')}")
    assert (found.lane, found.count, found.origin) == ((7,), 6, "f.py:5:1")
