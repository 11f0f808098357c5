"""Small kernels with specifications, right and faulty ones, whose launches are few enough to try all of them."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """A kernel, its specification, and the values that each of its sizes is tried with. faults: properties that it breaks."""

    text: str
    extents: dict[str, str]
    grid: tuple[str, ...]
    assume: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("n",)


def _kernel(parameters: str, body: str) -> str:
    return f"tt.func public @k({parameters}) {{\n{body}\n  tt.return\n}}\n"


def _rows(mask: str = "slt", stride: str = "%s", tile: int = 4, mask_rows: bool = True) -> str:
    """Doubles the elements of a matrix of n rows and m columns, whose rows are s apart, in tiles of 4 x 4."""
    rows = "%keep = arith.andi %mr, %mc : tensor<4x4xi1>" if mask_rows else "%keep = arith.andi %mc, %mc : tensor<4x4xi1>"
    return _kernel("%x: !tt.ptr<f32>, %n: i32, %m: i32, %s: i32", f"""
  %c = arith.constant {tile} : i32
  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %a = arith.muli %p, %c : i32
  %b = arith.muli %q, %c : i32
  %i = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
  %as = tt.splat %a : i32 -> tensor<4xi32>
  %bs = tt.splat %b : i32 -> tensor<4xi32>
  %r = arith.addi %as, %i : tensor<4xi32>
  %k = arith.addi %bs, %i : tensor<4xi32>
  %re = tt.expand_dims %r {{axis = 1 : i32}} : tensor<4xi32> -> tensor<4x1xi32>
  %ke = tt.expand_dims %k {{axis = 0 : i32}} : tensor<4xi32> -> tensor<1x4xi32>
  %ns = tt.splat %n : i32 -> tensor<4x1xi32>
  %ms = tt.splat %m : i32 -> tensor<1x4xi32>
  %m0 = arith.cmpi {mask}, %re, %ns : tensor<4x1xi32>
  %m1 = arith.cmpi slt, %ke, %ms : tensor<1x4xi32>
  %mr = tt.broadcast %m0 : tensor<4x1xi1> -> tensor<4x4xi1>
  %mc = tt.broadcast %m1 : tensor<1x4xi1> -> tensor<4x4xi1>
  {rows}
  %ss = tt.splat {stride} : i32 -> tensor<4x1xi32>
  %ro = arith.muli %re, %ss : tensor<4x1xi32>
  %rb = tt.broadcast %ro : tensor<4x1xi32> -> tensor<4x4xi32>
  %kb = tt.broadcast %ke : tensor<1x4xi32> -> tensor<4x4xi32>
  %o = arith.addi %rb, %kb : tensor<4x4xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<4x4x!tt.ptr<f32>>
  %at = tt.addptr %xs, %o : tensor<4x4x!tt.ptr<f32>>, tensor<4x4xi32>
  %v = tt.load %at, %keep : tensor<4x4x!tt.ptr<f32>>
  %w = arith.addf %v, %v : tensor<4x4xf32>
  tt.store %at, %w, %keep : tensor<4x4x!tt.ptr<f32>>""")


def _vector(offset: str, mask: str, block: int = 4) -> str:
    """Stores the lanes' numbers at an offset made of %i, the index of the element."""
    type_ = f"tensor<{block}xi32>"
    return _kernel("%x: !tt.ptr<i32>, %n: i32", f"""
  %c = arith.constant {block} : i32
  %p = tt.get_program_id x : i32
  %a = arith.muli %p, %c : i32
  %l = tt.make_range {{end = {block} : i32, start = 0 : i32}} : {type_}
  %as = tt.splat %a : i32 -> {type_}
  %i = arith.addi %as, %l : {type_}
  %ns = tt.splat %n : i32 -> {type_}
  %two = arith.constant dense<2> : {type_}
  %three = arith.constant dense<3> : {type_}
  %one = arith.constant dense<1> : {type_}
  %seven = arith.constant dense<7> : {type_}
  {offset}
  {mask}
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<{block}x!tt.ptr<i32>>
  %at = tt.addptr %xs, %o : tensor<{block}x!tt.ptr<i32>>, {type_}
  tt.store %at, %i, %keep : tensor<{block}x!tt.ptr<i32>>""")


_T = "tensor<4xi32>"
_PLAIN = f"%o = arith.addi %i, %z : {_T}"
_SAME = f"%z = arith.subi %i, %i : {_T}\n  {_PLAIN}"
_INSIDE = f"%keep = arith.cmpi slt, %i, %ns : {_T}"

_LOOP = _kernel("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32", """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %c3 = arith.constant 3 : i32
  %step = arith.constant dense<4> : tensor<4xi32>
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %p = tt.get_program_id x : i32
  %row = arith.muli %p, %n : i32
  %base = tt.addptr %x, %row : !tt.ptr<f32>, i32
  %l = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %bs = tt.splat %base : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
  %ps = tt.addptr %bs, %l : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
  %up = arith.addi %n, %c3 : i32
  %t = arith.divsi %up, %c4 : i32
  %r:3 = scf.for %j = %c0 to %t step %c1 iter_args(%q = %ps, %left = %n, %acc = %z)
      -> (tensor<4x!tt.ptr<f32>>, i32, tensor<4xf32>)  : i32 {
    %ls = tt.splat %left : i32 -> tensor<4xi32>
    %m = arith.cmpi PREDICATE, %l, %ls : tensor<4xi32>
    %v = tt.load %q, %m, %z : tensor<4x!tt.ptr<f32>>
    %a = arith.addf %acc, %v : tensor<4xf32>
    %f = tt.addptr %q, %step : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %g = arith.subi %left, %c4 : i32
    scf.yield %f, %g, %a : tensor<4x!tt.ptr<f32>>, i32, tensor<4xf32>
  }
  %e = arith.muli %p, %c4 : i32
  %es = tt.splat %e : i32 -> tensor<4xi32>
  %eo = arith.addi %es, %l : tensor<4xi32>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
  %oo = tt.addptr %os, %eo : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
  tt.store %oo, %r#2 : tensor<4x!tt.ptr<f32>>""")

_WHILE = _kernel("%x: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %g = tt.get_num_programs x : i32
  %r = scf.while (%i = %p) : (i32) -> i32 {
    %go = arith.cmpi slt, %i, %n : i32
    scf.condition(%go) %i : i32
  } do {
  ^bb0(%i: i32):
    %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
    tt.store %at, %i : !tt.ptr<i32>
    %next = arith.addi %i, %g : i32
    scf.yield %next : i32
  }""")

_BRANCHES = _kernel("%x: !tt.ptr<i32>, %n: i32", """
  %p = tt.get_program_id x : i32
  %out = arith.cmpi sge, %p, %n : i32
  cf.cond_br %out, ^end, ^go
^end:
  tt.return
^go:
  %c1 = arith.constant 1 : i32
  %last = arith.subi %n, %c1 : i32
  %is = arith.cmpi eq, %p, %last : i32
  %zero = arith.constant 0 : i32
  cf.cond_br %is, ^join(%zero : i32), ^other
^other:
  %up = arith.addi %p, %c1 : i32
  cf.br ^join(%up : i32)
^join(%to: i32):
  %at = tt.addptr %x, %to : !tt.ptr<i32>, i32
  tt.store %at, %p : !tt.ptr<i32>""")

_GATHER = _kernel("%idx: !tt.ptr<i32>, %x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32, %m: i32", f"""
  %p = tt.get_program_id x : i32
  %c4 = arith.constant 4 : i32
  %a = arith.muli %p, %c4 : i32
  %l = tt.make_range {{end = 4 : i32, start = 0 : i32}} : {_T}
  %as = tt.splat %a : i32 -> {_T}
  %i = arith.addi %as, %l : {_T}
  %ns = tt.splat %n : i32 -> {_T}
  %m0 = arith.cmpi slt, %i, %ns : {_T}
  %is = tt.splat %idx : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %ia = tt.addptr %is, %i : tensor<4x!tt.ptr<i32>>, {_T}
  %k = tt.load %ia, %m0 : tensor<4x!tt.ptr<i32>>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
  %xa = tt.addptr %xs, %k : tensor<4x!tt.ptr<f32>>, {_T}
  %v = tt.load %xa, %m0 : tensor<4x!tt.ptr<f32>>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
  %oa = tt.addptr %os, %i : tensor<4x!tt.ptr<f32>>, {_T}
  tt.store %oa, %v, %m0 : tensor<4x!tt.ptr<f32>>""")

_TILES = {"sizes": ("n", "m", "s"), "extents": {"x": "n * s"}, "grid": ("cdiv(n, 4)", "cdiv(m, 4)")}
_STRIDED = ("n >= 0", "m >= 0", "s >= m")

SUBJECTS: dict[str, Subject] = {
    "vector": Subject(_vector(_SAME, _INSIDE), {"x": "n"}, ("cdiv(n, 4)",)),
    "any_grid": Subject(_vector(_SAME, _INSIDE), {"x": "n"}, ("grid_x",), ("grid_x <= 1000",), sizes=("n", "grid_x")),
    "mask_of_too_many": Subject(
        _vector(_SAME, f"%keep = arith.cmpi sle, %i, %ns : {_T}"), {"x": "n"}, ("cdiv(n, 4)",), faults=("bounds",)
    ),
    "two_lanes": Subject(
        _vector(f"%o = arith.divsi %i, %two : {_T}", _INSIDE), {"x": "n"}, ("cdiv(n, 4)",), faults=("races",)
    ),
    "two_programs": Subject(
        _vector(f"%o = arith.remsi %i, %seven : {_T}", _INSIDE), {"x": "7"}, ("cdiv(n, 4)",), faults=("races",)
    ),
    "too_small_tiles": Subject(
        _vector(_SAME, _INSIDE).replace("arith.constant 4 : i32", "arith.constant 3 : i32"), {"x": "n"}, ("cdiv(n, 3)",),
        faults=("races",),
    ),
    "reversed": Subject(
        _vector(f"%e = arith.subi %ns, %i : {_T}\n  %o = arith.subi %e, %one : {_T}", _INSIDE), {"x": "n"}, ("cdiv(n, 4)",)
    ),
    "reversed_by_one_too_few": Subject(
        _vector(f"%o = arith.subi %ns, %i : {_T}", _INSIDE), {"x": "n"}, ("cdiv(n, 4)",), faults=("bounds",)
    ),
    "swapped_neighbours": Subject(
        _vector(f"%o = arith.xori %i, %one : {_T}", _INSIDE), {"x": "n + n % 2"}, ("cdiv(n, 4)",), ("n >= 0",)
    ),
    "swapped_neighbours_at_the_end": Subject(
        _vector(f"%o = arith.xori %i, %one : {_T}", _INSIDE), {"x": "n"}, ("cdiv(n, 4)",), faults=("bounds",)
    ),
    "quotient_and_remainder": Subject(
        _vector(
            f"%q = arith.divsi %i, %three : {_T}\n  %r = arith.remsi %i, %three : {_T}\n"
            f"  %h = arith.muli %q, %three : {_T}\n  %o = arith.addi %h, %r : {_T}", _INSIDE,
        ), {"x": "n"}, ("cdiv(n, 4)",),
    ),
    "clamped": Subject(
        _vector(
            f"%e = arith.subi %ns, %one : {_T}\n  %o = arith.minsi %i, %e : {_T}", f"%keep = arith.cmpi sge, %i, %i : {_T}"
        ), {"x": "n"}, ("cdiv(n, 4)",), ("n >= 1",), faults=("races",),
    ),
    "tiles": Subject(_rows(), assume=_STRIDED, **_TILES),
    "tiles_with_any_stride": Subject(_rows(), assume=("n >= 0", "m >= 0", "s >= 0"), faults=("bounds", "races"), **_TILES),
    "tiles_with_a_row_too_many": Subject(_rows("sle"), assume=_STRIDED, faults=("bounds",), **_TILES),
    "tiles_without_a_mask_of_rows": Subject(_rows(mask_rows=False), assume=_STRIDED, faults=("bounds",), **_TILES),
    "tiles_with_the_wrong_stride": Subject(_rows(stride="%n"), assume=_STRIDED, faults=("bounds", "races"), **_TILES),
    "tiles_that_overlap": Subject(_rows(tile=2), assume=_STRIDED, faults=("races",), **_TILES),
    "loop": Subject(
        _LOOP.replace("PREDICATE", "slt"), {"x": "rows * n", "o": "rows * 4"}, ("rows",), ("n >= 0",), sizes=("n", "rows")
    ),
    "loop_with_an_element_too_many": Subject(
        _LOOP.replace("PREDICATE", "sle"), {"x": "rows * n", "o": "rows * 4"}, ("rows",), ("n >= 0",), ("bounds",),
        ("n", "rows"),
    ),
    "grid_stride": Subject(_WHILE, {"x": "n"}, ("grid_x",), ("grid_x <= 2**20",), sizes=("n", "grid_x")),
    "branches": Subject(_BRANCHES, {"x": "n"}, ("cdiv(n, 4) * 4",), ("n <= 2**20",)),
    "gather": Subject(
        _GATHER, {"idx": "n", "x": "m", "o": "n"}, ("cdiv(n, 4)",), ("0 <= idx[:] < m",), sizes=("n", "m")
    ),
    "gather_of_anything": Subject(
        _GATHER, {"idx": "n", "x": "m", "o": "n"}, ("cdiv(n, 4)",), ("m >= 0",), ("bounds",), ("n", "m")
    ),
}  # fmt: skip
