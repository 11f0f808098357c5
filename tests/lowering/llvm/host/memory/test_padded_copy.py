"""Padding of permuted arrays, which is copied in squares, bit by bit as NumPy pads and permutes; and slices beside it."""

import joinery as jn
import numpy as np
import pytest

ORDERS = {"channels last": (0, 2, 3, 1), "channels first": (0, 3, 1, 2), "swapped": (0, 1, 3, 2), "turned": (3, 1, 2, 0)}

PADS = [(0, 0, 1, 1, 1, 1, 0, 0), (0, 0, 0, 3, 40, 0, 0, 0), (1, 0, 0, 0, 0, 0, 5, 17), (2, 1, 1, 2, 3, 1, 1, 4)]


def run(build, *arrays, known=range(4)):
    names = [tuple([extent if n in known else f"d{n}" for n, extent in enumerate(a.shape)]) for a in arrays]
    graph = jn.Graph("g", [jn.TensorType(jn.DType(str(a.dtype)), shape) for a, shape in zip(arrays, names, strict=True)])
    graph.output(build(*graph.inputs))
    model = jn.compile(graph, device="cpu", cache=False, threads=1)
    return model(*arrays), model.kernels


def numbers(shape, dtype):
    drawn = np.random.default_rng(3).integers(-100, 100, shape)
    return (drawn > 0) if dtype == "bool" else drawn.astype(jn.DType(dtype).numpy)


def padded(x, order, pads, value):
    widths = list(zip(pads[::2], pads[1::2], strict=True))
    return np.pad(x.transpose(order), widths, constant_values=value)


@pytest.mark.one_in(64)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int64", "bool"])
@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("shape", [(1, 32, 9, 64), (2, 17, 5, 33), (1, 3, 40, 50), (3, 64, 4, 4)])
@pytest.mark.parametrize("order", ORDERS)
def test_padded_permutations(order, shape, pads, dtype):
    x, axes = numbers(shape, dtype), ORDERS[order]
    value = 1 if dtype == "bool" else 7
    found, _ = run(lambda x: jn.pad(jn.permute(x, axes), pads, value=value), x)
    np.testing.assert_array_equal(found, padded(x, axes, pads, value))


@pytest.mark.parametrize("shape", [(1, 32, 9, 64), (2, 5, 33, 17), (1, 1, 1, 1), (2, 16, 16, 16)])
def test_sizes_that_are_known_when_it_runs(shape):
    x = numbers(shape, "float32")

    def build(x):
        return jn.pad(jn.permute(x, (0, 2, 3, 1)), (0, 0, 2, 1, 1, 2, 0, 0))

    found, kernels = run(build, x, known=(1,))
    assert "jn_filling" in kernels[0].llvm_ir or shape[1] < 16
    np.testing.assert_array_equal(found, padded(x, (0, 2, 3, 1), (0, 0, 2, 1, 1, 2, 0, 0), 0))
    found, _ = run(build, x, known=())  # with channels known when it runs, elements are read one by one
    np.testing.assert_array_equal(found, padded(x, (0, 2, 3, 1), (0, 0, 2, 1, 1, 2, 0, 0), 0))


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), float("-inf"), 1e-42])
def test_fills_keep_their_bits(value):
    x = numbers((1, 16, 20, 30), "float32")
    found, _ = run(lambda x: jn.pad(jn.permute(x, (0, 2, 3, 1)), (0, 0, 1, 1, 1, 1, 0, 0), value=value), x)
    expected = padded(x, (0, 2, 3, 1), (0, 0, 1, 1, 1, 1, 0, 0), np.float32(value))
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_images_are_copied_in_squares():
    x = numbers((1, 32, 64, 64), "float32")
    _, (kernel,) = run(lambda x: jn.pad(jn.permute(x, (0, 2, 3, 1)), (0, 0, 1, 1, 1, 1, 0, 0)), x)
    assert "jn_transposed_copy" in kernel.llvm_ir
    assert "jn_filling" in kernel.llvm_ir


def test_padding_alone_fills_whole_programs():
    """Rows of the image beyond which nothing is read."""
    x = numbers((1, 32, 3, 40), "float32")
    found, _ = run(lambda x: jn.pad(jn.permute(x, (0, 2, 3, 1)), (0, 0, 30, 50, 70, 0, 0, 0)), x)
    np.testing.assert_array_equal(found, padded(x, (0, 2, 3, 1), (0, 0, 30, 50, 70, 0, 0, 0), 0))
