"""The larger and the smaller of two floats: NaN where either is, and +0 above -0, in vectors of every width."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from ....support.tiers import each

SPECIAL = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 5e-324, 1e-45, -1e-40, 3e38, 65504.0])
TARGETS = (None, "x86-64-v3", "x86-64-v4")


def wanted(a: Any, b: Any, greater: bool) -> Any:
    chosen = np.where(a > b, a, b) if greater else np.where(a < b, a, b)
    negative = (np.signbit(a) & np.signbit(b)) if greater else (np.signbit(a) | np.signbit(b))
    chosen = np.where((a == 0) & (b == 0), np.where(negative, -0.0, 0.0), chosen)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, chosen).astype(a.dtype)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("dtype", "target"), each(("float32", "float64", "float16"), TARGETS, times=2))
def test_every_pair(dtype: str, target: str | None) -> None:
    if target == "x86-64-v4" and not host_target().has("avx512dq"):
        pytest.skip("needs AVX-512")
    if not host_target().is_x86 and target is not None:
        pytest.skip("x86-64 alone")
    with np.errstate(over="ignore"):
        values = SPECIAL.astype(dtype)
    a, b = (np.ascontiguousarray(each.reshape(-1)) for each in np.meshgrid(values, values))
    for count in (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, len(a)):
        for start in range(0, len(a) - count + 1, max(1, count // 2)):
            x, y = a[start : start + count], b[start : start + count]
            if start == 0:
                graph = jn.Graph("g", [jn.TensorType(dtype, (count,), name=name) for name in "xy"])
                one, other = graph.inputs
                graph.output(jn.maximum(one, other), jn.minimum(one, other), jn.maximum(jn.minimum(one, other), one * 1))
                model = jn.compile(graph, device="cpu", target=target, cache=False)
            low = wanted(x, y, False)
            for result, right in zip(model(x, y), (wanted(x, y, True), low, wanted(low, x, True)), strict=True):
                found = np.asarray(result)
                np.testing.assert_array_equal(found, right)
                numbers = ~np.isnan(right)
                np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(right)[numbers])
