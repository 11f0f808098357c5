"""Convolutions in tiles of results against plain sums in float64, on sizes that do not fill tiles, blocks and panels."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes import winograd
from joinery.runtime.storage.weight_packing import pack

SUMS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "MIN_TILES", 1)
    monkeypatch.setattr(winograd, "MIN_CHANNELS", 1)
    monkeypatch.setattr(winograd, "MIN_FILTERS", 1)


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


def is_in_tiles(model: jn.Model) -> bool:
    return any(spec.layout.startswith("winograd:") for spec in model.compiled.constants)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 4, 4, 3), 2), ((2, 5, 4, 3), 5), ((1, 9, 16, 40), 33), ((3, 16, 7, 64), 64), ((1, 20, 18, 600), 70),
        ((2, 13, 13, 96), 130),
    ],
)
def test_any_size_is_the_sum_within_the_bound(shape: tuple[int, ...], count: int, symbolic: bool) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape, np.float32)
    filters = generator.standard_normal((3, 3, shape[3], count), np.float32)
    model, found = convolved(x, filters, symbolic=symbolic)
    assert is_in_tiles(model)
    unit = 2.0**-24
    largest = np.lib.stride_tricks.sliding_window_view(np.abs(x).max(axis=3), (3, 3), (1, 2)).max(axis=(3, 4))[..., None]
    bound = (shape[3] + 10) * unit * 64 * largest * np.abs(filters).sum(axis=2).max(axis=(0, 1))
    assert (np.abs(found - plain(x, filters)) <= bound).all()
    _, other = convolved(x, filters, "reproducible")
    errors = [np.sqrt(((value - plain(x, filters)) ** 2).mean()) for value in (found, other)]
    assert errors[0] <= 6 * errors[1] + unit


def test_small_integers_are_exact() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-8, 9, (2, 9, 11, 20)).astype(np.float32)
    filters = generator.integers(-8, 9, (3, 3, 20, 17)).astype(np.float32)
    model, found = convolved(x, filters)
    assert is_in_tiles(model)
    np.testing.assert_array_equal(found, plain(x, filters))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(2, 12, 14, 36), (1, 7, 9, 5)])
def test_what_is_not_finite_is_the_plain_sum(shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(2)
    for put_in in range(5):
        x = generator.standard_normal(shape, np.float32)
        filters = generator.standard_normal((3, 3, shape[3], 40), np.float32)
        match put_in:
            case 0:
                x[generator.random(shape) < 2e-3] = np.inf
            case 1:
                x[generator.random(shape) < 2e-3] = np.nan
                filters[0, 0, 0] = 0
            case 2:
                filters[1, 1, 0, 3], filters[2, 0, 0, 5] = -np.inf, np.nan
            case 3:
                x[0, 3, 4, 0], filters[:, :, 0, :7] = np.inf, 0  # 0 · ∞
            case _:
                x *= np.float32(3e37)  # sums of four overflow where the results do not
                filters *= np.float32(1e-3)
        model, found = convolved(x, filters)
        assert is_in_tiles(model)
        with np.errstate(all="ignore"):
            wanted = plain(x, filters).astype(np.float32)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
        finite = np.isfinite(wanted)
        scale = np.abs(wanted[finite]).max(initial=1)
        np.testing.assert_allclose(found[finite] / scale, wanted[finite] / scale, atol=2e-5)


def test_the_epilogue_reads_and_writes_only_results(tmp_path) -> None:
    generator = np.random.default_rng(3)
    x = generator.standard_normal((2, 9, 7, 33), np.float32)
    filters = generator.standard_normal((3, 3, 33, 34), np.float32)
    graph = jn.Graph("block")
    image = graph.input(jn.float32, ("n", "h", "w", 33), "x")
    other = graph.input(jn.float32, ("n", "h", "w", 34), "other")
    y = jn.conv2d(image, graph.constant(filters), padding=1) * 0.5 + other
    graph.output(jn.relu(y), y.cast(jn.bfloat16))
    model = jn.compile(graph, "cpu", cache=False)
    assert is_in_tiles(model)
    before = generator.standard_normal((2, 9, 7, 34), np.float32)
    wanted = plain(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), filters) * 0.5 + before
    model.save(tmp_path / "block.joinery")
    for made in (model, jn.load(tmp_path / "block.joinery", trusted=True), jn.load(tmp_path / "block.joinery")):
        first, second = made(x, before)
        np.testing.assert_allclose(first, np.maximum(wanted, 0), rtol=1e-5, atol=2e-5)
        np.testing.assert_allclose(second.astype(np.float64), wanted, rtol=2e-2, atol=1e-2)


def test_an_operand_that_is_computed_from_the_input_is_read_in_tiles() -> None:
    generator = np.random.default_rng(4)
    x = generator.standard_normal((1, 10, 10, 24), np.float32)
    factor = generator.standard_normal(24, np.float32)
    filters = generator.standard_normal((3, 3, 24, 32), np.float32)
    graph = jn.Graph("scaled")
    image, scale = graph.input(jn.float32, x.shape, "x"), graph.input(jn.float32, (24,), "scale")
    graph.output(jn.conv2d(image * scale, graph.constant(filters)))
    model = jn.compile(graph, "cpu", cache=False)
    np.testing.assert_allclose(model(x, factor), plain(x * factor, filters), rtol=1e-4, atol=1e-4)


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
    model = jn.compile(graph, "cpu", cache=False, numerics="reproducible" if change == "reproducible" else "strict")
    assert not is_in_tiles(model)


def test_few_tiles_and_narrow_filters_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for shape, count in [((1, 8, 8, 64), 64), ((1, 34, 34, 16), 64), ((1, 34, 34, 64), 16)]:
        model, _ = convolved(np.ones(shape, np.float32), np.ones((3, 3, shape[3], count), np.float32))
        assert not is_in_tiles(model)
    model, _ = convolved(np.ones((4, 8, 8, 64), np.float32), np.ones((3, 3, 64, 64), np.float32))
    assert is_in_tiles(model), "images count"


def test_the_layout_is_the_sums_of_taps() -> None:
    filters = np.random.default_rng(6).standard_normal((3, 3, 5, 11)).astype(np.float32)
    stored = pack(filters, "winograd:5:8")
    assert stored.shape == (2, 16, 5, 8)
    wanted = np.einsum("ai,bj,ijcm->abcm", SUMS, SUMS, filters.astype(np.float64)).reshape(16, 5, 11)
    joined = np.moveaxis(stored, 0, 2).reshape(16, 5, 16)
    np.testing.assert_allclose(joined[..., :11], wanted, rtol=1e-6, atol=1e-6)
    assert not joined[..., 11:].any()
    np.testing.assert_array_equal(pack(filters.reshape(45, 11), "winograd:5:8"), stored)
