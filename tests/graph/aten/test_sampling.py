"""Sampling at a grid of positions and its gradients, against loops over pixels in Python and their differences."""

from __future__ import annotations

import itertools
import math

import joinery as jn
import numpy as np
import pytest

from ...support.aten_calls import run, several

RANDOM = np.random.default_rng(5)
IMAGE = {2: RANDOM.standard_normal((2, 3, 4, 5)), 3: RANDOM.standard_normal((1, 2, 3, 2, 4))}
GRID = {rank: RANDOM.uniform(-1.6, 1.6, (IMAGE[rank].shape[0], *(2, 3, 1)[:rank], rank)) for rank in (2, 3)}
CASES = [(rank, mode, outside, align) for rank in (2, 3) for mode in range(3) for outside in range(3) for align in (False, True)
         if rank == 2 or mode < 2]  # fmt: skip


def reflect(at: float, low: float, high: float) -> float:
    while not low <= at <= high:
        at = 2 * (low if at < low else high) - at
    return at


def keys(distance: float) -> float:
    d, a = abs(distance), -0.75
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def axis_taps(place: float, size: int, mode: int, outside: int, align: bool) -> list[tuple[int, float]]:
    """Pixels of one axis with their shares; those outside are left out."""
    at = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)

    def inside(x: float) -> float:
        x = reflect(x, low, high) if outside == 2 else x
        return min(max(x, 0.0), size - 1.0) if outside else x

    at = at if mode == 2 else inside(at)
    first = math.floor(at)
    if mode == 1:
        taps = [(round(at), 1.0)]
    elif mode == 0:
        taps = [(first, 1 - (at - first)), (first + 1, at - first)]
    else:
        taps = [(int(inside(first + k)), keys(at - first - k)) for k in (-1, 0, 1, 2)]
    return [(pixel, share) for pixel, share in taps if 0 <= pixel < size]


def sample(image: np.ndarray, grid: np.ndarray, mode: int, outside: int, align: bool) -> np.ndarray:
    """Sample images (N, C, …) at a grid (N, …, d)."""
    found = np.zeros((*image.shape[:2], *grid.shape[1:-1]))
    for number, *place in np.ndindex(grid.shape[:-1]):
        point = grid[(number, *place)][::-1]
        axes = [axis_taps(p, size, mode, outside, align) for p, size in zip(point, image.shape[2:], strict=True)]
        for taps in itertools.product(*axes):
            pixel = image[(number, slice(None), *(tap[0] for tap in taps))]
            found[(number, slice(None), *place)] += math.prod(tap[1] for tap in taps) * pixel
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.slow) if case[3] else case for case in CASES])
def test_images_are_sampled_and_gradients_are_differences(case: tuple[int, int, int, bool]) -> None:
    rank, mode, outside, align = case
    image, grid = IMAGE[rank], GRID[rank]
    wanted = sample(image, grid, mode, outside, align)
    got = run(f"grid_sampler_{rank}d.default", image, grid, mode, outside, align, dtype=jn.float64, shape=wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    grad = RANDOM.standard_normal(wanted.shape)
    to_image, to_grid = np.zeros_like(image), np.zeros_like(grid)
    step = 1e-6
    for at in np.ndindex(grid.shape):
        ends = []
        for sign in (1, -1):
            moved = grid[at[0] : at[0] + 1].copy()
            moved[(0, *at[1:])] += sign * step
            ends.append(sample(image[at[0] : at[0] + 1], moved, mode, outside, align))
        to_grid[at] = ((ends[0] - ends[1]) * grad[at[0] : at[0] + 1]).sum() / (2 * step)
    for pixel in np.ndindex(image.shape[2:]):  # results are linear in the image
        one = np.zeros((image.shape[0], 1, *image.shape[2:]))
        one[(slice(None), 0, *pixel)] = 1
        share = sample(one, grid, mode, outside, align)
        to_image[(slice(None), slice(None), *pixel)] = (grad * share).sum(tuple(range(2, rank + 2)))
    op = f"grid_sampler_{rank}d_backward.default"
    given = several(op, grad, image, grid, mode, outside, align, (True, True), results=[to_image, to_grid])
    np.testing.assert_allclose(given[0], to_image, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(given[1], to_grid, rtol=1e-6, atol=1e-7)


def test_halves_and_empty_grids_are_sampled() -> None:
    image, grid = IMAGE[2].astype(np.float16), GRID[2].astype(np.float16)
    wanted = sample(image.astype(float), grid.astype(float), 0, 0, False)
    got = run("grid_sampler_2d.default", image, grid, 0, 0, False, dtype=jn.float16, shape=wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-3)
    none = np.zeros((2, 0, 3, 2))
    got = run("grid_sampler_2d.default", IMAGE[2], none, 0, 0, False, dtype=jn.float64, shape=(2, 3, 0, 3))
    assert got.shape == (2, 3, 0, 3)
    op, both = "grid_sampler_2d_backward.default", (True, True)
    given = several(op, got, IMAGE[2], none, 0, 0, False, both, results=[IMAGE[2], none])
    assert not given[0].any()
    assert given[1].shape == none.shape


def test_a_pixel_outside_that_is_no_number_does_not_count() -> None:
    image = np.full((1, 1, 2, 2), np.inf)
    grid = np.full((1, 1, 1, 2), 4.0)
    got = run("grid_sampler_2d.default", image, grid, 0, 0, False, dtype=jn.float64, shape=(1, 1, 1, 1))
    ones = np.ones((1, 1, 1, 1))
    given = several("grid_sampler_2d_backward.default", ones, image, grid, 0, 0, False, (True, True), results=[image, grid])
    assert got.item() == 0
    assert not given[0].any()
    assert not given[1].any()
