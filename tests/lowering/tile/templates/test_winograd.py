"""Convolutions in tiles of results against plain sums in float64, on sizes that do not fill tiles, blocks and panels."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes import winograd
from joinery.runtime.storage.weight_packing import pack

A, B = 0.625, 1.5
P, Q = A * A, B * B
SUMS = {
    2: np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
    4: np.array([
        [1 / (P * Q), 0, 0],
        *[np.array([1, sign * point, point**2]) / (2 * point**2 * (point**2 - other**2))
          for point, other in ((A, B), (B, A)) for sign in (1, -1)],
        [0, 0, 1],
    ]),
}  # fmt: skip
NUMERICS = {2: "strict", 4: "fast"}
"""The numerics in which tiles have as many results along each axis, where all sizes are large enough."""


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "MIN_TILES", 1)
    monkeypatch.setattr(winograd, "MIN_CHANNELS", 1)
    monkeypatch.setattr(winograd, "MIN_FILTERS", 1)
    monkeypatch.setattr(winograd, "FEW_ROWS", -1 << 40)


def plain(x: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Convolve (N, H, W, C) with (3, 3, C, M) in float64."""
    height, width = x.shape[1] - 2, x.shape[2] - 2
    total = np.zeros((x.shape[0], height, width, filters.shape[-1]))
    with np.errstate(all="ignore"):
        for row in range(3):
            for column in range(3):
                part = x[:, row : row + height, column : column + width].astype(np.float64)
                total += np.einsum("nhwc,cm->nhwm", part, filters[row, column].astype(np.float64))
    return total


def convolved(
    x: np.ndarray, filters: np.ndarray, numerics: str = "strict", symbolic: bool = False
) -> tuple[jn.Model, np.ndarray]:
    graph = jn.Graph("convolution")
    image = graph.input(jn.float32, ("n", "h", "w", x.shape[3]) if symbolic else x.shape, "x")
    graph.output(jn.conv2d(image, graph.constant(filters)))
    model = jn.compile(graph, "cpu", cache=False, numerics=numerics)
    return model, model(x)


def side_of_tiles(model: jn.Model) -> int:
    layouts = [spec.layout.split(":")[0] for spec in model.compiled.constants]
    return 4 if "winograd4" in layouts else 2 if "winograd" in layouts else 1


def reached(x: np.ndarray, side: int) -> np.ndarray:
    """The largest |x| that comes into each result: of its window in tiles of 2 × 2, of its tile's windows in those of 4 × 4."""
    height, width = x.shape[1] - 2, x.shape[2] - 2
    largest = np.zeros((x.shape[0], height, width, 1))
    for row in range(height):
        for column in range(width):
            (top, down), (left, right) = (
                (at, 3) if side == 2 else (at // side * side, side + 2) for at in (row, column)
            )
            largest[:, row, column, 0] = np.abs(x[:, top : top + down, left : left + right]).max(axis=(1, 2, 3))
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 4, 4, 3), 2), ((2, 5, 4, 3), 5), ((1, 9, 16, 40), 33), ((3, 16, 7, 64), 64), ((1, 20, 18, 600), 70),
        ((2, 13, 13, 96), 130), ((1, 6, 8, 17), 16), ((2, 17, 19, 32), 32),
    ],
)
def test_any_size_is_the_sum_within_the_bound(shape: tuple[int, ...], count: int, symbolic: bool, side: int) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape, np.float32)
    filters = generator.standard_normal((3, 3, shape[3], count), np.float32)
    model, found = convolved(x, filters, NUMERICS[side], symbolic)
    assert side_of_tiles(model) == side
    unit, (roundings, factor) = 2.0**-24, {2: (10, 64), 4: (12, 564)}[side]
    bound = (shape[3] + roundings) * unit * factor * reached(x, side) * np.abs(filters).sum(axis=2).max(axis=(0, 1))
    exact = plain(x, filters)
    assert (np.abs(found - exact) <= bound).all()
    _, other = convolved(x, filters, "reproducible")
    sizes = plain(np.abs(x), np.abs(filters))
    errors = [np.abs(value - exact) / sizes for value in (found, other)]
    assert errors[0].mean() <= {2: 3, 4: 6}[side] * errors[1].mean() + unit / 8
    assert errors[0].max() <= {2: 1, 4: 16}[side] * unit * max(2, np.sqrt(shape[3]))


def test_small_integers_are_exact() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-8, 9, (2, 9, 11, 20)).astype(np.float32)
    filters = generator.integers(-8, 9, (3, 3, 20, 17)).astype(np.float32)
    model, found = convolved(x, filters)
    assert side_of_tiles(model) == 2
    np.testing.assert_array_equal(found, plain(x, filters))


def test_what_lies_outside_of_a_window_is_no_part_of_it_but_in_fast_numerics() -> None:
    """Next to numbers of a million, windows of zeros are zero in strict numerics, and nearly so in fast ones."""
    x = np.zeros((1, 10, 10, 8), np.float32)
    x[0, 5, 5] = 1e6
    filters = np.random.default_rng(9).standard_normal((3, 3, 8, 16), np.float32)
    model, strict = convolved(x, filters)
    assert side_of_tiles(model) == 2
    wanted = plain(x, filters)
    np.testing.assert_array_equal(strict[wanted == 0], 0)
    model, fast = convolved(x, filters, "fast")
    assert side_of_tiles(model) == 4
    np.testing.assert_allclose(fast, wanted, atol=3)


@pytest.mark.slow
@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("shape", [(2, 12, 14, 36), (1, 7, 9, 5)])
def test_what_is_not_finite_is_the_plain_sum(shape: tuple[int, ...], side: int) -> None:
    generator = np.random.default_rng(2)
    for case in range(3):
        filters = generator.standard_normal((3, 3, shape[3], 40), np.float32) * np.float32(1e-3)
        images = [generator.standard_normal(shape, np.float32) for _ in range(3)]
        match case:
            case 0:
                images[0][generator.random(shape) < 2e-3] = np.inf
                images[0][0, 1, 2, 3] = -np.inf
                images[1] *= np.float32(3e37)  # sums of four overflow where the results do not
            case 1:
                filters[1, 1, 0, 3], filters[2, 0, 0, 5] = -np.inf, np.nan
            case _:
                images[0][generator.random(shape) < 2e-3] = np.nan
                images[0][0, 3, 4, 1] = np.nan
                images[1][0, 3, 4, 0], filters[:, :, 0, :7] = np.inf, 0  # 0 · ∞
                filters[0, 0, 1] = 0
        graph = jn.Graph("convolution")
        graph.output(jn.conv2d(graph.input(jn.float32, shape, "x"), graph.constant(filters)))
        model = jn.compile(graph, "cpu", cache=False, numerics=NUMERICS[side])
        assert side_of_tiles(model) == side
        for x in images:
            found = model(x)
            with np.errstate(all="ignore"):
                wanted = plain(x, filters).astype(np.float32)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
            finite = np.isfinite(wanted)
            scale = np.abs(wanted[finite]).max(initial=1e-3)
            np.testing.assert_allclose(found[finite] / scale, wanted[finite] / scale, atol=2e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("side", [2, 4])
def test_results_that_are_not_finite_are_seen_wherever_they_are_in_their_tile(side: int) -> None:
    generator = np.random.default_rng(10)
    filters = generator.standard_normal((3, 3, 4, 16), np.float32)
    graph = jn.Graph("convolution")
    graph.output(jn.conv2d(graph.input(jn.float32, (1, 10, 10, 4), "x"), graph.constant(filters)))
    model = jn.compile(graph, "cpu", cache=False, numerics=NUMERICS[side])
    assert side_of_tiles(model) == side
    for row, column in [(0, 1), (0, 8), (1, 0), (8, 0), (1, 9), (8, 9), (9, 1), (9, 8)]:  # into two results each
        x = generator.standard_normal((1, 10, 10, 4), np.float32)
        x[0, row, column, 2] = np.inf
        found = model(x)
        assert np.isinf(found).sum() == 2 * 16
        np.testing.assert_allclose(found, plain(x, filters), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("side", [2, 4])
def test_the_epilogue_reads_and_writes_only_results(tmp_path: Path, side: int) -> None:
    generator = np.random.default_rng(3)
    x = generator.standard_normal((2, 9, 7, 33), np.float32)
    filters = generator.standard_normal((3, 3, 33, 34), np.float32)
    graph = jn.Graph("block")
    image = graph.input(jn.float32, ("n", "h", "w", 33), "x")
    other = graph.input(jn.float32, ("n", "h", "w", 34), "other")
    y = jn.conv2d(image, graph.constant(filters), padding=1) * 0.5 + other
    graph.output(jn.relu(y), y.cast(jn.bfloat16))
    model = jn.compile(graph, "cpu", cache=False, numerics=NUMERICS[side])
    assert side_of_tiles(model) == side
    before = generator.standard_normal((2, 9, 7, 34), np.float32)
    wanted = plain(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), filters) * 0.5 + before
    model.save(tmp_path / "block.joinery")
    for made in (model, jn.load(tmp_path / "block.joinery", trusted=True), jn.load(tmp_path / "block.joinery")):
        first, second = made(x, before)
        np.testing.assert_allclose(first, np.maximum(wanted, 0), rtol=1e-5, atol=1e-5 * side**2)
        np.testing.assert_allclose(second.astype(np.float64), wanted, rtol=2e-2, atol=1e-2)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("side", [2, 4])
def test_an_operand_that_is_computed_from_the_input_is_read_in_tiles(side: int) -> None:
    generator = np.random.default_rng(4)
    x = generator.standard_normal((1, 10, 10, 24), np.float32)
    factor = generator.standard_normal(24, np.float32)
    filters = generator.standard_normal((3, 3, 24, 32), np.float32)
    graph = jn.Graph("scaled")
    image, scale = graph.input(jn.float32, x.shape, "x"), graph.input(jn.float32, (24,), "scale")
    graph.output(jn.conv2d(image * scale, graph.constant(filters)))
    model = jn.compile(graph, "cpu", cache=False, numerics=NUMERICS[side])
    assert side_of_tiles(model) == side
    np.testing.assert_allclose(model(x, factor), plain(x * factor, filters), rtol=1e-4, atol=1e-4)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("change", ["stride", "dilation", "groups", "five taps", "float64", "input filters", "reproducible"])
def test_other_convolutions_are_plain(change: str) -> None:
    dtype = jn.float64 if change == "float64" else jn.float32
    generator = np.random.default_rng(5)
    taps = 5 if change == "five taps" else 3
    filters = generator.standard_normal((taps, taps, 8 if change == "groups" else 16, 32)).astype(dtype.numpy)
    graph = jn.Graph("other")
    image = graph.input(dtype, (1, 12, 12, 16), "x")
    kernel = graph.input(dtype, filters.shape, "w") if change == "input filters" else graph.constant(filters)
    options = {"stride": {"stride": 2}, "dilation": {"dilation": 2}, "groups": {"groups": 2}}.get(change, {})
    graph.output(jn.conv2d(image, kernel, **options))
    model = jn.compile(graph, "cpu", cache=False, numerics="reproducible" if change == "reproducible" else "fast")
    assert side_of_tiles(model) == 1


@pytest.mark.slow
def test_few_tiles_and_narrow_filters_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for shape, count in [((1, 8, 8, 64), 64), ((1, 34, 34, 16), 64), ((1, 34, 34, 64), 16)]:
        model, _ = convolved(np.ones(shape, np.float32), np.ones((3, 3, shape[3], count), np.float32), "fast")
        assert side_of_tiles(model) == 1
    for shape, numerics, side in [
        ((4, 8, 8, 64), "strict", 2), ((1, 16, 16, 64), "fast", 2), ((32, 9, 9, 64), "fast", 4), ((1, 18, 18, 64), "fast", 4),
    ]:  # fmt: skip
        model, _ = convolved(np.ones(shape, np.float32), np.ones((3, 3, 64, 64), np.float32), numerics)
        assert side_of_tiles(model) == side, f"{shape}, {numerics}: images count, and results that do not fill their tiles"


@pytest.mark.parametrize("side", [2, 4])
def test_the_layout_is_the_sums_of_taps(side: int) -> None:
    layout, sums = f"winograd{'4' if side == 4 else ''}:70:8", (side + 2) ** 2
    filters = np.random.default_rng(6).standard_normal((3, 3, 70, 11)).astype(np.float32)
    stored = pack(filters, layout)
    assert stored.shape == (2, sums, 70, 8)
    wanted = np.einsum("ai,bj,ijcm->abcm", SUMS[side], SUMS[side], filters.astype(np.float64)).reshape(sums, 70, 11)
    joined = np.moveaxis(stored, 0, 2).reshape(sums, 70, 16)
    np.testing.assert_allclose(joined[..., :11], wanted, rtol=1e-6, atol=1e-6)
    assert not joined[..., 11:].any()
    np.testing.assert_array_equal(pack(filters.reshape(630, 11), layout), stored)


@pytest.mark.slow
def test_the_algorithm_that_a_schedule_says_is_within_its_numerics() -> None:
    x, filters = np.ones((1, 10, 10, 8), np.float32), np.ones((3, 3, 8, 16), np.float32)
    graph = jn.Graph("convolution")
    graph.output(jn.conv2d(graph.input(jn.float32, x.shape, "x"), graph.constant(filters)))
    (name,) = jn.compile(graph, "cpu", cache=False).schedule
    for algorithm, side in (("plain", 1), ("winograd", 2), ("winograd4", 4)):
        schedule = jn.ModelSchedule({name: jn.KernelSchedule(algorithm=algorithm)})
        model = jn.compile(graph, "cpu", cache=False, numerics="fast", schedule=schedule)
        assert side_of_tiles(model) == side
        assert model.schedule[name].algorithm == algorithm
        np.testing.assert_allclose(model(x), 72, rtol=1e-5)
    with pytest.raises(jn.UserError, match="cannot be computed as 'winograd4'; fix: 'winograd', or another one that its"):
        jn.compile(graph, "cpu", cache=False, schedule=schedule)
