"""Complex numbers as pairs of parts: arithmetic, views and Fourier transforms against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.aten.importing import import_program
from joinery.graph.aten.program import Argument, Call, Program, Ref, Source
from joinery.graph.types import TensorType
from joinery.promotion.dtype import DType

RANDOM = np.random.default_rng(2)
REAL = RANDOM.standard_normal((4, 6)).astype(np.float32)
Z = (RANDOM.standard_normal((4, 6)) + 1j * RANDOM.standard_normal((4, 6))).astype(np.complex64)
W = (RANDOM.standard_normal((4, 6)) + 1j * RANDOM.standard_normal((4, 6))).astype(np.complex64)


def as_pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1) if np.iscomplexobj(x) else x


def graph_of(op: str, arguments: tuple[Any, ...], wanted: np.ndarray, weights: bool = False, **options: Any) -> jn.Graph:
    sources: list[Source] = []

    def given(value: Any) -> Argument:
        if isinstance(value, np.ndarray):
            name = f"x{len(sources)}"
            sources.append(Source(name, TensorType(DType.from_numpy(value.dtype), value.shape), value if weights else None))
            return Ref(name)
        return tuple(map(given, value)) if isinstance(value, tuple) else value

    stated = TensorType(DType.from_numpy(wanted.dtype), wanted.shape)
    call = Call("node", f"aten.{op}", tuple(map(given, arguments)), options, (stated,))
    return import_program(Program("one", tuple(sources), (call,), (("output", Ref("node")),), {}))


def assert_gives(op: str, arguments: tuple[Any, ...], wanted: np.ndarray, bound: float = 2e-6, **options: Any) -> None:
    flat = [each for value in arguments for each in (value if isinstance(value, tuple) else (value,))]
    arrays = [as_pairs(each) for each in flat if isinstance(each, np.ndarray)]
    options = {"dtype": jn.complex64, **options} if op == "_to_copy.default" else options
    got = jn.evaluate(graph_of(op, arguments, wanted, **options), *arrays)
    assert got.dtype == as_pairs(wanted).dtype
    np.testing.assert_allclose(got, as_pairs(wanted), rtol=bound, atol=bound * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize(("op", "arguments", "wanted"), [
    ("mul.Tensor", (Z, W), Z * W), ("mul.Tensor", (REAL, Z), Z * REAL), ("mul.Tensor", (Z, 2j), Z * np.complex64(2j)),
    ("div.Tensor", (Z, W), Z / W), ("div.Tensor", (Z, REAL), Z / REAL), ("div.Tensor", (REAL, Z), REAL / Z),
    ("add.Tensor", (Z, REAL), Z + REAL), ("sub.Tensor", (REAL, Z), REAL - Z),
    ("add.Scalar", (Z, 1 + 2j), Z + np.complex64(1 + 2j)),
    ("reciprocal.default", (Z,), 1 / Z), ("abs.default", (Z,), np.abs(Z)), ("angle.default", (Z,), np.angle(Z)),
    ("_conj.default", (Z,), np.conj(Z)), ("sgn.default", (Z,), Z / np.abs(Z)), ("exp.default", (Z,), np.exp(Z)),
    ("log.default", (Z,), np.log(Z)), ("pow.Tensor_Scalar", (Z, 3), Z**3), ("neg.default", (Z,), -Z),
    ("mm.default", (Z, W.T.copy()), Z @ W.T), ("sum.dim_IntList", (Z, (1,)), Z.sum(1)), ("mean.dim", (Z, (0,)), Z.mean(0)),
    ("permute.default", (Z, (1, 0)), Z.T), ("slice.Tensor", (Z, 1, 1, 4), Z[:, 1:4]), ("select.int", (Z, 0, -1), Z[-1]),
    ("cat.default", ((Z, W), 1), np.concatenate([Z, W], 1)), ("cat.default", ((Z, REAL),), np.concatenate([Z, REAL])),
    ("view.default", (Z, (24,)), Z.reshape(24)),
    ("constant_pad_nd.default", (Z, (1, 2)), np.pad(Z, ((0, 0), (1, 2)))), ("eq.Tensor", (Z, Z), np.ones_like(Z, bool)),
    ("ne.Tensor", (Z, W), np.ones_like(Z, bool)), ("view_as_complex.default", (as_pairs(Z),), Z),
    ("view_as_real.default", (Z,), as_pairs(Z)), ("complex.default", (REAL, REAL), REAL * np.complex64(1 + 1j)),
    ("polar.default", (np.abs(REAL), REAL), (np.abs(REAL) * np.exp(1j * REAL)).astype(np.complex64)),
    ("_to_copy.default", (REAL,), REAL.astype(np.complex64)),
    ("full.default", ((2, 3), 1 - 2j), np.full((2, 3), np.complex64(1 - 2j))),
])  # fmt: skip
def test_arithmetic_and_views_agree_with_numpy(op: str, arguments: tuple[Any, ...], wanted: np.ndarray) -> None:
    assert_gives(op, arguments, wanted.astype(np.complex64) if np.iscomplexobj(wanted) else wanted)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1), (1, 0)])
def test_fourier_transforms_agree_with_numpy(norm: Any, axes: tuple[int, ...]) -> None:
    number = {"backward": 0, "ortho": 1, "forward": 2}[norm]
    inverse = {"backward": 2, "ortho": 1, "forward": 0}[norm]
    wanted = np.fft.fftn(Z, axes=axes, norm=norm).astype(np.complex64)
    assert_gives("_fft_c2c.default", (Z, axes, number, True), wanted)
    assert_gives("_fft_c2c.default", (Z, axes, inverse, False), np.fft.ifftn(Z, axes=axes, norm=norm).astype(np.complex64))
    half = np.fft.rfftn(REAL, axes=axes, norm=norm).astype(np.complex64)
    assert_gives("_fft_r2c.default", (REAL, axes, number, True), half)
    whole = np.fft.fftn(REAL, axes=axes, norm=norm).astype(np.complex64)
    assert_gives("_fft_r2c.default", (REAL, axes, number, False), whole)
    for size in (6, 5):
        shape = [REAL.shape[axis] for axis in axes[:-1]] + [size]
        back = np.fft.irfftn(half, shape, axes=axes, norm=norm).astype(np.float32)
        assert_gives("_fft_c2r.default", (half, axes, inverse, size), back)


def test_weights_of_complex_numbers_are_pairs_over_the_same_memory() -> None:
    graph = graph_of("mul.Tensor", (Z, W), Z * W, weights=True)
    arrays = [symbol.attrs["value"] for symbol in graph.weights.values()]
    assert [each.shape for each in arrays] == [(4, 6, 2)] * 2
    assert arrays[0].ctypes.data == Z.ctypes.data
    np.testing.assert_allclose(jn.evaluate(graph), as_pairs(Z * W), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "arguments", "wanted", "text"), [
    ("sin.default", (Z,), Z, "operator aten.sin.default of complex numbers is not supported"),
    ("pow.Tensor_Scalar", (Z, 0.5), Z, "a complex power of 0.5"),
])  # fmt: skip
def test_what_complex_numbers_have_no_form_of_is_refused(
    op: str, arguments: tuple[Any, ...], wanted: np.ndarray, text: str
) -> None:
    with pytest.raises(jn.UnsupportedError, match=text):
        graph_of(op, arguments, wanted)


def test_a_transform_of_a_symbolic_size_is_refused() -> None:
    call = Call("node", "aten._fft_r2c.default", (Ref("x"), (0,), 0, False), {}, (TensorType("complex64", ("n",)),))
    program = Program("one", (Source("x", TensorType("float32", ("n",))),), (call,), (("output", Ref("node")),), {})
    with pytest.raises(jn.UnsupportedError, match="the axes of a Fourier transform has the symbolic shape"):
        import_program(program)
