"""Lines that are sorted in memory, in the interpreter: sizes that no array has are refused before addresses are made."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

KERNEL = """tt.func public @k(%x: !tt.ptr<i32>, %lines: i64, %count: i64) {
  tt.sort_lines %x, %lines, %count : !tt.ptr<i32>, i64, i64
  tt.return
}"""


def test_lines_are_sorted_each() -> None:
    x = np.random.default_rng(0).integers(-9, 10, (3, 5)).astype(np.int32)
    expected = np.sort(x, 1)
    jn.kernel.from_ttir(KERNEL).interpret((1,), x, 3, 5)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(("lines", "count"), [(1, 2**62), (2**40, 2**40), (-1, 5), (3, -1), (3, 6), (1, 2**40)])
def test_sizes_of_no_array(lines: int, count: int) -> None:
    x = np.arange(15, dtype=np.int32)[::-1].copy()
    with pytest.raises(jn.UserError):
        jn.kernel.from_ttir(KERNEL).interpret((1,), x, lines, count)
    assert x.tolist() == [*range(14, -1, -1)]
