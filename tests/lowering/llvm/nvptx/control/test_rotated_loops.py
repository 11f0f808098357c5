"""Attention on warpgroups: the second product of an iteration runs while the next one computes its weights."""

from __future__ import annotations

import math
import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.benchmarks import gpu_texts

from .....support.tiers import halved

LOG2_E = 1.4426950408889634


def _ptx(text: str, warps: int, target: str = "sm_90a") -> str:
    kernel = jn.kernel.from_ttir(text)
    return kernel.gpu_code(target, warps, tensor_maps=True, multiples=True, bounded=True).ptx


def _is_rotated(ptx: str) -> bool:
    return "wgmma.wait_group.sync.aligned 1;" in ptx


def _attention(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    scores = q.astype(np.float32) @ k.astype(np.float32).T * np.float32(scale)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "k", "width", "warps", "causal"),
    halved([
        pytest.param(*each)
        for each in ((64, 64, 128, 4, True), (64, 64, 128, 4, False), (64, 128, 64, 4, False), (128, 128, 128, 8, True))
    ]),
)
def test_it_computes_attention_in_any_number_of_iterations(q: int, k: int, width: int, warps: int, causal: bool) -> None:
    text = gpu_texts.attention(q, k, width, "f16", causal)
    assert _is_rotated(_ptx(text, warps))
    kernel, scale, random = jn.kernel.from_ttir(text), 1 / math.sqrt(width), np.random.default_rng(q + k)
    for blocks in (1, 2, 3, 5):  # of the three stages, each is the last of some
        rows = blocks * max(q, k)
        arrays = [random.standard_normal((rows, width)).astype(np.float16) for _ in range(3)]
        out = np.zeros((rows, width), np.float16)
        tensors = [jn.TensorDescriptor(x) for x in (*arrays, out)]
        kernel.launch(
            (rows // q, 1), *tensors, rows, scale * LOG2_E, device="ptxsim", target="sm_90a", warps=warps, sanitize=True
        )
        assert np.abs(out - _attention(*arrays, scale, causal)).max() < 4e-3


def test_no_iteration_leaves_the_initial_values() -> None:
    text = gpu_texts.attention(64, 64, 128, "f16")
    text = text.replace("arith.divf %sum#2, %den_w", "arith.addf %sum#2, %den_w")
    kernel = jn.kernel.from_ttir(text)
    assert _is_rotated(_ptx(text, 4))
    arrays = [np.ones((64, 128), np.float16) for _ in range(4)]
    tensors = [jn.TensorDescriptor(x) for x in arrays]
    kernel.launch((1, 1), *tensors, 0, 0.18, device="ptxsim", target="sm_90a", warps=4, sanitize=True)
    assert not arrays[3].any()


def test_the_second_product_is_waited_for_behind_the_weights() -> None:
    ptx = _ptx(gpu_texts.attention(64, 64, 128, "f16"), 4)
    loop = ptx[ptx.index("wgmma.wait_group.sync.aligned 1;") :]
    before, _, after = loop.partition("wgmma.wait_group.sync.aligned 0;")
    weights = 64 * 64 // 128 + 2  # and what scales the two rows of a thread
    assert len(re.findall(r"ex2\.approx", before)) == weights
    assert "mbarrier.try_wait" in before  # a branch, across which the assembler moves no arithmetic
    assert not re.search(r"ex2\.approx", after)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text, id="as it is"),
        pytest.param(
            lambda text: text.replace("scf.yield %new, %den_next, %acc_next", "%twice = arith.addf %acc_next, %acc_next : "
                                      "tensor<64x128xf32>\n    scf.yield %new, %den_next, %twice"), id="its sum is changed",
        ),
        pytest.param(
            lambda text: text.replace("arith.truncf %p :", "arith.truncf %clear :"), id="they do not depend on each other",
        ),
    ],
)  # fmt: skip
def test_products_that_depend_on_each_other_in_another_way_stay(change: Any, request: Any) -> None:
    text = change(gpu_texts.attention(64, 64, 128, "f16"))
    assert _is_rotated(_ptx(text, 4)) == request.node.callspec.id.startswith("as it is")


def test_loops_without_registers_for_it_stay() -> None:
    assert _is_rotated(_ptx(gpu_texts.attention(64, 128, 128), 4))
    assert not _is_rotated(_ptx(gpu_texts.attention(64, 128, 256), 4))
    assert not _is_rotated(_ptx(gpu_texts.attention(64, 32, 128), 4))  # three blocks share a multiprocessor


def test_pointers_and_other_targets_stay() -> None:
    assert not _is_rotated(_ptx(gpu_texts.attention(64, 64, 128, described=False), 4))
    assert "wgmma" not in _ptx(gpu_texts.attention(64, 64, 128, described=False), 4, "sm_80")
