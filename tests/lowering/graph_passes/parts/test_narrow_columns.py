"""Reductions to a few columns side by side, in wider columns first, against NumPy."""

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(4)
SHAPES = [((4096, 3), 0), ((2, 640, 2), 1), ((3, 16, 40, 3), (1, 2)), ((5, 64, 4), 1), ((7, 96, 5), 1), ((1000, 7), 0)]
KEPT = [((4099, 3), 0), ((2, 48, 3), 1), ((4096, 9), 0), ((100, 7), 0), ((4096, 1), 0), ((64, 16, 3), 0), ((0, 3), 0)]
"""Of rows that nothing divides, of few, to many columns or one, along another axis, of no rows."""


def run(build, x, numerics="strict"):
    graph = jn.Graph("g", [jn.TensorType(jn.DType(str(x.dtype)), x.shape, "x")])
    graph.output(build(graph.inputs[0]))
    model = jn.compile(graph, device="cpu", cache=False, threads=2, numerics=numerics)
    return model(x), model.kernels


def is_wide(kernels):
    """Whether a reduction has columns of whole registers, or nearly."""
    return len([each for each in kernels if each.template == "row"]) > 1


@pytest.mark.one_in(32)
@pytest.mark.parametrize(("dtype", "op"), [
    (dtype, op) for dtype in ("float32", "float64", "int32", "int64") for op in ("sum", "max", "min", "prod", "mean")
    if op != "mean" or "float" in dtype
])  # fmt: skip
@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, *KEPT[:-1]])
def test_values(shape, axis, dtype, op):
    x = RNG.integers(1, 3, shape).astype(dtype) if "int" in dtype or op == "prod" else RNG.standard_normal(shape).astype(dtype)
    found, _ = run(lambda x: getattr(jn, op)(x, axis=axis), x)
    if op == "prod":
        x = x.astype(np.float64) if "float" in dtype else x.astype(np.int64)
    with np.errstate(over="ignore"):
        expected = getattr(np, op)(x, axis=axis).astype(found.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 if op in ("sum", "mean") else 0)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_columns_are_wide(shape, axis):
    _, kernels = run(lambda x: jn.max(x, axis=axis), RNG.standard_normal(shape).astype(np.float32))
    assert is_wide(kernels) is (shape != (1000, 7))


@pytest.mark.parametrize("keepdims", [False, True])
def test_shapes_of_results(keepdims):
    x = RNG.standard_normal((3, 16, 40, 3)).astype(np.float32)
    found, _ = run(lambda x: jn.max(x, axis=(1, 2), keepdims=keepdims), x)
    np.testing.assert_array_equal(found, x.max((1, 2), keepdims=keepdims))


def test_nan_and_computed_operands():
    x = RNG.standard_normal((2, 640, 3)).astype(np.float32)
    x[0, 77, 1] = np.nan
    scale = np.array([1, 2, 3], np.float32)
    found, kernels = run(lambda x: jn.max(x * scale + 1.0, axis=1), x)
    np.testing.assert_array_equal(found, (x * scale + np.float32(1)).max(1))
    assert is_wide(kernels)


@pytest.mark.parametrize("case", ["permuted", "sliced", "reproducible", "no rows"])
def test_others_are_left_alone(case):
    x = RNG.standard_normal((0, 3) if case == "no rows" else (3, 640, 4)).astype(np.float32)
    builds = {
        "permuted": lambda x: jn.sum(jn.permute(x, (1, 2, 0)), axis=(0, 1)), "sliced": lambda x: jn.sum(x[:, :, :3], axis=1),
        "reproducible": lambda x: jn.sum(x, axis=1), "no rows": lambda x: jn.sum(x, axis=0),
    }  # fmt: skip
    right = {"permuted": lambda: x.sum((1, 2)), "sliced": lambda: x[:, :, :3].sum(1), "reproducible": lambda: x.sum(1),
             "no rows": lambda: np.zeros(3, np.float32)}  # fmt: skip
    found, kernels = run(builds[case], x, "reproducible" if case == "reproducible" else "strict")
    np.testing.assert_allclose(found, right[case](), rtol=1e-4, atol=1e-3)
    assert not is_wide(kernels)
