"""Orders of elements: what is said of loaded numbers is true of every array that has the order, and of no other."""

from __future__ import annotations

import itertools
import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.terms.formulas import TRUE, Formula, equal
from joinery.lowering.prove.terms.orders import Element, Order, order_of, orders
from joinery.lowering.prove.terms.polynomials import constant, variable

from ....support.proving.launches import PROVED
from .test_lemmas import holds

_BEYOND = 6
"""Places before and behind an array that no run reads, but terms may be about."""


def said(array: np.ndarray, places: list[int], numbers: list[int], is_sorted: bool, is_distinct: bool) -> bool:
    """Whether what is said of numbers that are loaded from these places holds."""
    size = array.itemsize
    order = Order(is_sorted, is_distinct, size, constant(array.size))
    elements = {at: Element(0, constant(place * size), TRUE, order) for at, place in enumerate(places)}
    return all(holds(each, dict(enumerate(numbers))) for each in orders(elements))


def continued(array: np.ndarray, place: int) -> int:
    """The number at a place: an element, or the nearest one beyond the ends; its bits as a signed number."""
    if not array.size:
        return 0
    return int(array.view(f"i{array.itemsize}")[min(max(place, 0), array.size - 1)])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("how", ["sorted", "distinct"])
def test_what_an_order_says_holds_for_every_array_that_has_it(how: str, dtype: Any) -> None:
    """For all places together, those that are none of the array among them: so it excludes no run."""
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    for size in (0, 1, 2, 5, 9):
        for high in (3, info.max):
            if how == "sorted":
                array = np.sort(rng.integers(info.min if high > 3 else 0, high, size, dtype, endpoint=True))
            else:
                array = (rng.permutation(size) * (int(high) // 9 or 1)).astype(dtype)
                assert len({*array.tolist()}) == size
            for _ in range(12):
                places = [int(each) for each in rng.integers(-_BEYOND, size + _BEYOND, 7)]
                numbers = [continued(array, place) for place in places]
                assert said(array, places, numbers, how == "sorted", how == "distinct"), (array, places)


def test_what_an_order_says_is_broken_by_arrays_without_it() -> None:
    """Every other array of three small numbers breaks it, at the places that it has.

    Where some are negative, two of them may be in order as signed numbers and two others as unsigned ones: less is said then.
    """
    for numbers in itertools.product(range(-2, 3), repeat=3):
        array = np.array(numbers, np.int8)
        places = [0, 1, 2]
        is_sorted = any([*view] == sorted(view) for view in (array.tolist(), array.view(np.uint8).tolist()))
        found = said(array, places, [*numbers], True, False)
        assert found if is_sorted else not found or min(numbers) < 0 <= max(numbers)
        assert said(array, places, [*numbers], False, True) == (len({*numbers}) == 3)
    assert not said(array, [1, 1], [0, 1], False, False)  # one place has one number


def test_of_lanes_that_load_nothing_and_of_offsets_that_wrap_nothing_is_said() -> None:
    order = Order(True, False, 4, constant(9))
    for live, where in ((constant(1), 4), (constant(0), 1 << 63), (constant(0), -(1 << 63) - 4)):
        condition: Formula = equal(live, 0)
        one, two = Element(0, constant(0), condition, order), Element(0, constant(where), condition, order)
        assert all(holds(each, {0: 9, 1: 5}) for each in order_of(variable(0), one, variable(1), two))
    assert not all(
        holds(each, {0: 9, 1: 5})
        for each in order_of(variable(0), one, variable(1), Element(0, constant(4), TRUE, order))
    )




# Kernels, against the sanitizer


def rows(first: int, second: int, scale: int, relation: str, guard: bool) -> str:
    """Each program writes the elements of `o` from idx[scale * p + first] to idx[scale * p + second]."""
    low = "arith.cmpi sge" if guard else "arith.cmpi sle"
    return f"""
tt.func public @k(%idx: !tt.ptr<i32>, %o: !tt.ptr<f32>) {{
  %p = tt.get_program_id x : i32
  %f = arith.constant {first} : i32
  %s = arith.constant {second} : i32
  %c = arith.constant {scale} : i32
  %row = arith.muli %p, %c : i32
  %fs = arith.addi %row, %f : i32
  %ss = arith.addi %row, %s : i32
  %fp = tt.addptr %idx, %fs : !tt.ptr<i32>, i32
  %sp = tt.addptr %idx, %ss : !tt.ptr<i32>, i32
  %a = tt.load %fp : !tt.ptr<i32>
  %b = tt.load %sp : !tt.ptr<i32>
  %i = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %as = tt.splat %a : i32 -> tensor<8xi32>
  %bs = tt.splat %b : i32 -> tensor<8xi32>
  %at = arith.addi %as, %i : tensor<8xi32>
  %below = arith.cmpi {relation}, %at, %bs : tensor<8xi32>
  %above = {low}, %bs, %as : tensor<8xi32>
  %m = arith.andi %below, %above : tensor<8xi1>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %q = tt.addptr %os, %at : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %v = arith.sitofp %at : tensor<8xi32> to tensor<8xf32>
  tt.store %q, %v, %m : tensor<8x!tt.ptr<f32>>
  tt.return
}}
"""


def single(scale: int, shift: int, mask: bool) -> str:
    """Each lane writes the element of `o` at idx[i] * scale, or at the half of it."""
    number = "arith.shrsi %v, %k : tensor<8xi32>" if shift else "arith.muli %v, %k : tensor<8xi32>"
    return f"""
tt.func public @k(%idx: !tt.ptr<i32>, %o: !tt.ptr<f32>) {{
  %p = tt.get_program_id x : i32
  %eight = arith.constant {4 if mask else 8} : i32
  %row = arith.muli %p, %eight : i32
  %r = tt.splat %row : i32 -> tensor<8xi32>
  %i = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %at = arith.addi %r, %i : tensor<8xi32>
  %is = tt.splat %idx : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %ip = tt.addptr %is, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %ip : tensor<8x!tt.ptr<i32>>
  %k = arith.constant dense<{shift or scale}> : tensor<8xi32>
  %where = {number}
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %q = tt.addptr %os, %where : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %w = arith.sitofp %at : tensor<8xi32> to tensor<8xf32>
  tt.store %q, %w : tensor<8x!tt.ptr<f32>>
  tt.return
}}
"""


def filled(how: str, size: int, high: int, rng: np.random.Generator) -> np.ndarray | None:
    """An array of numbers from 0 to less than `high` that has an order; None if there is none."""
    if how == "sorted":
        return np.sort(rng.integers(0, high, size, np.int32)) if high or not size else None
    return rng.permutation(high)[:size].astype(np.int32) if high >= size else None


def broken(text: str, how: str, extent: str, runs: int) -> tuple[bool, int]:
    """Whether bounds and races are proven of a kernel, and how many of some launches break that in the sanitizer."""
    kernel = jn.kernel.from_ttir(text)
    # idx has `extent` elements; o has as many as m says.
    proof = kernel.prove([f"{how}(idx[:])", "0 <= idx[:] < m"], {"idx": extent, "o": "2 * m"}, "n")
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(runs):
        n, m = int(rng.integers(1, 4)), int(rng.integers(1, 30))
        array = filled(how, eval(extent, {"n": n}), m, rng)
        if array is not None:
            report = kernel.sanitize(n, array, np.zeros(2 * m, np.float32))
            found += any(each.kind in ("out-of-bounds", "race", "lane-race") for each in report.findings)
    return proof.verdict("bounds") in PROVED and proof.verdict("races") in PROVED, found


RIGHT = {
    "rows": (rows(0, 1, 1, "slt", True), "sorted", "n + 1"),
    "rows without a look at their order": (
        rows(0, 1, 1, "slt", False).replace("sle, %bs, %as", "sge, %as, %as"), "sorted", "n + 1",
    ),
    "every second row": (rows(0, 1, 2, "slt", True), "sorted", "2 * n"),
    "each element": (single(1, 0, False), "distinct", "8 * n"),
    "each second element": (single(2, 0, False), "distinct", "8 * n"),
}
WRONG = {
    "rows that end an element late": (rows(0, 1, 1, "sle", True), "sorted", "n + 1"),
    "rows that begin one row early": (rows(0, 2, 1, "slt", True), "sorted", "n + 2"),
    "rows that are not sorted": (rows(0, 1, 1, "slt", True), "distinct", "n + 1"),
    "one row for all": (rows(0, 1, 0, "slt", True), "sorted", "n + 1"),
    "the array is too short": (rows(0, 1, 1, "slt", True), "sorted", "n"),
    "halves of numbers": (single(1, 1, False), "distinct", "8 * n"),
    "elements that are sorted": (single(1, 0, False), "sorted", "8 * n"),
    "elements that two programs read": (single(1, 0, True), "distinct", "4 * n + 4"),
    "none": (single(0, 0, False), "distinct", "8 * n"),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", RIGHT)
def test_what_an_order_proves_holds_in_the_sanitizer(name: str) -> None:
    assert broken(*RIGHT[name], runs=25) == (True, 0)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", WRONG)
def test_what_an_order_does_not_say_is_not_proven(name: str) -> None:
    proven, faults = broken(*WRONG[name], runs=25)
    assert not proven
    assert faults


def test_no_launch_is_made_of_equal_elements_that_are_to_be_distinct() -> None:
    """The lanes are at Gray codes of distinct numbers, so none meet. An array of a descriptor needs no extent."""
    kernel = jn.kernel.from_ttir("""tt.func public @k(%d: !tt.tensordesc<tensor<8xi32>>, %o: !tt.ptr<i32>) {
  %z = arith.constant 0 : i32
  %one = arith.constant dense<1> : tensor<8xi32>
  %seven = arith.constant dense<7> : tensor<8xi32>
  %v = tt.descriptor_load %d[%z] : !tt.tensordesc<tensor<8xi32>> -> tensor<8xi32>
  %half = arith.shrsi %v, %one : tensor<8xi32>
  %code = arith.xori %half, %v : tensor<8xi32>
  %g = arith.andi %code, %seven : tensor<8xi32>
  %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %os = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %at = tt.addptr %os, %g : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %at, %i : tensor<8x!tt.ptr<i32>>
  tt.return
}""")
    assume = ["0 <= d[:] < 8", "d.stride.0 == 1", "d.shape.0 == 8"]
    for extents in ({"o": 8}, {"o": 8, "d": 8}):
        assert kernel.prove([*assume, "distinct(d[:])"], extents, 1).verdict("races") == "unknown"
        assert kernel.prove(assume, extents, 1).verdict("races") == "refuted"


@pytest.mark.slow
def test_what_is_proven_of_random_rows_holds_in_the_sanitizer() -> None:
    rng = random.Random(3)
    proven = 0
    for _ in range(120):
        text = rows(rng.randrange(3), rng.randrange(3), rng.randrange(4), rng.choice(["slt", "sle", "sgt"]), rng.random() < 0.7)
        how = rng.choice(["sorted", "sorted", "distinct"])
        its, faults = broken(text, how, f"{rng.randrange(1, 4)} * n + {rng.randrange(4)}", runs=12)
        proven += its
        assert not its or not faults, (text, how)
    assert proven >= 5
