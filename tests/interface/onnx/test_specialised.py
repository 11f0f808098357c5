"""Models in ONNX that are compiled for what they are called with: values of inputs, and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.onnx import specialised as module

from ...support.onnx_models import body, model, node

F = np.float32
X = np.arange(12, dtype=F).reshape(2, 6)


def reshaped() -> Any:
    """A model whose shape and bounds are inputs, so that both are specialised to."""
    nodes = [node("Reshape", "x s", "a"), node("Slice", "a from to", "y")]
    return model(nodes, {"x": (F, ["n", 6]), "s": (np.int64, [2]), "from": (np.int64, [1]), "to": (np.int64, [1])})


def scanned() -> Any:
    """A running sum along an axis whose size has a name. Steps are unrolled, since another value that it carries gets one
    axis more in each of them."""
    grows = [node("Constant", "", "axes", value_ints=[0]), node("Unsqueeze", "seen axes", "more")]
    nodes = [node("Add", "total x", "next"), node("Identity", "next", "out"), *grows]
    step = body(nodes, {"total": (F, [6]), "seen": (F, ["k"]), "x": (F, [6])}, "next more out")
    scan = node("Scan", "start start x", "_ _ y", num_scan_inputs=1, body=step)
    return model([scan], {"start": (F, [6]), "x": (F, ["n", 6])})


def compiled(made: Any, **options: Any) -> Any:
    return jn.compile_onnx(made, device="cpu", threads=1, cache=False, **options)


def test_a_model_that_needs_nothing_is_compiled_once() -> None:
    made: Any = compiled(model([node("Relu", "x")], {"x": (F, ["n", 3])}))
    assert not isinstance(made, module.SpecialisedModel)
    np.testing.assert_array_equal(made(X.reshape(4, 3) - 5), np.maximum(X.reshape(4, 3) - 5, 0))


def test_values_are_specialised_to_once_each() -> None:
    made = compiled(reshaped())
    assert made.models == ()
    for shape, first, last in (((3, 4), 0, 2), ((4, 3), 1, 3), ((3, 4), 0, 2)):
        want = X.reshape(shape)[first:last]
        np.testing.assert_array_equal(made(X, np.array(shape), np.array([first]), np.array([last])), want)
        named = {"x": X, "s": np.array(shape), "from": np.array([first]), "to": np.array([last])}
        np.testing.assert_array_equal(made.run(named)["y"], want)
    assert made.constants == ("from", "s", "to")
    assert (made.sizes, len(made.models)) == ((), 2)
    assert made.outputs[0].name == "y"
    assert [spec.name for spec in made.models[-1].inputs] == ["x"]


def test_sizes_are_specialised_to_and_others_stay_symbolic() -> None:
    made = compiled(scanned())
    start = np.ones(6, F)
    for rows in (1, 2, 5, 2):
        x = np.resize(X, (rows, 6))
        np.testing.assert_allclose(made(start, x), 1 + np.cumsum(x, 0), rtol=1e-6)
    assert (made.constants, made.sizes, len(made.models)) == ((), ("n",), 3)
    assert made.dims == ("n",)
    assert repr(made) == "<joinery.SpecialisedModel 'graph' (start: float32[6], x: float32[n, 6]); 3 compiled>"


def test_the_oldest_models_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    made = compiled(scanned())
    for rows in (1, 2, 1, 3):
        made(np.ones(6, F), np.resize(X, (rows, 6)))
    assert sorted(spec.shape[0] for each in made.models for spec in each.inputs if spec.name == "x") == [1, 3]


def test_sequences_are_specialised_to() -> None:
    made = model([node("ConcatFromSequence", "s", "a", axis=0), node("Add", "a x")], {"x": (F, [3])})
    sequence = made.graph.input.add(name="s")
    sequence.type.sequence_type.elem_type.tensor_type.elem_type = 1
    run = compiled(made)
    parts = [np.ones(3, F), np.zeros(3, F)]
    with pytest.raises(jn.UserError):
        run(np.ones(3, F))
    found = compiled(model([node("Identity", "x")], {"x": (F, [3])}))(np.ones(3, F))
    assert found.tolist() == [1, 1, 1]
    with pytest.raises(jn.UserError, match="expects shape \\(3,\\), got"):
        run(np.ones(6, F), parts)


def test_a_specialised_model_is_saved_alone(tmp_path: Path) -> None:
    made = compiled(scanned())
    start, x = np.ones(6, F), X
    made.specialised(start, x).save(tmp_path / "two.joinery")
    again: Any = jn.load(tmp_path / "two.joinery", device="cpu", cache=False)
    np.testing.assert_array_equal(again(start, x), made(start, x))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda m: m(X), jn.UserError, "missing input 'from'; fix: the inputs are x, s, from, to"),
        (lambda m: m(X, X, X, X, X), jn.UserError, "5 inputs; expected x, s, from, to"),
        (lambda m: m(X, x=X), jn.UserError, "'x' is given by position and by name"),
        (lambda m: m(X, np.array([3, 4]), np.array([0]), "two"), jn.UserError, "input 'to' is str; fix: pass a NumPy array"),
        (lambda m: m(X, np.array([3.0, 4.0]), np.array([0]), np.array([1])), jn.UserError, "'s' expects int64, got float64"),
        (lambda m: m(X, np.array([5, 5]), np.array([0]), np.array([1])), jn.UserError, "(?s)Reshape|reshape"),
        (lambda m: m.run([X]), jn.UserError, "run takes a mapping"),
        (lambda m: m.bind(X), jn.UnsupportedError, r"fix: model.specialised\(…\).bind"),
        (lambda m: m.save("x"), jn.UnsupportedError, r"fix: model.specialised\(…\).save"),
        (lambda m: m.sanitize(X), jn.UnsupportedError, r"fix: model.specialised\(…\).sanitize"),
        (lambda m: m.compiled, jn.UnsupportedError, "no single compiled form"),
    ],
)
def test_mistakes(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call(compiled(reshaped()))


def test_a_profile_is_of_the_model_for_the_arguments() -> None:
    made = compiled(reshaped())
    profile = made.profile(X, np.array([3, 4]), np.array([0]), np.array([2]), repeat=2)
    assert [each.kernel for each in profile.kernels] == list(made.models[-1].kernels)
    assert (len(made.models), len(profile.seconds)) == (1, 2)


def test_sizes_that_disagree_name_both() -> None:
    made = model([node("Reshape", "x s", "a"), node("Add", "a z")], {"x": (F, ["n"]), "s": (np.int64, [1]), "z": (F, ["n"])})
    with pytest.raises(jn.UserError, match="n is 3, but 4 in 'z'"):
        compiled(made)(np.ones(3, F), np.array([3]), np.ones(4, F))


def test_what_data_inside_decides_is_refused() -> None:
    made = model([node("ReduceSum", "x", "s", keepdims=0), node("Cast", "s", "k", to=7), node("Reshape", "x k", "y")],
                 {"x": (F, [2000])})  # fmt: skip
    with pytest.raises(jn.UnsupportedError, match="is computed from data, the values of 'x', which is not supported; fix: "):
        compiled(made)


def squeezed() -> Any:
    """A model that drops its second axis if that is 1: the ranks of the branches differ."""
    then, otherwise = body([node("Squeeze", "x one", "u")], {}, "u"), body([node("Identity", "x", "v")], {}, "v")
    nodes = [node("Shape", "x", "s"), node("Gather", "s one", "d"), node("Equal", "d one", "q"),
             node("If", "q", then_branch=then, else_branch=otherwise)]  # fmt: skip
    return model(nodes, {"x": (F, ["b", "t", 4])}, constants={"one": np.array([1])}, opset=13)


def root() -> Any:
    """A model that reshapes n columns to a square, whose side goes through floats."""
    nodes = [node("Shape", "x", "n", start=1, end=2), node("Cast", "n", "f", to=1), node("Sqrt", "f", "r"),
             node("Cast", "r", "h", to=7), node("Concat", "minus h h", "s", axis=0), node("Reshape", "x s")]  # fmt: skip
    return model(nodes, {"x": (F, ["b", "n"])}, constants={"minus": np.array([-1])}, opset=17)


def test_what_sizes_decide_is_specialised_to_them() -> None:
    made = compiled(squeezed())
    for shape in ((3, 1, 4), (1, 3, 4), (2, 1, 4)):
        x = np.ones(shape, F)
        assert made(x).shape == (x.squeeze(1) if shape[1] == 1 else x).shape
    assert (made.constants, made.sizes, len(made.models)) == ((), ("t",), 2)
    made = compiled(root())
    for rows, side in ((2, 3), (4, 2), (1, 3)):
        assert made(np.ones((rows, side * side), F)).shape == (rows, side, side)
    assert (made.sizes, len(made.models)) == (("n",), 2)


def test_errors_about_sizes_say_how_they_are_given() -> None:
    for each, name in ((squeezed(), "t"), (root(), "n")):
        fix = rf"fix: from_onnx\(…, sizes={{'{name}': number}}\) or, of joinery export and .*, --size {name}=NUMBER; comp"
        with pytest.raises(jn.UnsupportedError, match=fix):
            jn.from_onnx(each)
        jn.from_onnx(each, sizes={name: 4})
    with pytest.raises(jn.UnsupportedError, match=r"fix: from_onnx\(…, constants={'s': array}\) or, .* --constant s=FILE; c"):
        jn.from_onnx(reshaped())


def test_a_shape_of_unknown_length_is_a_value() -> None:
    made = compiled(model([node("Reshape", "x s")], {"x": (F, ["n", 6]), "s": (np.int64, ["q"])}))
    for shape in ((3, 4), (12,), (1, 2, 6)):
        assert made(X, np.array(shape)).shape == shape
    with pytest.raises(jn.UnsupportedError, match=r"'s' decides shapes or counts, and has 2000 elements; .* 1024 at most"):
        made(X, np.ones(2000, np.int64))


def test_sizes_of_constants_have_names() -> None:
    """Values and sizes of one input are needed: a constant has its sizes already."""
    graph = jn.from_onnx(model([node("Add", "x z")], {"x": (F, ["n"]), "z": (F, ["m"])}), constants={"x": X[0]}, sizes={"n": 6})
    assert [symbol.name for symbol in graph.inputs] == ["z"]


def test_sizes_that_a_model_refuses_are_specialised_to() -> None:
    """One of two sizes is 1 at a call: broadcasting that no single graph has."""
    made = compiled(model([node("Add", "x z")], {"x": (F, ["a", 4]), "z": (F, ["b", 4])}))
    assert not isinstance(made, module.SpecialisedModel)
    for first, second in ((3, 3), (3, 1), (1, 2), (3, 3)):
        x, z = np.full((first, 4), 2, F), np.ones((second, 4), F)
        np.testing.assert_array_equal(made(x, z), x + z)
        np.testing.assert_array_equal(made.run({"x": x, "z": z})["y"], x + z)
    with pytest.raises(jn.UserError, match=r"a must equal b \(a = 3, b = 2\)"):
        made(np.ones((3, 4), F), np.ones((2, 4), F))
    nodes = [node("Reshape", "x s", "r"), node("Add", "r z")]
    made = compiled(model(nodes, {"x": (F, ["n"]), "s": (np.int64, [2]), "z": (F, ["b", 4])}))
    for rows, second in ((3, 3), (3, 1)):
        x, z = np.arange(4 * rows, dtype=F), np.ones((second, 4), F)
        np.testing.assert_array_equal(made(x, np.array([-1, 4]), z), x.reshape(-1, 4) + z)
    assert made.sizes == ("b", "n")


def test_an_argument_with_too_many_values_to_specialise_to_is_named() -> None:
    made = compiled(model([node("ConstantOfShape", "s", "a"), node("Shape", "a")], {"s": (np.int64, ["k"])}))
    assert made(np.array([2, 3])).tolist() == [2, 3]
    with pytest.raises(jn.UnsupportedError, match=r"'s' decides shapes or counts, and has 5000 elements; .*a smaller array"):
        compiled(model([node("ConstantOfShape", "s", "a"), node("Shape", "a")], {"s": (np.int64, ["k"])}))(np.ones(5000, int))


def test_a_model_with_operations_of_the_host_is_specialised_too() -> None:
    nodes = [node("Add", "x z", "a"), node("NonZero", "a", "y")]
    made = compiled(model(nodes, {"x": (F, ["a"]), "z": (F, ["b"])}))
    for first, second in ((3, 3), (3, 1)):
        x, z = np.arange(first, dtype=F), np.zeros(second, F)
        np.testing.assert_array_equal(made(x, z), np.stack(np.nonzero(x + z)))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"n": -1}, r"sizes\['n'\] is -1; fix: an int"), ({"m": 2}, r"sizes has \['m'\]; the sizes with names are n; fix: use")],
)
def test_sizes_of_an_import_are_checked(sizes: Any, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        jn.from_onnx(scanned(), sizes=sizes)
    graph = jn.from_onnx(scanned(), sizes={"n": 2})
    assert graph.inputs[1].shape == (2, 6)
    with pytest.raises(jn.UnsupportedError, match=r"a Scan of n iterations, .*fix: from_onnx\(…, sizes={'n': number}\)"):
        jn.from_onnx(scanned())


def test_a_model_whose_sizes_have_no_text_is_compiled_for_those_of_each_call() -> None:
    """Forty halves of sums of two sizes in each other: a graph that could not be saved is not built."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Gather", "s one", "size0")]
    for step in range(40):
        nodes += [node("Add", f"size{step} n", f"sum{step}"), node("Div", f"sum{step} two", f"size{step + 1}")]
    made = model([*nodes, node("Expand", "f size40")], {"x": (F, ["n", "m"]), "f": (F, [1])},
                 constants={"zero": [0], "one": [1], "two": [2]})  # fmt: skip
    with pytest.raises(jn.UnsupportedError, match=r"a size .*, more .*fix: from_onnx\(…, sizes={'m': number, 'n': number}"):
        jn.from_onnx(made)
    run: Any = compiled(made)
    for shape in ((3, 70), (40, 0), (0, 9)):
        size = shape[1]
        for _ in range(40):
            size = (size + shape[0]) // 2
        assert run(np.zeros(shape, F), np.ones(1, F)).shape == (size,)
    fixed = jn.from_onnx(made, sizes={"n": 5})
    assert fixed.outputs[0].shape[0] != 5
