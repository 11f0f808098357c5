"""Products of 8-bit floats by mma.sync: exact in every arrangement, every code, and by bytes where the text allows few bits."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.kernels.products import DTYPES, Product
from .....support.tiers import both_tiers, pairs, share

FEW_BITS = " {maxNumImpreciseAcc = 1073741824 : i32}"
NATIVE = "mma.sync.aligned.m16n8k32.row.col.f32."
E4M3, E5M2 = "f8E4M3FN", "f8E5M2"


def check(product: Product, target: str, warps: int = 4, k: int = 80) -> Any:
    """The product is right; its code. Small whole numbers: sums are exact in any order, and in few bits."""
    a, b = product.matrices(k)
    code = product.code(warps, target)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(DTYPES[product.total])
    np.testing.assert_array_equal(product.launch(code, a, b, delivery="random"), exact)
    return code


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("elem", "target", "b_transposed", "a_transposed"), pairs([E4M3, E5M2], ["sm_80", "sm_89"], [False, True], [False, True])
)
def test_arrangements(elem: str, target: str, b_transposed: bool, a_transposed: bool) -> None:
    code = check(Product(64, 64, 64, elem, "f32", a_transposed, b_transposed), target)
    assert code.ptx.count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == 32
    assert NATIVE not in code.ptx
    assert ("cp.async" in code.ptx) == (b_transposed or not a_transposed)  # along k blocks are loaded ahead as they are


SIZES = [(16, 8, 32), (16, 16, 16), (32, 16, 128), (128, 32, 32)]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("warps", [1, 4, 8])
@both_tiers
def test_sizes(shape: tuple[int, int, int], warps: int, in_full: bool) -> None:
    ways = [(target, turned) for target in ("sm_80", "sm_90a", "sm_120a") for turned in (False, True)]
    for target, b_transposed in share(ways, SIZES.index(shape) + warps, 5, in_full):
        check(Product(*shape, E5M2, "f32", b_transposed=b_transposed), target, warps, 2 * shape[2] + 16)


def test_turned_blocks() -> None:
    for target in ("sm_86", "sm_89"):
        check(Product(32, 64, 64, E4M3, "f32", True, False, turned=True), target)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("elem", "target", "transposed"), pairs([E4M3, E5M2], ["sm_80", "sm_89", "sm_120a"], [False, True])
)
def test_every_code(elem: str, target: str, transposed: bool) -> None:
    """One code in each row of A, or in each column of B, among zeros."""
    codes = np.zeros((256, 64), np.uint8)
    codes[np.arange(256), np.arange(256) % 64] = np.arange(256)
    ones = np.ones((64, 16), np.float32).astype(DTYPES[elem])
    number = np.arange(256, dtype=np.uint8).view(DTYPES[elem]).astype(np.float32)
    product = Product(256, 16, 64, elem, "f32", transposed, True)
    found = product.launch(product.code(4, target), codes.view(DTYPES[elem]), ones)
    np.testing.assert_array_equal(found, np.repeat(number[:, None], 16, 1))
    product = Product(16, 256, 64, elem, "f32", False, transposed)
    turned = np.ascontiguousarray(codes.T).view(DTYPES[elem])
    found = product.launch(product.code(4, target), np.ascontiguousarray(ones.T), turned)
    np.testing.assert_array_equal(found, np.repeat(number[None], 16, 0))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_bytes_go_to_the_instruction_where_few_bits_are_allowed(target: str, b_transposed: bool) -> None:
    code = check(Product(32, 64, 64, E4M3, "f32", False, b_transposed, FEW_BITS), target)
    has_instruction = target in ("sm_89", "sm_120a")
    assert code.ptx.count(f"{NATIVE}e4m3.e4m3.f32") == (8 if has_instruction and b_transposed else 0)


def test_few_bits_are_taken_of_the_whole_sum_only() -> None:
    """A text that allows 32 products in few bits gets all 64 in float32."""
    assert NATIVE not in check(Product(32, 64, 64, E4M3, "f32", False, True, FEW_BITS.replace("1073741824", "32")), "sm_89").ptx
    assert NATIVE in check(Product(32, 64, 64, E4M3, "f32", False, True, FEW_BITS.replace("1073741824", "64")), "sm_89").ptx


HEAD = """
tt.func public @mixed(%a: !tt.ptr<f8E4M3FN> {tt.divisibility = 16 : i32}, %b: !tt.ptr<f8E5M2> {tt.divisibility = 16 : i32},
                      %c: !tt.ptr<f16>) {
  %r = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
  %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
  %width = arith.constant dense<32> : tensor<32x1xi32>
  %starts = arith.muli %rows, %width : tensor<32x1xi32>
  %i0 = tt.broadcast %starts : tensor<32x1xi32> -> tensor<32x32xi32>
  %columns = tt.expand_dims %r {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %i1 = tt.broadcast %columns : tensor<1x32xi32> -> tensor<32x32xi32>
  %i = arith.addi %i0, %i1 : tensor<32x32xi32>
  %as = tt.splat %a : !tt.ptr<f8E4M3FN> -> tensor<32x32x!tt.ptr<f8E4M3FN>>
  %bs = tt.splat %b : !tt.ptr<f8E5M2> -> tensor<32x32x!tt.ptr<f8E5M2>>
  %cs = tt.splat %c : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>>
  %ap = tt.addptr %as, %i : tensor<32x32x!tt.ptr<f8E4M3FN>>, tensor<32x32xi32>
  %bp = tt.addptr %bs, %i : tensor<32x32x!tt.ptr<f8E5M2>>, tensor<32x32xi32>
  %cp = tt.addptr %cs, %i : tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>
  %x = tt.load %ap : tensor<32x32x!tt.ptr<f8E4M3FN>>
  %w = tt.load %bp : tensor<32x32x!tt.ptr<f8E5M2>>
  %y = tt.trans %w {order = array<i32: 1, 0>} : tensor<32x32xf8E5M2> -> tensor<32x32xf8E5M2>
"""
TWICE = HEAD + """
  %zero = arith.constant dense<0.0> : tensor<32x32xf16>
  %once = tt.dot %x, %y, %zero FEW : tensor<32x32xf8E4M3FN> * tensor<32x32xf8E5M2> -> tensor<32x32xf16>
  %twos = arith.constant dense<2.0> : tensor<32x32xf8E4M3FN>
  %twice = tt.dot %twos, %y, %once FEW : tensor<32x32xf8E4M3FN> * tensor<32x32xf8E5M2> -> tensor<32x32xf16>
  tt.store %cp, %twice : tensor<32x32x!tt.ptr<f16>>
  tt.return
}
"""
BATCHES = HEAD + """
  %x1 = tt.expand_dims %x {axis = 0 : i32} : tensor<32x32xf8E4M3FN> -> tensor<1x32x32xf8E4M3FN>
  %x2 = tt.broadcast %x1 : tensor<1x32x32xf8E4M3FN> -> tensor<2x32x32xf8E4M3FN>
  %y1 = tt.expand_dims %y {axis = 0 : i32} : tensor<32x32xf8E5M2> -> tensor<1x32x32xf8E5M2>
  %y2 = tt.broadcast %y1 : tensor<1x32x32xf8E5M2> -> tensor<2x32x32xf8E5M2>
  %zero = arith.constant dense<0.0> : tensor<2x32x32xf16>
  %z = tt.dot %x2, %y2, %zero FEW : tensor<2x32x32xf8E4M3FN> * tensor<2x32x32xf8E5M2> -> tensor<2x32x32xf16>
  %sum = "tt.reduce"(%z) <{axis = 0 : i32}> ({
  ^bb0(%l: f16, %h: f16):
    %s = arith.addf %l, %h : f16
    tt.reduce.return %s : f16
  }) : (tensor<2x32x32xf16>) -> tensor<32x32xf16>
  tt.store %cp, %sum : tensor<32x32x!tt.ptr<f16>>
  tt.return
}
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("few", ["", FEW_BITS])
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(("text", "other"), [(TWICE, 1), (BATCHES, 0)])
def test_two_types_constants_batches_and_half_sums(text: str, other: int, target: str, few: str) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(-3, 4, (32, 32)).astype(DTYPES[E4M3])
    b = rng.integers(-3, 4, (32, 32)).astype(DTYPES[E5M2])
    c = np.zeros((32, 32), np.float16)
    kernel = jn.kernel.from_ttir(text.replace("FEW", few))
    kernel.launch((1,), a, b, c, device="ptxsim", target=target, sanitize=True)
    left, right = a.astype(np.float32), b.astype(np.float32).T
    second = np.full((32, 32), 2, np.float32) if other else left  # two of the constant, or the other item of the batch
    np.testing.assert_array_equal(c, (left @ right + second @ right).astype(np.float16))
    assert (f"{NATIVE}e4m3.e5m2.f32" in kernel.ptx(target)) == (target == "sm_89" and few != "")
