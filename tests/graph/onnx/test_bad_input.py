"""Models from strangers: budgets, names, versions, sizes, and bytes that were changed; only errors of joinery's come out."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ...support.onnx_models import body, evaluated, helper, model, node, numpy_helper, onnx
from ...support.tiers import examples

F, INT = np.float32, np.int64
X = np.ones((2, 3), F)


def simple(**changes: Any) -> Any:
    made = model([node("Neg", "x", "a"), node("Exp", "a")], {"x": (F, [2, 3])}, **changes)
    return made


def refused(made: Any, message: str, **options: Any) -> None:
    """The model is refused with a message that names the file and a fix."""
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message) as caught:
        jn.from_onnx(made, **options)
    assert "fix:" in str(caught.value)


@pytest.mark.parametrize("source", [b"", b"\x00" * 40, b"not a model at all", 5, None, "/no/such/file.onnx"])
def test_what_is_no_model(source: Any) -> None:
    with pytest.raises(jn.UserError, match="fix:"):
        jn.from_onnx(source)


def test_a_file_that_was_cut_off() -> None:
    data = simple(constants={"w": np.ones(300, F)}).SerializeToString()
    for length in range(0, len(data), 7):
        with pytest.raises(jn.JoineryError):
            jn.from_onnx(data[:length])


def test_a_file_beyond_the_limit() -> None:
    refused(
        simple().SerializeToString(),
        r"more than 20 bytes; fix: limits=OnnxLimits\(file_bytes",
        limits=jn.OnnxLimits(file_bytes=20),
    )


@pytest.mark.parametrize("bad", [-1, 1.5, True, 1 << 62])
def test_limits_are_checked(bad: Any) -> None:
    with pytest.raises(jn.UserError, match="OnnxLimits: nodes"):
        jn.OnnxLimits(nodes=bad)


@pytest.mark.parametrize(("field", "value"), [("ir_version", 0), ("ir_version", 99)])
def test_unknown_ir_versions(field: str, value: int) -> None:
    made = simple()
    setattr(made, field, value)
    refused(made, "IR version")


@pytest.mark.parametrize("opset", [0, -3, 29, 10**6])
def test_unknown_opsets(opset: int) -> None:
    made = simple()
    made.opset_import[0].version = opset
    refused(made, "opset")


def test_an_opset_imported_twice() -> None:
    made = simple()
    made.opset_import.append(helper.make_opsetid("ai.onnx", 20))
    refused(made, "imported twice, as opset 23 and as 20")


def test_no_opset_at_all() -> None:
    made = simple()
    del made.opset_import[:]
    refused(made, "imports no opset of domain 'ai.onnx'")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.node[1].output.__setitem__(0, "a"), "'a' is defined twice"),
        (lambda g: g.node[0].output.__setitem__(0, "x"), "'x' is defined twice"),
        (lambda g: g.node[0].input.__setitem__(0, "y"), "part of a cycle"),
        (lambda g: g.node[0].input.__setitem__(0, "nobody"), "reads 'nobody', which nothing defines"),
        (lambda g: g.input.append(g.input[0]), "two inputs have one name"),
        (lambda g: g.output[0].__setattr__("name", "nobody"), "'nobody' has no value"),
        (lambda g: g.node[0].attribute.extend([helper.make_attribute("k", 1)] * 2), "attribute 'k' is given twice"),
        (lambda g: g.node[0].__setattr__("op_type", "N" * 3000000), "a name of 3000000 characters"),
        (lambda g: g.input[0].type.tensor_type.__setattr__("elem_type", 77), "77 is no tensor data type"),
        (lambda g: g.input[0].type.tensor_type.__setattr__("elem_type", 8), "not defined for strings"),
        (lambda g: g.input[0].type.tensor_type.ClearField("shape"), "no declared rank"),
        (lambda g: g.input[0].ClearField("type"), "value of no declared type"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("k", b"\xff\xfe")), "attribute 'k' is unknown"),
    ],
)  # fmt: skip
def test_graphs_that_are_not_well_formed(change: Any, message: str) -> None:
    made = simple()
    change(made.graph)
    refused(made, message)


def tensor(shape: list[int], **fields: Any) -> Any:
    made = numpy_helper.from_array(np.ones(3, F), "w")
    del made.dims[:]
    made.dims.extend(shape)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(made, name).extend(value)
        else:
            setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (tensor([-3]), "negative or too large"),
        (tensor([1 << 62, 8]), "negative or too large"),
        (tensor([1] * 70), "negative or too large"),
        (tensor([4]), "12 bytes for float32"),
        (tensor([3], float_data=[1.0]), "more than one field"),
        (tensor([3], data_type=20), "12 bytes for float8"),
        (tensor([3], data_type=99), "99 is no tensor data type"),
    ],
)  # fmt: skip
def test_tensors_whose_data_does_not_fit(made: Any, message: str) -> None:
    whole = simple()
    whole.graph.initializer.append(made)
    refused(whole, message)


def test_operators_whose_inputs_have_too_few_axes_or_another_dtype() -> None:
    inner = body([node("Add", "s x", "n"), node("Identity", "n", "o")], {"s": (F, []), "x": (F, [])}, "n o")
    scan = node("Scan", "_ s xs", "last all", body=inner, num_scan_inputs=1)
    refused(model([scan], {"s": (F, [1]), "xs": (F, [2])}, "all", opset=8), "a tensor of 1 axes to scan; a batch and")
    encoder = node("LabelEncoder", "x", domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1])
    refused(model([encoder], {"x": (INT, [5])}, domains={"ai.onnx.ml": 2}), "keys of string for int64")


def chained(count: int) -> Any:
    """Functions each of which calls the next twice: 2^count nodes once they are inlined, from a few kB."""
    functions = []
    for number in range(count):
        calls = [node(f"F{number + 1}", "a", "b", domain="own"), node(f"F{number + 1}", "b", "c", domain="own")]
        nodes = calls if number < count - 1 else [node("Neg", "a", "c")]
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"F{number}", ["a"], ["c"], nodes, opsets))
    return model([node("F0", "x", "y", domain="own")], {"x": (F, [2])}, functions=functions, domains={"own": 1})


def test_attributes_of_an_operator_that_is_younger_than_the_opset() -> None:
    made = model([helper.make_node("Gelu", ["x"], ["y"], approximate=3)], {"x": (F, [2, 3])}, opset=19)
    refused(made, "attribute 'approximate' is of another type")


@pytest.mark.parametrize("axes", [[], [2, 3]])
def test_attention_with_a_cache_of_too_few_axes(axes: list[int]) -> None:
    heads = (F, [2, 3, 4, 8])
    inputs = {"q": heads, "k": heads, "v": heads, "past": (F, axes), "values": heads}
    made = model([helper.make_node("Attention", ["q", "k", "v", "", "past", "values"], ["y"])], inputs, opset=23)
    refused(made, f"past keys or values of {len(axes)} axes")


def test_functions_that_grow_when_inlined_are_counted_first() -> None:
    refused(chained(30), "more than 1000000 nodes once functions are inlined")
    refused(chained(41), "nested more than 32 deep")
    np.testing.assert_array_equal(evaluated(chained(5), X[0, :2])[0], X[0, :2])


def test_functions_that_call_themselves() -> None:
    made = chained(3)
    made.functions[2].node[0].op_type, made.functions[2].node[0].domain = "F1", "own"
    refused(made, "calls itself")


def test_functions_defined_twice() -> None:
    made = chained(2)
    made.functions[1].name = "F0"
    refused(made, "defined twice")


def test_graphs_nested_too_deep() -> None:
    inner = body([node("Neg", "x", "t")], {}, "t")
    for _ in range(8):
        inner = body([node("If", "c", "t", then_branch=inner, else_branch=body([node("Neg", "x", "t")], {}, "t"))], {}, "t")
    made = model([node("If", "c", "y", then_branch=inner, else_branch=inner)], {"x": (F, [2])}, constants={"c": np.array(True)})
    np.testing.assert_array_equal(evaluated(made, X[0, :2])[0], -X[0, :2])
    refused(made, "graphs are nested 9 deep", limits=jn.OnnxLimits(depth=8))


def test_too_many_nodes() -> None:
    refused(simple(), "more than 1 nodes", limits=jn.OnnxLimits(nodes=1))


def sized(nodes: list[Any], **constants: Any) -> Any:
    return model(nodes, {"x": (F, [2, 3])}, constants={name: np.asarray(value) for name, value in constants.items()})


@pytest.mark.parametrize(
    "made",
    [
        sized([node("ConstantOfShape", "s")], s=np.array([1 << 50], INT)),
        sized([node("Expand", "x s")], s=np.array([1 << 40, 1 << 40, 2, 3], INT)),
        sized([node("Tile", "x s")], s=np.array([1 << 60, 1], INT)),
        sized([node("Range", "a b c")], a=np.array(0, INT), b=np.array(10**18, INT), c=np.array(1, INT)),
        sized([node("ConstantOfShape", "s")], s=np.array([-1], INT)),
        sized([node("ConstantOfShape", "s")], s=np.array([2**40, -(2**40)], INT)),
        sized([node("Range", "a b c")], a=np.array(0, INT), b=np.array(5, INT), c=np.array(0, INT)),
        sized([node("Range", "a b c")], a=np.array(0, F), b=np.array(np.inf, F), c=np.array(1, F)),
        sized([node("Slice", "x z i z z")], z=np.array([0], INT), i=np.array([1], INT)),
        sized([node("Slice", "x a b c")], a=np.array([0], INT), b=np.array([1], INT), c=np.array([7], INT)),
        sized([node("Slice", "x a b c")], a=np.array([0, 0], INT), b=np.array([1, 1], INT), c=np.array([0, 0], INT)),
        sized([node("Gather", "x i", axis=1)], i=np.array([3], INT)),
        sized([node("Gather", "x i", axis=5)], i=np.array([0], INT)),
        sized([node("Transpose", "x", perm=[0, 0])]),
        sized([node("Concat", "x x", axis=9)]),
        sized([node("Reshape", "x s")], s=np.array([-1, -1], INT)),
        sized([node("Reshape", "x s")], s=np.array([4, 4], INT)),
        sized([node("Reshape", "x s")], s=np.array([0, 0, 0], INT)),
        sized([node("Split", "x s", axis=1)], s=np.array([1, 1], INT)),
        sized([node("Unsqueeze", "x s")], s=np.array([0, 0], INT)),
        sized([node("Squeeze", "x s")], s=np.array([0], INT)),
        sized([node("DepthToSpace", "w", blocksize=0)], w=np.ones((1, 4, 2, 2), F)),
        sized([node("SpaceToDepth", "w", blocksize=-2)], w=np.ones((1, 4, 2, 2), F)),
        sized([node("OneHot", "i d v")], i=np.array([0], INT), d=np.array(-1, INT), v=np.array([0, 1], F)),
        sized([node("Softmax", "x", axis=2)]),
        sized([node("Cast", "x", to=99)]),
        sized([node("StringConcat", "x x")]),
        sized([node("RegexFullMatch", "x", pattern="a")]),
        sized([node("ReduceSum", "x a")], a=np.array([2], INT)),
        sized([node("CumSum", "x a")], a=np.array(4, INT)),
        sized([node("Pad", "x p")], p=np.array([1, 2, 3], INT)),
        sized([node("Constant", "", "y", value_float=1.0, value_int=1)]),
        sized([node("Upsample", "x s")], s=np.array([0.0, 1.0], F)),
        sized([node("Resize", "x _ s")], s=np.array([np.inf, 1.0], F)),
        sized([node("Resize", "x _ s", mode="linear", antialias=1)], s=np.array([1e-30, 1.0], F)),
        sized([node("Resize", "x _ _ s")], s=np.array([2**50, 3], INT)),
        sized([node("STFT", "w s")], w=np.ones((1, 9, 1), F), s=np.array([1, 2], INT)),
        sized([node("ScatterND", "w i u")], w=np.broadcast_to(F(0), (1,)), i=np.array([[5]], INT), u=np.ones(1, F)),
        sized([node("ConstantOfShape", "s")], s=np.array([np.nan], F)),
        sized([node("Split", "x", "y", num_outputs=2**40)]),
        sized([node("Min", "_")]),
        sized([node("GatherElements", "x i")], i=np.full((2, 3), np.nan, F)),
        sized([node("STFT", "w s v")], w=np.ones((1, 9, 1), F), s=np.array(1, INT), v=np.ones((), F)),
        sized([node("OneHot", "i d v")], i=np.array([0], INT), d=np.array([1, 2], INT), v=np.array([0, 1], F)),
        sized([node("LSTM", "w a b", "y")], w=np.ones((1, 1, 2), F), a=np.ones((1, 7, 2), F), b=np.ones((1, 8, 2), F)),
        sized([node("RoiAlign", "w r i")], w=np.ones((1, 1), F), r=np.ones((1, 4), F), i=np.zeros(1, INT)),
        sized([node("ReverseSequence", "w i")], w=np.ones(3, F), i=np.ones(3, INT)),
        sized([node("LpPool", "w", kernel_shape=[1], p=0)], w=np.ones((1, 1, 3), F)),
        sized([node("MaxUnpool", "w i", kernel_shape=[1])], w=np.ones((1, 1, 2, 2), F), i=np.zeros((1, 1, 2, 2), INT)),
    ],
    ids=lambda made: f"{made.graph.node[0].op_type}",
)  # fmt: skip
def test_sizes_axes_and_attributes_out_of_range(made: Any) -> None:
    if made.graph.node[0].op_type == "Upsample":
        made.opset_import[0].version = 9
    refused(made, r"graph: node 0 \(")


IMAGES = {
    "kernel 0": node("Conv", "w k", kernel_shape=[0, 3]),
    "stride 0": node("Conv", "w k", strides=[0, 1]),
    "stride -1": node("MaxPool", "w", kernel_shape=[2, 2], strides=[-1, 1]),
    "negative pads": node("Conv", "w k", pads=[-1, 0, 0, 0]),
    "huge dilation": node("Conv", "w k", dilations=[1 << 60, 1]),
    "group 0": node("Conv", "w k", group=0),
    "group 3": node("Conv", "w k", group=3),
    "kernel too large": node("AveragePool", "w", kernel_shape=[9, 9]),
    "kernel of many taps": node("AveragePool", "w", kernel_shape=[4000, 4000], pads=[4000] * 4),
    "auto_pad": node("MaxPool", "w", kernel_shape=[2, 2], auto_pad="MOST"),
    "rank": node("MaxPool", "w", kernel_shape=[2]),
    "transposed group": node("ConvTranspose", "w k", group=0),
    "transposed to nothing": node("ConvTranspose", "w k", pads=[9, 9, 9, 9]),
}


@pytest.mark.parametrize("name", IMAGES)
def test_windows_out_of_range(name: str) -> None:
    constants = {"k": np.ones((4, 4, 3, 3), F)}
    made = model([IMAGES[name]], {"w": (F, [1, 4, 6, 6])}, constants=constants)
    refused(made, r"graph: node 0 \(")


def test_inputs_of_more_elements_than_the_limit() -> None:
    refused(model([node("Dropout", "x", "y m")], {"x": (F, [3, 1 << 62])}, "y m"), "a tensor of shape")


def test_integers_never_trap() -> None:
    low = np.iinfo(np.int32).min
    made = model([node("Div", "x c", "a"), node("Mod", "x c", "b")], {"x": (np.int32, [2])}, "a b",
                 constants={"c": np.array([-1, 0], np.int32)})  # fmt: skip
    for result in (
        evaluated(made, np.array([low, 5], np.int32)),
        jn.compile(jn.from_onnx(made), cache=False)(np.array([low, 5], np.int32)),
    ):
        np.testing.assert_array_equal(result[0], [low, 0])
    folded = model(
        [node("Div", "d c", "a")], {}, "a", constants={"c": np.array([-1], np.int32), "d": np.array([low], np.int32)}
    )
    np.testing.assert_array_equal(evaluated(folded)[0], [low])


@pytest.mark.parametrize("op", ["Neg", "Relu", "Softmax", "Transpose", "ReduceSum", "Shape"])
def test_empty_tensors_work(op: str) -> None:
    made = model([node(op, "x")], {"x": (F, [0, 3])})
    assert evaluated(made, np.zeros((0, 3), F))[0].size in (0, 1, 2)


SEED = model(
    [node("Shape", "x", "s"), node("Slice", "s zero one", "b"), node("Concat", "b rest", "t", axis=0),
     node("Reshape", "x t", "r"), node("Gemm", "r w bias", "g", transB=1, alpha=0.5),
     node("If", "c", "h", then_branch=body([node("Relu", "g", "u")], {}, "u"),
          else_branch=body([node("Neg", "g", "u")], {}, "u")),
     node("Softmax", "h", "p", axis=-1), node("Cast", "p", "q", to=10),
     node("MaxPool", "k", "m", kernel_shape=[2, 2], pads=[1, 0, 1, 0]), node("Conv", "m v", "o", strides=[1, 2])],
    {"x": (F, ["batch", 2, 3]), "k": (F, [1, 1, 5, 6])}, "q o",
    constants={"zero": np.array([0], INT), "one": np.array([1], INT), "rest": np.array([6], INT), "w": np.ones((4, 6), F),
               "bias": np.ones(4, F), "c": np.array(True), "v": np.ones((2, 1, 2, 2), F)},
).SerializeToString()  # fmt: skip


def survives(data: bytes) -> None:
    """A changed model is imported or refused by an error of joinery's that is no internal one."""
    try:
        jn.from_onnx(data, limits=jn.OnnxLimits(nodes=1000, folded_bytes=1 << 20, all_folded_bytes=1 << 22))
    except jn.InternalError as error:
        raise AssertionError(data) from error
    except jn.JoineryError:
        pass


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SEED)
    for position, value in changes:
        data[position] = value
    survives(bytes(data))


@pytest.mark.slow
@settings(max_examples=20_000)
@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_many_changed_bytes(changes: list[tuple[int, int]]) -> None:
    test_changed_bytes.hypothesis.inner_test(changes)


def test_branches_of_different_numbers_of_outputs() -> None:
    def branch(name: str, count: int) -> Any:
        names = [f"{name}{number}" for number in range(count)]
        outputs = [helper.make_tensor_value_info(each, 1, [2, 3]) for each in names]
        return helper.make_graph([helper.make_node("Neg", ["x"], [each]) for each in names], name, [], outputs)

    made = helper.make_node("If", ["c"], ["y"], then_branch=branch("t", 2), else_branch=branch("e", 1))
    refused(model([made], {"c": (np.bool_, []), "x": (F, [2, 3])}), "branches of 2 and 1 outputs")


@pytest.mark.parametrize("way", ["initialiser", "text", "Constant", "ConstantOfShape", "Expand", "Reshape"])
@pytest.mark.parametrize("sizes", [[0, 2**62], [2**40, 0, 2**40], [0, 2**61, 1]])
def test_empty_tensors_whose_other_sizes_no_array_has(way: str, sizes: list[int]) -> None:
    """NumPy counts the sizes beside a 0, too."""
    tensor = onnx.TensorProto(name="w", data_type=8 if way == "text" else 1, dims=sizes)
    inputs = {"x": (F, [1] * len(sizes) if way == "Expand" else [0])}
    nodes = {"Constant": node("Constant", "", value=tensor), "ConstantOfShape": node("ConstantOfShape", "s"),
             "Expand": node("Expand", "x s"), "Reshape": node("Reshape", "x s", allowzero=1)}  # fmt: skip
    made = model([nodes.get(way) or node("Identity", "w")], inputs, constants={"s": sizes})
    if way in ("initialiser", "text"):
        made.graph.initializer.append(tensor)
    for limits in (jn.OnnxLimits(), jn.OnnxLimits(elements=2**62 - 1)):
        refused(made, "(?s)(node 0|tensor 'w'|from graph:0 in).*", limits=limits)


def test_empty_tensors_of_large_sizes() -> None:
    made = model([node("Identity", "w")], {"x": (F, [1])})
    made.graph.initializer.append(onnx.TensorProto(name="w", data_type=1, dims=[0, 2**47]))
    assert jn.compile(jn.from_onnx(made), device="cpu")(np.ones(1, F)).shape == (0, 2**47)
