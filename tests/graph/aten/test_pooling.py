"""Poolings and their gradients against sums over windows, and distances against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.aten_calls import run, several

RANDOM = np.random.default_rng(11)
IMAGE = RANDOM.standard_normal((2, 3, 7, 6))
SETTINGS = [((3, 2), (2, 2), (1, 1)), ((2, 2), (2, 2), (0, 0)), ((3, 3), (1, 2), (1, 0))]


def windows(size: int, kernel: int, step: int, pad: int, ceil: bool) -> list[tuple[int, int, int]]:
    """Begin, end (within the image and its padding) and length of each window of an axis, as PyTorch defines them."""
    count = -(-(size + 2 * pad - kernel) // step) + 1 if ceil else (size + 2 * pad - kernel) // step + 1
    if ceil and (count - 1) * step >= size + pad:
        count -= 1
    return [(n * step - pad, min(n * step - pad + kernel, size + pad), 0) for n in range(count)]


def averages(x: np.ndarray, kernel: Any, step: Any, pad: Any, ceil: bool, counts: bool, divisor: int | None) -> np.ndarray:
    rows, columns = (windows(x.shape[2 + axis], kernel[axis], step[axis], pad[axis], ceil) for axis in range(2))
    found = np.zeros((*x.shape[:2], len(rows), len(columns)))
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        part = x[:, :, max(row[0], 0) : row[1], max(column[0], 0) : column[1]]
        area = (row[1] - row[0]) * (column[1] - column[0]) if counts else part.shape[2] * part.shape[3]
        found[:, :, i, j] = part.sum((2, 3)) / (divisor or area)
    return found


@pytest.mark.parametrize(("kernel", "step", "pad"), SETTINGS)
@pytest.mark.parametrize(("ceil", "counts", "divisor"), [(False, True, None), (True, True, None), (True, False, None),
                                                         (False, True, 5)])  # fmt: skip
def test_averages_and_their_gradients(kernel: Any, step: Any, pad: Any, ceil: bool, counts: bool, divisor: int | None) -> None:
    wanted = averages(IMAGE, kernel, step, pad, ceil, counts, divisor)
    settings = (kernel, step, pad, ceil, counts, divisor)
    got = run("avg_pool2d.default", IMAGE, *settings, dtype=jn.float64, shape=wanted.shape)
    np.testing.assert_allclose(got, wanted)
    grad = RANDOM.standard_normal(wanted.shape)
    back = run("avg_pool2d_backward.default", grad, IMAGE, *settings, dtype=jn.float64, shape=IMAGE.shape)
    assert np.vdot(grad, wanted) == pytest.approx(np.vdot(back, IMAGE))  # pooling is linear


def test_averages_of_integers_are_rounded_towards_zero() -> None:
    x = np.array([[[-3, 2, 5, 4]]])
    got = run("avg_pool1d.default", x, (2,), (1,), dtype=jn.int64, shape=(1, 1, 3))
    assert got.tolist() == [[[0, 3, 4]]]


def test_gradients_of_adaptive_averages() -> None:
    rows, columns = (np.array([[0, 2], [1, 4], [3, 6], [5, 7]]), np.array([[0, 3], [3, 6]]))
    wanted = np.stack([np.stack([IMAGE[:, :, a:b, c:d].mean((2, 3)) for c, d in columns], -1) for a, b in rows], -2)
    got = run("_adaptive_avg_pool2d.default", IMAGE, (4, 2), dtype=jn.float64, shape=wanted.shape)
    np.testing.assert_allclose(got, wanted)
    grad = RANDOM.standard_normal(wanted.shape)
    back = run("_adaptive_avg_pool2d_backward.default", grad, IMAGE, dtype=jn.float64, shape=IMAGE.shape)
    assert np.vdot(grad, wanted) == pytest.approx(np.vdot(back, IMAGE))


def test_gradients_of_maxima_go_to_their_positions_and_add_up() -> None:
    settings = ((3, 3), (2, 2), (1, 1), (1, 1), False)
    best, at = several("max_pool2d_with_indices.default", IMAGE, *settings,
                       results=[np.zeros((2, 3, 4, 3)), np.zeros((2, 3, 4, 3), np.int64)])  # fmt: skip
    grad = RANDOM.standard_normal(best.shape)
    wanted = np.zeros((6, 42))
    for image, (places, values) in enumerate(zip(at.reshape(6, -1), grad.reshape(6, -1), strict=True)):
        np.add.at(wanted[image], places, values)
    got = run("max_pool2d_with_indices_backward.default", grad, IMAGE, *settings, at, dtype=jn.float64, shape=IMAGE.shape)
    np.testing.assert_allclose(got, wanted.reshape(IMAGE.shape))


def test_gradients_of_kernels_in_groups() -> None:
    """⟨grad, conv(x, w)⟩ = ⟨grad_w, w⟩: a convolution is linear in its kernel."""
    x, w = RANDOM.standard_normal((2, 6, 9)), RANDOM.standard_normal((4, 3, 3))
    settings = ((2,), (1,), (1,), False, (0,), 2)
    y = run("convolution.default", x, w, None, *settings, dtype=jn.float64, shape=(2, 4, 5))
    grad = RANDOM.standard_normal(y.shape)
    _, kernel, _ = several("convolution_backward.default", grad, x, w, (4,), *settings, (True, True, True),
                           results=[x, w, np.zeros(4)])  # fmt: skip
    assert np.vdot(grad, y) == pytest.approx(np.vdot(kernel, w))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf, 0.0])
def test_distances_are_norms_of_differences(p: float) -> None:
    x, y = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((2, 5, 4))
    wanted = np.linalg.norm(x[:, :, None] - y[:, None], ord=p, axis=-1)
    np.testing.assert_allclose(run("_cdist_forward.default", x, y, p, None, dtype=jn.float64, shape=(2, 3, 5)), wanted)
    pairs = [np.linalg.norm(x[0, i] - x[0, j], ord=p) for i, j in itertools.combinations(range(3), 2)]
    np.testing.assert_allclose(run("_pdist_forward.default", x[0], p, dtype=jn.float64, shape=(3,)), pairs)
