"""Masks that end inside an access: copies are as wide as the pointers allow, and what lies behind the end counts as zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from .....support.kernels.products import DTYPES, Product
from .....support.tiers import each

KERNELS = Path(__file__).parents[5] / "benchmarks" / "kernels"
DESCRIBED = (KERNELS / "gpu_matmul_described_f16.ttir").read_text()


def text_of(case: Product) -> str:
    """Nothing is known but what a launch finds out."""
    return case.text.replace("tt.divisibility = 16", "tt.divisibility = 1")


def multiplied(case: Product, k: int, target: str, kernel: Any = None) -> tuple[Any, str]:
    """What comes out for rows with room for more, which is not a number, or large; the PTX."""
    room = -(-max(k, 1) // 16) * 16
    kernel = kernel or jn.kernel.from_ttir(text_of(case))
    a, b = case.matrices(k)
    stored = []
    for matrix, turned, along in ((a, case.a_transposed, 1), (b, case.b_transposed, 0)):
        shape = list(matrix.shape)
        shape[along] = room
        whole = np.full(shape, 100 if case.elem[0] == "i" else np.nan, matrix.dtype)
        whole[tuple(slice(extent) for extent in matrix.shape)] = matrix
        stored.append(np.ascontiguousarray(whole.T if turned else whole))
    c = np.full((case.m, case.n), 77, DTYPES[case.total])
    kernel.launch((1,), *stored, c, *(x.shape[1] for x in stored), k, device="ptxsim", target=target, sanitize=True)
    (code,) = kernel._gpu._codes.values()
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b.astype(np.float64)).astype(c.dtype))
    return c, str(code.ptx)


OPERANDS = [("f16", "f32", ""), ("f32", "f32", ""), ("f32", "f32", ", inputPrecision = tf32")]
TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("operands", "transposed", "target"), each(OPERANDS, TRANSPOSED, ["sm_80", "sm_90a"]))
def test_sums_of_any_length(operands: tuple[str, str, str], transposed: tuple[bool, bool], target: str) -> None:
    elem, total, facts = operands
    case = Product(64, 64, 32, elem, total, *transposed, facts)
    kernel = jn.kernel.from_ttir(text_of(case))
    for k in (1, 31, 33, 75):
        _, ptx = multiplied(case, k, target, kernel)
        assert "cp.async.ca" not in ptx
        if facts and target == "sm_90a":  # wgmma takes tf32 that has been rounded on its way
            continue
        assert "cp.async.cg" in ptx
        assert "ld.global" not in ptx


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("elem", "total"), [("i8", "i32"), ("bf16", "f32"), ("i32", "i32")])
def test_other_elements(elem: str, total: str) -> None:
    _, ptx = multiplied(Product(64, 64, 32, elem, total, b_transposed=True), 45, "sm_80")
    assert "cp.async.cg" in ptx


@pytest.mark.one_in(2)
@pytest.mark.parametrize("change", ["sgt", "ult", "ugt"])
def test_comparisons_the_other_way_round(change: str) -> None:
    """Also without a sign: what is left of k is negative in no turn."""
    case = Product(64, 64, 32)
    text = text_of(case)
    for name, flat in (("a", "tensor<1x32xi32>"), ("b", "tensor<32x1xi32>")):
        index, left = (f"%{name}i{'1' if name == 'a' else '0'}", f"%{name}left")
        operands = f"{left}, {index}" if change[1] == "g" else f"{index}, {left}"
        before = f"arith.cmpi slt, {index}, {left} : {flat}"
        assert before in text
        text = text.replace(before, f"arith.cmpi {change}, {operands} : {flat}")
    _, ptx = multiplied(case, 45, "sm_80", jn.kernel.from_ttir(text))
    assert "cp.async.cg" in ptx


def test_two_ends_in_one_access() -> None:
    """Nothing is known of where a second comparison ends: elements are read one by one."""
    case = Product(64, 64, 32)
    text = text_of(case).replace(
        "%amask = tt.broadcast %asmall", "%aother = arith.cmpi sge, %ai1, %aleft : tensor<1x32xi32>\n"
        "%atrue = arith.constant dense<true> : tensor<1x32xi1>\n%anot = arith.xori %aother, %atrue : tensor<1x32xi1>\n"
        "%aboth = arith.andi %asmall, %anot : tensor<1x32xi1>\n%amask = tt.broadcast %aboth",
    )  # fmt: skip
    _, ptx = multiplied(case, 45, "sm_80", jn.kernel.from_ttir(text))
    assert "ld.global.b16" in ptx


SIZES = [(100, 70, 50), (128, 128, 64), (130, 129, 1), (16, 9, 200)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("size", "padding"), each(SIZES, ["zero", "nan"]))
def test_descriptors_without_tensor_copies(size: tuple[int, int, int], padding: str) -> None:
    """Rows start on multiples of 16 bytes, and end anywhere."""
    m, n, k = size
    kernel = jn.kernel.from_ttir(DESCRIBED)
    rng = np.random.default_rng(m)
    rooms = [-(-extent // 8) * 8 for extent in (k, n, n)]
    a, b = (rng.integers(-2, 3, (rows, room)).astype(np.float16) for rows, room in ((m, rooms[0]), (k, rooms[1])))
    expected, found = (np.full((m, rooms[2]), 7, np.float16) for _ in range(2))
    grid = (-(-m // 128), -(-n // 128))

    def given(c: np.ndarray[Any, Any]) -> tuple[Any, ...]:
        sides = ((a, (m, k)), (b, (k, n)), (c, (m, n)))
        return (*[jn.TensorDescriptor(x, shape=s, strides=(x.shape[1], 1), padding=padding) for x, s in sides], k)

    kernel.interpret(grid, *given(expected))
    kernel.launch(grid, *given(found), device="ptxsim", target="sm_80", sanitize=True)
    np.testing.assert_array_equal(found, expected)
    (code,) = kernel._gpu._codes.values()
    assert ("cp.async.cg" in code.ptx) == (padding == "zero")


def test_what_lies_behind_is_nan() -> None:
    case = Product(16, 16, 16, "bf16")
    a, _ = case.matrices(3)
    assert a.dtype == ml_dtypes.bfloat16
    multiplied(case, 3, "sm_80")
