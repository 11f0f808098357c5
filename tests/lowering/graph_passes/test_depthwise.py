"""Convolutions of single channels between images with channels first: which kernels permute, and that values are the same."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(12)


def _convolved(x: np.ndarray, kernel: np.ndarray, step: int, pad: int) -> np.ndarray:
    """A convolution of each channel of (N, C, H, W) with (C, 1, R, S), tap by tap in float64."""
    wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))).astype(np.float64)
    rows, columns = ((extent - size) // step + 1 for extent, size in zip(wide.shape[2:], kernel.shape[2:], strict=True))
    total = np.zeros((*x.shape[:2], rows, columns))
    for r in range(kernel.shape[2]):
        for s in range(kernel.shape[3]):
            taken = wide[:, :, r : r + step * (rows - 1) + 1 : step, s : s + step * (columns - 1) + 1 : step]
            total += taken * kernel[None, :, 0, r, s, None, None]
    return total


def _model(channels: int, size: int | str, taps: int, step: int, pad: int, first: bool = True, last: bool = True,
           relu: bool = False) -> Any:  # fmt: skip
    """first, last: whether the image, and the result, have channels first. The kernel always has them so."""
    image = (2, channels, size, size) if first else (2, size, size, channels)
    graph = jn.Graph("g", [jn.TensorType("float32", image, "x"), jn.TensorType("float32", (channels, 1, taps, taps), "k")])
    x, k = graph.inputs
    x = jn.permute(x, (0, 2, 3, 1)) if first else x
    found = jn.conv2d(x, jn.permute(k, (2, 3, 1, 0)), groups=channels, stride=step, padding=pad)
    found = jn.relu(found + 0.5) if relu else found
    graph.output(jn.permute(found, (0, 3, 1, 2)) if last else found)
    return jn.compile(graph, "cpu", cache=False)


@pytest.mark.slow
@pytest.mark.parametrize(("taps", "step", "pad"), [(3, 1, 1), (3, 2, 1), (5, 1, 2), (5, 2, 0), (7, 1, 3), (1, 2, 0)])
@pytest.mark.parametrize("channels", [3, 16, 40])
@pytest.mark.parametrize("size", [17, "n"])
def test_values_in_every_order_of_axes(channels: int, size: int | str, taps: int, step: int, pad: int) -> None:
    x = RNG.standard_normal((2, channels, 17, 17)).astype(np.float32)
    k = RNG.standard_normal((channels, 1, taps, taps)).astype(np.float32)
    expected = _convolved(x, k, step, pad)
    for first, last, relu in ((True, True, False), (True, False, True), (False, True, True), (False, False, False)):
        given = x if first else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        found = _model(channels, size, taps, step, pad, first, last, relu)(given, k)
        wanted = np.maximum(expected + 0.5, 0) if relu else expected
        np.testing.assert_allclose(found, wanted if last else wanted.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-4)


def _kernels(*of: Any) -> list[bool]:
    """Returns for each kernel whether it is the sum over taps."""
    return ["multiply_add" in kernel.fused for kernel in _model(*of).kernels]


@pytest.mark.slow
def test_images_are_permuted_by_kernels_of_their_own() -> None:
    """The filters are stored first. Few taps without steps are read along planes, as are few channels."""
    assert sorted(_kernels(32, 56, 5, 2, 2)) == [False, False, False, True]  # filters, image, result
    assert sorted(_kernels(32, 56, 3, 1, 1)) == [False, True]
    assert len(_kernels(3, 56, 5, 2, 0)) == 2
    assert len(_kernels(32, 56, 3, 1, 1, True, False)) == 3  # the result has channels last, so the image has, too
    assert len(_kernels(32, 56, 3, 1, 1, False, True)) == 3
    assert len(_kernels(32, 56, 3, 1, 1, False, False)) == 2
    assert "multiply_add" not in _model(32, 56, 5, 2, 2, relu=True).kernels[-1].fused
