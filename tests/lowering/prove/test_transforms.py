"""What proofs say of kernels with tt.fft: no rule describes it, so it makes any number, or another one for each reader."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from ...support.proving.differential import PROVED

_I, _P, _J = "tensor<8xi64>", "tensor<8x!tt.ptr<i64>>", "tensor<8xi32>"
_SUM = (
    f'%sum = "tt.reduce"(%s) <{{axis = 0 : i32}}> ({{\n^bb0(%e: i64, %f: i64):\n  %t = arith.addi %e, %f : i64\n'
    f"  tt.reduce.return %t : i64\n}}) : ({_I}) -> i64\n"
)
_KINDS = {
    "bounds": ("out-of-bounds", "misaligned"), "races": ("race", "lane-race"), "initialised": ("uninitialised",),
    "overflow": ("overflow",), "termination of loops": (),
}  # fmt: skip
_LOOP = (
    f"%r = scf.for %i = %none to %m step %one iter_args(%c = %v) -> ({_I}) : i32 {{\n"
    f'  %g = tt.fft %c {{axis = 0 : i32, kind = "forward", length = 8 : i32}} : {_I}\n  scf.yield %g : {_I}\n}}\n'
    f"tt.store %py, %r : {_P}"
)
_B, _R, _O = "bounds", "races", "overflow"
BODIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "stored": (f"tt.store %py, %s, %b : {_P}", (_B, _R, _O)),
    "of undefined lanes": (
        f'%g = tt.fft %u {{axis = 0 : i32, kind = "real", length = 4 : i32}} : {_I}\ntt.store %py, %g, %b : {_P}', (_B, _R, _O),
    ),
    "stored beyond its results": (f"tt.store %py, %s : {_P}", (_B, _R, _O)),
    "to one place": (f"tt.store %ys, %s : {_P}", (_B, _O)),
    "not used": (f"tt.store %py, %v : {_P}", (_B, _R, _O, "initialised")),
    "an offset": (f"%p = tt.addptr %ys, %s : {_P}, {_I}\ntt.store %p, %v : {_P}", ()),
    "an offset of 0, if all readers see one number": (
        f"%d = arith.subi %s, %s : {_I}\n%p = tt.addptr %ys, %d : {_P}, {_I}\n%w = tt.load %p : {_P}", (),
    ),
    "a mask": (f"%k = arith.cmpi slt, %s, %v : {_I}\ntt.store %py, %v, %k : {_P}", ()),
    "a branch": (f"{_SUM}%k = arith.cmpi slt, %sum, %zero : i64\nscf.if %k {{\n  tt.store %py, %v : {_P}\n}}", ()),
    "the end of a loop": (
        f"{_SUM}%end = arith.trunci %sum : i64 to i32\nscf.for %i = %none to %end step %one : i32 {{\n}}\n"
        f"tt.store %py, %v : {_P}",
        (_B, _R, _O),
    ),
    "carried by a loop": (_LOOP, (_B, _R, _O, "termination of loops")),
    "indices": (
        f"%i = arith.trunci %s : {_I} to {_J}\n%r = tt.gather %v[%i] {{axis = 0 : i32}} : ({_I}, {_J}) -> {_I}\n"
        f"tt.store %py, %r : {_P}", (_B, _R, _O),
    ),
}  # fmt: skip
"""What is done with %s, of which 5 lanes are results, and what is proven, and no more, of the last access, or of the loop."""


def kernel(body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i64>, %y: !tt.ptr<i64>, %n: i32, %m: i32) {{
  %zero = arith.constant 0 : i64
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %lanes = tt.make_range {{end = 8 : i32, start = 0 : i32}} : {_J}
  %ns = tt.splat %n : i32 -> {_J}
  %ms = tt.splat %m : i32 -> {_J}
  %a = arith.cmpi slt, %lanes, %ns : {_J}
  %b = arith.cmpi slt, %lanes, %ms : {_J}
  %xs = tt.splat %x : !tt.ptr<i64> -> {_P}
  %px = tt.addptr %xs, %lanes : {_P}, {_J}
  %u = tt.load %px, %a : {_P}
  %v = tt.load %px : {_P}
  %s = tt.fft %v {{axis = 0 : i32, kind = "forward", length = 5 : i32}} : {_I}
  %ys = tt.splat %y : !tt.ptr<i64> -> {_P}
  %py = tt.addptr %ys, %lanes : {_P}, {_J}
  {body}
  tt.return
}}
""")


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", BODIES)
def test_what_is_proven_of_transforms_holds_in_launches(name: str) -> None:
    body, proven = BODIES[name]
    made = kernel(body)
    proof = made.prove(extents={"x": 8, "y": 8}, grid=1, properties=tuple(_KINDS))
    found = set()
    for n, m in itertools.product((0, 4, 5, 8), (0, 1, 5, 6, 8)):
        x = (np.arange(8) - 3).astype(np.complex64).view(np.int64)
        found |= {(each.kind, each.line) for each in made.sanitize(1, x, np.zeros(8, np.int64), n, m).findings}
    for each in proof.accesses:
        assert each.verdict not in PROVED or found.isdisjoint({(kind, each.line) for kind in _KINDS[each.prop]}), each
    last = {each.prop: each.verdict for each in proof.accesses}
    assert {prop for prop, verdict in last.items() if verdict in PROVED} == {*proven}
