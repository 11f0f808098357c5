"""Reductions whose functions depend on the order of their operands, and which do not; positions that change places."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.kernel import Kernel
from joinery.lowering.tt.analysis.combining import commutes

_HEADS = "%a: f32, %i: i32, %b: f32, %j: i32"
_NAN = """%n_ = arith.cmpf uno, %a, %a : f32
        %m_ = arith.cmpf une, %b, %b : f32
        %o_ = arith.cmpf ord, %b, %b : f32"""
REGIONS = {
    "first of equals": (_HEADS, """%k = arith.cmpf oge, %a, %b : f32
        %x = arith.select %k, %a, %b : f32
        %y = arith.select %k, %i, %j : i32""", False),
    "lower position of equals": (_HEADS, """%e = arith.cmpf oeq, %a, %b : f32
        %l = arith.cmpi slt, %i, %j : i32
        %t = arith.andi %e, %l : i1
        %g = arith.cmpf ogt, %a, %b : f32
        %k = arith.ori %g, %t : i1
        %x = arith.select %k, %a, %b : f32
        %y = arith.select %k, %i, %j : i32""", True),
    "lower position of equals, and of NaN": (_HEADS, f"""{_NAN}
        %e = arith.cmpf oeq, %a, %b : f32
        %w_ = arith.andi %n_, %m_ : i1
        %s_ = arith.ori %e, %w_ : i1
        %l = arith.cmpi slt, %i, %j : i32
        %t = arith.andi %s_, %l : i1
        %g = arith.cmpf ogt, %a, %b : f32
        %v_ = arith.andi %n_, %o_ : i1
        %h_ = arith.ori %g, %v_ : i1
        %k = arith.ori %h_, %t : i1
        %x = arith.select %k, %a, %b : f32
        %y = arith.select %k, %i, %j : i32""", True),
    "first of NaN": (_HEADS, f"""{_NAN}
        %e = arith.cmpf oeq, %a, %b : f32
        %l = arith.cmpi slt, %i, %j : i32
        %t = arith.andi %e, %l : i1
        %g = arith.cmpf ogt, %a, %b : f32
        %h_ = arith.ori %g, %n_ : i1
        %k = arith.ori %h_, %t : i1
        %x = arith.select %k, %a, %b : f32
        %y = arith.select %k, %i, %j : i32""", False),
    "larger, or NaN": (_HEADS, f"""{_NAN}
        %g = arith.cmpf ugt, %a, %b : f32
        %k = arith.andi %g, %o_ : i1
        %h_ = arith.ori %k, %n_ : i1
        %x = arith.select %h_, %a, %b : f32
        %u_ = arith.cmpi ult, %i, %j : i32
        %y = arith.select %u_, %i, %j : i32""", True),
    "signed and unsigned": (_HEADS, """%s = arith.cmpi slt, %i, %j : i32
        %u = arith.cmpi ult, %i, %j : i32
        %k = arith.xori %s, %u : i1
        %x = arith.addf %a, %b : f32
        %y = arith.select %k, %i, %j : i32""", False),
    "sum and maximum": (_HEADS, "%x = arith.addf %a, %b : f32\n %y = arith.maxsi %i, %j : i32", True),
    "sum and difference": (_HEADS, "%x = arith.addf %a, %b : f32\n %y = arith.subi %i, %j : i32", False),
    "last": (_HEADS, "%x = arith.addf %b, %a : f32\n %y = arith.addi %j, %j : i32", False),
    "one operand of the other": (_HEADS, """%x = arith.addf %a, %b : f32
        %t = arith.sitofp %i : i32 to f32
        %y = arith.fptosi %t : f32 to i32""", False),
    "larger, whatever the sign of zero": (_HEADS, """%k = arith.cmpf ogt, %a, %b : f32
        %x = arith.select %k, %a, %b : f32
        %m = arith.cmpi ugt, %i, %j : i32
        %y = arith.select %m, %i, %j : i32""", True),
}  # fmt: skip


def _kernel(region: str, extent: int = 64) -> Kernel:
    heads, body, _ = REGIONS[region]
    return jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<i32>, %p: !tt.ptr<f32>, %q: !tt.ptr<i32>) {{
        %n = tt.make_range {{end = {extent} : i32, start = 0 : i32}} : tensor<{extent}xi32>
        %xs = tt.splat %x : !tt.ptr<f32> -> tensor<{extent}x!tt.ptr<f32>>
        %xa = tt.addptr %xs, %n : tensor<{extent}x!tt.ptr<f32>>, tensor<{extent}xi32>
        %v = tt.load %xa : tensor<{extent}x!tt.ptr<f32>>
        %ys = tt.splat %y : !tt.ptr<i32> -> tensor<{extent}x!tt.ptr<i32>>
        %ya = tt.addptr %ys, %n : tensor<{extent}x!tt.ptr<i32>>, tensor<{extent}xi32>
        %w = tt.load %ya : tensor<{extent}x!tt.ptr<i32>>
        %r:2 = "tt.reduce"(%v, %w) <{{axis = 0 : i32}}> ({{
        ^bb0({heads}):
            {body}
            tt.reduce.return %x, %y : f32, i32
        }}) : (tensor<{extent}xf32>, tensor<{extent}xi32>) -> (f32, i32)
        tt.store %p, %r#0 : !tt.ptr<f32>
        tt.store %q, %r#1 : !tt.ptr<i32>
        tt.return
    }}""".replace("tt.reduce.return %x, %y", "tt.reduce.return %x_, %y_").replace("%x = arith", "%x_ = arith").replace(
        "%y = arith", "%y_ = arith"))  # fmt: skip


def _reduction(kernel: Kernel) -> Any:
    return next(op for op in kernel._module.walk() if op.name == "tt.reduce")


@pytest.mark.parametrize("region", REGIONS)
def test_functions_that_commute_are_known(region: str) -> None:
    assert commutes(_reduction(_kernel(region)).regions[0]) == REGIONS[region][2]


def test_values_of_several_operands_are_not_taken_for_each_other() -> None:
    """Where the first operand falls and the second differs, the lesser second value takes the place of the lesser first one."""
    kernel = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>) {
        %v = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
        %r:2 = "tt.reduce"(%v, %v) <{axis = 0 : i32}> ({
        ^bb0(%a: i32, %i: i32, %b: i32, %j: i32):
            %rises = arith.cmpi slt, %a, %b : i32
            %falls = arith.cmpi sgt, %a, %b : i32
            %same = arith.cmpi eq, %i, %j : i32
            %less = arith.cmpi slt, %i, %j : i32
            %first = arith.select %rises, %a, %b : i32
            %second = arith.select %less, %i, %j : i32
            %other = arith.select %same, %first, %second : i32
            %else = arith.select %falls, %other, %a : i32
            %s = arith.select %rises, %first, %else : i32
            tt.reduce.return %s, %second : i32, i32
        }) : (tensor<16xi32>, tensor<16xi32>) -> (i32, i32)
        tt.store %x, %r#0 : !tt.ptr<i32>
        tt.return
    }""")
    assert not commutes(_reduction(kernel).regions[0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("extent", [2, 16, 64, 256, 1024])
def test_the_first_of_equals_is_the_first(extent: int) -> None:
    rng = np.random.default_rng(extent)
    kernel = _kernel("first of equals", extent)
    for limit, options in itertools.product((1, 2, 5, extent), ({}, {"check_bounds": True}, {"device": "ptxsim"})):
        x = rng.integers(0, limit, extent).astype(np.float32)
        y = rng.permutation(extent).astype(np.int32)
        p, q = np.zeros(1, np.float32), np.zeros(1, np.int32)
        kernel.launch((1,), x, y, p, q, **options)
        assert (p[0], q[0]) == (x.max(), y[x.argmax()]), (limit, options)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_exchanged_neighbours_leave_what_they_held(axis: int, swapped: bool) -> None:
    """The lanes that nobody loaded end where they are not stored: the sanitizer has nothing to find."""
    kept = 8
    shape = f"{'2x8' if axis == 0 else '8x2'}"
    one = "1x8" if axis == 0 else "8x1"
    pair = "%b, %x" if swapped else "%x, %b"
    kernel = jn.kernel.from_ttir(f"""tt.func public @k(%p: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {{
        %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
        %ns = tt.splat %n : i32 -> tensor<16xi32>
        %m = arith.cmpi slt, %r, %ns : tensor<16xi32>
        %ps = tt.splat %p : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
        %pa = tt.addptr %ps, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
        %v = tt.load %pa, %m : tensor<16x!tt.ptr<i32>>
        %x = tt.reshape %v : tensor<16xi32> -> tensor<{shape}xi32>
        %t = "tt.reduce"(%x) <{{axis = {axis} : i32}}> ({{
        ^bb0(%a: i32, %c: i32):
            %d = arith.xori %a, %c : i32
            tt.reduce.return %d : i32
        }}) : (tensor<{shape}xi32>) -> tensor<{kept}xi32>
        %e = tt.expand_dims %t {{axis = {axis} : i32}} : tensor<{kept}xi32> -> tensor<{one}xi32>
        %b = tt.broadcast %e : tensor<{one}xi32> -> tensor<{shape}xi32>
        %z = arith.xori {pair} : tensor<{shape}xi32>
        %w = tt.reshape %z : tensor<{shape}xi32> -> tensor<16xi32>
        %os = tt.splat %o : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
        %oa = tt.addptr %os, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
        %half = arith.constant dense<8> : tensor<16xi32>
        %upper = arith.cmpi sge, %r, %half : tensor<16xi32>
        %even = arith.constant dense<1> : tensor<16xi32>
        %low = arith.andi %r, %even : tensor<16xi32>
        %zero = arith.constant dense<0> : tensor<16xi32>
        %odd = arith.cmpi ne, %low, %zero : tensor<16xi32>
        tt.store %oa, %w, {"%upper" if axis == 0 else "%odd"} : tensor<16x!tt.ptr<i32>>
        tt.return
    }}""")
    x = np.arange(1, 17, dtype=np.int32)
    out = np.zeros(16, np.int32)
    expected = np.flip(x.reshape((2, 8) if axis == 0 else (8, 2)), axis).reshape(16)
    stored = np.arange(16) >= 8 if axis == 0 else np.arange(16) % 2 == 1
    loaded = 8 if axis == 0 else 15  # the last element, which goes to position 14, is not loaded
    kernel.launch((1,), x, out, loaded, sanitize=True)
    np.testing.assert_array_equal(out, np.where(stored, expected, 0))
    with pytest.raises(jn.SanitizerError, match="uninitialised"):
        kernel.launch((1,), x, out, 7 if axis == 0 else 14, sanitize=True)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("op", ["argmax", "argmin", "max", "min", "sum"])
def test_reductions_of_graphs_commute(op: str, dtype: str) -> None:
    """Otherwise hosts would combine neighbours, level by level, in scratch: argmax took eight times as long."""
    graph = jn.Graph("g", [jn.TensorType(dtype, (3, 100), "x")])
    graph.output(getattr(jn, op)(graph.inputs[0], axis=-1))
    (kernel,) = jn.compile(graph, device="cpu", cache=False).kernels
    assert commutes(_reduction(jn.kernel.from_ttir(kernel.ttir)).regions[0])
