"""Conditions of verdicts leave launches that execute the access: what is never executed under them is not proven."""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.bounds import Bounds
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.specify.specification import Specification
from joinery.lowering.prove.terms.solver import DEFAULT_LIMIT

_LIMIT = 1 << 24
_NOTHING = "no launch was found in which that and the assumptions hold and it is executed"


def _beyond(least: int, what: str = "%p") -> jn.kernel.Kernel:
    """A kernel that stores to every fourth element from a program, or a size, on. Offsets of 32 bits wrap for many programs."""
    return jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i32>, %n: i32, %m: i32) {{
  %four = arith.constant 4 : i32
  %least = arith.constant {least} : i32
  %p = tt.get_program_id x : i32
  %a = arith.muli %p, %four : i32
  %in = arith.cmpi slt, %a, %n : i32
  %far = arith.cmpi sge, {what}, %least : i32
  %keep = arith.andi %in, %far : i1
  %at = tt.addptr %x, %a : !tt.ptr<i32>, i32
  tt.store %at, %p, %keep : !tt.ptr<i32>
  tt.return
}}""")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("least", [0, _LIMIT - 1, _LIMIT, _LIMIT + 5, 1 << 29])
def test_a_condition_under_which_an_access_is_not_executed_is_none(least: int) -> None:
    """Below 2**24 programs, which is the condition found, one has a number of `least` or more only if that is below 2**24."""
    is_executed = least < _LIMIT  # programs are numbered from 0, and n may be as large as it takes
    proof = _beyond(least).prove(extents={"x": "n"}, grid="grid_x")
    assert len(proof.accesses) == 3
    for each in proof.accesses:
        is_refuted = each.prop == "overflow" and not is_executed  # a program after that wraps, whether it stores or not
        assert each.verdict == ("refuted" if is_refuted else "proven under" if is_executed else "unknown"), each
        assert each.condition == (("grid_x <= 2**24",) if is_executed else ())
    if not is_executed:
        reasons = {each.prop: each.reason for each in proof.accesses}
        assert reasons["bounds"] == f"it holds if grid_x <= 2**24, and {_NOTHING}"
        assert "not shown to stay inside its array" in reasons["races"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("least", [1, _LIMIT, 1 << 25, (1 << 31) - 1])
def test_a_condition_that_leaves_something_takes_the_place_of_one_that_does_not(least: int) -> None:
    """`m <= 2**24` leaves no program that stores, and would be enough; so would the other condition alone."""
    proof = _beyond(least, "%m").prove(extents={"x": "n"}, grid="grid_x")
    for each in proof.accesses:
        assert (each.verdict, each.condition) == ("proven under", ("grid_x <= 2**24",)), each


def test_what_is_wrong_beyond_a_condition_that_leaves_nothing_is_still_refuted() -> None:
    made = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %p = tt.get_program_id x : i32
  %is = arith.cmpi sge, %p, %n : i32
  %at = tt.addptr %x, %p : !tt.ptr<i32>, i32
  tt.store %at, %p, %is : !tt.ptr<i32>
  tt.return
}""")
    assert made.prove(["n >= 1"], {"x": "n"}, "grid_x", ("bounds",)).verdict("bounds") == "refuted"


_TWO = """tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32, %m: i32) {
  %c = arith.constant 128 : i32
  %least = arith.constant LEAST : i32
  %p = tt.get_program_id x : i32
  %a = arith.muli %m, %c : i32
  %from = tt.addptr %x, %a : !tt.ptr<i32>, i32
  %v = tt.load %from : !tt.ptr<i32>
  %in = arith.cmpi slt, %p, %n : i32
  %far = arith.cmpi sge, %m, %least : i32
  %keep = arith.andi %in, %far : i1
  %at = tt.addptr %y, %p : !tt.ptr<i32>, i32
  tt.store %at, %p, %keep : !tt.ptr<i32>
  tt.return
}"""


@pytest.mark.parametrize(("least", "is_executed"), [(5, True), (_LIMIT - 1, True), (_LIMIT, False), (1 << 30, False)])
def test_conditions_of_several_accesses_leave_each_of_them_something(least: int, is_executed: bool) -> None:
    """The load is inside its array for m < 2**24 alone, and the store meets nothing else only if it is."""
    made = jn.kernel.from_ttir(_TWO.replace("LEAST", str(least)))
    proof = made.prove(["m >= 0"], {"x": "128 * m + 1", "y": "n"}, "n", ("bounds", "races"))
    found = {(each.prop, each.array): each for each in proof.accesses}
    condition = ("128 * m + 1 <= 2**31 - 1",)
    assert found["bounds", "x"].condition == found["races", "x"].condition == condition
    assert found["bounds", "y"].verdict == "proven"
    store = found["races", "y"]
    assert (store.verdict, store.condition) == (("proven under", condition) if is_executed else ("unknown", ()))
    assert (_NOTHING in store.reason) != is_executed


@pytest.mark.parametrize(("least", "verdict"), [
    (7, "proven under"), (_LIMIT, "proven under"), ((1 << 31) - (1 << 16), "unknown"),
])  # fmt: skip
def test_a_loop_that_is_not_reached_under_a_condition_is_not_shown_to_end(least: int, verdict: str) -> None:
    made = jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {{
  %zero = arith.constant 0 : i32
  %step = arith.constant 1024 : i32
  %least = arith.constant {least} : i32
  %p = tt.get_program_id x : i32
  %far = arith.cmpi sge, %p, %least : i32
  scf.if %far {{
    scf.for %i = %zero to %n step %step : i32 {{
      tt.store %x, %i : !tt.ptr<i32>
    }}
  }}
  tt.return
}}""")
    (found,) = made.prove(["n >= 1"], {"x": 1}, "n", ("termination of loops",)).accesses
    assert found.verdict == verdict, found
    assert (found.condition == ()) == (_NOTHING in found.reason)


@pytest.mark.slow
def test_many_accesses_under_one_condition_are_shown_by_few_launches() -> None:
    """Each has a mask of its own; one launch with room executes nearly all of them, where one for each took all steps."""
    lines = [
        line
        for number in range(30)
        for line in (
            f"%n{number} = arith.constant dense<{number}> : tensor<128xi32>",
            f"%i{number} = arith.addi %first, %n{number} : tensor<128xi32>",
            f"%m{number} = arith.cmpi slt, %i{number}, %ns : tensor<128xi32>",
            f"%p{number} = tt.addptr %xs, %i{number} : tensor<128x!tt.ptr<f32>>, tensor<128xi32>",
            f"%q{number} = tt.addptr %os, %i{number} : tensor<128x!tt.ptr<f32>>, tensor<128xi32>",
            f"%v{number} = tt.load %p{number}, %m{number}, %zeros : tensor<128x!tt.ptr<f32>>",
            f"tt.store %q{number}, %v{number}, %m{number} : tensor<128x!tt.ptr<f32>>",
        )
    ]
    kernel = jn.kernel.from_ttir(
        """
tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
  %zeros = arith.constant dense<0.0> : tensor<128xf32>
  %block = arith.constant 128 : i32
  %many = arith.constant dense<30> : tensor<128xi32>
  %p = tt.get_program_id x : i32
  %start = arith.muli %p, %block : i32
  %starts = tt.splat %start : i32 -> tensor<128xi32>
  %lanes = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %i = arith.addi %starts, %lanes : tensor<128xi32>
  %first = arith.muli %i, %many : tensor<128xi32>
  %ns = tt.splat %n : i32 -> tensor<128xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
"""
        + "\n".join(lines)
        + "\n  tt.return\n}"
    )
    proof = kernel.prove(["n >= 1"], {"x": "n", "o": "n"}, "cdiv(n, 3840)", ("bounds", "races"))
    assert {each.verdict for each in proof.accesses} == {"proven under"}, proof


def _rows(index: str) -> jn.kernel.Kernel:
    return jn.kernel.from_triton_c(f"""
__global__ void rows(float *y, int rows, int cols) {{
  {index} r = get_program_id(0);
  int j[128] = 0 ... 128;
  for (int k = 0; k < cols; k += 128) *?(k + j < cols)(y + r*cols + k + j) = 1;
}}""")


@pytest.mark.parametrize(("index", "condition"), [("int", "rows*cols <= 2**31 - 2**16"), ("long", "cols <= 2**31 - 2**16")])
def test_a_bound_of_one_size_takes_the_place_of_one_of_a_product(index: str, condition: str) -> None:
    """Where offsets have 64 bits only the counter of the loop wraps."""
    proof = _rows(index).prove(["cols >= 1"], {"y": "rows*cols"}, "rows", ("bounds", "races"))
    assert {each.condition for each in proof.accesses} == {(condition,)}
    assert proof.verdict("races") == proof.verdict("bounds") == "proven under"


def test_conditions_of_kernels_with_64_bits_begin_there() -> None:
    kernel = jn.kernel.from_triton_c("""
__global__ void strided(float *y, int n, long s) {
  int i[128] = get_program_id(0)*128 + 0 ... 128;
  *?(i < n)(y + (long[128])i*s) = 1;
}""")
    proof = kernel.prove(["n >= 1", "s >= 1", "n <= 2**10"], {"y": "(n-1)*s+1"}, "cdiv(n,128)", ("overflow",))
    assert [(each.verdict, each.condition) for each in proof.accesses] == [("proven under", ("s <= 2**48",))]


@pytest.mark.parametrize(("index", "has"), [("int", False), ("long", True)])
def test_conditions_of_kernels_with_32_bits_do_not(index: str, has: bool) -> None:
    """Products of their numbers have 62 bits, of which offsets of 32 bits know nothing."""
    specification = Specification.of(["cols >= 1"], {"y": "rows*cols"}, "rows")
    bounds = Bounds(prepare(_rows(index)._function), specification, specification.parsed(), None, DEFAULT_LIMIT)
    assert any("2**48" in text for level in bounds.levels(0) for text in level) is has


def test_conditions_that_follow_from_others_are_left_out() -> None:
    """Races need that both arrays are small enough, and one has twice the elements of the other one."""
    kernel = jn.kernel.from_triton_c("""
__global__ void spread(float *x, float *y, int m, int n) {
  int p = get_program_id(0);
  int j[64] = get_program_id(1)*64 + 0 ... 64;
  *?(j < n)(y + p*n + j) = *?(j < n)(x + 2*(p*n + j));
}""")
    proof = kernel.prove(["n >= 1", "m >= 1"], {"x": "2*m*n", "y": "m*n"}, ("m", "cdiv(n, 64)"), ("bounds", "races"))
    conditions = {prop: {each.condition for each in proof.accesses if each.prop == prop} for prop in ("bounds", "races")}
    assert conditions["bounds"] == {("2*m*n <= 2**31 - 1",), ("m*n <= 2**31 - 1",)}
    assert conditions["races"] == {("2*m*n <= 2**31 - 1",)}


@pytest.mark.slow
def test_many_easy_accesses_are_all_proven() -> None:
    """Each has steps of its own beside those of the proof, which so many would take."""
    count = 500
    lines = [f"  %c{i} = arith.constant {i} : i32\n  %o{i} = arith.addi %p, %c{i} : i32\n  %a{i} = tt.addptr %x, %o{i} : "
             f"!tt.ptr<f32>, i32\n  tt.store %a{i}, %z, %in : !tt.ptr<f32>" for i in range(count)]  # fmt: skip
    body = "\n".join(lines)
    kernel = jn.kernel.from_ttir(f"""tt.func public @many(%x: !tt.ptr<f32>, %n: i32) {{
  %z = arith.constant 0.0 : f32
  %p = tt.get_program_id x : i32
  %in = arith.cmpi slt, %p, %n : i32
{body}
  tt.return
}}""")
    proof = kernel.prove(["n >= 1", "n <= 2**20"], {"x": f"n + {count - 1}"}, "n", ("bounds",), limit=400_000)
    assert {each.verdict for each in proof.accesses} == {"proven"}
    proof = kernel.prove(["n >= 1", "n <= 2**20"], {"x": f"n + {count - 1}"}, "n", ("bounds",), limit=1000)
    assert proof.verdict("bounds") == "unknown"
