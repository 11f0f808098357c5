"""Specifications that are guessed from several launches describe all of them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.specify.specification import Specification

from ....support.corpus import WITH_DATA, Case, read

BEHIND = """tt.func public @behind(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
  %p = tt.get_program_id x : i32
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %c = arith.constant 64 : i32
  %o = arith.muli %p, %c : i32
  %ob = tt.splat %o : i32 -> tensor<64xi32>
  %at = arith.addi %r, %ob : tensor<64xi32>
  %xb = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %xp = tt.addptr %xb, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %v = tt.load %xp : tensor<64x!tt.ptr<f32>>
  %nb = tt.splat %n : i32 -> tensor<64xi32>
  %to = arith.addi %at, %nb : tensor<64xi32>
  %yb = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %yp = tt.addptr %yb, %to : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %yp, %v : tensor<64x!tt.ptr<f32>>
  tt.return
}"""
"""Copies behind the first n elements, so many as there are programs."""

TAKE = """tt.func public @take(%x: !tt.ptr<f32>, %at: !tt.ptr<i32>, %out: !tt.ptr<f32>, %n: i32, %m: i32) {
  %p = tt.get_program_id x : i32
  %a = tt.addptr %at, %p : !tt.ptr<i32>, i32
  %i = tt.load %a : !tt.ptr<i32>
  %b = tt.addptr %x, %i : !tt.ptr<f32>, i32
  %v = tt.load %b : !tt.ptr<f32>
  %c = tt.addptr %out, %p : !tt.ptr<f32>, i32
  tt.store %c, %v : !tt.ptr<f32>
  tt.return
}"""
"""Takes n elements of m."""


def behind(programs: int, n: int) -> tuple[int, list[Any]]:
    return programs, [np.zeros(64 * programs, np.float32), np.zeros(64 * programs + n, np.float32), n]


def test_what_holds_in_one_launch_by_chance_is_not_meant() -> None:
    """Of the first launch the grid, and with it all extents, seem to be fixed."""
    prove = jn.kernel.from_ttir(BEHIND).prove
    first, *rest = [behind(1, 1), behind(2, 65), behind(3, 20)]
    one = prove.like(first[0], *first[1])
    assert one.fixed
    launches = [prove.launch(grid, *arguments) for grid, arguments in rest]
    assert not any(prove.describes(one.specification, each) for each in launches)
    found = prove.like(first[0], *first[1], before=launches)
    assert found.specification.grid == ("grid_x", "1", "1")
    assert dict(found.specification.extents) == {"x": "64 * grid_x", "out": "64 * grid_x + n"}
    assert not found.fixed
    assert {each.verdict for each in found.accesses} <= {"proven", "proven under"}
    assert all(prove.describes(found.specification, each) for each in launches)


@pytest.mark.slow
def test_ranges_of_elements_are_those_of_all_launches() -> None:
    prove = jn.kernel.from_ttir(TAKE).prove

    def launch(n: int, m: int, most: int) -> tuple[int, list[Any]]:
        at = np.full(n, most, np.int32)
        return n, [np.zeros(m, np.float32), at, np.zeros(n, np.float32), n, m]

    one, two = launch(9, 6, 4), launch(5, 8, 6)
    narrow, wide = prove.like(one[0], *one[1]), prove.launch(two[0], *two[1])
    assert prove.describes(narrow.specification, wide)
    for most, said in ((8, "0 <= at[:] < n"), (11, "0 <= at[:] <= 11")):  # below the other size, and beyond both
        grid, arguments = launch(9, 6, most)
        far = prove.launch(grid, *arguments)
        assert not prove.describes(narrow.specification, far)
        assert said in prove.specification(one[0], *one[1], before=[far]).assume


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow) if name == "attention_fwd_full_f16" else name  # two thirds of their time
    for name in random.Random("two launches").sample(WITH_DATA, 12)
])  # fmt: skip
def test_guesses_from_two_launches_describe_both(name: str) -> None:
    """Of the other one sizes are what they are, or twice as much: what was guessed from one of them need not hold."""
    case = Case(name)
    arguments, _ = case.arguments()
    prove = read(name).prove
    grid = tuple(case.facts["grid"])
    launch = prove.launch(grid, *arguments)
    rng = random.Random(name)
    doubled = {each for each in launch.numbers if rng.randrange(2)}
    other = type(launch)(
        {each: number * (2 if each in doubled else 1) for each, number in launch.numbers.items()},
        {each: 8 * number for each, number in launch.elements.items()},
        launch.contents, launch.grid, launch.distinct, launch.axes,
    )  # fmt: skip
    found = prove.specification(grid, *arguments, before=[other])
    assert prove.describes(found, launch)
    assert prove.describes(found, other)


def test_launches_are_compared_with_all_that_is_said() -> None:
    prove = jn.kernel.from_ttir(BEHIND).prove
    launch = prove.launch(2, np.zeros(128, np.float32), np.zeros(200, np.float32), 70)
    extents = (("x", "64 * grid_x"), ("out", "64 * grid_x + n"))
    for assume, x, out, grid, is_described in (
        ("n >= 1", *extents, "grid_x", True), ("n >= 71", *extents, "grid_x", False), ("n >= 1", *extents, "cdiv(n, 64)", True),
        ("n >= 1", *extents, "cdiv(n, 70)", False), ("n >= 1", ("x", "128"), ("out", "200"), "2", True),
        ("n >= 1", ("x", "129"), ("out", "200"), "2", False), ("n >= 1", ("x", "64 - n"), ("out", "200"), "2", False),
    ):  # fmt: skip
        specification = Specification((assume,), (x, out), (grid, "1", "1"))
        assert prove.describes(specification, launch) == is_described, specification
    with pytest.raises(jn.UserError, match=r"rows may be any number, .* fix: parameters of the kernel, or grid_x"):
        prove.describes(Specification((), (("x", "rows"),), ("rows", "1", "1")), launch)


def test_arrays_that_share_memory_are_no_launch() -> None:
    both = np.zeros(200, np.float32)
    with pytest.raises(jn.UserError, match="x and out share memory"):
        jn.kernel.from_ttir(BEHIND).prove.launch(2, both[:128], both, 70)


@pytest.mark.slow
def test_all_orders_of_launches_prove_as_much() -> None:
    prove = jn.kernel.from_ttir(BEHIND).prove
    for order in itertools.permutations([behind(1, 65), behind(2, 64), behind(4, 300)]):
        (grid, arguments), *rest = order
        found = prove.like(grid, *arguments, before=[prove.launch(each, *given) for each, given in rest])
        assert {each.verdict for each in found.accesses} <= {"proven", "proven under"}, found


def gathered(x: int | None, idx: list[int], n: int, m: int) -> list[Any]:
    return [None if x is None else np.zeros(x, np.float32), np.array(idx, np.int32), np.zeros(n, np.float32), n, m]


@pytest.mark.slow
@pytest.mark.parametrize(
    "others",
    [[(9, [0, 1], 2, 9), (0, [], 0, 0)], [(None, [0, 1, 2], 3, 9)], [(1, [0, 0], 2, 0)], [(0, [], 1, 0), (20, [5, 7], 2, 20)]],
)
def test_launches_without_elements_are_described_too(others: list[tuple[int | None, list[int], int, int]]) -> None:
    """Of no elements anything is true; an array that is not given has none."""
    prove = jn.kernel.from_ttir(TAKE).prove
    launches = [prove.launch(each[2], *gathered(*each)) for each in others]
    for own in ((9, [0, 5, 8, 2], 4, 9), (1, [], 0, 1)):
        found = prove.like(own[2], *gathered(*own), before=launches)
        assert all(prove.describes(found.specification, each) for each in launches)


def test_a_launch_that_breaks_a_promise_of_the_text_is_not_described() -> None:
    text = BEHIND.replace("%x: !tt.ptr<f32>", "%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}")
    prove = jn.kernel.from_ttir(text.replace("%n: i32", "%n: i32 {tt.divisibility = 16 : i32}")).prove
    specification = Specification((), (("x", "64"), ("out", "64 + n")), ("1", "1", "1"))
    memory = np.zeros(80, np.float32)
    first = -(memory.ctypes.data // 4) % 4
    for n, at, is_described in ((16, first, True), (17, first, False), (16, first + 1, False)):
        launch = prove.launch(1, memory[at : at + 64], np.zeros(90, np.float32), n)
        assert prove.describes(specification, launch) == is_described


def test_what_is_no_launch_of_the_kernel_is_refused() -> None:
    behind_, take = jn.kernel.from_ttir(BEHIND).prove, jn.kernel.from_ttir(TAKE).prove
    grid, arguments = behind(1, 65)
    launch = behind_.launch(grid, *arguments)
    for before in ([3], None, "n"):
        with pytest.raises(jn.UserError, match=r"prove\.like: .* expected launches; fix: what prove\.launch"):
            behind_.like(grid, *arguments, before=before)
    with pytest.raises(jn.UserError, match=r"a launch of another kernel, with the numbers n; fix: one of @take, with n, m"):
        take.describes(take.specification(2, *gathered(3, [0, 1], 2, 3)), launch)
    other = jn.kernel.from_ttir(BEHIND.replace("%x", "%other")).prove
    with pytest.raises(jn.UserError, match="a launch of another kernel"):
        other.like(grid, *arguments, before=[launch])
    with pytest.raises(jn.UserError, match="expected a specification"):
        behind_.describes("n >= 1", launch)


def test_a_size_that_a_launch_divides_by_may_be_0() -> None:
    prove = jn.kernel.from_ttir(TAKE).prove
    launch = prove.launch(0, *gathered(0, [], 0, 0))
    said = ("0 <= at[:] < n // m", "at_launch(at[:]) == n // m")
    for extents, assume in (((("x", "cdiv(n, m) * m"),), ()), *[((), (each,)) for each in said]):
        assert not prove.describes(Specification(assume, extents, ("cdiv(n, m)", "1", "1")), launch)


def test_a_launch_is_one_of_a_specification_that_says_what_it_holds_at_first() -> None:
    """All elements are that number: neither the least nor the largest one is another."""
    prove = jn.kernel.from_ttir(TAKE).prove
    for held, is_one in (([2, 2], True), ([2, 3], False), ([1, 2], False), ([3, 3], False)):
        launch = prove.launch(2, *gathered(4, held, 4, 2))
        said = Specification(("at_launch(at[:]) == 2",), (), ("cdiv(n, m)", "1", "1"))
        assert prove.describes(said, launch) is is_one
