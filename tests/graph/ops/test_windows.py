"""Views of windows against NumPy's sliding windows, on the evaluator, the CPU and a simulated GPU."""

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.errors import UserError

CASES = [
    ((7,), (3,), (0,), (1,), (1,)),
    ((9, 8), (3, 2), (0, 1), (2, 3), (1, 2)),
    ((2, 6, 5, 3), (3, 3), (1, 2), (1, 2), (1, 1)),
    ((4, 11), (4,), (-1,), (3,), (3,)),
    ((5, 4), (5, 4), (1, 0), (1, 1), (1, 1)),
    ((3, 2), (4,), (0,), (1,), (1,)),
    ((0, 3), (1,), (0,), (2,), (1,)),
]


def expected(a, sizes, axes, strides, dilations):
    """Returns every window of the spans, thinned out."""
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    axes = [axis % a.ndim for axis in axes]
    if any(a.shape[axis] < span for axis, span in zip(axes, spans, strict=True)):
        counts = [max(0, a.shape[axis] - span + 1) for axis, span in zip(axes, spans, strict=True)]
        shape = list(a.shape)
        for axis, count, stride in zip(axes, counts, strides, strict=True):
            shape[axis] = -(-count // stride)
        return np.zeros((*shape, *sizes), a.dtype)
    whole = np.lib.stride_tricks.sliding_window_view(a, spans, axes)
    every = [slice(None)] * a.ndim
    for axis, stride in zip(axes, strides, strict=True):
        every[axis] = slice(None, None, stride)
    return whole[(*every, *[slice(None, None, dilation) for dilation in dilations])]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shape", "sizes", "axes", "strides", "dilations"), CASES)
def test_windows(shape, sizes, axes, strides, dilations) -> None:
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    g = jn.Graph("g", [jn.TensorType(jn.float32, shape, name="x")])
    g.output(jn.windows(g.inputs[0], sizes, axes, strides, dilations))
    wanted = expected(a, sizes, axes, strides, dilations)
    np.testing.assert_array_equal(jn.evaluate(g, a), wanted)
    for device in ("cpu", "ptxsim"):
        np.testing.assert_array_equal(jn.compile(g, device=device, cache=False)(a), wanted)


def test_symbolic_sizes_and_a_reduction_over_windows() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.int32, ("n", "m"), name="x")])
    taken = jn.windows(g.inputs[0] * 2, (2, 3), strides=(1, 2), dilations=(2, 1))
    g.output(jn.max(taken, axis=(2, 3)), jn.sum(taken, axis=(2, 3), dtype=jn.int32))
    compiled = jn.compile(g, device="cpu", cache=False)
    for n, m in ((3, 3), (4, 5), (9, 8)):
        a = np.random.default_rng(n).integers(-9, 9, (n, m)).astype(np.int32)
        wanted = expected(a * 2, (2, 3), (0, 1), (1, 2), (2, 1))
        for run in (compiled, lambda x: jn.evaluate(g, x)):
            largest, total = run(a)
            np.testing.assert_array_equal(largest, wanted.max((2, 3)))
            np.testing.assert_array_equal(total, wanted.sum((2, 3)))
    assert compiled(np.zeros((2, 9), np.int32))[0].shape == (0, 4)


def test_complex_values_keep_their_parts_together() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.complex128, (4, 5), name="x")])
    g.output(jn.windows(g.inputs[0], 2, 0))
    a = np.arange(20).reshape(4, 5) * (1 - 2j)
    np.testing.assert_array_equal(jn.compile(g, device="cpu", cache=False)(a), expected(a, (2,), (0,), (1,), (1,)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3,), (5,)), "axis 5"),
        (((3, 3), (0,)), r"sizes \(3, 3\), strides 1, dilations 1 for 1 axes"),
        (((1, 1, 1),), "3 sizes, the tensor has 2 axes"),
        (((0,), (1,)), "a window of 0 elements on axis 1"),
        (((2,), (1,), 0), "stride 0"),
        (((2,), (1,), 1, -1), "dilation -1"),
    ],
)
def test_refused_windows(arguments, message) -> None:
    g = jn.Graph("g", [jn.TensorType(jn.float32, (4, 6), name="x")])
    with pytest.raises(UserError, match=message):
        jn.windows(g.inputs[0], *arguments)


def test_windows_beyond_the_end_are_refused_at_build_or_launch() -> None:
    attrs = {"axes": (0,), "sizes": (3,), "strides": (2,), "dilations": (1,)}
    g = jn.Graph("g", [jn.TensorType(jn.float32, (6,), name="x")])
    with pytest.raises(UserError, match=r"(?s)3 windows of 3 elements, 2 apart, on axis 0 of size 6.*fix: pad"):
        g.apply("windows", g.inputs, {**attrs, "counts": (3,)})
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), name="x")])
    g.output(g.apply("windows", g.inputs, {**attrs, "counts": (3,)}))
    compiled = jn.compile(g, device="cpu", cache=False)
    assert compiled(np.zeros(7, np.float32)).shape == (3, 3)
    with pytest.raises(UserError, match="3 windows of 3 elements, 2 apart"):
        compiled(np.zeros(6, np.float32))
