"""`tt.fft` as threads run it, against NumPy."""

from __future__ import annotations

import pytest

from ....support.kernels.transforms import KINDS, check
from ....support.tiers import each

CASES = (((8,), 0, 7), ((16,), 0, 12), ((4, 8), 1, 6), ((16, 2), 0, 8), ((4,), 0, 1), ((64,), 0, 37))


@pytest.mark.parametrize(("kind", "case"), each(KINDS, CASES, times=1))
def test_lines_are_transformed_by_threads(kind: str, case: tuple[tuple[int, ...], int, int]) -> None:
    shape, axis, length = case
    check(shape, axis, kind, length, "ptxsim")
    check(shape, axis, kind, length, "ptxsim", is_wide=True)
