"""Fourier transforms are those of NumPy, for lengths with small factors, large prime ones, and none, on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(8)
LENGTHS = (1, 2, 3, 8, 30, 64, 65, 97, 128, 130, 211, 360, 521, 1000)
"""Below 64 one matrix; 65 and more factors; 97 and 211 prime ones with a matrix; 521 a prime one that is a convolution."""


def pairs(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1)


def check(build: Any, want: Any, *arrays: Any, rtol: float, devices: Any = ("cpu",), names: bool = False) -> None:
    graph = jn.Graph("g")
    for x in arrays:
        graph.input(jn.DType.from_numpy(x.dtype), ("rows", *x.shape[1:]) if names else x.shape)
    made = build(*graph.inputs)
    graph.output(*(made if isinstance(made, tuple) else (made,)))
    expected = want if isinstance(want, tuple) else (want,)
    for run in (lambda *a: jn.evaluate(graph, *a), *[jn.compile(graph, device=each, cache=False) for each in devices]):
        found = run(*arrays)
        for one, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            assert one.dtype == arrays[0].dtype
            scale = max(float(np.abs(other).max(initial=0)), 1e-30)
            np.testing.assert_allclose(one / scale, other / scale, atol=rtol, rtol=0)


def results(z: Any, length: int) -> Any:
    half = length // 2 + 1
    return pairs(np.fft.fft(z)), pairs(np.fft.ifft(z)), pairs(np.fft.rfft(z.real)), np.fft.irfft(z[:, :half], length)


def transforms(x: Any, real: Any) -> Any:
    return jn.fft(x), jn.ifft(x), jn.rfft(real), jn.irfft(x, real.shape[-1])


def test_every_kind_of_length() -> None:
    for length in (1, 3, 65, 130, 211, 521):
        z = RNG.normal(size=(2, length)) + 1j * RNG.normal(size=(2, length))
        devices = ("cpu",) if length == 130 else ()
        check(transforms, results(z, length), pairs(z), z.real.copy(), rtol=1e-13, devices=devices, names=length == 130)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_line(dtype: str) -> None:
    for length in (1, 2, 5, 64, 67, 134, 262, 1000):  # rows of the op table, halves, chirps
        z = RNG.normal(size=length) + 1j * RNG.normal(size=length)
        x = z.real.astype(dtype)
        half = z[: length // 2 + 1]
        want = pairs(np.fft.fft(z)), pairs(np.fft.ifft(z)), pairs(np.fft.rfft(z.real)), np.fft.irfft(half, length)
        graph = jn.Graph("g", [jn.TensorType(dtype, (length, 2), "z"), jn.TensorType(dtype, (length,), "x")])
        given, real = graph.inputs
        graph.output(jn.fft(given), jn.ifft(given), jn.rfft(real), jn.irfft(given, length))
        for found, expected in zip(jn.evaluate(graph, pairs(z).astype(dtype), x), want, strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=1e-13 if dtype == "float64" else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_imaginary_parts_of_the_ends_of_a_half_count_for_nothing(dtype: str) -> None:
    for length in (1, 2, 5, 9, 64, 74, 134, 200):
        z = RNG.normal(size=(2, length // 2 + 1)) + 1j * RNG.normal(size=(2, length // 2 + 1))
        want = np.fft.irfft(z, length)
        z.imag[:, 0] = (np.nan, 1e20)
        if length % 2 == 0:
            z.imag[:, -1] = (np.inf, np.nan)
        graph = jn.Graph("g", [jn.TensorType(dtype, z.shape, "z")])
        graph.output(jn.irfft(graph.inputs[0], length))
        for run in (lambda z, graph=graph: jn.evaluate(graph, z), jn.compile(graph, device="cpu", cache=False)):
            np.testing.assert_allclose(run(z.astype(dtype)), want, atol=1e-13 if dtype == "complex128" else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_reproducible_transforms_have_the_same_bits_on_every_device(dtype: str) -> None:
    z = (RNG.normal(size=(2, 12)) + 1j * RNG.normal(size=(2, 12))).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, z.shape, "z")])
    graph.output(jn.fft(graph.inputs[0]), jn.irfft(graph.inputs[0]))
    made = [jn.compile(graph, device=each, numerics="reproducible", cache=False) for each in ("cpu", "ptxsim")]
    for one, other in zip(*[model(z) for model in made], strict=True):
        assert np.array_equal(one, other)
    np.testing.assert_allclose(made[0](z)[0], np.fft.fft(z), atol=1e-5)


def test_one_lane_that_is_widened() -> None:
    """LLVM has no instruction for what it makes of a load of one lane whose bits are widened, and ended the process."""
    x = RNG.normal(size=(17, 3, 2)).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType("float32", (17, "b", "c"), "x")])
    graph.output(jn.permute(jn.rfft(graph.inputs[0] * 3, 32, 0), (2, 1, 0, 3)))
    want = pairs(np.fft.rfft(3.0 * x, 32, 0)).transpose(2, 1, 0, 3)
    found = jn.compile(graph, device="cpu", numerics="reproducible", cache=False)(x)
    np.testing.assert_allclose(found, want, atol=1e-4)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms_leave_nothing_undefined(dtype: str) -> None:
    z = (RNG.normal(size=(3, 9)) + 1j * RNG.normal(size=(3, 9))).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, z.shape, "z")])
    x = graph.inputs[0]
    graph.output(jn.fft(x), jn.rfft(jn.real(x)), jn.irfft(x))
    assert not jn.compile(graph, device="cpu", cache=False).sanitize(z).findings


@pytest.mark.slow
def test_factors_on_a_simulated_gpu() -> None:
    z = RNG.normal(size=(1, 66)) + 1j * RNG.normal(size=(1, 66))
    check(jn.fft, pairs(np.fft.fft(z)), pairs(z), rtol=1e-13, devices=("ptxsim",))


@pytest.mark.slow
@pytest.mark.parametrize("length", [*LENGTHS, 63, 67, 100, 127, 129, 256, 257, 1024, 2048, 4099, 6001, 30030])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_lengths_and_dtypes(length: int, dtype: str) -> None:
    z = (RNG.normal(size=(3, length)) + 1j * RNG.normal(size=(3, length))).astype(np.complex64)
    x, real = pairs(z).astype(dtype), z.real.astype(dtype)
    z = x[..., 0].astype(np.float64) + 1j * x[..., 1].astype(np.float64)
    devices = ("cpu", "ptxsim") if length < 300 and dtype == "float32" else ("cpu",)
    rtol = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}[dtype]
    check(transforms, results(z, length), x, real, rtol=rtol, devices=devices)


@pytest.mark.slow
def test_axes_and_lengths_that_differ() -> None:
    z = RNG.normal(size=(5, 6, 4)) + 1j * RNG.normal(size=(5, 6, 4))
    x, real = pairs(z), z.real.copy()
    for n, axis in ((9, 1), (3, -2)):
        want = (pairs(np.fft.fft(z, n, axis)), pairs(np.fft.ifft(z, n, axis)), pairs(np.fft.rfft(real, n, axis)),
                np.fft.irfft(z, n, axis))  # fmt: skip
        check(lambda x, real, n=n, axis=axis: (jn.fft(x, n, axis), jn.ifft(x, n, axis), jn.rfft(real, n, axis),
                                               jn.irfft(x, n, axis)), want, x, real, rtol=1e-14)  # fmt: skip


def test_a_transform_and_back_is_exact_where_parts_cancel() -> None:
    x = np.zeros((1, 96))
    x[0, 24] = 1
    graph = jn.Graph("g", [jn.TensorType(jn.float64, (1, 96), "x")])
    graph.output(jn.irfft(jn.rfft(graph.inputs[0])))
    found = jn.compile(graph, device="cpu", cache=False)(x)
    np.testing.assert_allclose(found, x, atol=1e-15)


@pytest.mark.parametrize("length", [*[pytest.param(n, marks=pytest.mark.slow) for n in (0, 8, 100)], 7])
def test_frames_of_signals(length: int) -> None:
    x, window = RNG.normal(size=(2, length)), np.hanning(8)
    count = max((length - 8) // 3 + 1, 0)
    rows = np.array([x[:, i * 3 : i * 3 + 8] for i in range(count)]).reshape(count, 2, 8).swapaxes(0, 1)
    want = pairs(np.fft.rfft(rows * window)), pairs(np.fft.fft(rows))
    build = lambda x: (jn.stft(x, 8, 3, window), jn.stft(x, 8, 3, onesided=False))  # noqa: E731
    check(build, want, x, rtol=1e-14)
    graph = jn.Graph("g", [jn.TensorType(jn.float64, (2, "n"), "x")])
    graph.output(*build(graph.inputs[0]))
    for run in (lambda x: jn.evaluate(graph, x), jn.compile(graph, device="cpu", cache=False)):
        for one, other in zip(run(x), want, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-13)


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "pairs": (lambda x, n: jn.fft(x), "fft: no pairs on the last axis"),
    "axis": (lambda x, n: jn.fft(x[..., :2], axis=1), "axis 1 is out of range"),
    "nothing": (lambda x, n: jn.rfft(x, 0), "a transform of 0 elements"),
    "name": (lambda x, n: jn.rfft(n), "a transform of m elements"),
    "length": (lambda x, n: jn.rfft(x, 1 << 23), "a transform of 8388608 elements"),
    "step": (lambda x, n: jn.stft(x, 4, 0), "frame_step is 0"),
    "window": (lambda x, n: jn.stft(x, 4, 1, np.ones(3, np.float32)), r"a window of shape \(3,\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_a_fix(name: str) -> None:
    build, told = REFUSED[name]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (4, 8), "x"), jn.TensorType(jn.float32, ("m",), "n")])
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=told) as caught:
        build(*graph.inputs)
    assert "fix" in str(caught.value)
