"""Quotients of short integers, and of what is made of them, bit by bit those of IEEE 754."""

import joinery as jn
import numpy as np
import pytest

DIVISORS = [1.0, 2.0, 3.0, 7.0, 10.0, 100.0, 127.0, 127.5, 255.0, 256.0, 0.1, 1e-3, 1 / 255, 65535.0, 12345.678, 1e6, 1e-6]
ODD_DIVISORS = [-255.0, 0.0, -0.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"), 1e-45]
TERMS = [0.0, -0.0, 0.485, -3.0, 1 / 255, 2.0**-50, 2.0**-51, 1e-20, 1e-38, 1e-45, 1e13, 3e38, float("inf"), float("nan")]


def run(build, *arrays):
    graph = jn.Graph("g", [jn.TensorType(jn.DType(str(array.dtype)), array.shape) for array in arrays])
    graph.output(build(*graph.inputs))
    model = jn.compile(graph, device="cpu", cache=False, threads=1)
    return model(*arrays), model.kernels[0]


def same(found, expected):
    """Equal bit by bit, but for what NaN holds."""
    assert found.dtype == expected.dtype
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(found.view(np.int32)[~is_nan], expected.view(np.int32)[~is_nan])


def every(dtype):
    limits = np.iinfo(dtype)
    return np.arange(int(limits.min), int(limits.max) + 1).astype(dtype)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("divisor", [*DIVISORS, *ODD_DIVISORS])
def test_all_quotients_by_a_known_number(dtype, divisor):
    x = every(dtype)
    found, _ = run(lambda x: x.cast("float32") / np.float32(divisor), x)
    with np.errstate(all="ignore"):
        same(found, x.astype(np.float32) / np.float32(divisor))


def test_pixels_are_not_divided():
    _, kernel = run(lambda x: x.cast("float32") / 255.0, every("uint8"))
    assert "fdiv" not in kernel.llvm_ir


@pytest.mark.parametrize("term", TERMS)
def test_quotients_of_a_difference_by_numbers_known_when_it_runs(term):
    x = np.concatenate([every("uint8"), every("uint8")[:17]])
    scales = [0.229, 1.0, 3e4, 2.0**-20, 2.0**40, 2.0**41, *ODD_DIVISORS]
    scale, mean = np.array(scales, np.float32), np.full(len(scales), term, np.float32)

    def build(x, mean, scale):
        pixels = x.cast("float32") / 255.0
        rows = jn.broadcast_to(pixels, (len(scales), x.shape[0]))
        return (rows - mean.reshape((-1, 1))) / scale.reshape((-1, 1))

    found, _ = run(build, x, mean, scale)
    with np.errstate(all="ignore"):
        pixels = x.astype(np.float32) / np.float32(255)
        same(found, (pixels[None] - mean[:, None]) / scale[:, None])


@pytest.mark.parametrize("op", ["x + m", "m - x", "x * k - m", "x - m of int32", "x"])
def test_other_forms(op):
    rng = np.random.default_rng(5)
    x = rng.integers(-(2**31), 2**31, 1000).astype(np.int32) if "int32" in op else every("int16")
    m, s = np.array([0.1], np.float32), np.array([0.7], np.float32)
    forms = {
        "x + m": lambda x, m: x + m, "m - x": lambda x, m: m - x, "x * k - m": lambda x, m: x * np.float32(0.0123) - m,
        "x - m of int32": lambda x, m: x - m, "x": lambda x, m: x,
    }  # fmt: skip
    found, _ = run(lambda x, m, s: forms[op](x.cast("float32"), m) / s, x, m, s)
    same(found, forms[op](x.astype(np.float32), m) / s)


def test_normalised_images_of_nhwc_and_of_nchw():
    rng = np.random.default_rng(6)
    x = rng.integers(0, 256, (2, 9, 11, 3)).astype(np.uint8)
    mean, scale = rng.random(3).astype(np.float32), rng.random(3).astype(np.float32) + np.float32(0.1)
    expected = (x.astype(np.float32) / np.float32(255) - mean) / scale
    same(run(lambda x, m, s: (x.cast("float32") / 255.0 - m) / s, x, mean, scale)[0], expected)
    found, _ = run(lambda x, m, s: jn.permute((x.cast("float32") / 255.0 - m) / s, [0, 3, 1, 2]), x, mean, scale)
    same(found, np.ascontiguousarray(expected.transpose(0, 3, 1, 2)))
