"""Which kernels small graphs become. Every case is also run against the reference evaluator."""

import joinery
import networkx as nx
import numpy as np
import pytest
from joinery.graph.dims.dim import Dim
from joinery.lowering.nest import Affine, Axis, Buffer, Nest, Store, Value
from joinery.lowering.schedule.fusion.grouping import Grouping
from joinery.lowering.schedule.plan import order_nests
from joinery.promotion.dtype import DType
from joinery.promotion.errors import InternalError

F32 = DType("float32")


def templates(plan):
    return [nest.template for nest in plan.nests]


def loads(nest):
    return [(load.attrs["buffer"].kind, load.attrs["buffer"].index) for load in nest.loads]


# -- elementwise ----------------------------------------------------------------------------------------------------------


def test_an_elementwise_chain_on_contiguous_arrays_is_one_loop(harness):
    graph = harness.graph((2, 3, 4, 5), (2, 3, 4, 5))
    x, y = graph.inputs
    graph.output(harness.op("tanh", x * y + 1.0) * x)
    plan = harness.check(graph, harness.array(2, 3, 4, 5), harness.array(2, 3, 4, 5, seed=1))
    (nest,) = plan.nests
    assert nest.axes == (Axis("i0", 120),)
    assert len(nest.loads) == 2  # x is loaded once


def test_broadcast_operands_keep_the_axes_they_need(harness):
    graph = harness.graph((2, 3, 4), (4,))
    x, y = graph.inputs
    graph.output(x + y)
    plan = harness.check(graph, harness.array(2, 3, 4), harness.array(4))
    assert [axis.extent for axis in plan.nests[0].axes] == [6, 4]


def test_several_outputs_of_one_shape_share_a_kernel(harness):
    graph = harness.graph((4, 5))
    (x,) = graph.inputs
    graph.output(harness.op("sin", x), harness.op("cos", x))
    plan = harness.check(graph, harness.array(4, 5))
    (nest,) = plan.nests
    assert len(nest.stores) == 2
    assert len(nest.loads) == 1


def test_an_output_on_the_way_to_another_is_stored_by_the_same_kernel(harness):
    graph = harness.graph((4, 5))
    (x,) = graph.inputs
    y = x + 1.0
    graph.output(y, harness.op("exp", y))
    plan = harness.check(graph, harness.array(4, 5))
    assert len(plan.nests) == 1


def test_an_expensive_value_read_by_two_kernels_is_stored_once(harness):
    graph = harness.graph((6, 8))
    (x,) = graph.inputs
    y = harness.op("exp", harness.op("sin", x))
    graph.output(harness.reduce("reduce_sum", y, 1), harness.reduce("reduce_sum", y, 0))
    plan = harness.check(graph, harness.array(6, 8))
    assert templates(plan) == ["row", "row"]
    assert sum("exp" in nest.fused for nest in plan.nests) == 1
    assert len(plan.temporaries) == 1


def test_a_cheap_value_read_by_two_kernels_is_computed_twice(harness):
    graph = harness.graph((6, 8))
    (x,) = graph.inputs
    y = x * 2.0
    graph.output(harness.reduce("reduce_sum", y, 1), harness.reduce("reduce_sum", y, 0))
    plan = harness.check(graph, harness.array(6, 8))
    assert templates(plan) == ["row", "row"]
    assert plan.temporaries == ()


def test_a_chain_longer_than_the_limit_is_cut(harness):
    graph = harness.graph((3,))
    (x,) = graph.inputs
    y = x
    for _ in range(400):
        y = harness.op("tanh", y)
    graph.output(y)
    plan = harness.check(graph, harness.array(3))
    assert 2 <= len(plan.nests) <= 10


# -- reductions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_is_one_kernel_along_any_axis(harness, name, axis):
    graph = harness.graph((3, 4, 5))
    graph.output(harness.op(name, graph.inputs[0], axis=axis))
    plan = harness.check(graph, harness.array(3, 4, 5))
    assert templates(plan) == ["row"]
    assert len(plan.nests[0].loads) == 1
    assert {axis.iterator for axis in plan.nests[0].axes} == {"parallel"}


def test_a_square_softmax_reduces_over_its_own_axis(harness):
    graph = harness.graph((4, 4))
    graph.output(harness.softmax(graph.inputs[0], 0))
    plan = harness.check(graph, harness.array(4, 4))
    assert templates(plan) == ["row"]


def test_layer_norm_of_a_sum_is_one_kernel_that_also_stores_the_sum(harness):
    graph = harness.graph((6, 8), (6, 8), (8,), (8,))
    x, y, scale, bias = graph.inputs
    total = harness.op("tanh", x) + y
    graph.output(harness.layer_norm(total, scale, bias) + 1.0, total)
    arrays = [harness.array(6, 8), harness.array(6, 8, seed=1), harness.array(8), harness.array(8, seed=2)]
    plan = harness.check(graph, *arrays)
    assert templates(plan) == ["row"]
    assert len(plan.nests[0].stores) == 2


def test_mean_without_keepdims_joins_through_the_reshape(harness):
    graph = harness.graph((6, 8))
    (x,) = graph.inputs
    mean = harness.reduce("reduce_sum", x, 1, keepdims=False) / 8.0
    graph.output(x - mean.reshape(6, 1))
    assert templates(harness.check(graph, harness.array(6, 8))) == ["row"]


def test_an_explicit_broadcast_of_a_mean_joins(harness):
    graph = harness.graph((6, 8))
    (x,) = graph.inputs
    mean = harness.reduce("reduce_sum", x, 1) / 8.0
    graph.output(x - mean.broadcast_to((6, 8)))
    assert templates(harness.check(graph, harness.array(6, 8))) == ["row"]


def test_group_norm_splits_the_channels_and_stays_one_kernel(harness):
    graph = harness.graph((2, 6, 4, 4), (6, 1, 1))
    x, scale = graph.inputs
    groups = x.reshape(2, 3, 32)
    centred = groups - harness.reduce("reduce_sum", groups, 2) / 32.0
    spread = harness.op("sqrt", harness.reduce("reduce_sum", centred * centred, 2) / 32.0 + 1e-5)
    graph.output((centred / spread).reshape(2, 6, 4, 4) * scale)
    plan = harness.check(graph, harness.array(2, 6, 4, 4), harness.array(6, 1, 1))
    assert templates(plan) == ["row"]


def test_two_reductions_over_one_axis_become_one_kernel_when_combined(harness):
    graph = harness.graph(("b", "s", 8), ("b", "s", 1))
    x, keep = graph.inputs
    total = harness.reduce("reduce_sum", x * keep, 1, keepdims=False)
    count = harness.reduce("reduce_sum", keep, 1, keepdims=False)
    graph.output(total / count)
    plan = harness.check(graph, harness.array(2, 3, 8), np.ones((2, 3, 1), np.float32))
    assert templates(plan) == ["row"]
    assert [axis.iterator for axis in plan.nests[0].axes] == ["parallel", "parallel", "reduction"]
    assert plan.nests[0].axes[1].extent == 8  # contiguous, innermost of the parallel ones


def test_a_reduction_over_another_axis_starts_a_new_kernel(harness):
    graph = harness.graph((4, 5))
    softmax = harness.softmax(graph.inputs[0])
    graph.output(harness.reduce("reduce_sum", softmax, 0))
    assert templates(harness.check(graph, harness.array(4, 5))) == ["row", "row"]


def test_an_outer_difference_of_a_reduction_is_not_taken_for_its_diagonal(harness):
    graph = harness.graph((4, 6))
    total = harness.reduce("reduce_sum", graph.inputs[0], 1, keepdims=False)
    graph.output(total.reshape(4, 1) - total.reshape(1, 4))
    assert templates(harness.check(graph, harness.array(4, 6))) == ["row", "map"]


def test_a_square_that_is_reduced_elsewhere_is_not_stored_beside_its_base(harness):
    graph = harness.graph((4, 6, 8))
    mean = harness.reduce("reduce_sum", graph.inputs[0], 1, keepdims=False)
    graph.output(mean / harness.op("sqrt", harness.reduce("reduce_sum", mean * mean, 1)))
    plan = harness.check(graph, harness.array(4, 6, 8))
    assert templates(plan) == ["row", "row"]
    assert [len(nest.stores) for nest in plan.nests] == [1, 1]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_positions_of_extremes(harness, name, axis):
    graph = harness.graph((3, 4, 5))
    (x,) = graph.inputs
    graph.output(harness.op(name, x, axes=(axis,), keepdims=False), harness.reduce("reduce_max", x, axis))
    values = np.round(harness.array(3, 4, 5))
    values[1, 2] = np.nan
    plan = harness.check(graph, values)
    assert templates(plan) == ["row"]  # both reductions read x once


@pytest.mark.parametrize(
    ("shape", "axes"), [((70001,), (0,)), ((3, 70000), (1,)), ((2, 300, 300), (0, 1, 2)), ((65537, 2), (0,))]
)
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max"])
def test_long_reductions_to_few_values_get_partial_results(harness, shape, axes, name):
    graph = harness.graph(shape)
    graph.output(harness.op(name, graph.inputs[0], axes=axes, keepdims=False))
    plan = harness.check(graph, harness.array(*shape), tolerance=1e-3)
    partial = plan.nests[0]
    stored = [axis for axis in partial.axes if axis.iterator == "parallel"]
    assert np.prod([axis.extent for axis in stored]) >= 64
    assert all(
        np.prod([axis.extent for axis in nest.axes if axis.iterator == "reduction"]) <= 65536
        for nest in plan.nests
    )


def test_a_long_leading_reduction_is_split_unless_there_are_many_columns(harness):
    for columns, expected in ((64, ["row", "row"]), (2048, ["row", "row"]), (16384, ["row"])):
        graph = harness.graph((70000, columns))
        graph.output(harness.reduce("reduce_sum", graph.inputs[0], 0))
        assert templates(harness.plan(graph)) == expected


def test_a_normalisation_over_everything_does_not_serialise_a_long_vector(harness):
    graph = harness.graph((100000,))
    (x,) = graph.inputs
    graph.output(x / harness.reduce("reduce_sum", x, 0))
    plan = harness.check(graph, harness.array(100000) + 3, tolerance=1e-4)
    assert plan.nests[-1].template == "map"
    assert plan.nests[-1].axes[0].extent == 100000


# -- matmul ---------------------------------------------------------------------------------------------------------------


def test_matmul_takes_bias_activation_and_residual(harness):
    graph = harness.graph(("b", 6, 8), (8, 5), (5,), ("b", 6, 5))
    x, weight, bias, residual = graph.inputs
    graph.output(harness.op("gelu", x @ weight + bias, approximate="none") + residual)
    plan = harness.check(graph, *[harness.array(*s) for s in ((2, 6, 8), (8, 5), (5,), (2, 6, 5))])
    (nest,) = plan.nests
    assert templates(plan) == ["contract"]
    assert nest.axes == (Axis("m", 6 * Dim("b")), Axis("n", 5), Axis("k", 8, "reduction"))


def test_casts_and_scales_are_a_prologue(harness):
    graph = harness.graph(("float16", (4, 6)), ("float16", (6, 5)))
    x, weight = graph.inputs
    graph.output((x.cast("float32") * 0.5) @ weight.cast("float32"))
    arrays = [harness.array(4, 6, dtype=np.float16), harness.array(6, 5, dtype=np.float16)]
    assert templates(harness.check(graph, *arrays)) == ["contract"]


def test_an_expensive_operand_is_stored_first(harness):
    graph = harness.graph((4, 6), (6, 5))
    x, weight = graph.inputs
    graph.output(harness.op("exp", x) @ weight)
    assert templates(harness.check(graph, harness.array(4, 6), harness.array(6, 5))) == ["map", "contract"]


def test_a_half_precision_matmul_accumulates_in_float32_and_rounds_once(harness):
    graph = harness.graph(("float16", (4, 6)), ("float16", (6, 5)))
    x, weight = graph.inputs
    graph.output(x @ weight)
    plan = harness.check(graph, harness.array(4, 6, dtype=np.float16), harness.array(6, 5, dtype=np.float16))
    body = plan.nests[0].body
    contract = next(value for value in body if value.op == "contract")
    assert contract.dtype is F32
    assert [body[operand].dtype.name for operand in contract.operands] == ["float16", "float16"]
    assert [value.op for value in body][-1] == "cast"


@pytest.mark.parametrize(
    ("a", "b"),
    [((1, 7), (7, 5)), ((7,), (7, 5)), ((3, 7), (7,)), ((4, 1, 7), (7, 5)), ((4, 3, 7), (4, 7, 1)), ((1, 1), (1, 1)),
     ((2, 1, 3, 7), (4, 7, 5)), ((0, 7), (7, 5)), ((3, 0), (0, 5)), ((5, 1, 1, 7), (5, 2, 7, 3))],
)  # fmt: skip
def test_matmul_shapes(harness, a, b):
    graph = harness.graph(a, b)
    x, y = graph.inputs
    graph.output(x @ y)
    plan = harness.check(graph, harness.array(*a), harness.array(*b))
    assert templates(plan) == ["contract"]
    assert {"m", "n", "k"} <= {axis.name for axis in plan.nests[0].axes}


def test_rows_of_a_batch_of_single_rows_become_m(harness):
    graph = harness.graph(("b", 1, 8), (8, 5))
    x, weight = graph.inputs
    graph.output(x @ weight)
    plan = harness.check(graph, harness.array(4, 1, 8), harness.array(8, 5))
    assert [(axis.name, axis.extent) for axis in plan.nests[0].axes] == [("m", Dim("b")), ("n", 5), ("k", 8)]


def test_a_transposed_operand_is_read_in_place(harness):
    graph = harness.graph((4, 6), (5, 6))
    x, weight = graph.inputs
    graph.output(x @ weight.permute(1, 0))
    plan = harness.check(graph, harness.array(4, 6), harness.array(5, 6))
    assert templates(plan) == ["contract"]


def test_projections_sharing_an_input_may_stay_separate_but_store_nothing_twice(harness):
    graph = harness.graph((4, 6), (6, 5), (6, 5))
    x, first, second = graph.inputs
    gate = x @ first
    graph.output(gate * harness.op("sigmoid", gate) * (x @ second))
    plan = harness.check(graph, harness.array(4, 6), harness.array(6, 5), harness.array(6, 5, seed=1))
    assert templates(plan) == ["contract", "contract"]
    assert len(plan.temporaries) == 1


# -- attention ------------------------------------------------------------------------------------------------------------


def qkv(harness, *shapes):
    return [harness.array(*shape, seed=seed) for seed, shape in enumerate(shapes)]


def test_attention_of_folded_heads(harness):
    """Exported as batched matmuls of rank 3: the heads are folded into the batch and unfolded afterwards."""
    graph = harness.graph(("b", "s", 24))
    (x,) = graph.inputs
    batch, seq = x.shape[0], x.shape[1]

    def fold(y):
        return y.reshape(batch, seq, 3, 8).permute(0, 2, 1, 3).reshape(batch * 3, seq, 8)

    query, key, value = fold(x), fold(x), fold(x)
    weights = harness.op("softmax", (query * 0.3) @ key.permute(0, 2, 1), axis=2)
    out = (weights @ value).reshape(batch, 3, seq, 8).permute(0, 2, 1, 3).reshape(batch, seq, 24)
    graph.output(out)
    plan = harness.check(graph, harness.array(2, 5, 24))
    assert templates(plan) == ["attention"]
    assert plan.temporaries == ()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_attention_with_other_lengths_and_a_causal_mask(harness, dtype):
    name = np.dtype(dtype).name
    graph = harness.graph((name, (2, 3, 5, 8)), (name, (2, 3, 7, 8)), (name, (2, 3, 7, 4)), ("bool", (5, 7)))
    query, key, value, mask = graph.inputs
    scores = query @ key.permute(0, 1, 3, 2)
    scores = harness.op("where", mask, scores, graph.scalar(-1e4, name))
    graph.output(harness.op("softmax", scores, axis=3) @ value)
    arrays = [
        harness.array(2, 3, 5, 8, dtype=dtype),
        harness.array(2, 3, 7, 8, dtype=dtype),
        harness.array(2, 3, 7, 4, dtype=dtype),
    ]
    plan = harness.check(
        graph, *arrays, np.tri(5, 7, 2, dtype=bool), tolerance=1e-5 if dtype is np.float32 else 5e-3
    )
    assert templates(plan) == ["attention"]


def test_attention_of_one_query(harness):
    graph = harness.graph((2, 3, 1, 8), (2, 3, "s", 8))
    query, key = graph.inputs
    graph.output(harness.op("softmax", query @ key.permute(0, 1, 3, 2), axis=3) @ key)
    plan = harness.check(graph, harness.array(2, 3, 1, 8), harness.array(2, 3, 6, 8))
    assert templates(plan) == ["attention"]
    assert [axis.name for axis in plan.nests[0].axes] == ["b0", "m", "n", "keys", "k"]


def test_grouped_queries_read_shared_keys(harness):
    graph = harness.graph((2, 4, 5, 8), (2, 2, 6, 8))
    query, key = graph.inputs
    shared = key.reshape(2, 2, 1, 6, 8).broadcast_to((2, 2, 2, 6, 8)).reshape(2, 4, 6, 8)
    graph.output(harness.op("softmax", query @ shared.permute(0, 1, 3, 2), axis=3) @ shared)
    plan = harness.check(graph, harness.array(2, 4, 5, 8), harness.array(2, 2, 6, 8))
    assert templates(plan) == ["attention"]


@pytest.mark.parametrize("case", ["returned weights", "wide head", "not a softmax", "dropout"])
def test_what_is_not_attention_is_still_right(harness, case):
    width = 300 if case == "wide head" else 8
    graph = harness.graph((3, 5, width), (3, 6, width), (3, 5, 6))
    query, key, scale = graph.inputs
    scores = query @ key.permute(0, 2, 1) * 0.1
    if case == "not a softmax":
        weights = harness.op("exp", scores) / harness.reduce("reduce_sum", scores * scores, 2)
    else:
        weights = harness.softmax(scores)
    used = weights * scale if case == "dropout" else weights
    outputs = [used @ key] + ([weights] if case == "returned weights" else [])
    graph.output(*outputs)
    plan = harness.check(graph, *qkv(harness, (3, 5, width), (3, 6, width), (3, 5, 6)), tolerance=1e-3)
    assert templates(plan) == ["contract", "row", "contract"]


# -- views, joins, gathers ------------------------------------------------------------------------------------------------


def test_a_merge_of_permuted_axes_after_matmul_is_stored_in_place(harness):
    graph = harness.graph((2, 3, 5, 4), (2, 3, 4, 6), (18, 7))
    x, y, weight = graph.inputs
    merged = (x @ y).permute(0, 2, 1, 3).reshape(2, 5, 18)
    graph.output(merged @ weight)
    plan = harness.check(graph, harness.array(2, 3, 5, 4), harness.array(2, 3, 4, 6), harness.array(18, 7))
    assert templates(plan) == ["contract", "contract"]


def test_a_permuting_copy_keeps_two_loops(harness):
    graph = harness.graph((2, 3, 4))
    graph.output(graph.inputs[0].permute(2, 0, 1))
    plan = harness.check(graph, harness.array(2, 3, 4))
    (nest,) = plan.nests
    assert [axis.extent for axis in nest.axes] == [4, 6]
    assert nest.stores[0].at.terms[-1] == (1, 1)


def test_a_reshape_that_cuts_across_permuted_axes_gets_a_buffer(harness):
    graph = harness.graph((4, 6))
    graph.output(harness.op("exp", graph.inputs[0].permute(1, 0).reshape(8, 3)))
    assert templates(harness.check(graph, harness.array(4, 6))) == ["map", "map"]
    odd = harness.graph((4, 6))
    odd.output(harness.op("exp", odd.inputs[0].permute(1, 0).reshape(3, 8)) + odd.inputs[0].reshape(3, 8))
    harness.check(odd, harness.array(4, 6))


def test_a_non_affine_reshape_is_computed_through_a_buffer(harness):
    graph = harness.graph((6, 4))
    flipped = harness.op("flip", graph.inputs[0], axes=(0,))
    graph.output(harness.op("exp", flipped.reshape(4, 6)))
    plan = harness.check(graph, harness.array(6, 4))
    assert templates(plan) == ["map", "map"]


def test_slices_and_flips_cost_nothing(harness):
    graph = harness.graph((10, 6), (4, 3))
    x, y = graph.inputs
    graph.output(harness.op("tanh", x[1:9:2, ::-2]) + y)
    plan = harness.check(graph, harness.array(10, 6), harness.array(4, 3))
    assert len(plan.nests) == 1
    (offset,) = {load.attrs["at"].offset for load in plan.nests[0].loads if load.attrs["buffer"].index == 0}
    assert offset == 6 + 5


def test_pad_is_a_guarded_load(harness):
    graph = harness.graph((4, 5))
    padded = harness.op("pad", graph.inputs[0] * 2.0, low=(1, 0), high=(0, 2), mode="constant", value=7.0)
    graph.output(padded + 1.0)
    plan = harness.check(graph, harness.array(4, 5))
    (nest,) = plan.nests
    assert [load.attrs["guarded"] for load in nest.loads] == [True]


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_pads_that_repeat(harness, mode):
    graph = harness.graph((4, 5))
    graph.output(harness.op("pad", graph.inputs[0], low=(3, 2), high=(1, 4), mode=mode, value=0.0))
    assert len(harness.check(graph, harness.array(4, 5)).nests) == 1


def test_concat_of_computed_values_is_written_in_parts(harness):
    graph = harness.graph((4, 6), (6, 5), (4, 2))
    x, weight, y = graph.inputs
    graph.output(harness.op("concat", x @ weight, harness.op("exp", y), axis=1))
    plan = harness.check(graph, harness.array(4, 6), harness.array(6, 5), harness.array(4, 2))
    assert sorted(nest.template for nest in plan.nests) == ["contract", "map"]
    assert plan.temporaries == ()
    assert sorted(store.at.offset for nest in plan.nests for store in nest.stores) == [0, 5]


def test_a_small_concat_is_read_in_place(harness):
    graph = harness.graph((4, 3), (4, 2))
    x, y = graph.inputs
    graph.output(harness.reduce("reduce_max", harness.op("concat", x, y, axis=1), 1))
    plan = harness.check(graph, harness.array(4, 3), harness.array(4, 2))
    assert templates(plan) == ["row"]


def test_embedding_lookups_fuse_into_the_normalisation(harness):
    graph = harness.graph(("int32", ("b", "s")), (10, 8))
    ids, table = graph.inputs
    graph.output(harness.op("softmax", harness.op("gather", table, ids, axis=0), axis=2))
    plan = harness.check(graph, np.array([[1, -1, 12], [0, -30, 9]], np.int32), harness.array(10, 8))
    assert templates(plan) == ["row"]


def test_take_along_axis_of_a_sum(harness):
    graph = harness.graph((4, 6), ("int64", (4, 2)))
    x, positions = graph.inputs
    graph.output(harness.op("take_along_axis", x + 1.0, positions, axis=1))
    plan = harness.check(graph, harness.array(4, 6), np.array([[0, 5], [-1, 2], [9, -9], [3, 3]]))
    assert templates(plan) == ["map"]


def test_cumsum_takes_what_is_around_it(harness):
    graph = harness.graph((4, 6))
    scanned = harness.op("cumsum", graph.inputs[0] * 2.0, axis=1, exclusive=True, reverse=True)
    graph.output(harness.op("exp", scanned * 0.1))
    assert templates(harness.check(graph, harness.array(4, 6))) == ["scan"]


def test_a_dim_that_a_check_makes_equal_to_another(harness):
    graph = harness.graph(("b", "n", 6), ("b", 6, "m"))
    x, y = graph.inputs
    renamed = joinery.rebind(harness.op("tanh", y.permute(0, 2, 1)), x.shape)
    graph.output(harness.op("softmax", x + renamed, axis=1))
    plan = harness.check(graph, harness.array(2, 4, 6), harness.array(2, 6, 4))
    assert len(plan.checks) == 1
    assert plan.nests[-1].template == "row"


# -- outputs --------------------------------------------------------------------------------------------------------------


def test_outputs_that_are_inputs_constants_sizes_or_repeated(harness):
    graph = harness.graph(("n", 3))
    (x,) = graph.inputs
    y = x + 1.0
    constant = graph.constant(np.arange(4, dtype=np.float32))
    graph.output(
        x, x.reshape(-1), x.permute(1, 0), y, y, y.reshape(3, x.shape[0]), constant, graph.scalar(2.0, "float32"),
        graph.dim_value(x.shape[0] * 2), names=[f"y{i}" for i in range(9)],
    )  # fmt: skip
    plan = harness.check(graph, harness.array(2, 3))
    assert len(plan.outputs) == 9
    assert plan.temporaries == ()


def test_a_reshaped_output_is_stored_directly(harness):
    graph = harness.graph((4, 6), (6, 8))
    x, weight = graph.inputs
    graph.output((x @ weight).reshape(2, 2, 8))
    plan = harness.check(graph, harness.array(4, 6), harness.array(6, 8))
    assert templates(plan) == ["contract"]
    assert plan.outputs[0].shape == (2, 2, 8)


def test_a_broadcast_output_is_stored_at_every_element(harness):
    graph = harness.graph((4, 1))
    total = harness.reduce("reduce_sum", graph.inputs[0], 1)
    graph.output(total.broadcast_to((3, 4, 5)), graph.inputs[0].broadcast_to((4, 2)))
    harness.check(graph, harness.array(4, 1))


def test_empty_arrays(harness):
    graph = harness.graph((0, 3), (2, 0))
    x, y = graph.inputs
    graph.output(
        x * 2.0, harness.reduce("reduce_sum", y, 1), x.reshape(3, 0), harness.op("concat", x, x, axis=0)
    )
    harness.check(graph, harness.array(0, 3), harness.array(2, 0))


# -- legality -------------------------------------------------------------------------------------------------------------


def test_no_group_is_entered_again_from_outside(harness):
    """x -> softmax (row) -> column sums (another row) -> back into an elementwise op with the softmax: the op must not join the
    first group, which would then depend on a kernel that depends on it."""
    graph = harness.graph((4, 5))
    softmax = harness.softmax(graph.inputs[0])
    columns = harness.reduce("reduce_sum", softmax, 0)
    graph.output(softmax * columns)
    plan = harness.check(graph, harness.array(4, 5))
    assert "mul" not in plan.nests[0].fused


def test_the_group_graph_of_a_plan_is_acyclic(harness):
    graph = harness.graph((4, 4))
    (x,) = graph.inputs
    for _ in range(3):
        y = harness.softmax(x)
        x = harness.op("tanh", y @ x) + harness.reduce("reduce_sum", y, 0) + y
    graph.output(x)
    grouping = Grouping(graph.symbols, [symbol.id for symbol in graph.outputs])
    grouping.run()
    dag = nx.DiGraph([
        (other, bit) for bit, before in grouping.before.items() for other in grouping.groups if before & other
    ])  # fmt: skip
    assert nx.is_directed_acyclic_graph(dag)
    for bit, group in grouping.groups.items():  # convexity: no path leaves a group and comes back
        outside = {other for other in nx.descendants(dag, bit) if other != bit} if bit in dag else set()
        inputs = {operand.id for key in group.members for operand in graph.symbols[key].inputs} - set(
            group.members
        )
        assert not {grouping.group_of[key].bit for key in inputs if key in grouping.group_of} & outside
    harness.check(graph, harness.array(4, 4), tolerance=1e-3)


def test_nests_in_a_cycle_are_refused():
    buffers = [Buffer("temporary", i, F32, (4,), i) for i in range(2)]

    def copies(source, target):
        load = Value(
            "load",
            F32,
            (0,),
            (),
            {"buffer": source, "at": Affine(0, ((0, 1),)), "strides": (), "guarded": False, "fill": 0},
        )
        return Nest((Axis("i0", 4),), (load,), (Store(0, target, Affine(0, ((0, 1),))),), "map", ("copy",))

    with pytest.raises(InternalError, match="in a cycle: copy → copy → copy"):
        order_nests([copies(buffers[0], buffers[1]), copies(buffers[1], buffers[0])])
    forwards = [copies(buffers[0], buffers[1]), copies(Buffer("input", 0, F32, (4,), 9), buffers[0])]
    assert order_nests(forwards) == forwards[::-1]


@pytest.mark.parametrize("count", [94, 95, 96, 97])
def test_a_long_chain_that_ends_in_a_reshape(harness, count):
    """A chain is cut after so many operations, also where the next one is a reshape, which has no memory of its own."""
    graph = harness.graph((6, 4))
    (x,) = graph.inputs
    for _ in range(count):
        x = x + 0.5
    flat = x.reshape((24,))
    graph.output(flat, flat * 2.0)
    harness.check(graph, harness.array(6, 4))
