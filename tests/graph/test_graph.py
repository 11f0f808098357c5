"""Construction: sources, interning, outputs, keys, networkx, and that building is linear."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import joinery as jn
import networkx as nx
import numpy as np
import pytest
from joinery.graph.location import Location

Make = Callable[..., Any]


def test_inputs_types_and_names() -> None:
    graph = jn.Graph(
        "g",
        inputs=[
            jn.TensorType(np.float32, ("batch", 784), name="x"),
            jn.TensorType("bfloat16", "2*batch + 1"),
            jn.TensorType(jn.int8, ()),
        ],
    )
    x, y, z = graph.inputs
    assert (x.name, y.name, z.name) == ("x", "input1", "input2")
    assert (x.dtype, y.dtype, z.dtype) == (jn.float32, jn.bfloat16, jn.int8)
    assert (str(x.shape), [str(e) for e in y.shape], z.shape) == ("(Dim('batch'), 784)", ["2*batch + 1"], ())
    assert graph.dim_names == ("batch",)
    assert (x.ndim, str(x.size), str(x.nbytes), len(jn.reshape(y, (-1,)).shape)) == (
        2,
        "784*batch",
        "3136*batch",
        1,
    )
    assert repr(x) == "<%0 input 'x': float32 (batch, 784)>"
    assert str(x.type) == "float32 (batch, 784)"
    late = graph.input(jn.float32, (3,), "late")
    assert graph.inputs[-1] is late


def test_constants_are_interned_by_bits_never_by_value(make: Make) -> None:
    graph = make()
    same = [graph.constant(np.array([1.0, 2.0])) for _ in range(2)]
    assert same[0] is same[1]
    distinct = [
        np.array(0.0), np.array(-0.0), np.array(0.0, np.float32), np.array([0.0]), np.array(0), np.array(False), np.array(1),
        np.array(1.0), np.array(True), np.array(1, np.int8), np.array(np.nan),
        np.uint64(0x7FF8000000000001).view(np.float64), np.zeros(100), -np.zeros(100), np.zeros((10, 10)),
    ]  # fmt: skip
    symbols = [graph.constant(array) for array in distinct]
    assert len({symbol.id for symbol in symbols}) == len(distinct)
    assert [graph.constant(array) for array in distinct][3] is symbols[3]
    assert len(graph.symbols) == len(distinct) + 1
    assert graph.constant(np.array(np.nan)) is symbols[10]


def test_literals_are_interned_by_dtype_and_bits(make: Make) -> None:
    graph = make()
    assert graph.scalar(1).id == graph.scalar(1).id
    assert graph.scalar(1).id != graph.scalar(True).id
    assert graph.scalar(0.0).id != graph.scalar(-0.0).id
    assert np.signbit(graph.scalar(-0.0).attrs["value"])
    assert graph.scalar(float("nan")).id == graph.scalar(float("nan")).id
    assert graph.scalar(1, jn.float32) is graph.scalar(1.0, jn.float32)
    assert [graph.scalar(v).dtype.name for v in (True, 3, 1.5, np.int8(3), np.float64(2))] == [
        "bool", "int64", "float32", "int8", "float64",
    ]  # fmt: skip


def test_constants_do_not_follow_the_array(make: Make) -> None:
    graph = make()
    array = np.ones(3)
    symbol = graph.constant(array)
    array[:] = 7
    assert symbol.attrs["value"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        symbol.attrs["value"][0] = 2
    with pytest.raises(TypeError):
        symbol.attrs["value"] = array


def test_constants_in_dtypes_numpy_stores_otherwise(make: Make) -> None:
    graph = make()
    assert graph.constant(np.uint64(3), jn.index).dtype is jn.index
    assert graph.constant(np.float32(1.5), "tensor_float32").dtype is jn.tensor_float32
    with pytest.raises(jn.UserError, match="more than the 10 mantissa bits"):
        graph.constant(np.float32(1.0001), "tensor_float32")
    with pytest.raises(jn.UserError, match="the array is float64, not int8"):
        graph.constant(np.ones(2), jn.int8)


def test_weights_are_named_and_not_copied(make: Make) -> None:
    graph = make()
    array = np.ones((3, 2), np.float32)
    w = graph.weight("w", array)
    assert np.shares_memory(w.attrs["value"], array)
    assert graph.weight("w", array.copy()) is w
    assert dict(graph.weights) == {"w": w}
    assert array.flags.writeable
    with pytest.raises(jn.UserError, match="'w' is already defined with another value"):
        graph.weight("w", 2 * array)
    transposed = graph.weight("t", array.T)
    assert transposed.attrs["value"].flags.c_contiguous
    np.testing.assert_array_equal(transposed.attrs["value"], array.T)


def test_arrays_on_either_side_of_operators(make: Make) -> None:
    (x,) = make(("float64", (3,))).inputs
    array = np.arange(3.0)
    for y in (x + array, array + x, array * x, array == x, array > x, np.float64(2) * x, array[None] @ x):
        assert isinstance(y, jn.Symbol)
    assert isinstance(np.array([True, False, True]) & (x > 0), jn.Symbol)
    assert np.add(array, x).op.name == "add"  # what NumPy makes of array + x
    with pytest.raises(jn.UserError, match=r"joinery\.logaddexp"):
        np.logaddexp(array, x)


def test_outputs_end_construction(make: Make) -> None:
    graph = make(("float32", (3,), "x"))
    (x,) = graph.inputs
    y = x + 1
    graph.output(x, y, 3, names=("a", "b", "c"))
    assert graph.finished
    assert graph.outputs[:2] == (x, y) or graph.outputs[1] is y
    assert graph.output_names == ("a", "b", "c")
    with pytest.raises(jn.UserError, match="is finished"):
        x + 1
    with pytest.raises(jn.UserError, match="already has its outputs"):
        graph.output(x)


def test_default_output_names(make: Make) -> None:
    graph = make(("float32", (3,), "x"))
    (x,) = graph.inputs
    graph.output(x, x + 1)
    assert graph.output_names == ("x", "output1")
    other = make(("float32", (3,), "x"))
    other.output(other.inputs[0], other.inputs[0])
    assert other.output_names == ("output0", "output1")
    named = make(("float32", (3,), "x"))
    named.output([named.inputs[0] * 2], name="y")
    assert named.output_names == ("y",)


def test_copies_of_graphs(make: Make) -> None:
    """A finished graph does not change, and its symbols are their own copies."""
    graph = make(("float32", (3,), "x"))
    for how in (copy.copy, copy.deepcopy):
        with pytest.raises(jn.UserError, match=r"cannot be copied while it is built.*fix: call output"):
            how(graph)
    graph.output(graph.inputs[0] + 1)
    assert copy.copy(graph) is graph
    held = copy.deepcopy({"graph": graph, "x": graph.inputs[0]})
    assert held["x"].graph is held["graph"] is graph
    found = jn.what_if(graph, "jax")
    assert copy.copy(found) == copy.deepcopy(found) == found
    for value in (graph, found):
        with pytest.raises(jn.UserError, match=r"cannot be pickled; fix: keep pair = joinery\.to_text\(graph\)"):
            pickle.dumps(value)
    assert str(jn.from_text(*jn.to_text(graph))) == str(graph)


def test_symbols_are_values(make: Make) -> None:
    graph = make(("float32", (3,)))
    (x,) = graph.inputs
    assert {x: 1}[x] == 1
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    assert len(x) == 3
    assert (x == None) is False  # noqa: E711
    with pytest.raises(AttributeError, match="immutable"):
        x.name = "y"
    assert x in [1, x][1:]


def test_networkx_form(make: Make) -> None:
    graph = make(("float32", (3,)))
    (x,) = graph.inputs
    y = jn.exp(x)
    z = y * y + x
    result = graph.to_networkx()
    assert nx.is_directed_acyclic_graph(result)
    assert set(result.edges) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert result.edges[1, 2]["positions"] == (0, 1)
    assert result.nodes[3]["symbol"] is z
    assert result.nodes[1]["op"] == "exp"


@pytest.mark.slow
def test_building_is_linear_and_verifies() -> None:
    graph = jn.Graph(
        "big", inputs=[jn.TensorType(jn.float32, ("batch", 64)), jn.TensorType(jn.float32, ("batch", 64))]
    )
    x, y = graph.inputs
    value = x
    for _ in range(10_000):
        value = jn.tanh((value + y) * 2.0) - y
    assert len(graph.symbols) == 40_003
    graph.output(value)
    assert graph.outputs[0].shape == x.shape


def key(build: Callable[[Any], Any], *types: Any, name: str = "g") -> str:
    graph = jn.Graph(name, inputs=[jn.TensorType(*entry) for entry in types])
    graph.output(build(graph))
    return str(graph.canonical_key())


def test_the_key_ignores_names_and_dead_symbols() -> None:
    base = key(lambda g: g.inputs[0] * 2 + 1, ("float32", ("batch", "seq"), "x"))
    assert key(lambda g: g.inputs[0] * 2 + 1, ("float32", ("n", "a"), "y"), name="other") == base

    def with_dead_code(graph: Any) -> Any:
        result = graph.inputs[0] * 2
        jn.exp(result)
        return result + 1

    assert key(with_dead_code, ("float32", ("batch", "seq"), "x")) == base
    weights = [
        key(lambda g, n=n: g.inputs[0] @ g.weight(n, np.eye(3)), ("float64", (2, 3))) for n in ("a", "b")
    ]
    assert weights[0] == weights[1]


def test_the_key_sees_everything_else() -> None:
    x = ("float32", ("n", "m"))
    builds: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda g: g.inputs[0] * 2, (x,)), (lambda g: g.inputs[0] * 3, (x,)), (lambda g: g.inputs[0] + 2, (x,)),
        (lambda g: g.inputs[0] * 2, (("float32", ("n", "n")),)), (lambda g: g.inputs[0] * 2, (("float32", ("n", 4)),)),
        (lambda g: g.inputs[0] * 2, (("float16", ("n", "m")),)), (lambda g: g.inputs[0] * 2, (x, x)),
        (lambda g: g.inputs[1] * 2, (x, x)), (lambda g: jn.sum(g.inputs[0], 0), (x,)), (lambda g: jn.sum(g.inputs[0], 1), (x,)),
        (lambda g: g.inputs[0] * 0.0, (x,)), (lambda g: g.inputs[0] * -0.0, (x,)),
        (lambda g: g.inputs[0] @ np.ones((3, 3)), (("float64", (2, 3)),)),
        (lambda g: g.inputs[0] @ np.eye(3), (("float64", (2, 3)),)),
        (lambda g: jn.rebind(g.inputs[0], ("n", "n")), (x,)),
    ]  # fmt: skip
    keys = [key(build, *types) for build, types in builds]
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
def test_the_key_does_not_depend_on_the_hash_seed() -> None:
    code = """
import joinery as jn
g = jn.Graph("g", inputs=[jn.TensorType("float32", ("b", "a", "2*b + a"))])
x, = g.inputs
g.output(jn.softmax(jn.reshape(x, (-1,)) * 2))
print(g.canonical_key(), len(str(g)), str(g.symbols[-2].shape))
"""
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_rewrites_keep_locations_and_the_ledger(make: Make) -> None:
    graph = make(("int32", (3,), "x"))
    y = graph.inputs[0] + np.ones(3, np.float32)
    copied = jn.Graph("copy")
    new: dict[int, Any] = {}
    for symbol in graph.symbols:
        new[symbol.id] = copied.adopt(symbol, [new[operand.id] for operand in symbol.inputs])
    assert new[y.id].location == y.location
    assert [str(entry) for entry in copied.casts()] == [str(entry) for entry in graph.casts()]
    place = Location("model/model.py", 7, "forward")
    with copied.located(place):
        assert jn.exp(new[y.id]).location == place
    assert jn.exp(new[y.id]).location.function == "test_rewrites_keep_locations_and_the_ledger"


def test_repr_shows_semantics_and_policy(make: Make) -> None:
    graph = make(("float32", (3,)), policy="exact")
    assert (
        repr(graph)
        == "<Graph 'test': 1 inputs, 1 symbols, under construction, semantics 'max', policy 'exact'>"
    )
