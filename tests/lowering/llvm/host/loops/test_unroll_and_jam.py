"""Nests that take several rows at once, and test masks of whole rows once for all of them."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.arrays import Array

from .....support.fenced_arrays import fenced
from .....support.tiers import both_tiers, share

CHANNELS = (1, 3, 16, 17, 32, 40, 96, 130)
ONE, TWO = ((1, 1), (1, 1)), ((2, 2), (2, 2))
WINDOWS = (
    ((3, 3), (1, 1), 1, ONE), ((5, 5), (2, 2), 1, TWO), ((3, 5), (1, 2), 1, ((2, 0), (0, 3))), ((3, 3), (1, 1), 2, TWO),
    ((7, 1), (1, 1), 1, ((3, 3), (0, 0))),
)  # fmt: skip
"""Sizes, strides, dilation, padding."""
SIZES = ((1, 1), (3, 5), (7, 4), (9, 13), (12, 21))


Pairs = tuple[tuple[int, int], tuple[int, int]]


def depthwise(x: Array, w: Array, strides: tuple[int, int], dilation: int, padding: Pairs) -> Array:
    wide = np.pad(x.astype(np.float64), [(0, 0), *padding, (0, 0)])
    (high, long) = counts(x.shape, w.shape, strides, dilation, padding)
    total = np.zeros((len(x), high, long, x.shape[-1]))
    for r, c in itertools.product(range(w.shape[0]), range(w.shape[1])):
        part = wide[:, r * dilation :: strides[0], c * dilation :: strides[1]][:, :high, :long]
        total += part * w[r, c, 0].astype(np.float64)
    return total


def counts(x: tuple[int, ...], w: tuple[int, ...], strides: tuple[int, int], dilation: int, padding: Pairs) -> list[int]:
    """Returns how many windows there are along each axis."""
    each = zip(x[1:3], w[:2], strides, padding, strict=True)
    return [(size + sum(pair) - (taps - 1) * dilation - 1) // stride + 1 for size, taps, stride, pair in each]


@pytest.mark.slow
@both_tiers
def test_depthwise_convolutions(in_full: bool) -> None:
    """All values are exact: any wrong tap, row or factor shows. Inputs end where memory does."""
    cases = [
        (channels, (sizes, strides, dilation, padding), size)
        for channels, (sizes, strides, dilation, padding), size in itertools.product(CHANNELS, WINDOWS, SIZES)
        if min(counts((2, *size), sizes, strides, dilation, padding)) > 0
    ]
    for number, (channels, (sizes, strides, dilation, padding), size) in enumerate(share(cases, 1, 24, in_full)):
        rng = np.random.default_rng(number)
        dtype = ("float32", "float32", "float64", "float16")[number % 4]
        x, w = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((2, *size, channels), (*sizes, 1, channels)))
        graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x"), jn.TensorType(dtype, w.shape, "w")])
        graph.output(jn.conv(*graph.inputs, strides, dilation, padding, channels) * 2 + 1)
        model = jn.compile(graph, device="cpu", threads=1 + number % 2, cache=False)
        (one, _first), (other, _second) = fenced(x), fenced(w)
        expected = depthwise(x, w, strides, dilation, padding) * 2 + 1
        assert np.array_equal(model(one, other), expected), (channels, sizes, strides, dilation, padding, size, dtype)


def test_rows_inside_are_read_without_masks() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 12, 12, 32), "x"), jn.TensorType("float32", (3, 3, 1, 32), "w")])
    graph.output(jn.conv(*graph.inputs, padding=1, groups=32))
    model = jn.compile(graph, device="cpu", cache=False)
    (kernel,) = model.kernels
    inside, border = kernel.llvm_ir.split("\nborder")[0].split("\ninside")[1], kernel.llvm_ir.split("\nborder")[1]
    assert "select" not in inside
    assert "select" in border
    assert inside.count("@llvm.fma.") == 4 * 8  # four rows, and one tap of nine is a product alone


def test_rounding_once() -> None:
    """(1 + e)(1 - e) - 1 is -e², if the product is not rounded before it is added."""
    e = np.float32(2.0**-12)
    x = np.array([1, 1 + e], np.float32).reshape(1, 2, 1)
    w = np.array([-1, 1 - e], np.float32).reshape(2, 1, 1)
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 2, 4), "x"), jn.TensorType("float32", (2, 1, 4), "w")])
    graph.output(jn.conv(*graph.inputs, groups=4))
    for numerics in ("strict", "reproducible", "fast"):
        model = jn.compile(graph, device="cpu", numerics=numerics, cache=False)
        assert (model(x.repeat(4, 2), w.repeat(4, 2)) == -(e**2)).all()


def test_formulas_of_users_are_rounded_at_each_step() -> None:
    """What is written with windows is no convolution: a² - a² is 0."""
    graph = jn.Graph("g", [jn.TensorType("float32", (64,), "x")])
    taken = jn.windows(graph.inputs[0], (2,))
    a, b = taken[:, 0], taken[:, 1]
    graph.output(a * a + b * -b, b * -b + a * a)
    for numerics in ("strict", "reproducible"):
        for found in jn.compile(graph, device="cpu", numerics=numerics, cache=False)(np.full(64, 1.1, np.float32)):
            assert (found == 0).all()


ROWS = """
__global__ void rows(float *z, float *x, int *on, float *a, float *b, float *c, float *d, int n, int m) {
  int r[16] = get_program_id(0) * 16 + 0 ... 16;
  int j[32] = 0 ... 32;
  bool there[16] = r < n;
  int flag[16] = there ? *(on + r) : 0;
  bool column[32] = j < m;
  bool in[16, 32] = (there && (flag > 0) && (r > 2))[:, newaxis] && column[newaxis, :];
  float v[16, 32] = in ? *(x + r[:, newaxis] * m + j[newaxis, :]) : 7;
  float e[32] = column ? *(a + j) : 0;
  float f[32] = column ? *(b + j) : 0;
  float g[32] = column ? *(c + j) : 0;
  float h[32] = column ? *(d + j) : 0;
  float s[16, 32] = ((v * e[newaxis, :] + f[newaxis, :]) * v + g[newaxis, :]) * v + h[newaxis, :];
  bool out[16, 32] = there[:, newaxis] && column[newaxis, :];
  *?(out)(z + r[:, newaxis] * m + j[newaxis, :]) = s;
}
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [1, 3, 4, 15, 16, 18, 45])
def test_masks_that_read_memory(n: int) -> None:
    """Which rows are read is known from memory, that ends with the last row."""
    kernel = jn.kernel.from_triton_c(ROWS)
    assert "\ninside" in kernel.llvm_ir()
    for m in (1, 7, 16, 31, 32):
        rng = np.random.default_rng(n + m)
        on = (rng.random(n) < 0.7).astype(np.int32)
        x, *factors = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((n, m), m, m, m, m))
        kept = [fenced(each) for each in (x, on, *factors)]
        z = np.full((n, m), 9, np.float32)
        kernel.launch((-(-n // 16),), z, *[array for array, _ in kept], n, m)
        v = np.where((on > 0)[:, None] & (np.arange(n) > 2)[:, None], x, np.float32(7))
        e, f, g, h = factors
        assert np.array_equal(z, ((v * e + f) * v + g) * v + h)


def test_in_place() -> None:
    """A kernel that reads and writes one array: a row is read before it is written, though the last one is computed again."""
    text = ROWS.replace("float *z, float *x,", "float *x,").replace("(z + r", "(x + r")
    kernel = jn.kernel.from_triton_c(text)
    for n, m in ((7, 32), (18, 20), (45, 32)):
        rng = np.random.default_rng(n)
        x, *factors = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((n, m), m, m, m, m))
        e, f, g, h = factors
        v = np.where((np.arange(n) > 2)[:, None], x, np.float32(7))
        found = x.copy()
        kernel.launch((-(-n // 16),), found, np.ones(n, np.int32), *factors, n, m)
        assert np.array_equal(found, ((v * e + f) * v + g) * v + h)
