"""What launches find out of their arguments, and what it is good for."""

from __future__ import annotations

import re
from dataclasses import replace

import joinery as jn
import numpy as np
import pytest
from joinery.interface.gpu_descriptors import WIDTHS, width_of

from ....support.kernels.products import Product

TEXT = replace(Product(64, 64, 32), multiple=1).text.replace("tt.divisibility = 16", "tt.divisibility = 1")


@pytest.mark.parametrize(
    ("number", "width"), [(0, 16), (16, 16), (-48, 16), (8, 8), (-24, 8), (100, 4), (-4, 4), (2, 1), (-1, 1)]
)
def test_numbers(number: int, width: int) -> None:
    assert width_of(number) == width_of(np.int64(number)) == WIDTHS[number % 16] == width


@pytest.mark.parametrize(
    ("value", "width"), [(True, 1), (False, 1), (16.0, 1), (np.float32(0), 1), (None, 1), (np.uint64(2**64 - 8), 8)]
)
def test_what_is_no_integer(value: object, width: int) -> None:
    assert width_of(value) == width


def test_where_an_array_starts() -> None:
    whole = np.zeros(64, np.float32)
    assert [width_of(whole[start:]) for start in (0, 1, 2, 3, 4)] == [16, 4, 8, 4, 16]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("k", "columns", "copies"),
    [
        (48, 64, {("cg", "16")}),
        (40, 72, {("cg", "16")}),
        (44, 68, {("ca", "8")}),
        (44, 64, {("ca", "8"), ("cg", "16")}),  # rows of A are multiples of 8 bytes, rows of B of 16
        (50, 66, set()),  # elements of two bytes cannot be copied one by one
    ],
)
def test_rows_are_copied_as_widely_as_their_length_allows(k: int, columns: int, copies: set[tuple[str, str]]) -> None:
    kernel = jn.kernel.from_ttir(TEXT)
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((64, k), (k, columns)))
    c = np.zeros((64, 64), np.float32)
    kernel.launch((1,), a, b, c, k, columns, k, device="ptxsim", target="sm_80", sanitize=True)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32))[:, :64])
    (code,) = kernel._gpu._codes.values()
    found = set(re.findall(r"cp\.async\.(c[ag])\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", code.ptx))
    assert found == copies


@pytest.mark.slow
def test_few_codes_for_many_sizes() -> None:
    kernel = jn.kernel.from_ttir(TEXT)
    b = np.ones((64, 64), np.float16)
    for k in range(1, 33):
        a, c = np.ones((64, k), np.float16), np.zeros((64, 64), np.float32)
        kernel.launch((1,), a, b, c, k, 64, k, device="ptxsim", target="sm_80")
        assert (c == k).all()
    assert len(kernel._gpu._codes) == 4
