"""Arithmetic of complex numbers, against NumPy's, by the evaluator, on the CPU and on a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text

DTYPES = {"complex64": (np.complex64, np.float32, 2e-5), "complex128": (np.complex128, np.float64, 1e-12)}
RNG = np.random.default_rng(3)


def numbers(dtype: Any, *shape: int) -> Any:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def graph(dtype: str, function: Callable[..., Any], *shapes: Any) -> jn.Graph:
    made = jn.Graph("g", [jn.TensorType(dtype, shape, f"x{position}") for position, shape in enumerate(shapes)])
    made.output(function(*made.inputs))
    return made


def agree(made: jn.Graph, wanted: Any, *arrays: Any, tolerance: float, devices: tuple[str, ...] = ("cpu",)) -> None:
    found = [jn.evaluate(made, *arrays)]
    found += [jn.compile(made, device=device, cache=False)(*arrays) for device in devices]
    for each in found:
        assert (each.dtype, each.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(each, wanted, tolerance, tolerance)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "sub": (lambda x, y: x - y, lambda x, y: x - y),
    "mul": (lambda x, y: x * y, lambda x, y: x * y),
    "div": (lambda x, y: x / y, lambda x, y: x / y),
    "numbers": (lambda x, y: (x * 2.0 + 1j) * (1 - 2j) / 3 + 1 - (2 - x),
                lambda x, y: (x * 2 + 1j) * (1 - 2j) / 3 + 1 - (2 - x)),
    "of a number": (lambda x, y: 1 / x + 2.5 / y, lambda x, y: 1 / x + 2.5 / y),
    "negate": (lambda x, y: -x, lambda x, y: -x),
    "abs": (lambda x, y: abs(x), lambda x, y: np.abs(x)),
    "exp": (lambda x, y: jn.exp(x), lambda x, y: np.exp(x)),
    "log": (lambda x, y: jn.log(x), lambda x, y: np.log(x)),
    "conj": (lambda x, y: jn.conj(x) * y, lambda x, y: np.conj(x) * y),
    "angle": (lambda x, y: jn.angle(x), lambda x, y: np.angle(x)),
    "parts": (lambda x, y: jn.real(x) - jn.imag(y), lambda x, y: x.real - y.imag),
    "of parts": (lambda x, y: jn.complex(jn.real(x), jn.imag(y)), lambda x, y: (x.real + 1j * y.imag).astype(x.dtype)),
    "sum": (lambda x, y: jn.sum(x * y, axis=1), lambda x, y: (x * y).sum(1)),
    "sum of all": (lambda x, y: x.sum(), lambda x, y: x.sum()),
    "mean": (lambda x, y: jn.mean(x, axis=0, keepdims=True), lambda x, y: x.mean(0, keepdims=True)),
    "equal": (lambda x, y: x == x.permute((0, 1)) * 1.0, lambda x, y: x == x),
    "not_equal": (lambda x, y: x != y, lambda x, y: x != y),
    "square": (lambda x, y: jn.square(x) + jn.reciprocal(y), lambda x, y: x * x + 1 / y),
    "where": (lambda x, y: jn.where(jn.real(x) > 0.0, x, jn.conj(x)), lambda x, y: np.where(x.real > 0, x, np.conj(x))),
    "moved": (
        lambda x, y: jn.concat([x.permute((1, 0)), jn.gather(x, np.array([2, 0]), 0).permute((1, 0))], 1).reshape((-1,)) * 2.0,
        lambda x, y: np.concatenate([x.T, x[[2, 0]].T], 1).reshape(-1) * 2,
    ),
    "wider": (lambda x, y: x.cast("complex128") * 1.5, lambda x, y: x.astype(np.complex128) * 1.5),
    "narrower": (lambda x, y: x.cast("complex64") * 1.5, lambda x, y: x.astype(np.complex64) * np.float32(1.5)),
}  # fmt: skip


@pytest.mark.one_in(48)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_operations(case: str, dtype: str) -> None:
    plain, _, tolerance = DTYPES[dtype]
    function, wanted = CASES[case]
    made = graph(dtype, function, ("n", 4), (4,))
    for count in (3, 33):
        x, y = numbers(plain, count, 4), numbers(plain, 4)
        tolerance = max(tolerance, 2e-5 if case == "narrower" else 0)
        agree(made, np.asarray(wanted(x, y)), x, y, tolerance=tolerance, devices=("cpu", "ptxsim")[: 1 + (count == 3)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_matrices(dtype: str) -> None:
    plain, part, tolerance = DTYPES[dtype]
    x, y, real = numbers(plain, 2, 3, 5), numbers(plain, 5, 4), RNG.normal(size=(5, 4)).astype(part)
    agree(graph(dtype, lambda x, y: x @ y, (2, "m", 5), (5, 4)), x @ y, x, y, tolerance=tolerance, devices=("cpu", "ptxsim"))
    name = np.dtype(part).name
    made = jn.Graph("g", [jn.TensorType(dtype, (2, 3, 5), "x"), jn.TensorType(name, (5, 4), "y")], "jax")
    made.output(made.inputs[0] @ made.inputs[1], jn.matmul(made.inputs[1].permute((1, 0)), made.inputs[0].permute((0, 2, 1))))
    for one, two in zip(jn.evaluate(made, x, real), (x @ real, real.T @ x.transpose(0, 2, 1)), strict=True):
        np.testing.assert_allclose(one, two.astype(plain), tolerance, tolerance)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_and_single(dtype: str) -> None:
    plain, _, tolerance = DTYPES[dtype]
    made = graph(dtype, lambda x: jn.exp(x * x) / (x + 1), ("n",))
    for count in (0, 1):
        x = numbers(plain, count)
        agree(made, np.exp(x * x) / (x + 1), x, tolerance=tolerance)


def test_large_and_small_numbers() -> None:
    x = np.array([1e30 + 1e30j, 1e-30 - 1e-30j, 3e38, -1e-38j, 2 + 0j], np.complex64)
    agree(graph("complex64", lambda x: 1 / x, (5,)), (1 / x.astype(np.complex128)).astype(np.complex64), x, tolerance=1e-6)
    agree(graph("complex64", lambda x: abs(x), (5,)), np.abs(x.astype(np.complex128)).astype(np.float32), x, tolerance=1e-6)


PARTS = {
    "complex64": [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3e38, 1e-40, 1e-30, 7e20],
    "complex128": [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1.5e308, 1e-310, 1e-200, 7e150],
}
"""Parts that are special, or whose squares, sums or inverses are out of range."""
EXPONENTS = [0.0, -0.0, 1.0, 88.5, 89, 91, 100, 150, 190, 200, 710, 712, 1400, 1500, -100, -104, -800, np.inf, -np.inf, np.nan]
ANGLES = [0.0, -0.0, 1.0, 1.5, 1.5707963, 3.0, -2.0, 1e-40, 1e-300, np.inf, -np.inf, np.nan]
SPECIAL: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "div": (lambda x, y: x / y, lambda x, y: x / y),
    "one over": (lambda x, y: 1 / y, lambda x, y: 1 / y),
    "real over": (lambda x, y: (2 + 0j) / x, lambda x, y: (2 + 0j) / x),
    "abs": (lambda x, y: abs(x), lambda x, y: np.abs(x)),
    "log": (lambda x, y: jn.log(x), lambda x, y: np.log(x)),
    "exp": (lambda x, y: jn.exp(x), lambda x, y: np.exp(x)),
}


def every_pair(one: Any, other: Any) -> list[Any]:
    return [each.reshape(-1) for each in np.meshgrid(one, other, indexing="ij")]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", SPECIAL)
def test_infinities_zeros_and_what_is_out_of_range(case: str, dtype: str) -> None:
    """NumPy's numbers, NaN and signs of zeros, for each pair of operands."""
    plain, part, tolerance = DTYPES[dtype]
    real, imaginary = every_pair(EXPONENTS, ANGLES) if case == "exp" else every_pair(PARTS[dtype], PARTS[dtype])
    each = np.array([complex(*pair) for pair in zip(real, imaginary, strict=True)], plain)
    x, y = every_pair(each, each) if case == "div" else (each, each)
    function, wanted = SPECIAL[case]
    made = graph(dtype, function, ("n",), ("n",))
    with np.errstate(all="ignore"):
        expected = wanted(x, y)
    for found in (jn.evaluate(made, x, y), *[jn.compile(made, device=each, cache=False)(x, y) for each in ("cpu", "ptxsim")]):
        assert found.dtype == expected.dtype
        for one, other in zip(found.view(part), expected.view(part), strict=True):
            np.testing.assert_allclose(one, other, tolerance, 0)
        at_zero = (expected.view(part) == 0) & (found.view(part) == 0)
        np.testing.assert_array_equal(np.signbit(found.view(part))[at_zero], np.signbit(expected.view(part))[at_zero])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reciprocals_of_infinities_and_divisions_by_a_real_zero(dtype: str) -> None:
    plain, part, _ = DTYPES[dtype]
    x = np.array([np.inf, -np.inf, complex(np.inf, 1), complex(1, -np.inf), 1j, 0j], plain)
    made = jn.Graph("g", [jn.TensorType(dtype, (6,), "x"), jn.TensorType(np.dtype(part).name, (6,), "y")], "numpy")
    made.output(jn.reciprocal(made.inputs[0]), made.inputs[0] / made.inputs[1], made.inputs[1] / made.inputs[0])
    ones = np.array([0, 1, -1, 0, 0, 0], part)
    with np.errstate(all="ignore"):
        expected = 1 / x, (x.view(part).reshape(6, 2) / ones[:, None]).reshape(-1).view(plain), ones / x
    for found in (jn.evaluate(made, x, ones), jn.compile(made, cache=False)(x, ones)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.view(part), other.view(part))


EQUATIONS = ["ij,jk->ik", "ij,kj->ik", "ij,ij->ij", "ij,ij->", "ij,kl->ijkl", "ij->", "ij->ji", "ii->i", "ii",
             "i...,j...->ij...", "ij,jk,kl->il", "ij,jk,kl", "ij,ij->j"]  # fmt: skip


@pytest.mark.one_in(18)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str, dtype: str) -> None:
    plain, _, tolerance = DTYPES[dtype]
    arrays = [numbers(plain, 4, 4) for _ in range(equation.count(",") + 1)]
    made = graph(dtype, lambda *symbols: jn.einsum(equation, *symbols), *[(4, 4)] * len(arrays))
    agree(made, np.asarray(np.einsum(equation, *arrays)), *arrays, tolerance=tolerance)


def test_einsum_of_complex_and_real_numbers() -> None:
    x, y, z = numbers(np.complex64, 3, 5), RNG.normal(size=(5, 2)).astype(np.float32), numbers(np.complex64, 0, 5)
    made = jn.Graph("g", [jn.TensorType("complex64", ("n", 5), "x"), jn.TensorType("float32", (5, 2), "y")], "numpy")
    made.output(jn.einsum("ij,jk->ik", *made.inputs))
    for left in (x, z):
        agree(made, np.einsum("ij,jk->ik", left, y), left, y, tolerance=2e-5)
    for function in (lambda x: jn.einsum("ij,jk->ik", x, x, precision="tf32"), lambda x: jn.matmul(x, x, precision="tf32")):
        with pytest.raises(jn.UserError, match="precision='tf32' of complex operands"):
            graph("complex64", function, (3, 3))


TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "fft": (lambda x: jn.fft(x), lambda x: np.fft.fft(x)),
    "fft of an axis, cut": (lambda x: jn.fft(x, 3, 0), lambda x: np.fft.fft(x, 3, 0)),
    "ifft, longer": (lambda x: jn.ifft(x, 9), lambda x: np.fft.ifft(x, 9)),
    "irfft": (lambda x: jn.irfft(x), lambda x: np.fft.irfft(x)),
    "irfft of an axis": (lambda x: jn.irfft(x, 7, 0), lambda x: np.fft.irfft(x, 7, 0)),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", TRANSFORMS)
def test_transforms(case: str, dtype: str) -> None:
    plain, _, tolerance = DTYPES[dtype]
    function, wanted = TRANSFORMS[case]
    x = numbers(plain, 5, 6)
    agree(graph(dtype, function, (5, 6)), np.asarray(wanted(x)), x, tolerance=tolerance)


def test_what_moves_values_joins_complex_and_real_ones() -> None:
    types = {"x": "complex64", "y": "float32", "z": "int32", "w": "complex128"}
    made = jn.Graph("g", [jn.TensorType(dtype, ("n", 2), name) for name, dtype in types.items()], "numpy")
    x, y, z, w = made.inputs
    made.output(jn.concat([x, y], 0), jn.stack([z, x], 1), jn.where(z > 1, x, y), jn.concat([w, x, y], 1))
    arrays = numbers(np.complex64, 3, 2), np.float32(RNG.normal(size=(3, 2))), np.int32([[1, 2], [3, 4], [0, 1]])
    a, b, c, d = *arrays, numbers(np.complex128, 3, 2)
    expected = [np.concatenate([a, b], 0), np.stack([c.astype(np.complex128), a], 1), np.where(c > 1, a, b),
                np.concatenate([d, a, b], 1)]  # fmt: skip
    for found in (jn.evaluate(made, a, b, c, d), jn.compile(made, cache=False)(a, b, c, d)):
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert {(entry.op, str(entry.source), str(entry.target)) for entry in made.casts()} == {
        ("concat", "int32", "float64"), ("concat", "float32", "float64")}  # fmt: skip
    strict = jn.Graph("g", [jn.TensorType("complex64", (2,), "x"), jn.TensorType("int32", (2,), "y")], "numpy", "strict")
    with pytest.raises(jn.UserError, match="strict"):
        jn.concat(strict.inputs, 0)


def test_bits_of_parts_are_kept() -> None:
    parts = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45], np.float32)
    x, y = (np.array(each) for each in np.meshgrid(parts, parts))
    made = jn.Graph("g", [jn.TensorType("float32", x.shape, name) for name in "xy"])
    whole = jn.complex(*made.inputs)
    moved = whole.permute((1, 0)).permute((1, 0))
    made.output(whole, jn.real(moved), jn.imag(moved), jn.real(whole))
    for run in (lambda: jn.evaluate(made, x, y), lambda: jn.compile(made, cache=False)(x, y)):
        whole_, real, imag, same = run()
        np.testing.assert_array_equal(whole_.view(np.uint32)[:, 0::2], x.view(np.uint32))
        np.testing.assert_array_equal(whole_.view(np.uint32)[:, 1::2], y.view(np.uint32))
        for found, wanted in ((real, x), (imag, y), (same, x)):
            np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("semantics", ["jax", "numpy", "torch"])
@pytest.mark.parametrize("other", ["float32", "float64", "int32", "complex128"])
def test_promotion_is_that_of_the_rule_set(semantics: str, other: str) -> None:
    dtype = jn.promotion.rules(semantics).join(jn.complex64, jn.DType(other))
    x = numbers(np.complex64, 4)
    y = numbers(np.complex128, 4) if other == "complex128" else RNG.integers(1, 9, 4).astype(other)
    made = jn.Graph("g", [jn.TensorType("complex64", (4,), "x"), jn.TensorType(other, (4,), "y")], semantics)
    a, b = made.inputs
    functions: list[Callable[..., Any]] = [lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a * b, lambda a, b: b / a,
                                           lambda a, b: a / b]  # fmt: skip
    made.output(*[function(a, b) for function in functions])
    found = jn.compile(made, cache=False)(x, y)
    for function, value, defined in zip(functions, found, jn.evaluate(made, x, y), strict=True):
        assert value.dtype == defined.dtype == dtype.numpy
        wanted = function(x.astype(np.complex128), y.astype(np.complex128))
        np.testing.assert_allclose(value, wanted, 1e-5, 1e-5)
        np.testing.assert_allclose(defined, wanted, 1e-5, 1e-5)
    assert any(entry.op in ("add", "sub") for entry in made.casts()) == (other != "float32")


def test_the_default_rules_have_no_join_of_complex_and_real() -> None:
    made = jn.Graph("g", [jn.TensorType("complex64", (4,), "x"), jn.TensorType("float32", (4,), "y")])
    x, y = made.inputs
    with pytest.raises(jn.UserError, match="no join for complex64 and float32"):
        x + y
    made.output(x + jn.complex(y, 0.0))


def test_a_strict_policy_casts_nothing() -> None:
    made = jn.Graph("g", [jn.TensorType("complex64", (4,), "x"), jn.TensorType("complex128", (4,), "y")], "numpy", "strict")
    with pytest.raises(jn.UserError, match="strict"):
        made.inputs[0] * made.inputs[1]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "order": (lambda x: x < x, "complex numbers have no order(.|\n)*joinery.real"),
    "largest": (lambda x: jn.max(x), "complex numbers have no order"),
    "narrowing": (lambda x: x.cast("float32"), "loses the imaginary parts(.|\n)*joinery.real"),
    "parts of a real tensor": (lambda x: jn.imag(jn.real(x)), "imag: not defined for float32(.|\n)*joinery.complex"),
    "parts of halves": (lambda x: jn.complex(jn.real(x).cast("float16"), jn.real(x).cast("float16")), "parts of float16"),
    "what is not there": (lambda x: jn.tanh(x), "complex64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    function, message = REFUSED[case]
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message):
        graph("complex64", function, (4,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_carry_complex_numbers(dtype: str) -> None:
    plain, _, tolerance = DTYPES[dtype]
    made = jn.Graph("g", [jn.TensorType(dtype, (3,), "c")])
    (c,) = made.inputs
    made.output(jn.fori_loop(0, 5, lambda i, z: z * z + c, c * 0.5))
    x = numbers(plain, 3) * plain(0.3)
    wanted = x * plain(0.5)
    for _ in range(5):
        wanted = wanted * wanted + x
    agree(made, wanted, x, tolerance=tolerance)


def test_texts_and_files(tmp_path: Any) -> None:
    made = graph("complex64", lambda x, y: jn.exp(x) / y, ("n",), ("n",))
    assert to_text(from_text(*to_text(made))) == to_text(made)
    model, x, y = jn.compile(made, cache=False), numbers(np.complex64, 7), numbers(np.complex64, 7)
    model.save(tmp_path / "m.joinery")
    np.testing.assert_array_equal(jn.load(tmp_path / "m.joinery")(x, y), model(x, y))
    with pytest.raises(jn.UserError, match="graph text"):
        from_text(to_text(made)[0].replace("= real(%0)", "= complex(%0, %0)", 1), to_text(made)[1])


def test_onnx_has_no_operators_for_them() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(jn.UnsupportedError, match="ONNX has no operators on complex numbers"):
        jn.to_onnx(graph("complex64", lambda x: x * x, (4,)))
