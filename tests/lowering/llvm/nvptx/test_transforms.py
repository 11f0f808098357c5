"""`tt.fft` as threads run it, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

from ....support.kernels.transforms import KINDS, check, kernel
from ....support.tiers import each

CASES = (((8,), 0, 7), ((16,), 0, 12), ((4, 8), 1, 6), ((16, 2), 0, 8), ((4,), 0, 1), ((64,), 0, 31))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), each(KINDS, CASES, times=1))
def test_lines_are_transformed_by_threads(kind: str, case: tuple[tuple[int, ...], int, int]) -> None:
    shape, axis, length = case
    check(shape, axis, kind, length, "ptxsim")
    check(shape, axis, kind, length, "ptxsim", is_wide=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("elem", ["i64", "f64"])
def test_reproducible_texts_have_the_same_bits_on_hosts(elem: str) -> None:
    made = jn.kernel.from_ttir(kernel((16,), 0, "forward", 16 if elem == "i64" else 8, elem), numerics="reproducible")
    x = np.random.default_rng(3).normal(size=32).astype(np.float32).view(np.int64) if elem == "i64" else np.arange(16.0) ** 2
    found = []
    for device in ("cpu", "ptxsim"):
        found.append(np.zeros_like(x))
        made.launch(1, x, found[-1], device=device)
    assert found[0].any()
    assert np.array_equal(*found)
