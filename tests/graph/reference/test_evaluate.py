"""`evaluate` on whole graphs: promotion to values, symbolic dims, input checking, errors."""

import time
import warnings

import joinery
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.graph import Graph
from joinery.graph.ops.table import OPS
from joinery.graph.reference.evaluate import REFERENCE, evaluate
from joinery.graph.types import TensorType
from joinery.promotion import UserError
from joinery.promotion.dtype import (
    bfloat16,
    float16,
    float32,
    int8,
    int32,
    int64,
    tensor_float32,
    uint8,
    uint64,
)


def graph(*types, name="g"):
    g = Graph(name, inputs=[TensorType(*t) for t in types])
    return g, *g.inputs


def test_every_row_of_the_op_table_has_a_reference_and_nothing_else_does():
    regions = {name for name, row in OPS.items() if row.kind == "control" or name.startswith("host_")}
    assert set(REFERENCE) == set(OPS) - regions  # reference/control.py has those


def test_a_small_network():
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    g, x = graph((float32, ("batch", 5), "x"))
    y = x @ w + b
    g.output(y)
    values = rng.normal(size=(4, 5)).astype(np.float32)
    exact = (values.astype(np.float64) @ w.astype(np.float64)).astype(np.float32) + b
    np.testing.assert_array_equal(evaluate(g, values), exact)
    assert evaluate(g, values[:0]).shape == (0, 3)


def test_promotion_reaches_the_values():
    g, x, y = graph((int8, (3,), "x"), (uint8, (3,), "y"))
    g.output(x + y, x * 2, x / 2, x + 0.5)
    a, b = np.int8([-128, 0, 127]), np.uint8([255, 1, 127])
    total, doubled, halved, shifted = evaluate(g, a, b)
    assert total.dtype == np.int16
    assert total.tolist() == [127, 1, 254]
    assert doubled.tolist() == [0, 0, -2]
    assert halved.dtype == np.float32
    assert halved.tolist() == [-64, 0, 63.5]
    assert shifted.tolist() == [-127.5, 0.5, 127.5]


def test_lossy_joins_are_what_the_lattice_says():
    g, x, y = graph((int32, (), "x"), (bfloat16, (), "y"))
    g.output(x + y)
    assert evaluate(g, np.int32(257), ml_dtypes.bfloat16(0)) == 256
    g, x, y = graph((uint64, (), "x"), (int8, (), "y"))
    g.output(x + y)
    assert evaluate(g, np.uint64(2**20), np.int8(1)).dtype == np.float16
    g, x = graph((uint64, (), "x"))
    g.output(x + 1)
    assert int(evaluate(g, np.uint64(1400000002000000600))) == 1400000002000000601


def test_comparison_of_mixed_signs():
    g, x, y = graph(("uint32", (), "x"), (int32, (), "y"))
    g.output(x < y)
    assert not evaluate(g, np.uint32(2**31), np.int32(0))


def test_fused_expressions_round_after_each_op():
    g, x, y, z = graph((bfloat16, (), "x"), (bfloat16, (), "y"), (bfloat16, (), "z"))
    g.output(x * y + z)
    bf16 = ml_dtypes.bfloat16
    assert float(evaluate(g, bf16(1.0078125), bf16(1.0078125), bf16(-1.015625))) == 0
    g, x = graph((float32, (), "x"))
    g.output(x.cast(bfloat16).cast(float32), x + 0.0, 0 - x, -x)
    there, plus, minus, negated = evaluate(g, np.float32(-0.0))
    assert np.signbit(there)
    assert not np.signbit(plus)
    assert not np.signbit(minus)
    assert not np.signbit(negated)
    assert evaluate(g, np.float32(1.001))[0] == 1


def test_shapes_of_rank_zero_and_empty():
    g, x, y = graph((float32, (0, 5), "x"), (float32, (1, 5), "y"))
    g.output(x + y)
    assert evaluate(g, np.zeros((0, 5), np.float32), np.zeros((1, 5), np.float32)).shape == (0, 5)
    g, x, y = graph((float32, (), "x"), (float32, (0, 2, 2), "y"))
    g.output(x + y)
    assert evaluate(g, np.float32(1), np.zeros((0, 2, 2), np.float32)).shape == (0, 2, 2)
    g, x, y = graph((float32, (2, 1), "x"), (float32, (0, 3), "y"))
    with pytest.raises(UserError):
        x + y


def test_slicing_with_symbolic_sizes():
    g, x = graph((int32, ("n", 4), "x"))
    g.output(x[::-1, 1:], x[..., None, 0], x[1:])
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    flipped, column, tail = evaluate(g, a)
    np.testing.assert_array_equal(flipped, a[::-1, 1:])
    np.testing.assert_array_equal(column, a[..., None, 0])
    np.testing.assert_array_equal(tail, a[1:])
    assert evaluate(g, a[:0])[2].shape == (0, 4)


def test_dims_are_bound_solved_and_compared():
    g, x, y = graph((float32, ("n",), "x"), (float32, ("2*n + 1",), "y"))
    g.output(x, y)
    evaluate(g, np.zeros(3, np.float32), np.zeros(7, np.float32))
    with pytest.raises(
        UserError, match=r"input 'y' axis 0 must be 2\*n \+ 1 = 7 \(n = 3 from input 'x' axis 0\), got 8; fix"
    ):
        evaluate(g, np.zeros(3, np.float32), np.zeros(8, np.float32))
    g, y = graph((float32, ("2*n + 1",), "y"))
    g.output(y + 0)
    assert evaluate(g, np.zeros(7, np.float32)).shape == (7,)
    with pytest.raises(
        UserError, match=r"input 'y' axis 0 is 8, but 2\*n \+ 1 does not determine 'n'; fix"
    ):
        evaluate(g, np.zeros(8, np.float32))
    g, x, y = graph((float32, ("n", "m"), "x"), (float32, ("m", "n"), "y"))
    g.output(x @ y)
    assert evaluate(g, np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)).shape == (2, 2)
    with pytest.raises(UserError, match=r"m is 3 from input 'x' axis 1 but 4 from input 'y' axis 0; fix"):
        evaluate(g, np.zeros((2, 3), np.float32), np.zeros((4, 2), np.float32))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), r"takes 1 inputs \(x: float16 \(n, 2\)\), got 0; fix: pass one array per input"),
        (
            (np.zeros((1, 2), np.float32),),
            r"expects float16 \(n, 2\), got float32 \(1, 2\); fix: .*astype\(numpy\.float16\)",
        ),
        ((np.zeros(2, np.float16),), r"with 2 axes, got shape \(2,\); fix: reshape"),
        ((np.zeros((1, 3), np.float16),), r"expects shape \(n, 2\), got \(1, 3\): axis 1 is 3, not 2; fix"),
        ((np.array([["a"]]),), r"input 'x' expects float16 \(n, 2\): NumPy's <U1 has no joinery dtype"),
        ((1.0,), r"expects float16 \(n, 2\), got float64"),
    ],
)
def test_inputs_are_checked(given, message):
    g, x = graph((float16, ("n", 2), "x"))
    g.output(x + x)
    with pytest.raises(UserError, match=message):
        evaluate(g, *given)


def test_runtime_checks_of_the_graph():
    g, x = graph((float32, ("n",), "x"))
    g.output(x[3])
    assert len(g.checks) == 1
    assert evaluate(g, np.arange(4, dtype=np.float32)) == 3
    with pytest.raises(UserError, match=r"evaluate: index 3.* is 2, not 4 \(where n = 2\); fix: pass arrays"):
        evaluate(g, np.zeros(2, np.float32))


def test_ml_dtypes_are_named_in_the_fix():
    g, x = graph((bfloat16, (2,), "x"))
    g.output(x)
    with pytest.raises(UserError, match=r"array\.astype\(ml_dtypes\.bfloat16\)"):
        evaluate(g, np.zeros(2, np.uint16))  # raw bits are not reinterpreted


def test_python_scalars_for_rank_zero_inputs():
    g, x, y = graph((float16, (), "x"), (uint8, (), "y"))
    g.output(x + y)
    assert evaluate(g, 0.5, 3) == 3.5
    with pytest.raises(UserError, match=r"input 'y': 256 does not fit uint8"):
        evaluate(g, 0.5, 256)
    with pytest.raises(UserError, match=r"input 'y' expects uint8 \(\), got float64"):
        evaluate(g, 0.5, 1.5)


def test_index_and_tensor_float32_arrays():
    g, x, y = graph(("index", (2,), "x"), (tensor_float32, (2,), "y"))
    g.output(x + x, y * y)
    ids, squares = evaluate(g, np.uint64([1, 2**63]), np.float32([1 + 2**-10, 2]))
    assert ids.dtype == np.uint64
    assert ids.tolist() == [2, 0]
    assert squares.tolist() == [1 + 2**-9, 4]  # 1 + 2**-9 + 2**-20 rounded to ten bits


def test_outputs_are_new_contiguous_arrays():
    g, x = graph((int64, (2, 3), "x"))
    g.output(x, x.permute(1, 0))
    a = np.arange(6).reshape(2, 3)
    same, turned = evaluate(g, a)
    assert not np.shares_memory(same, a)
    assert turned.flags.c_contiguous
    np.testing.assert_array_equal(turned, a.T)


def test_what_the_op_needs_is_checked_however_it_was_built():
    g, x = graph((float32, ("n", 3), "x"))
    g.output(g.apply("reduce_max", (x,), {"axes": (0,), "keepdims": False}))
    assert evaluate(g, np.ones((1, 3), np.float32)).tolist() == [1, 1, 1]
    with pytest.raises(UserError, match=r"axis 0 must not be empty"):
        evaluate(g, np.zeros((0, 3), np.float32))


def test_a_runtime_error_names_the_users_line():
    g, x = graph((float32, ("n",), "x"))
    y = g.apply("broadcast_to", (x,), {"shape": (1 << 40, *x.shape)})
    g.output(g.apply("broadcast_to", (y,), {"shape": (1 << 21, *y.shape)}))
    with pytest.raises(UserError, match=r"64 bits address \(from test_evaluate\.py:\d+"):
        evaluate(g, np.zeros(1, np.float32))


def test_no_warnings_leak():
    g, x = graph((float32, (3,), "x"))
    g.output(x / 0, x * 1e38, (x / 0).cast(int8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, _, saturated = evaluate(g, np.float32([-1e38, 0, 1e38]))
    assert saturated.tolist() == [-128, 0, 127]


def test_only_what_the_outputs_need_is_computed():
    g, x = graph((int32, ("n",), "x"))
    x.cast(float32).cast(int8)
    g.output(x + 1)
    assert evaluate(g, np.int32([1])).tolist() == [2]


def test_a_graph_without_outputs():
    g, _ = graph((int32, (), "x"))
    with pytest.raises(UserError, match=r"graph 'g' has no outputs; fix: call graph\.output"):
        evaluate(g, 1)


COMPOSITES = {
    "softmax": {"axis": 1},
    "logsoftmax": {"axis": 0},
    "logsumexp": {"axes": (0, 1), "keepdims": True},
    "mean": {"axes": (1,), "keepdims": False},
    "var": {"axes": (0,), "keepdims": True, "correction": 1},
    "gelu": {"approximate": "tanh"},
    "silu": {},
    "layer_norm": {"epsilon": 1e-5, "has_scale": True, "has_bias": True},
    "rms_norm": {"epsilon": 1e-5, "has_scale": True},
}


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_expansions_compute_what_composites_mean(name, dtype):
    """The definition of a composite and its expansion into primitive ops, both evaluated."""
    vectors = {"layer_norm": 2, "rms_norm": 1}.get(name, 0)
    g = Graph(
        "g",
        inputs=[
            TensorType(dtype, ("n", 6), "x"),
            *(TensorType(dtype, (6,), f"v{i}") for i in range(vectors)),
        ],
    )
    whole = g.apply(name, g.inputs, COMPOSITES[name])
    g.output(whole, whole.op.expand(whole, *whole.inputs))
    rng = np.random.default_rng(8)
    arrays = [(rng.normal(size=shape) * 2).astype(whole.dtype.numpy) for shape in [(4, 6)] + [(6,)] * vectors]
    meant, expanded = evaluate(g, *arrays)
    assert meant.dtype == expanded.dtype
    meant, expanded = meant.astype(np.float64), expanded.astype(np.float64)
    unit = 2.0**-whole.dtype.mantissa_bits
    np.testing.assert_allclose(expanded, meant, rtol=8 * unit, atol=4 * unit)


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_arrays_in_the_other_byte_order(dtype: str) -> None:
    """They are arrays of the same numbers, for models and for the evaluator."""
    g = Graph("g", inputs=[TensorType(dtype, ("n",), name="x")])
    g.output(g.inputs[0] + g.inputs[0])
    x = np.arange(7).astype(dtype)
    found = evaluate(g, x.astype(x.dtype.newbyteorder()))
    assert found.dtype == x.dtype
    assert found.dtype.isnative
    assert np.array_equal(found, x + x)


def test_empty_results_whose_other_sizes_no_array_has_are_refused() -> None:
    """NumPy counts the sizes beside a 0, too."""
    graph = Graph("outer", [TensorType(float32, ("n", side, 1), side) for side in "mk"])
    x, y = graph.inputs
    graph.output(x + joinery.reshape(y, ("n", 1, "k")))
    assert evaluate(graph, np.zeros((0, 5, 1), np.float32), np.zeros((0, 7, 1), np.float32)).shape == (0, 5, 7)
    wide = np.zeros((0, 2**40, 1), np.float32)
    for run in (lambda *arrays: evaluate(graph, *arrays), joinery.compile(graph, device="cpu")):
        with pytest.raises(UserError, match="64 bits"):
            run(wide, wide)
    small = Graph("static", [TensorType(float32, (0, 1), "x")])
    with pytest.raises(UserError, match=r"no elements, and other sizes of .*more than 64 bits address"):
        small.output(joinery.broadcast_to(small.inputs[0], (0, 2**62)))
    last = Graph("last", [TensorType(float32, ("n",), "x")])
    last.output(joinery.broadcast_to(joinery.reshape(last.inputs[0], (1, 1, "n")), (2**40, 2**30, "n")))
    model = joinery.compile(last, device="cpu")
    for run in (lambda x: evaluate(last, x), model, lambda x: model(x=x)):
        with pytest.raises(UserError, match="64 bits"):
            run(np.zeros(0, np.float32))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("count", "error"), [(80, UserError), (45, MemoryError)])
def test_results_that_do_not_fit_are_refused_before_anything_is_computed(count, error):
    g, x = graph((float32, ("n",), "x"))
    y = x
    for _ in range(count):
        y = joinery.concat([y, y], 0)
    g.output(y)
    assert evaluate(g, np.zeros(0, np.float32)).shape == (0,)
    start = time.perf_counter()
    with pytest.raises(error, match=r"64 bits address|no memory for .* MiB"):
        evaluate(g, np.zeros(1, np.float32))
    with pytest.raises(error, match=r"64 bits|no memory"):
        joinery.compile(g, device="cpu")(np.zeros(1, np.float32))
    assert time.perf_counter() - start < 60


def test_views_of_large_shapes_need_no_memory():
    g, x = graph((float32, ("n",), "x"))
    g.output(joinery.reshape(joinery.broadcast_to(x[:1], (1 << 20, 1 << 20, 1)), (1 << 40,))[:3])
    assert evaluate(g, np.ones(2, np.float32)).tolist() == [1, 1, 1]


def test_what_no_output_needs_demands_nothing():
    g, x = graph((float32, ("n",), "x"))
    joinery.argmin(x, 0)
    g.output(x + x)
    assert evaluate(g, np.zeros(0, np.float32)).shape == joinery.compile(g, device="cpu")(np.zeros(0, np.float32)).shape == (0,)
