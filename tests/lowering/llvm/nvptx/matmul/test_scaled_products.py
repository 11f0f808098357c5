"""tt.dot_scaled on GPUs: operands that fit a narrower type go to the matrix instructions of that type."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

from .....support.kernels.blocks import DTYPES, check, empty
from .....support.kernels.blocks import kernel as block_kernel
from .....support.kernels.scaled_products import KINDS, Case
from .....support.tiers import each


def simulated_ptx(kernel: jn.kernel.Kernel) -> str:
    """Of the only code of a kernel that was launched."""
    (code,) = kernel._gpu._codes.values()
    return code.ptx


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("a", "b"), each(list(KINDS), list(KINDS), times=2))
def test_every_pair_of_kinds(a: str, b: str) -> None:
    """Operands have up to 8 significant bits, which bf16 holds, or 11 of float16, which tf32 does."""
    kernel = Case(a, b, m=32, n=16).check(device="ptxsim", target="sm_80", sanitize=True)
    kind = "tf32" if "fp16" in (a, b) else "bf16"
    assert f".f32.{kind}.{kind}.f32" in simulated_ptx(kernel)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("a", "b"), [("e2m1", "e2m1"), ("e4m3", "bf16"), ("bf16", "e2m1"), ("fp16", "e5m2"), ("e3m2", "e2m3")])
def test_warpgroups(a: str, b: str) -> None:
    kernel = Case(a, b, m=64, n=32).check(device="ptxsim", target="sm_90a", sanitize=True)
    kind = "tf32" if "fp16" in (a, b) else "bf16"
    assert f"wgmma.mma_async.sync.aligned.m64n32k{8 if kind == 'tf32' else 16}.f32.{kind}.{kind}" in simulated_ptx(kernel)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("elements", "group"), each([("e2m1", "bf16"), ("e4m3", "bf16"), ("bf16", ""), ("fp16", "")], [16, 32])
)
def test_float_scales_have_bits_too(elements: tuple[str, str], group: int) -> None:
    """Four of them: with eight of the element there are too many for tf32."""
    kind, narrow = elements
    case = Case(kind, "e2m1", m=32, n=16, group=group, scale_type="f8E4M3FN")
    ptx = simulated_ptx(case.check(device="ptxsim", target="sm_80", sanitize=True))
    assert (f".f32.{narrow}.{narrow}.f32" in ptx) if narrow else ("mma.sync" not in ptx)


@pytest.mark.parametrize("result", ["f16", "bf16", "f64"])
def test_results(result: str) -> None:
    """float64 is multiplied as such."""
    ptx = simulated_ptx(Case("e2m1", "bf16", m=32, n=16, result=result, span=3).check(device="ptxsim", target="sm_80"))
    assert (".f32.bf16.bf16.f32" in ptx) == (result != "f64")


def test_a_batch_and_small_blocks() -> None:
    for case in (Case("e2m1", "e2m1", m=16, n=8, batch=(4,)), Case("e4m3", "e2m1", m=2, n=2, batch=(2,)), Case(m=4, n=4)):
        case.check(device="ptxsim", target="sm_80", sanitize=True)


def test_scales_that_are_no_numbers_and_large_ones() -> None:
    """NaN is one; 2 ** 113 takes numbers to where float16 has none."""
    case = Case("e2m1", "e2m1", m=16, n=8, k=64, scales="a")
    scales = case.arrays[2]
    scales[:] = 127
    scales[0], scales[2] = 255, 240
    kernel = jn.kernel.from_ttir(case.text)
    right, found = np.zeros(case.shape, np.float32), np.zeros(case.shape, np.float32)
    kernel.interpret(1, *case.arrays, right.reshape(-1))
    kernel.launch(1, *case.arrays, found.reshape(-1), device="ptxsim", target="sm_80")
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found, right, rtol=2e-6, atol=1e-5)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("elem", ["f16", "f32"])
@pytest.mark.parametrize("said", ['"f64"', '"i8"', '"bf16"', '"tf32"', "3 : i32"])
def test_texts_may_say_anything_of_operands(elem: str, said: str) -> None:
    """Only float32 operands are taken for something narrower, and only for what can be."""
    block, product = f"tensor<32x32x{elem}>", f"%y0 = tt.dot %x0, %x1, %zero {{joinery.exact = {said}}}"
    body = f"%zero = arith.constant dense<0.0> : tensor<32x32xf32>\n{product} : {block} * {block} -> tensor<32x32xf32>"
    k = block_kernel([((32, 32), elem)] * 2, [((32, 32), "f32")], body)
    numbers = [np.random.default_rng(n).integers(-9, 10, (32, 32)).astype(DTYPES[elem]) for n in range(2)]
    check(k, *numbers, empty((32, 32), "f32"))
    is_taken = elem == "f32" and said in ('"bf16"', '"tf32"')
    assert (f".f32.{said[1:-1]}" in k.ptx("sm_80")) == is_taken
