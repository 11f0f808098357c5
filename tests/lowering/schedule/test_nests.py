"""What a nest may be: the interpreter refuses broken ones, and the templates refuse what they cannot run."""

import numpy as np
import pytest
from joinery.lowering.nest import Affine, Axis, Buffer, Nest, Store, Value
from joinery.lowering.schedule.attention import Softmax, find_softmax
from joinery.lowering.schedule.templates import NoTemplateError, template_of
from joinery.lowering.schedule.traffic import bytes_read, bytes_written, flops
from joinery.promotion.dtype import DType
from joinery.promotion.errors import InternalError

from ...support.nest_interpreter import run_nest

F32 = DType("float32")
X, Y = Buffer("input", 0, F32, (4, 3), 0), Buffer("output", 0, F32, (4, 3), 1)
AXES = (Axis("i0", 4), Axis("i1", 3))
WHOLE = Affine(0, ((0, 3), (1, 1)))


def load(at=WHOLE, axes=(0, 1), operands=(), guarded=False):
    return Value(
        "load", F32, axes, operands, {"buffer": X, "at": at, "strides": (), "guarded": guarded, "fill": 0}
    )


def memory():
    return {("input", 0): np.arange(12, dtype=np.float32), ("output", 0): np.full(12, 9, np.float32)}


def test_a_copy():
    values = memory()
    run_nest(Nest(AXES, (load(),), (Store(0, Y, WHOLE),), "map"), values, {})
    np.testing.assert_array_equal(values["output", 0], np.arange(12))


@pytest.mark.parametrize(
    "at", [Affine(1, ((0, 3), (1, 1))), Affine(-1, ((0, 3), (1, 1))), Affine(0, ((0, 4), (1, 1)))]
)
def test_addresses_outside_a_buffer_are_found(at):
    with pytest.raises(InternalError, match="accessed at"):
        run_nest(Nest(AXES, (load(at),), (Store(0, Y, WHOLE),), "map"), memory(), {})
    with pytest.raises(InternalError, match="accessed at"):
        run_nest(Nest(AXES, (load(),), (Store(0, Y, at),), "map"), memory(), {})


def test_a_guard_keeps_lanes_from_memory():
    index = Value("index", DType("int64"), (0,), (), {"at": Affine(0, ((0, 1),))})
    limit = Value("const", DType("int64"), (), (), {"value": 3})
    inside = Value("less", DType("bool"), (0,), (0, 1))
    shifted = load(Affine(3, ((0, 3), (1, 1))), operands=(2,), guarded=True)
    values = memory()
    run_nest(Nest(AXES, (index, limit, inside, shifted), (Store(3, Y, WHOLE),), "map"), values, {})
    np.testing.assert_array_equal(values["output", 0], [*range(3, 12), 0, 0, 0])


def test_an_element_written_twice_is_found():
    with pytest.raises(InternalError, match="twice"):
        run_nest(Nest(AXES, (load(),), (Store(0, Y, Affine(0, ((1, 1),))),), "map"), memory(), {})


def test_a_store_along_a_reduction_axis_is_found():
    axes = (AXES[0], Axis("r0", 3, "reduction"))
    with pytest.raises(InternalError, match="reduction axis"):
        run_nest(Nest(axes, (load(),), (Store(0, Y, WHOLE),), "map"), memory(), {})


def test_a_reduction_over_an_axis_its_operand_lacks_is_found():
    total = Value("reduce", F32, (), (0,), {"kind": "sum", "over": (0,)})
    with pytest.raises(InternalError, match="does not vary"):
        run_nest(Nest(AXES, (load(Affine(0, ((1, 1),)), (1,)), total), (Store(0, Y, WHOLE),), "map"), memory(), {})


def test_reductions_over_different_axes_fit_no_template():
    rows = Value("reduce", F32, (0,), (0,), {"kind": "sum", "over": (1,)})
    columns = Value("reduce", F32, (1,), (0,), {"kind": "sum", "over": (0,)})
    both = Value("add", F32, (0, 1), (1, 2))
    assert template_of(AXES, (load(), rows), (Store(1, Y, Affine(0, ((0, 3),))),)) == "row"
    with pytest.raises(NoTemplateError, match="different axes"):
        template_of(AXES, (load(), rows, columns, both), (Store(3, Y, WHOLE),))


def test_a_scan_beside_a_reduction_fits_no_template():
    scan = Value("scan", F32, (0, 1), (0,), {"kind": "sum", "axis": 1, "exclusive": False, "reverse": False})
    total = Value("reduce", F32, (0,), (0,), {"kind": "sum", "over": (1,)})
    assert template_of(AXES, (load(), scan), (Store(1, Y, WHOLE),)) == "scan"
    with pytest.raises(NoTemplateError, match="a scan beside a reduction"):
        template_of(AXES, (load(), scan, total), (Store(1, Y, WHOLE),))


def test_a_reduction_beside_a_product_fits_no_template():
    axes = (Axis("m", 4), Axis("n", 3), Axis("k", 4, "reduction"))
    left, right = load(Affine(0, ((0, 4), (2, 1))), (0, 2)), load(Affine(0, ((1, 1), (2, 3))), (1, 2))
    product = Value("contract", F32, (0, 1), (0, 1), {"over": 2, "precision": "ieee"})
    assert template_of(axes, (left, right, product), (Store(2, Y, WHOLE),)) == "contract"
    total = Value("reduce", F32, (0,), (2,), {"kind": "sum", "over": (1,)})
    with pytest.raises(NoTemplateError, match="a reduction beside a contraction"):
        template_of(axes, (left, right, product, total), (Store(3, Y, Affine(0, ((0, 1),))),))
    with pytest.raises(NoTemplateError, match="wrong axes"):
        template_of(axes, (right, left, Value("contract", F32, (0, 1), (0, 1), product.attrs)), (Store(2, Y, WHOLE),))


def attention_body(powers, total):
    """scores, what `powers` and `total` make of them, and the product with the values; axes are m, n, keys, k."""
    rows, keys, values = (load(Affine(0, ((a, 5), (b, 1))), (a, b)) for a, b in ((0, 3), (2, 3), (1, 2)))
    scores = Value("contract", F32, (0, 2), (0, 1), {"over": 3, "precision": "ieee"})
    highest = Value("reduce", F32, (0,), (3,), {"kind": "max", "over": (2,)})
    shifted = Value("sub", F32, (0, 2), (3, 4))
    raised = Value(powers, F32, (0, 2), (5,))
    summed = Value("reduce", F32, (0,), (6,), {"kind": total, "over": (2,)})
    weights = Value("div", F32, (0, 2), (6, 7))
    result = Value("contract", F32, (0, 1), (8, 9), {"over": 2, "precision": "ieee"})
    one = Value("const", F32, (), (), {"value": 1.0})
    return (rows, keys, one, scores, highest, shifted, raised, summed, weights, values, result)


def test_two_products_want_a_softmax_between_them():
    axes = (Axis("m", 4), Axis("n", 3), Axis("keys", 5, "reduction"), Axis("k", 2, "reduction"))
    stores = (Store(10, Y, WHOLE),)
    body = attention_body("exp", "sum")
    assert template_of(axes, body, stores) == "attention"
    assert find_softmax(body, 8, 2) == Softmax(logits=3, maximum=4, total=7)
    assert find_softmax(body, 8, 3) is None
    for powers, total in (("exp2", "sum"), ("exp", "max")):
        other = attention_body(powers, total)
        assert find_softmax(other, 8, 2) is None
        with pytest.raises(NoTemplateError, match="no softmax over the keys"):
            template_of(axes, other, stores)


def test_work_of_a_matmul(harness):
    graph = harness.graph((4, 6), (6, 5), (5,))
    x, weight, bias = graph.inputs
    plan = harness.plan(graph, x @ weight + bias)
    (nest,) = plan.nests
    assert bytes_read(nest) == 4 * (24 + 30 + 5)
    assert bytes_written(nest) == 4 * 20
    assert flops(nest) == 2 * 4 * 6 * 5 + 20


def test_a_gather_reads_no_more_than_it_touches(harness):
    graph = harness.graph(("int64", (3,)), (1000, 8))
    ids, table = graph.inputs
    plan = harness.plan(graph, harness.op("gather", table, ids, axis=0))
    assert bytes_read(plan.nests[0]) == 8 * 3 + 4 * 3 * 8


def test_a_plan_describes_itself(harness):
    graph = harness.graph(("batch", 6), (6, 5), (5,), name="mlp")
    x, weight, bias = graph.inputs
    text = harness.plan(graph, harness.op("relu", x @ weight + bias)).describe()
    lines = text.splitlines()
    assert lines[0].startswith("plan mlp: 1 kernels")
    assert lines[2].split()[:5] == ["0", "contract", "m=batch", "n=5", "k*=6"]
    assert lines[2].endswith("matmul, add, relu")
    assert "20*batch" in lines[2]
    assert lines[-1] == "arena: 0 bytes for 0 temporaries"
