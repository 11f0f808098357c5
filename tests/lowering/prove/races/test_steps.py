"""Programs that are mapped to tiles by quotients and remainders of sizes are shown to be apart, and only where they are."""

from __future__ import annotations

import random
from collections import Counter

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.races import steps

from ....support.proving.makers.tile_maps import TileMap, tile_map
from ....support.tiers import both_tiers

_SHOWN = ("proven", "proven under")


def grouped(group: int, rows: int = 16, columns: int = 16, *, size: str = "min", rest: str = "remsi", first: str = "") -> str:
    """The tutorial's product with groups of rows, which stores its tile.

    size: what decides the rows of a group. rest: which row of a group is taken. first: the first row of a group.
    """
    first = first or "arith.muli %number, %g : i32"
    return f"""tt.func public @grouped(%c: !tt.ptr<f32>, %M: i32, %N: i32) {{
  %p = tt.get_program_id x : i32
  %g = arith.constant {group} : i32
  %bm = arith.constant {rows} : i32
  %bn = arith.constant {columns} : i32
  %nm = arith.ceildivsi %M, %bm : i32
  %nn = arith.ceildivsi %N, %bn : i32
  %width = arith.muli %nn, %g : i32
  %number = arith.divsi %p, %width : i32
  %first = {first}
  %left = arith.subi %nm, %first : i32
  %size = arith.{size}si %left, %g : i32
  %inside = arith.remsi %p, %width : i32
  %in = arith.{rest} %inside, %size : i32
  %row = arith.addi %first, %in : i32
  %column = arith.divsi %inside, %size : i32
  %rm = tt.make_range {{start = 0 : i32, end = {rows} : i32}} : tensor<{rows}xi32>
  %rn = tt.make_range {{start = 0 : i32, end = {columns} : i32}} : tensor<{columns}xi32>
  %am = arith.muli %row, %bm : i32
  %an = arith.muli %column, %bn : i32
  %sm = tt.splat %am : i32 -> tensor<{rows}xi32>
  %sn = tt.splat %an : i32 -> tensor<{columns}xi32>
  %om = arith.addi %sm, %rm : tensor<{rows}xi32>
  %on = arith.addi %sn, %rn : tensor<{columns}xi32>
  %em = tt.expand_dims %om {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
  %en = tt.expand_dims %on {{axis = 0 : i32}} : tensor<{columns}xi32> -> tensor<1x{columns}xi32>
  %Ms = tt.splat %M : i32 -> tensor<{rows}x1xi32>
  %Ns = tt.splat %N : i32 -> tensor<1x{columns}xi32>
  %Nr = tt.splat %N : i32 -> tensor<{rows}x1xi32>
  %m0 = arith.cmpi slt, %em, %Ms : tensor<{rows}x1xi32>
  %m1 = arith.cmpi slt, %en, %Ns : tensor<1x{columns}xi32>
  %b0 = tt.broadcast %m0 : tensor<{rows}x1xi1> -> tensor<{rows}x{columns}xi1>
  %b1 = tt.broadcast %m1 : tensor<1x{columns}xi1> -> tensor<{rows}x{columns}xi1>
  %mask = arith.andi %b0, %b1 : tensor<{rows}x{columns}xi1>
  %ro = arith.muli %em, %Nr : tensor<{rows}x1xi32>
  %rb = tt.broadcast %ro : tensor<{rows}x1xi32> -> tensor<{rows}x{columns}xi32>
  %cb = tt.broadcast %en : tensor<1x{columns}xi32> -> tensor<{rows}x{columns}xi32>
  %at = arith.addi %rb, %cb : tensor<{rows}x{columns}xi32>
  %cs = tt.splat %c : !tt.ptr<f32> -> tensor<{rows}x{columns}x!tt.ptr<f32>>
  %cp = tt.addptr %cs, %at : tensor<{rows}x{columns}x!tt.ptr<f32>>, tensor<{rows}x{columns}xi32>
  %pf = arith.sitofp %p : i32 to f32
  %v = tt.splat %pf : f32 -> tensor<{rows}x{columns}xf32>
  tt.store %cp, %v, %mask : tensor<{rows}x{columns}x!tt.ptr<f32>>
  tt.return
}}"""


def proof_of(text: str, assume: list[str], rows: int = 16, columns: int = 16) -> jn.kernel.Proof:
    programs = f"cdiv(M, {rows}) * cdiv(N, {columns})"
    return jn.kernel.from_ttir(text).prove(assume, {"c": "M * N"}, programs)


@pytest.mark.slow
@pytest.mark.parametrize("group", [2, 8])
def test_products_with_groups_of_rows_are_proven(group: int) -> None:
    """For all sizes, below which nothing wraps: the last group has fewer rows than others."""
    found = proof_of(grouped(group), ["M >= 1", "N >= 1"])
    assert {found.verdict(each) for each in found.properties} <= {*_SHOWN}, found
    assert not found.fixed
    bounded = proof_of(grouped(group), ["M >= 1", "N >= 1", "M <= 4096", "N <= 4096"])
    assert {bounded.verdict(each) for each in bounded.properties} == {"proven"}, bounded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (grouped(2, 2, 2, size="max"), (9, 5)),
        (grouped(2, 2, 2, first="arith.addi %number, %g : i32"), (9, 5)),
        (grouped(2, 2, 2, rest="divsi"), (9, 5)),
    ],
    ids=["rows of the last group", "first row", "row of a group"],
)  # fmt: skip
def test_groups_that_are_nearly_right_are_not(text: str, sizes: tuple[int, int]) -> None:
    found = proof_of(text, ["M >= 1", "N >= 1", "M <= 64", "N <= 64"], 2, 2)
    assert not {found.verdict(each) for each in ("bounds", "races")} <= {*_SHOWN}, found
    rows, columns = sizes
    out = np.zeros(rows * columns, np.float32)
    grid = -(-rows // 2) * -(-columns // 2)
    report = jn.kernel.from_ttir(text).sanitize(grid, out, rows, columns)
    assert report.findings


def check(made: TileMap, sizes: range) -> str:
    """The verdict on races of a map, held against all small launches."""
    text = made.text()
    found = jn.kernel.from_ttir(text).prove(made.assume, {"x": "e"}, made.programs, ("bounds", "races"))
    verdict = found.verdict("races")
    condition = [text for each in found.accesses for text in each.condition]
    for numbers in made.launches(sizes):
        if verdict == "proven" or (verdict == "proven under" and not condition):
            clash = made.clash(numbers)
            assert clash is None, f"{clash} at {numbers}\n{text}\n{found}"
        elif verdict == "proven under":
            names = {**numbers, "cdiv": lambda x, y: -(-x // y)}
            names["grid_x"] = eval(made.programs, names)
            if all(eval(text, names) for text in condition):
                clash = made.clash(numbers)
                assert clash is None, f"{clash} at {numbers}\n{text}\n{found}"
    return verdict


QUICK = (0, 1, 2, 3, 5, 8, 9, 14)
"""Maps of all verdicts, of which none takes long to decide."""


@pytest.mark.slow
@both_tiers
def test_maps_of_programs_are_right_where_they_are_proven(in_full: bool) -> None:
    found: Counter[str] = Counter()
    for seed in range(600) if in_full else QUICK:
        found[check(tile_map(random.Random(f"tiles {seed}")), range(-2, 7))] += 1
    print(found)
    assert found["proven"] + found["proven under"] >= sum(found.values()) // 10
    assert found["unknown"] + found["refuted"] >= sum(found.values()) // 10


@both_tiers
def test_maps_notice_numbers_that_are_taken_for_the_same(in_full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If each number counts as the same in both programs, programs that clash are proven to be apart."""
    monkeypatch.setattr(steps, "_is_same", lambda *_: True)
    wrong = 0
    for seed in range(200 if in_full else 12):
        try:
            check(tile_map(random.Random(f"tiles {seed}")), range(-2, 7))
        except AssertionError:
            wrong += 1
            if not in_full:
                break
    assert wrong > (20 if in_full else 0)
