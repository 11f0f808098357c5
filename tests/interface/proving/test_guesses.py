"""What a guess says of itself: extents that may be fitted to a fault, sizes that it fixes, and what it assumes of elements."""

from __future__ import annotations

import json

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.specify import candidates
from joinery.lowering.prove.specify.remarks import doubts, fixed
from joinery.lowering.prove.specify.specification import Specification

_TILE = """tt.func public @k(%y: !tt.ptr<f32>, %n: i32) {
  %block = arith.constant 128 : i32
  %program = tt.get_program_id x : i32
  %first = arith.muli %program, %block : i32
  %lanes = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %start = tt.splat %first : i32 -> tensor<128xi32>
  %i = arith.addi %start, %lanes : tensor<128xi32>
  %ns = tt.splat %n : i32 -> tensor<128xi32>
  %inside = arith.cmpi MASK, %i, %ns : tensor<128xi32>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %at = tt.addptr %ys, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %v = arith.constant dense<1.0> : tensor<128xf32>
  tt.store %at, %v, %inside : tensor<128x!tt.ptr<f32>>
  tt.return
}"""

_SCATTER = """tt.func public @k(%y: !tt.ptr<f32>, %idx: !tt.ptr<i32>, %n: i32, %cols: i32) {
  %r = tt.get_program_id x : i32
  %a = tt.addptr %idx, %r : !tt.ptr<i32>, i32
  %to = tt.load %a : !tt.ptr<i32>
  %row = arith.muli %to, %cols : i32
  %lanes = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %cs = tt.splat %cols : i32 -> tensor<32xi32>
  %ok = arith.cmpi slt, %lanes, %cs : tensor<32xi32>
  %rows = tt.splat %row : i32 -> tensor<32xi32>
  %i = arith.addi %rows, %lanes : tensor<32xi32>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %at = tt.addptr %ys, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  %rs = tt.splat %r : i32 -> tensor<32xi32>
  %v = arith.sitofp %rs : tensor<32xi32> to tensor<32xf32>
  tt.store %at, %v, %ok : tensor<32x!tt.ptr<f32>>
  tt.return
}"""
_FURTHER = "%j = arith.addi %i, %ns : tensor<128xi32>\n  %at = tt.addptr %ys, %j"
_SHOWN = ("proven", "proven under")


def test_an_extent_that_is_fitted_to_a_fault_is_marked_wherever_the_guess_is_shown() -> None:
    """A mask of `<=` stays inside 128 elements for n = 127, so n + 1 is what is guessed."""
    proof = jn.kernel.from_ttir(_TILE.replace("MASK", "sle")).prove.like(1, np.zeros(128, np.float32), 127)
    assert dict(proof.specification.extents) == {"y": "n + 1"}
    (doubt,) = proof.doubts
    assert doubt.startswith("extent of y: n + 1: ")
    assert "128 elements" in doubt
    assert f"look at this guess: {doubt}" in str(proof)
    assert json.loads(proof.as_json())["doubts"] == [doubt]
    assert f"look at this guess: {doubt.replace(chr(39), '&#x27;')}" in proof.as_html()


def test_an_extent_that_is_a_size_has_no_mark() -> None:
    made = jn.kernel.from_ttir(_TILE.replace("MASK", "slt"))
    for elements in (1000, 1010):  # a buffer that is a little longer than what is used of it
        proof = made.prove.like(8, np.zeros(elements, np.float32), 1000)
        assert dict(proof.specification.extents) == {"y": "n"}
        assert proof.doubts == ()
        assert "look at" not in str(proof) + proof.as_html()


def test_an_extent_of_whole_blocks_is_marked_where_a_mask_is_missing() -> None:
    text = _TILE.replace("MASK", "slt").replace(", %inside :", " :")
    proof = jn.kernel.from_ttir(text).prove.like(8, np.zeros(1024, np.float32), 1024)
    (doubt,) = proof.doubts
    assert doubt.startswith("extent of y: 128 * grid_x: so many elements for each program, and may be fitted to a fault")
    assert "n had that value, too" in doubt


@pytest.mark.parametrize(
    ("extent", "is_natural"),
    [
        ("n", True), ("4 * n", True), ("n * m * k", True), ("(n - 1) * m + k", True), ("n**2", True), ("n + 1", False),
        ("(n - 1) * m + 3", False), ("n * m + 64", False), ("128", False), ("128 * cdiv(n, 128)", False), ("n * grid_x", False),
        ("max(n, 5)", False), ("n - 1", False), ("(n - 2) * m + k", False), ("9 * n * m", True), ("128 * n", True),
        ("2 * n", False), ("n * 5", False), ("(2 * n - 1) * m + k", False), ("(n - 1) * m + 4 * k", True), ("n * 1", True),
    ],
)  # fmt: skip
def test_which_extents_are_natural(extent: str, is_natural: bool) -> None:
    specification = Specification.of((), {"x": extent}, "n")
    found = doubts(specification, {"x": 50}, {"n": 3, "m": 7, "k": 2}, {}, (3, 4, 32), (0,))
    assert (found == ()) == is_natural, found


@pytest.mark.parametrize(
    ("extent", "is_natural"),
    [
        ("n * grid_x", True), ("grid_x", True), ("(grid_x - 1) * m + k", True), ("32 * grid_x", False), ("grid_y", False),
        ("grid_x + 1", False), ("(grid_x - 1) * m + 3", False), ("grid_x - 1", False), ("5 * grid_x", False),
        ("n * grid_z", False), ("grid_x * m + 32", False), ("32 * n * grid_x", False), ("n * (32 * grid_x)", False),
        ("1 * grid_x", True), ("(grid_x - 1) * m + 4 * k", True), ("(grid_x - 1) * (4 * m) + k", False),
    ],
)  # fmt: skip
def test_numbers_of_programs_are_sizes_where_the_grid_has_their_names(extent: str, is_natural: bool) -> None:
    specification = Specification.of((), {"x": extent}, ("grid_x", "n", "cdiv(n, 32)"))
    found = doubts(specification, {"x": 50}, {"n": 3, "m": 7, "k": 2}, {}, (3, 4, 32), (0,))
    assert (found == ()) == is_natural, found


def test_a_guess_of_rows_with_strides_has_no_mark() -> None:
    """How many rows there are no number of the kernel says: it is the number of programs."""
    rows = jn.kernel.from_triton_c("""void rows(float *y, float *x, int sx, int sy, int n) {
  int r = get_program_id(0); int j[64] = 0 ... 64;
  *?(j < n)(y + r * sy + j) = *?(j < n)(x + r * sx + j);
}""")
    proof = rows.prove.like(6, np.zeros(6 * 50, np.float32), np.zeros(6 * 40, np.float32), 40, 50, 37)
    assert proof.specification.grid == ("grid_x", "1", "1")
    assert all("grid_x" in extent for _, extent in proof.specification.extents)
    assert proof.doubts == ()


@pytest.mark.parametrize(
    ("assume", "extents", "grid", "found"),
    [
        (["n == 10"], {"x": "n"}, "cdiv(n, 4)", ("n == 10", "3 programs along x", "x has 10 elements")),
        (["10 <= n <= 10"], {"x": "m"}, "m", ("n == 10",)), (["n >= 1"], {"x": "n"}, 18, ("18 programs along x",)),
        (["n == 2 * m and m == 4"], {"x": "k"}, ("k", 3), ("m == 4", "n == 8", "3 programs along y")),
        (["n >= 1", "n <= 9"], {"x": "n"}, 1, ()), (["n == 2 or n == 3"], {"x": "n"}, "n", ()),
        ([], {"x": 7}, "n", ("x has 7 elements",)),
    ],
)  # fmt: skip
def test_which_sizes_a_specification_fixes(
    assume: list[str], extents: dict[str, str], grid: str, found: tuple[str, ...]
) -> None:
    assert fixed(Specification.of(assume, extents, grid)) == found


_RACY = """tt.func public @k(%y: !tt.ptr<i32>, %n: i32) {
  %block = arith.constant 16 : i32
  %p = tt.get_program_id x : i32
  %first = arith.muli %p, %block : i32
  %some = arith.cmpi slt, %first, %n : i32
  %l = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %inside = arith.cmpi slt, %l, %ns : tensor<16xi32>
  %somes = tt.splat %some : i1 -> tensor<16xi1>
  %keep = arith.andi %inside, %somes : tensor<16xi1>
  %v = tt.splat %p : i32 -> tensor<16xi32>
  %ys = tt.splat %y : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %at = tt.addptr %ys, %l : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  tt.store %at, %v, %keep : tensor<16x!tt.ptr<i32>>
  tt.return
}"""


def test_a_guess_that_leaves_one_program_says_so_wherever_it_is_shown() -> None:
    """Programs meet in all launches but those of one: `cdiv(n, 16)` with `n <= 16` was guessed, "for all sizes"."""
    made = jn.kernel.from_ttir(_RACY)
    proof = made.prove.like(1, np.zeros(10, np.int32), 10)
    assert proof.verdict("races") in _SHOWN
    assert "1 program along x" in proof.fixed
    assert str(proof).startswith("@k, not for all sizes: the specification fixes 1 program along x\n")
    assert "1 program along x" in json.loads(proof.as_json())["fixed"]
    assert "1 program along x</code>: nothing is proven of other values" in proof.as_html()
    assert "all sizes" not in proof.as_html()
    (doubt,) = proof.doubts
    assert doubt == "grid, axis x: 1: as in the launch; nothing is said of several programs"
    assert made.prove.like(3, np.zeros(40, np.int32), 40).verdict("races") == "refuted"


def test_a_written_specification_that_leaves_one_program_says_so() -> None:
    proof = jn.kernel.from_ttir(_RACY).prove(["1 <= n <= 16"], {"y": "n"}, "cdiv(n, 16)")
    assert proof.ok
    assert proof.fixed == ("1 program along x",)
    assert "not for all sizes" in str(proof)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 16])
def test_a_guess_leaves_the_number_of_programs_open_where_as_much_is_proven(n: int) -> None:
    """Programs beyond the rows store to the last one. `cdiv(n, 16)` with `n <= 16`, one program, was guessed."""
    made = jn.kernel.from_ttir("""tt.func public @k(%y: !tt.ptr<i32>, %n: i32, %rows: i32) {
  %p = tt.get_program_id x : i32
  %one = arith.constant 1 : i32
  %last = arith.subi %rows, %one : i32
  %row = arith.minsi %p, %last : i32
  %f = arith.muli %row, %n : i32
  %l = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %in = arith.cmpi slt, %l, %ns : tensor<16xi32>
  %fs = tt.splat %f : i32 -> tensor<16xi32>
  %i = arith.addi %fs, %l : tensor<16xi32>
  %ys = tt.splat %y : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %at = tt.addptr %ys, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  tt.store %at, %i, %in : tensor<16x!tt.ptr<i32>>
  tt.return
}""")
    proof = made.prove.like(1, np.zeros(n, np.int32), n, 1)
    assert proof.verdict("bounds") in _SHOWN
    assert proof.verdict("races") in _SHOWN
    assert proof.fixed == proof.doubts == ()
    assert not any("<=" in each for each in proof.specification.assume)


def test_a_kept_proof_says_what_is_fixed(tmp_path: object) -> None:
    arguments = (["1 <= n <= 16"], {"y": "n"}, "cdiv(n, 16)")
    for is_recorded in (False, True):
        proof = jn.kernel.from_ttir(_RACY).prove(*arguments, cache=str(tmp_path))
        assert (proof.recorded, proof.fixed) == (is_recorded, ("1 program along x",))
    assert jn.kernel.from_ttir(_RACY).prove.verify(proof.as_json()).fixed == proof.fixed


@pytest.mark.parametrize(
    ("assume", "doubt"),
    [
        ("0 <= idx[:] < n", "the launch's idx has 2 to 5, and no launch checks it"),
        ("0 <= idx[:] <= 5 and n >= 1", "the launch's idx has 2 to 5, and no launch checks it"),
        ("distinct(idx[:])", "it is so in the launch, and no launch checks it"), ("n >= 1", ""),
    ],
)  # fmt: skip
def test_ranges_of_elements_are_marked_as_what_the_launch_showed(assume: str, doubt: str) -> None:
    found = doubts(Specification.of(assume, {}, "n"), {}, {"n": 7}, {"idx": (2, 5)}, (), (0,))
    assert found == ((f"assume: {assume}: {doubt}",) if doubt else ())


def test_a_range_that_a_guess_assumes_of_elements_is_marked() -> None:
    text = _SCATTER.replace("tt.store %at, %v, %ok", "%w = tt.load %at, %ok").replace("%v = ", "%v_ = ")
    proof = jn.kernel.from_ttir(text).prove.like(13, np.zeros(13 * 29, np.float32), np.arange(13, dtype=np.int32), 13, 29)
    (doubt,) = proof.doubts
    assert doubt.startswith("assume: 0 <= idx[:] < n: the launch's idx has 0 to 12")
    assert f"look at this guess: {doubt}" in str(proof)


@pytest.mark.parametrize(("grid", "axes", "is_marked"), [
    ("1", (0,), True), ("1", (), False), ("n", (0,), False), ("2", (0,), False),
    (("n", "1"), (0,), False), (("n", "1"), (1,), True),
])  # fmt: skip
def test_one_program_is_marked_where_programs_ask_which_they_are(
    grid: str | tuple[str, ...], axes: tuple[int, ...], is_marked: bool
) -> None:
    assert bool(doubts(Specification.of((), {}, grid), {}, {"n": 7}, {}, (), axes)) == is_marked


def test_a_factor_that_the_kernel_does_not_have_is_marked() -> None:
    """The kernel stores where its mask ends, too, n elements further on: a fault, or two halves, which nobody can tell."""
    text = _TILE.replace("MASK", "slt").replace("%at = tt.addptr %ys, %i", _FURTHER)
    (doubt,) = jn.kernel.from_ttir(text).prove.like(8, np.zeros(2000, np.float32), 1000).doubts
    assert doubt.startswith("extent of y: 2 * n: the kernel has no such number, and may be fitted to a fault")
    two = text.replace("%j = ", "%t = arith.constant dense<2> : tensor<128xi32>\n  %j = ")
    assert jn.kernel.from_ttir(two).prove.like(8, np.zeros(2000, np.float32), 1000).doubts == ()


def test_no_heading_says_all_sizes_where_some_are_fixed() -> None:
    made = jn.kernel.from_ttir(_TILE.replace("MASK", "slt"))
    proof = made.prove(["n == 2304"], {"y": "n"}, 18)
    head = str(proof).split("\n")[0]
    assert head == "@k, not for all sizes: the specification fixes n == 2304, 18 programs along x, y has 2304 elements"
    assert json.loads(proof.as_json())["fixed"] == list(proof.fixed)
    page = proof.as_html()
    assert "It fixes <code>n == 2304, 18 programs along x, y has 2304 elements</code>" in page
    assert "all sizes" not in page
    proof = made.prove(["n >= 1"], {"y": "n"}, "cdiv(n, 128)")
    assert str(proof).startswith("@k\n")
    assert "all sizes" in proof.as_html()
    assert "It fixes" not in proof.as_html()


@pytest.mark.slow
def test_a_scatter_by_a_permutation_is_guessed_with_distinct_indices() -> None:
    """It was refuted: a launch with equal indices, which the specification allowed, races."""
    made = jn.kernel.from_ttir(_SCATTER)
    n, cols = 13, 29
    order = np.random.default_rng(1).permutation(n).astype(np.int32)
    proof = made.prove.like(n, np.zeros(n * cols, np.float32), order, n, cols, properties=("bounds", "races"))
    assert "distinct(idx[:])" in proof.specification.assume
    assert proof.verdict("races") in _SHOWN, proof
    assert [each for each in proof.doubts if each.startswith("assume: distinct(idx[:])")]
    assert "distinct(idx[:])" in proof.trusted
    order[3] = order[5]
    proof = made.prove.like(n, np.zeros(n * cols, np.float32), order, n, cols, properties=("bounds", "races"))
    assert "distinct(idx[:])" not in proof.specification.assume
    assert proof.verdict("races") == "refuted", proof


def test_nothing_is_assumed_of_distinct_elements_where_it_proves_nothing() -> None:
    """A gather needs no order of its indices, and an array that is written none of its elements."""
    text = _SCATTER.replace("tt.store %at, %v, %ok", "%w = tt.load %at, %ok").replace("%v = ", "%v_ = ")
    order = np.arange(13, dtype=np.int32)
    proof = jn.kernel.from_ttir(text).prove.like(13, np.zeros(13 * 29, np.float32), order, 13, 29)
    assert not any("distinct" in each for each in proof.specification.assume)


@pytest.mark.slow
def test_a_guess_of_distinct_elements_is_kept_for_launches_that_have_them_alone(tmp_path: object) -> None:
    made = jn.kernel.from_ttir(_SCATTER)
    order = np.arange(13, dtype=np.int32)
    for last, is_distinct in ((12, True), (0, False), (12, True)):
        order[12] = last
        order[0] = 12 - last
        order[1] = 1 if is_distinct else 12  # the same least and largest element
        proof = made.prove.like(
            13, np.zeros(13 * 29, np.float32), order, 13, 29, properties=("bounds",), cache=str(tmp_path)
        )
        assert ("distinct(idx[:])" in proof.specification.assume) == is_distinct


def test_a_stored_proof_of_a_guess_is_verified_with_what_was_said_of_the_guess() -> None:
    made = jn.kernel.from_ttir(_TILE.replace("MASK", "sle"))
    proof = made.prove.like(1, np.zeros(128, np.float32), 127, properties=("bounds",))
    assert made.prove.verify(proof.as_json()).ok
    for wrong in ("none", [3], None):
        data = json.loads(proof.as_json()) | {"doubts": wrong}
        with pytest.raises(jn.UserError, match="doubts is no list of texts"):
            made.prove.verify(json.dumps(data))
    data = json.loads(proof.as_json()) | {"fixed": ["n == 1"]}
    with pytest.raises(jn.UserError, match="fixed"):
        made.prove.verify(json.dumps(data))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["grid_x", "grid_y", "grid_x_"])
def test_a_parameter_may_have_the_name_of_a_number_of_programs(name: str) -> None:
    kernel = jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i32>, %{name}: i32) {{
  %p = tt.get_program_id x : i32
  %f = arith.muli %p, %{name} : i32
  %a = tt.addptr %x, %f : !tt.ptr<i32>, i32
  tt.store %a, %p : !tt.ptr<i32>
  tt.return
}}
""")
    for grid, size, number in ((2, 18, 9), (3, 15, 5), (3, 9, 3)):
        proof = kernel.prove.like(grid, np.zeros(size, np.int32), number)
        assert proof.verdict("bounds") != "refuted"
        assert proof.specification == kernel.prove.specification(grid, np.zeros(size, np.int32), number)


# Arrays that are longer than they have to be, and grids that are made of sizes

_BY_SIZES = """tt.func public @k(%y: !tt.ptr<f32>, %n: i32, %k: i32) {
  %p = tt.get_program_id x : i32
  %first = arith.muli %p, %k : i32
  %next = arith.addi %first, %k : i32
  %end = arith.minsi %next, %n : i32
  %one = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  scf.for %i = %first to %end step %one : i32 {
    %at = tt.addptr %y, %i : !tt.ptr<f32>, i32
    tt.store %at, %zero : !tt.ptr<f32>
  }
  tt.return
}"""
_TILES = """tt.func public @k(%y: !tt.ptr<f32>, %M: i32, %N: i32) {
  %c16 = arith.constant 16 : i32
  %c15 = arith.constant 15 : i32
  %p = tt.get_program_id x : i32
  %up = arith.addi %M, %c15 : i32
  %tiles = arith.divsi %up, %c16 : i32
  %row = arith.remsi %p, %tiles : i32
  %col = arith.divsi %p, %tiles : i32
  %first = arith.muli %row, %c16 : i32
  %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %start = tt.splat %first : i32 -> tensor<16xi32>
  %i = arith.addi %start, %lanes : tensor<16xi32>
  %ms = tt.splat %M : i32 -> tensor<16xi32>
  %inside = arith.cmpi slt, %i, %ms : tensor<16xi32>
  %before = arith.muli %col, %M : i32
  %cs = tt.splat %before : i32 -> tensor<16xi32>
  %j = arith.addi %i, %cs : tensor<16xi32>
  %zero = arith.constant dense<0.0> : tensor<16xf32>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %at = tt.addptr %ys, %j : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  tt.store %at, %zero, %inside : tensor<16x!tt.ptr<f32>>
  tt.return
}"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("n", "elements"), [(50, 60), (50, 64), (50, 128), (300, 400), (300, 600), (300, 1000), (1000, 1 << 20)]
)
def test_an_array_may_be_longer_than_it_has_to_be(n: int, elements: int) -> None:
    """An extent is the least that an array has; a number that fits the launch would fix n, or the grid."""
    made = jn.kernel.from_ttir(_TILE.replace("MASK", "slt"))
    proof = made.prove.like(-(-n // 128), np.zeros(elements, np.float32), n)
    assert dict(proof.specification.extents) == {"y": "n"}
    assert proof.specification.grid == ("cdiv(n, 128)", "1", "1")
    assert proof.ok
    assert (proof.fixed, proof.doubts) == ((), ())


def test_an_array_of_whole_blocks_is_not_taken_for_a_longer_one_where_a_mask_is_missing() -> None:
    text = _TILE.replace("MASK", "slt").replace(", %inside :", " :")
    proof = jn.kernel.from_ttir(text).prove.like(3, np.zeros(500, np.float32), 300)
    assert dict(proof.specification.extents) != {"y": "n"}
    assert proof.doubts


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("n", "k", "elements"), [(100, 7, 100), (103, 8, 103), (100, 7, 130), (96, 8, 96)])
def test_a_grid_may_be_a_quotient_of_two_sizes(n: int, k: int, elements: int) -> None:
    proof = jn.kernel.from_ttir(_BY_SIZES).prove.like(-(-n // k), np.zeros(elements, np.float32), n, k)
    assert proof.specification.grid == ("cdiv(n, k)", "1", "1")
    assert dict(proof.specification.extents) == {"y": "n"}
    assert (proof.verdict("bounds"), proof.verdict("races"), proof.fixed) == ("proven", "proven", ())


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(45, 3), (40, 5), (33, 7)])
def test_a_constant_that_rounds_up_is_no_block(m: int, n: int) -> None:
    """Of 45 rows there are as many blocks of 15 as of 16."""
    proof = jn.kernel.from_ttir(_TILES).prove.like(n * -(-m // 16), np.zeros(m * n, np.float32), m, n)
    assert proof.specification.grid[0] in ("N * cdiv(M, 16)", "cdiv(M, 16) * N")
    assert {proof.verdict("bounds"), proof.verdict("races")} <= {*_SHOWN}


def test_an_index_may_be_the_first_of_a_block() -> None:
    """Rows of 16 that begin anywhere: the last one begins 16 before the end."""
    made = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<f32>, %at: !tt.ptr<i32>, %y: !tt.ptr<f32>, %n: i32) {
      %p = tt.get_program_id x : i32
      %c16 = arith.constant 16 : i32
      %a = tt.addptr %at, %p : !tt.ptr<i32>, i32
      %first = tt.load %a : !tt.ptr<i32>
      %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
      %from = tt.addptr %x, %first : !tt.ptr<f32>, i32
      %xs = tt.splat %from : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
      %xp = tt.addptr %xs, %lanes : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      %v = tt.load %xp : tensor<16x!tt.ptr<f32>>
      %own = arith.muli %p, %c16 : i32
      %to = tt.addptr %y, %own : !tt.ptr<f32>, i32
      %ys = tt.splat %to : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
      %yp = tt.addptr %ys, %lanes : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      tt.store %yp, %v : tensor<16x!tt.ptr<f32>>
      tt.return
    }""")
    at = np.array([3, 100, 57, 0, 184], np.int32)
    proof = made.prove.like(5, np.zeros(200, np.float32), at, np.zeros(80, np.float32), 200)
    assert "0 <= at[:] <= n - 16" in proof.specification.assume
    assert {proof.verdict("bounds"), proof.verdict("races")} <= {*_SHOWN}
    assert not proof.fixed


def _gather(index: str = "%j") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<f32>, %idx: !tt.ptr<i32>, %y: !tt.ptr<f32>, %n: i32) {{
      %p = tt.get_program_id x : i32
      %c16 = arith.constant 16 : i32
      %first = arith.muli %p, %c16 : i32
      %lanes = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
      %start = tt.splat %first : i32 -> tensor<16xi32>
      %o = arith.addi %start, %lanes : tensor<16xi32>
      %ns = tt.splat %n : i32 -> tensor<16xi32>
      %m = arith.cmpi slt, %o, %ns : tensor<16xi32>
      %is = tt.splat %idx : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
      %ia = tt.addptr %is, %o : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
      %j = tt.load %ia, %m : tensor<16x!tt.ptr<i32>>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
      %xa = tt.addptr %xs, {index} : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      %v = tt.load %xa, %m : tensor<16x!tt.ptr<f32>>
      %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
      %ya = tt.addptr %ys, %o : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      tt.store %ya, %v, %m : tensor<16x!tt.ptr<f32>>
      tt.return
    }}""")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("elements", "n"), [(118, 15), (256, 83), (221, 32), (115, 29), (100, 30)])
def test_a_table_has_all_elements_that_its_indices_reach(elements: int, n: int) -> None:
    """A size that is a little less than the table's, 7 * n for 118, would be refuted by an index that the launch has."""
    idx = np.arange(n, dtype=np.int32) * 7 % elements
    idx[0] = elements - 1
    proof = _gather().prove.like(-(-n // 16), np.zeros(elements, np.float32), idx, np.zeros(n, np.float32), n)
    assert {proof.verdict("bounds"), proof.verdict("races")} <= {*_SHOWN}
    assert dict(proof.specification.extents)["x"] == str(elements)
    assert not {each for each in proof.fixed if each.startswith("n ")}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("rows", "programs"), [(11, 9), (11, 18), (100, 11), (9, 90)])
def test_a_lookup_in_a_table_leaves_the_number_of_programs_open(rows: int, programs: int) -> None:
    """The table has as many rows as indices may say, however many programs there are: 9 * D, which leaves two rows, is none."""
    lookup = jn.kernel.from_triton_c("""void emb(int *idx, float *w, float *o, int D) {
  int r = get_program_id(0); int t = *(idx + r); int j[32] = 0 ... 32;
  *?(j < D)(o + r * D + j) = *?(j < D)(w + t * D + j);
}""")
    idx = np.arange(programs, dtype=np.int32) % rows
    proof = lookup.prove.like(programs, idx, np.zeros(rows * 30, np.float32), np.zeros(programs * 30, np.float32), 30)
    assert proof.specification.grid == ("grid_x", "1", "1")
    assert dict(proof.specification.extents) == {"idx": "grid_x", "w": f"{rows} * D", "o": "D * grid_x"}
    assert f"0 <= idx[:] < {rows}" in proof.specification.assume
    assert (proof.verdict("bounds"), proof.verdict("races"), proof.fixed) == ("proven under", "proven under", ())
    assert not [each for each in proof.doubts if "grid_x" in each]


def test_extents_of_what_is_indexed_have_numbers_of_programs_only_where_nothing_is_left() -> None:
    numbers, programs = {"D": 30, "grid_x": 9}, {"grid_x"}
    assert "D * grid_x" in candidates.extents(330, numbers, True)
    assert "D * grid_x" in candidates.extents(330, numbers, False, programs)
    assert candidates.extents(330, numbers, True, programs)[0] == "11 * D"
    assert candidates.extents(270, numbers, True, programs)[0] == "D * grid_x"
    assert "30 * grid_x" not in candidates.extents(270, {"grid_x": 9}, True, programs)
    assert candidates.extents(330, {"D": 30, "rows": 9}, True, programs)[0] == "D * rows"
