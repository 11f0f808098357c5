"""tt.sort as threads run it, and the steps that it is expanded into, against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from joinery.lowering.tt.transforms.expand.expand_sorts import partners

from ....support.kernels.blocks import block_type, check, empty, kernel, some


@pytest.mark.parametrize("extent", [1, 2, 8, 16])
def test_the_steps_sort_every_sequence_of_zeros_and_ones(extent: int) -> None:
    values = np.arange(1 << extent)[None, :] >> np.arange(extent)[:, None] & 1
    at = np.arange(extent)
    for bits in partners(extent):
        other = values[at ^ bits]
        values = np.where((at < at ^ bits)[:, None], np.minimum(values, other), np.maximum(values, other))
    assert (np.diff(values, axis=0) >= 0).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shape", "axis", "elem"), [
    ((1,), 0, "i32"), ((64,), 0, "i32"), ((256,), 0, "i64"), ((8, 32), 1, "i8"), ((32, 4), 0, "i32"), ((2, 16, 4), 1, "i64"),
])  # fmt: skip
def test_blocks_are_sorted_by_threads(shape: tuple[int, ...], axis: int, elem: str) -> None:
    x = some(shape, elem)
    body = f"%y0 = tt.sort %x0 {{axis = {axis} : i32}} : {block_type(shape, elem)}"
    _, found = check(kernel([(shape, elem)], [(shape, elem)], body), x, empty(shape, elem))
    assert prod(found.shape) == x.size
    np.testing.assert_array_equal(found, np.sort(x, axis))
