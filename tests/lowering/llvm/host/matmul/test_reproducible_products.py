"""Products with `numerics="reproducible"`: the interpreter, hosts and simulated GPUs agree to the bit, whatever masks leave."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.random_kernels.products import Product


def arguments(product: Product, seed: int) -> list[Any]:
    """Fractions of many magnitudes, some of whose products are denormal or underflow to -0, beside infinities and NaN."""
    rng = np.random.default_rng(seed)
    found = product.arguments(seed)
    for place in range(3):
        array = found[place]
        spread = 2.0 ** rng.integers(*((-90, 3) if array.dtype.itemsize > 2 else (-12, 3)), array.shape)
        fractions = (rng.standard_normal(array.shape) * spread).astype(array.dtype)
        fractions[rng.random(array.shape) < 0.1] = -0.0
        found[place] = np.where(np.isfinite(array.astype(np.float64)), fractions, array).astype(array.dtype)
    return found


def bits(array: Any) -> bytes:
    """With one NaN."""
    wide = array.astype(np.float64)
    return array.tobytes() if not np.isnan(wide).any() else np.where(np.isnan(wide), np.nan, wide).tobytes()


@pytest.mark.one_in(24)
@pytest.mark.parametrize("seed", range(14))
def test_one_result(seed: int) -> None:
    on_gpu = seed % 2 == 1
    product = Product.random(seed, columns=(16, 32) if on_gpu else (1, 8, 16, 64, 128), wide=not on_gpu)
    k = jn.kernel.from_ttir(product.text(), numerics="reproducible", cache=False)
    own = arguments(product, seed)
    results: dict[Any, bytes] = {}
    devices: tuple[Any, ...] = ("interpreter", "cpu", *(("sm_80", "sm_90a") if on_gpu else ()))
    for device in devices:
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in own]
        if device == "interpreter":
            k.interpret(2, *given)
        elif device == "cpu":
            k.launch(2, *given)
        else:
            k.launch(2, *given, device="ptxsim", target=device)
        results[device] = bits(given[2])
    assert len(set(results.values())) == 1, [device for device in devices if results[device] != results["interpreter"]]
