"""Halves of 64-bit integers, and integers made of halves, against NumPy: whole registers, parts of one, single numbers."""

import joinery as jn
import numpy as np
import pytest

SIZES = [1, 7, 16, 31, 1000]


def run(build, *arrays):
    graph = jn.Graph("g", [jn.TensorType(jn.DType(str(array.dtype)), array.shape) for array in arrays])
    graph.output(build(*graph.inputs))
    model = jn.compile(graph, device="cpu", cache=False)
    return model(*arrays), model.kernels[0]


def numbers(size, dtype):
    drawn = np.random.default_rng(size).integers(0, 1 << 63, size, np.uint64) * np.uint64(3)
    return drawn.astype(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_halves_are_taken_out(size, dtype):
    x = numbers(size, dtype)
    low, _ = run(lambda x: x.cast("int32"), x)
    np.testing.assert_array_equal(low, x.astype(np.int32))
    high, _ = run(lambda x: (x >> 32).cast("uint32"), x)
    np.testing.assert_array_equal(high, (x >> np.array(32, dtype)).astype(np.uint32))
    both, _ = run(lambda x: (x >> 32).cast("int32") * 3 + x.cast("int32"), x)
    np.testing.assert_array_equal(both, (x >> np.array(32, dtype)).astype(np.int32) * 3 + x.astype(np.int32))


@pytest.mark.parametrize("amount", [0, 31, 33, 63])
def test_other_shifts_are_no_halves(amount):
    x = numbers(100, "uint64")
    found, _ = run(lambda x: (x >> amount).cast("uint32"), x)
    np.testing.assert_array_equal(found, (x >> np.uint64(amount)).astype(np.uint32))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_integers_are_made_of_halves(size, swapped):
    low, high = numbers(size, "uint32"), numbers(size, "uint64").astype(np.uint32)[::-1].copy()

    def build(low, high):
        upper, lower = high.cast("uint64") << 32, low.cast("uint64")
        return lower | upper if swapped else upper | lower

    found, _ = run(build, low, high)
    np.testing.assert_array_equal(found, high.astype(np.uint64) << np.uint64(32) | low)


def test_signed_halves_are_extended_by_their_signs():
    low, high = numbers(100, "int32"), numbers(100, "uint64").astype(np.int32)[::-1].copy()
    found, _ = run(lambda low, high: (high.cast("int64") << 32) | low.cast("int64"), low, high)
    np.testing.assert_array_equal(found, high.astype(np.int64) << 32 | low.astype(np.int64))


@pytest.mark.parametrize("size", SIZES)
def test_complex_numbers_move_their_halves(size):
    rng = np.random.default_rng(size)
    x = (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(np.complex64)
    found, _ = run(lambda x: jn.conj(x) * 2.0, x)
    np.testing.assert_array_equal(found, x.conj() * np.float32(2))
    found, kernel = run(lambda x: jn.real(x) * 2.0 + jn.imag(x), x)
    np.testing.assert_array_equal(found, x.real * np.float32(2) + x.imag)
    if size >= 1000 and "<32 x i32>" in kernel.llvm_ir:  # two registers of AVX-512
        assert "trunc <16 x i64>" not in kernel.llvm_ir


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 15, 17, 33, 65, 100])
def test_columns_of_complex_numbers(rows: int) -> None:
    """Of a rest of one row LLVM made an extension of part of a register that it has no instruction for."""
    x, y = (np.arange(rows, dtype=np.float32).astype(np.complex64).reshape(rows, 1) * each + 1 for each in (1j, 2))
    graph = jn.Graph("g", [jn.TensorType("complex64", (rows, 1), name=name) for name in "xy"])
    one, other = graph.inputs
    graph.output(jn.concat([one * other, other], axis=-1))
    found = jn.compile(graph, device="cpu", cache=False)(x, y)
    np.testing.assert_allclose(found, np.concatenate([x * y, y], axis=-1), rtol=1e-6)
