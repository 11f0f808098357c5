"""Products of masked blocks: what the definition gives, NaN and infinities included, and rounded as often."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

from .....support.random_kernels.products import SIDES, Product


@pytest.mark.one_in(12)
@pytest.mark.parametrize("seed", range(24))
def test_a_product_on_the_host(agree, seed: int) -> None:
    product = Product.random(seed, columns=(1, 8, 16, 32, 64, 128), wide=True)
    for data in range(2):
        agree(product.text(), 2, *product.arguments(100 * seed + data))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("seed", "target"), [(seed, ("sm_80", "sm_90a")[seed % 2]) for seed in range(8)])
def test_a_product_on_a_simulated_gpu(same, seed: int, target: str) -> None:
    product = Product.random(1000 + seed, columns=(16, 32))
    kernel = jn.kernel.from_ttir(product.text())
    arguments = product.arguments(seed)
    results = [[argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments] for _ in range(2)]
    kernel.interpret(2, *results[0])
    kernel.launch(2, *results[1], device="ptxsim", target=target)
    same(results[1][2], results[0][2])


@pytest.mark.parametrize("without", [None, *SIDES])
def test_what_shared_masks_leave_out_costs_nothing(without: str | None) -> None:
    """Masks of both operands along k, and of rows and columns that the store has as well, only make a product shorter. An
    operand that ends alone is followed by zeros, which infinities of the other one multiply."""
    masks = frozenset(SIDES) - {without}
    product = Product(32, 64, 16, 9, "f32", "f32", masks, turned=False, loaded=False, after=False)
    alone = without in ("a_depth", "b_depth", "c_rows", "c_columns")
    assert ("jn_zeros" in jn.kernel.from_ttir(product.text()).llvm_ir()) == alone
