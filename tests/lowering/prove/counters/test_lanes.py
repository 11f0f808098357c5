"""Sums of conditions that are other ones in each lane: what one lane is below bounds no sum, which all lanes have."""

from __future__ import annotations

import itertools
import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from ....support.proving.launches import PROVED
from ....support.tiers import both_tiers

CONDITIONS = {
    "lane + lane // 2 < n": "slt, %more, %ns",
    "lane < table": "slt, %lanes, %table",
    "lane < loaded": "slt, %lanes, %v",
    "lane < n": "slt, %lanes, %ns",
    "lane < n - lane // 2": "slt, %lanes, %fewer",
    "loaded > 0": "sgt, %v, %zeros",
    "lane >= n": "sge, %lanes, %ns",
}
PLACES = {
    "sum": "%sums",
    "sum + 2p": "arith.addi %sums, %row : tensor<8xi32>",
    "sum + lane": "arith.addi %sums, %lanes : tensor<8xi32>",
    "old": "%olds",
    "old + lane": "arith.addi %olds, %lanes : tensor<8xi32>",
    "lane": "%lanes",
}
MASKS = {
    "lane >= 6": "sge, %lanes, %sixes",
    "loaded == 1": "eq, %v, %ones",
    "table == 1": "eq, %table, %ones",
    "lane < sum": "slt, %lanes, %sums",
    "lane == sum": "eq, %lanes, %sums",
    "all": "sge, %lanes, %zeros",
}
EXTENTS = ("2", "n", "8 * g", "2 * g + 8", "max(n - 1, 1)")


def summing(condition: str, place: str, mask: str) -> Any:
    """Programs add up how many lanes fulfil a condition, in a counter, and store where the sum, or what was counted, says."""
    chosen = PLACES[place]
    at = f"%place = {chosen}" if chosen.startswith("arith") else ""
    return jn.kernel.from_ttir(f"""
tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %count: !tt.ptr<i32>, %n: i32) {{
  %true = arith.constant true
  %zeros = arith.constant dense<0> : tensor<8xi32>
  %ones = arith.constant dense<1> : tensor<8xi32>
  %twos = arith.constant dense<2> : tensor<8xi32>
  %sixes = arith.constant dense<6> : tensor<8xi32>
  %eights = arith.constant dense<8> : tensor<8xi32>
  %table = arith.constant dense<[1, 2, 3, 4, 5, 6, 7, 8]> : tensor<8xi32>
  %p = tt.get_program_id x : i32
  %ps = tt.splat %p : i32 -> tensor<8xi32>
  %ns = tt.splat %n : i32 -> tensor<8xi32>
  %lanes = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %first = arith.muli %ps, %eights : tensor<8xi32>
  %row = arith.muli %ps, %twos : tensor<8xi32>
  %i = arith.addi %first, %lanes : tensor<8xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %xp = tt.addptr %xs, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %xp : tensor<8x!tt.ptr<i32>>
  %half = arith.divsi %lanes, %twos : tensor<8xi32>
  %more = arith.addi %lanes, %half : tensor<8xi32>
  %fewer = arith.subi %ns, %half : tensor<8xi32>
  %counts = arith.cmpi {CONDITIONS[condition]} : tensor<8xi32>
  %keep = arith.extui %counts : tensor<8xi1> to tensor<8xi32>
  %sum = "tt.reduce"(%keep) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: i32, %b: i32):
      %s = arith.addi %a, %b : i32
      tt.reduce.return %s : i32
  }}) : (tensor<8xi32>) -> i32
  %old = tt.atomic_rmw add, acq_rel, gpu, %count, %sum, %true : (!tt.ptr<i32>, i32, i1) -> i32
  %sums = tt.splat %sum : i32 -> tensor<8xi32>
  %olds = tt.splat %old : i32 -> tensor<8xi32>
  {at}
  %mask = arith.cmpi {MASKS[mask]} : tensor<8xi32>
  %os = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %op = tt.addptr %os, {"%place" if at else chosen} : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %op, %ps, %mask : tensor<8x!tt.ptr<i32>>
  tt.return
}}
""")


def verdicts(kernel: Any, extent: str) -> dict[str, str]:
    assume = ["at_launch(count[:]) == 0", "1 <= n <= 12", "number(g)", "1 <= g <= 100"]
    proof = kernel.prove(assume, {"x": "8 * g", "o": extent, "count": 1}, "g", ("bounds", "races"))
    return {prop: proof.verdict(prop) for prop in ("bounds", "races")}


def findings(kernel: Any, extent: str, n: int, g: int, x: np.ndarray) -> set[str]:
    size = int(eval(extent, {"max": max}, {"n": n, "g": g}))
    report = kernel.sanitize(g, x, np.zeros(size, np.int32), np.zeros(1, np.int32), n)
    return {each.kind for each in report.findings}


RISING = np.tile(np.arange(1, 9, dtype=np.int32), 3)
STEEP = np.array([1, 2, 3, 4, 1, 1, 1, 1, *[0] * 9, 1, *[0] * 6], np.int32)
SIGNED = np.array([-1, 0, 3, 4, 0, 0, 0, 0] * 3, np.int32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("condition", "place", "mask", "extent", "x", "broken"),
    [
        ("lane + lane // 2 < n", "sum", "lane >= 6", "n", RISING, "bounds"),
        ("lane < table", "sum", "table == 1", "2", RISING, "bounds"),
        ("lane < loaded", "sum", "loaded == 1", "2", RISING, "bounds"),
        ("lane < loaded", "sum + 2p", "loaded == 1", "2 * g + 8", STEEP, "races"),
        ("lane < loaded", "sum", "lane < sum", "8 * g", SIGNED, "races"),
    ],
)
def test_what_one_lane_is_below_bounds_no_sum(condition: str, place: str, mask: str, extent: str, x: Any, broken: str) -> None:
    kernel = summing(condition, place, mask)
    assert verdicts(kernel, extent)[broken] not in PROVED
    kinds = set().union(*[findings(kernel, extent, n, 3, x) for n in (1, 3, 5)])
    assert kinds & ({"out-of-bounds"} if broken == "bounds" else {"race", "lane-race"})


def test_what_all_lanes_are_below_bounds_it() -> None:
    assert verdicts(summing("lane < n", "sum + lane", "lane == sum"), "2 * n + 8")["bounds"] in PROVED
    assert verdicts(summing("lane < n", "old + lane", "lane < sum"), "8 * g") == {"bounds": "proven", "races": "proven"}


@pytest.mark.slow
@both_tiers
def test_what_is_proven_of_random_conditions_holds_in_the_sanitizer(in_full: bool) -> None:
    rng = random.Random("lanes")
    every = list(itertools.product(CONDITIONS, PLACES, MASKS, EXTENTS))
    proven = 0
    for condition, place, mask, extent in rng.sample(every, 400 if in_full else 10):
        kernel = summing(condition, place, mask)
        found = verdicts(kernel, extent)
        held = [prop for prop, verdict in found.items() if verdict in PROVED]
        proven += len(held)
        for n, g in itertools.product((1, 2, 3, 5, 8, 12), (1, 3)) if held else ():
            for x in (RISING, STEEP, SIGNED, np.array(rng.choices(range(-1, 9), k=24), np.int32)):
                kinds = findings(kernel, extent, n, g, x)
                assert "bounds" not in held or "out-of-bounds" not in kinds, (condition, place, mask, extent, n, g, x)
                assert "races" not in held or not kinds & {"race", "lane-race"}, (condition, place, mask, extent, n, g, x)
    assert proven
