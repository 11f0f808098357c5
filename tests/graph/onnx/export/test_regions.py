"""Loops and branches become If, Loop and Scan, which onnxruntime runs, and which are read back as what they were."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.control_programs import InGraph, InNumPy, Program
from ....support.onnx_export.agreement import by_onnxruntime, by_reference, exported, outputs
from ....support.onnx_export.structure import structure

pytest.importorskip("onnxruntime")
F32, F64, I64 = jn.float32, jn.float64, jn.int64
rng = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def graph(*types: tuple[Any, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, (dtype, shape) in enumerate(types)])


def same(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (np.asarray(one).dtype, np.shape(one)) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def agree(g: jn.Graph, *feeds: Any, exact: bool = True, skip_runtime: bool = False) -> Any:
    """The model computes what the graph does, and is read back as the graph (exact), or as one with as many loops."""
    model = exported(g)
    back = jn.from_onnx(model)
    assert back.casts() == ()
    if exact:
        assert structure(back) == structure(g)
    else:
        again = jn.from_onnx(exported(back))
        assert [symbol.op.name for symbol in again.symbols].count("loop") == [s.op.name for s in g.symbols].count("loop")
    for given in feeds:
        wanted = outputs(g, given)
        same(outputs(back, given), wanted)
        if not skip_runtime:
            same(by_onnxruntime(model, g, given), wanted)
    return model


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type in ("If", "Loop", "Scan")]


def test_while_loops_with_captures_and_several_values() -> None:
    """The condition is computed before the loop, and at the end of the body; it is read back as a value that is carried."""
    g = graph((F32, ("n", 4)), (I64, ()))
    x, limit = g.inputs
    w = g.weight("w", floats(4, 4))
    g.output(*jn.while_loop(lambda s: s[1] < limit, lambda s: (jn.tanh(s[0] @ w) + x, s[1] + 1), (x, g.scalar(0, I64))))
    model = agree(g, *[(floats(n, 4), np.array(count)) for n, count in ((3, 0), (3, 3), (0, 2))], exact=False)
    assert operators(model) == ["Loop"]
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    assert loop.input[0] == ""
    assert [each.name for each in loop.attribute[0].g.input] == ["index", "going", "state0", "state1"]
    assert {entry.key for entry in loop.metadata_props} >= {"joinery.symbol", "joinery.location"}
    assert any("test_regions.py" in entry.value for node in loop.attribute[0].g.node for entry in node.metadata_props)


def test_fori_loops_of_every_kind_of_bound() -> None:
    g = graph((F32, ("n",)), (I64, ()), (I64, ()))
    x, first, last = g.inputs
    g.output(
        jn.fori_loop(first, last, lambda i, v: v * 0.5 + i.cast(F32), x),
        jn.fori_loop(0, 2 * x.shape[0] + 1, lambda i, v: v + 1.0, x),
        jn.fori_loop(0, 3, lambda i, v: v * 2.0, x),
        names=["by_values", "by_a_size", "by_a_number"],
    )
    model = agree(g, *[(floats(n), np.array(a), np.array(b)) for n, a, b in ((3, -1, 3), (0, 0, 1), (2, 4, 2))])
    assert operators(model) == ["Loop"] * 3
    assert [each.name for each in model.graph.output] == ["by_values", "by_a_size", "by_a_number"]


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse: bool) -> None:
    g = graph((F32, ("n", 3)), (F32, ("n",)))
    last, (sums, states) = jn.scan(
        lambda c, x: ((following := c * x[1] + x[0]), (jn.sum(following), c)),
        g.constant(np.zeros(3, np.float32)), tuple(g.inputs), reverse=reverse,
    )  # fmt: skip
    g.output(last, sums, states)
    model = agree(g, (floats(4, 3), floats(4)), (floats(1, 3), floats(1)))
    assert operators(model) == ["Scan"]
    agree(g, (floats(0, 3), floats(0)), skip_runtime=True)  # onnxruntime refuses to scan nothing


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_without_sequences_and_with_a_row_that_is_captured(reverse: bool) -> None:
    """A loop of a number of iterations is Loop; what it stacks from the end is turned."""
    g = graph((F32, (2,)))
    (x,) = g.inputs
    state, (counts, same_rows) = jn.scan(lambda c, _: (c + 1, (c, x)), g.scalar(0, I64), None, length=4, reverse=reverse)
    g.output(state, counts, same_rows, counts, names=["state", "counts", "rows", "again"])
    assert operators(agree(g, (floats(2),), exact=False)) == ["Loop"]


@pytest.mark.parametrize("value", [-1.0, 1.0])
def test_branches(value: float) -> None:
    g = graph((F32, ()), (F32, (2, "m")))
    flag, x = g.inputs
    same_as = g.constant(np.eye(2, dtype=np.float32) * 2)
    found = jn.cond(flag > 0.0, lambda a: (same_as @ a, 1, a), lambda a: (a - 1.0, g.scalar(2, I64), a), x)
    g.output(*found, found[0])
    assert operators(agree(g, (np.array(value, np.float32), floats(2, 3)))) == ["If"]


def test_what_lies_inside_reads_sizes_and_constants_of_the_model() -> None:
    """Sizes are computed once, by nodes of the model's own graph."""
    g = graph((F32, ("n", 4)), (F32, ("m", 4)))
    x, y = g.inputs
    table = g.constant(floats(5, 4))

    def row(carry: Any, r: Any) -> Any:
        inner = jn.fori_loop(0, y.shape[0], lambda j, v: v * 0.5 + r + jn.sum(jn.reshape(y, (2 * y.shape[0], 2))), carry)
        kept = jn.cond(jn.sum(inner) > 0.0, lambda: inner - carry, lambda: inner * r + table[2])
        _, pairs = jn.scan(lambda c, e: (c + e, c * e), jn.sum(r), r)
        return kept, pairs

    g.output(*jn.scan(row, x[0], x))
    model = agree(g, (floats(6, 4), floats(3, 4)), (floats(2, 4), floats(1, 4)), exact=False)
    assert operators(model) == ["Scan"]


def test_casts_in_bodies_are_nodes() -> None:
    g = graph((jn.int32, (3,)), (F32, (3,)))
    n, x = g.inputs
    g.output(jn.fori_loop(0, 4, lambda i, v: v + n, x))
    assert g.casts()
    model = agree(g, (np.arange(3, dtype=np.int32), floats(3)), exact=False)
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    casts = [node for node in loop.attribute[0].g.node if node.op_type == "Cast"]
    casts += [node for node in model.graph.node if node.op_type == "Cast"]
    assert [entry.value for node in casts for entry in node.metadata_props if entry.key == "joinery.cast"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64"])
def test_dtypes(dtype: str) -> None:
    kind = jn.DType(dtype)
    g = graph((kind, ("n", 3)))
    (x,) = g.inputs
    state, ys = jn.scan(lambda c, r: (r, c), x[0], x)
    g.output(state, ys, jn.fori_loop(0, 2, lambda i, v: v[::-1], x))
    back = jn.from_onnx(exported(g))
    given = rng.integers(0, 2, (4, 3)).astype(kind.numpy)
    for one, other in zip(outputs(back, (given,)), outputs(g, (given,)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_has_no_form_inside_is_refused_with_its_line() -> None:
    g = graph((F32, (3,)))
    g.output(jn.fori_loop(0, 3, lambda i, v: v.cast(jn.tensor_float32).cast(F32), g.inputs[0]))
    with pytest.raises(jn.UnsupportedError, match=r"cast at test_regions\.py[^$]*no tensor_float32"):
        jn.to_onnx(g)
    g = graph((jn.int32, (3,)))
    g.output(jn.fori_loop(0, 3, lambda i, v: jn.bitcast(jn.bitcast(v, F32) * 1.0, jn.int32), g.inputs[0]))
    assert jn.to_onnx(g).opset_import[0].version == 26  # a body can ask for a newer opset
    with pytest.raises(jn.UnsupportedError, match=r"opset 26 and later, not in 21"):
        jn.to_onnx(g, opset=21)


def test_equal_graphs_give_equal_bytes() -> None:
    def made() -> bytes:
        g = graph((F32, ("n", 2)))
        (x,) = g.inputs
        g.output(*jn.scan(lambda c, r: (jn.cond(c[0] > 0.0, lambda: c + r, lambda: c - r), c), x[0], x))
        found: bytes = jn.to_onnx(g).SerializeToString(deterministic=True)
        return found

    assert made() == made()


def run_program(seed: int, by_onnx: bool = False) -> None:
    program = Program(seed)
    g = graph((F64, (3,)), (F64, (3,)))
    symbols, arrays = list(g.inputs), [np.random.default_rng(seed).uniform(-1, 1, 3) for _ in range(2)]
    for _ in range(3):
        made = program.expression(symbols, 0)
        arrays.append(made(arrays, InNumPy))
        symbols.append(made(symbols, InGraph))
    g.output(*symbols[2:])
    model = exported(g)
    same(by_onnxruntime(model, g, arrays[:2]), arrays[2:])
    same(outputs(jn.from_onnx(model), arrays[:2]), arrays[2:])
    if by_onnx:
        same(by_reference(model, g, arrays[:2]), arrays[2:])


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int) -> None:
    run_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2200))
def test_many_random_programs(seed: int) -> None:
    run_program(seed)
