"""Products that each thread multiplies and adds for its own elements, from what a loop has loaded ahead."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product as combinations

import numpy as np
import pytest
from joinery.runtime.ptxsim import Module

from .....support.kernels.products import Product
from .....support.tiers import each

ARRANGEMENTS = list(combinations([False, True], repeat=2))


def checked(case: Product, k: int, warps: int, target: str = "sm_80") -> str:
    """Multiply matrices of small whole numbers; the PTX."""
    code = case.code(warps, target)
    a, b = case.matrices(k)
    found = case.launch(code, a, b)
    np.testing.assert_array_equal(found, (a.astype(np.int64) @ b.astype(np.int64)).astype(found.dtype))
    return str(code.ptx)


BLOCKS = [(64, 64, 16, 4), (32, 64, 8, 1), (16, 16, 32, 2), (128, 32, 64, 8), (8, 64, 4, 1), (16, 32, 2, 1)]
"""m, n, depth and warps."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("block", "transposed"), each(BLOCKS, ARRANGEMENTS))
def test_operands_however_they_lie(block: tuple[int, int, int, int], transposed: tuple[bool, bool]) -> None:
    (m, n, depth, warps), (a_transposed, b_transposed) = block, transposed
    case = Product(m, n, depth, "f32", "f32", a_transposed, b_transposed)
    for k in (0, 16, 80):
        ptx = checked(case, k, warps)
    # two steps are too few for a thread to read together, and to copy; across steps there is no such bound
    assert ("cp.async" in ptx) == (depth > 2 or a_transposed or not b_transposed)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("a_transposed", "b_transposed"), ARRANGEMENTS)
def test_blocks_loaded_as_their_transpose(a_transposed: bool, b_transposed: bool) -> None:
    checked(Product(32, 64, 16, "f32", "f32", a_transposed, b_transposed, turned=True), 48, 4)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("multiple", "copy"), [(16, ("cg", "16")), (2, ("ca", "8")), (1, ("ca", "4"))])
@pytest.mark.parametrize("k", [1, 6, 50, 64])
def test_copies_are_as_wide_as_what_is_known(multiple: int, copy: tuple[str, str], k: int) -> None:
    """Rows that start anywhere are copied element by element, ahead of their turn all the same."""
    case = Product(64, 32, 16, "f32", "f32", multiple=multiple)
    if k % multiple:
        k += -k % multiple
    ptx = checked(case, k, 4)
    found = set(re.findall(r"cp\.async\.(c[ag])\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", ptx))
    assert found == {copy}
    assert "ld.global" not in ptx


def test_whole_numbers() -> None:
    ptx = checked(Product(32, 32, 16, "i32", "i32"), 48, 2)
    assert "cp.async" in ptx
    assert "mul.lo.s32" in ptx


@pytest.mark.one_in(2)
@pytest.mark.parametrize("elem", ["f32", "i32"])
def test_sums_are_chains_in_the_order_of_the_contraction(elem: str) -> None:
    """Numbers whose sum depends on the order, and wraps."""
    case = Product(16, 16, 16, elem, elem)
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, 16)))
    if elem == "i32":
        a, b = (rng.integers(-(2**31), 2**31, shape).astype(np.int32) for shape in ((16, 64), (64, 16)))
        expected = (a.astype(np.int64).astype(object) @ b.astype(object) % 2**32).astype(np.uint32).view(np.int32)
    else:
        expected = np.zeros((16, 16), np.float32)
        for step in range(64):  # the product of two float32 is exact in float64, and so is all but a rounding tie of the sum
            expected = (a[:, step : step + 1].astype(np.float64) * b[step] + expected).astype(np.float32)
    np.testing.assert_array_equal(case.launch(case.code(1, "sm_80"), a, b), expected)


TILES = [(64, 64, 16, 4), (128, 128, 32, 4), (128, 128, 16, 8), (64, 64, 8, 4)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("block", "transposed"), each(TILES, ARRANGEMENTS))
def test_no_bank_is_wanted_twice(block: tuple[int, int, int, int], transposed: tuple[bool, bool]) -> None:
    (m, n, depth, warps), (a_transposed, b_transposed) = block, transposed
    case = Product(m, n, depth, "f32", "f32", a_transposed, b_transposed)
    code = case.code(warps, "sm_80")
    a, b = (np.zeros(shape, np.float32) for shape in ((m, 2 * depth), (2 * depth, n)))
    stored = [np.ascontiguousarray(x.T if t else x) for x, t in ((a, a_transposed), (b, b_transposed))]
    given = (*stored, np.zeros((m, n), np.float32), *(x.shape[1] for x in stored), 2 * depth)
    result = Module(code.ptx).kernel().launch((1, 1), None, given, shared=code.lowered.shared_bytes, level=3)
    lines = code.ptx.splitlines()
    reads = {line: counts for line, counts in result.conflicts.items() if "ld.shared" in lines[line - 1]}
    assert reads
    assert all(least == needed for _, least, needed in reads.values()), {lines[line - 1]: c for line, c in reads.items()}


def test_the_result_is_stored_as_it_lies() -> None:
    """Eight lanes have a line of the result between them: nothing is exchanged, and no memory is needed for it."""
    code = Product(128, 128, 16, "f32", "f32").code(8, "sm_80")
    assert "st.shared" not in code.ptx
    assert code.lowered.shared_bytes == 2 * 2 * 128 * 16 * 4
    assert code.ptx.count("st.global.v4") == 16


def test_products_in_tf32_round_what_they_read() -> None:
    """Blocks that are too small for an instruction, whose operands are rounded first, are not read as they were loaded."""
    case = Product(8, 8, 4, "f32", "f32", facts=", inputPrecision = tf32")
    code = case.code(1, "sm_80")
    assert "cp.async" not in code.ptx
    a, b = (np.full(shape, 1 + 2.0**-14, np.float32) for shape in ((8, 16), (16, 8)))
    np.testing.assert_array_equal(case.launch(code, a, b), 16)
    exact = replace(case, facts="")
    assert (exact.launch(exact.code(1, "sm_80"), a, b) > 16).all()
