"""Promotion inside graphs: visible casts, the ledger, policies, literals, and the answer to why."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

Make = Callable[..., Any]


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_implicit_casts_are_nodes_and_listed(make: Make) -> None:
    graph = make(("int32", ("batch", 8), "count"), ("bfloat16", (8,), "scale"))
    count, scale = graph.inputs
    here = line() + 1
    y = count * scale + 1
    assert y.dtype is jn.bfloat16
    (entry,) = graph.casts()
    assert (entry.source.name, entry.target.name, entry.loss, entry.op) == (
        "int32",
        "bfloat16",
        "rounding",
        "mul",
    )
    assert entry.symbol.op.name == "cast"
    assert entry.symbol.inputs == (count,)
    assert str(entry.bytes) == "16*batch"
    assert (entry.location.line, entry.location.function) == (
        here,
        "test_implicit_casts_are_nodes_and_listed",
    )
    assert entry.location.file.endswith("test_operands.py")
    assert "mul casts int32 to bfloat16 (rounding: 257 becomes 256), 16*batch bytes" in str(entry)
    assert graph.is_implicit(entry.symbol)


def test_casts_the_user_wrote_and_accumulators_are_not_in_the_ledger(make: Make) -> None:
    graph = make(("int8", (4,)), ("float16", (4,)))
    x, h = graph.inputs
    jn.sum(x.cast(jn.float32))
    jn.sum(x)
    jn.sum(h)
    jn.softmax(h)
    assert graph.casts() == ()


def test_float_functions_of_integers_list_their_cast(make: Make) -> None:
    graph = make(("int32", (4,)))
    for function in (jn.sqrt, jn.tan, jn.mean, jn.softmax, jn.elu):
        function(graph.inputs[0])
    assert [entry.op for entry in graph.casts()] == ["sqrt", "tan", "mean", "softmax", "elu"]


def test_why_names_operands_path_and_line(make: Make) -> None:
    graph = make(("int32", (4,), "i"), ("bfloat16", (4,), "b"))
    i, b = graph.inputs
    here = line() + 1
    text = (i + b).why()
    assert text.splitlines() == [
        "%3 = add is bfloat16 (4,)",
        f"  at test_operands.py:{here} in test_why_names_operands_path_and_line",
        f"  operand 0: {i.describe()}; cast to bfloat16 (rounding: 257 becomes 256)",
        f"  operand 1: {b.describe()}; not cast",
        "  rule JOIN: operands are cast to their join, which is the result",
        "  int32 ∨ bfloat16 = bfloat16   (rule set max)",
        "    int32: cast to bfloat16, rounding: 257 becomes 256",
        "      path: int32 → int64 → float16 (overflow) → bfloat16 (rounding); the cast is one step, not along the path",
        "    bfloat16: unchanged",
    ]


def test_why_of_literals_casts_and_sources(make: Make) -> None:
    graph = make(("float16", (4,), "x"))
    (x,) = graph.inputs
    assert "operand 1: literal 0.1, weak, becomes float16" in (x + 0.1).why()
    assert "declared by the type of input 'x'" in x.why()
    assert "cast written by the user: float16 → int8 (overflow" in x.cast(jn.int8).why()
    assert (
        "cast inserted by promotion: float16 → float32 (exact)"
        in (x + np.ones(4, np.float32)).inputs[0].why()
    )
    assert "the array or literal it holds" in graph.constant(np.ones(3)).why()
    assert "sizes are int64" in graph.dim_value(3).why()
    assert "rule POSITION" in jn.argmax(x, axis=0).why()
    assert "no join" not in jn.where(x > 0, x, np.ones(4, np.float32)).why()


def test_describe_names_the_users_line(make: Make) -> None:
    graph = make(("float16", ("n", 2), "x"))
    here = line() + 1
    y = jn.exp(graph.inputs[0])
    assert (
        y.describe()
        == f"%1 exp, float16 (n, 2), from test_operands.py:{here} in test_describe_names_the_users_line"
    )
    assert graph.inputs[0].describe().startswith("input 'x', float16 (n, 2), from conftest.py:")


@pytest.mark.parametrize("value", [True, 1, 1.5])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_literals_are_weak(make: Make, dtype: str, value: Any) -> None:
    """A literal keeps the tensor's dtype unless its kind is higher; then the rule set's default joins."""
    x = make((dtype, (2,))).inputs[0]
    kinds = {"bool": 0, "int": 1, "uint": 1, "float": 2}
    height = 0 if value is True else 1 if value == 1 else 2
    expected = x.dtype if kinds[x.dtype.kind] >= height else {1: jn.int64, 2: jn.float32}[height]
    for y in (jn.maximum(x, value), x * value, value * x, jn.where(jn.not_equal(x, x), value, x)):
        assert y.dtype is expected


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", 300),
        ("uint8", -1),
        ("uint8", 256),
        ("float16", 1e30),
        ("int64", 2**63),
        ("float16", 70000),
        ("bool", 2**63),
    ],
)
def test_literals_that_do_not_fit_are_refused_in_every_op(make: Make, dtype: str, value: Any) -> None:
    x = make((dtype, (2,))).inputs[0]
    for build in (
        lambda: x + value,
        lambda: value * x,
        lambda: jn.maximum(x, value),
        lambda: jn.where(x == x, x, value),
    ):
        with pytest.raises(jn.UserError, match=r"does not fit(.|\n)*operand 0"):
            build()


def test_a_literal_is_rounded_once_to_the_nearest(make: Make) -> None:
    graph = make(("float16", (2,)))
    y = graph.inputs[0] + 0.1
    assert y.inputs[1].attrs["value"] == np.float16(0.1)
    assert (graph.inputs[0] + 1 / 3).inputs[1].attrs["value"] == np.float16(1 / 3)


def test_dims_compute_as_int64(make: Make) -> None:
    graph = make(("float32", ("batch", 3)))
    (x,) = graph.inputs
    y = x / x.shape[0]
    assert y.dtype is jn.float32
    graph.output(y, x.shape[0] + 1)
    value, size = jn.evaluate(graph, np.full((2, 3), 4, np.float32))
    np.testing.assert_array_equal(value, np.full((2, 3), 2, np.float32))
    assert size == 3
    assert size.dtype == np.int64


def test_policy_exact_refuses_casts_that_lose(make: Make) -> None:
    graph = make(("int32", (2,)), ("float32", (2,)), ("int16", (2,)), policy="exact")
    i, f, h = graph.inputs
    assert (h + i).dtype is jn.int32
    assert (h + f).dtype is jn.float32
    with pytest.raises(
        jn.UserError, match=r"16777217 becomes 16777216(.|\n)*policy 'exact'(.|\n)*operand.cast\(float32\)"
    ):
        i + f
    assert (i.cast(jn.float32) + f).dtype is jn.float32
    assert [entry.loss for entry in graph.casts()] == ["exact", "exact"]


def test_policy_strict_refuses_all_implicit_casts(make: Make) -> None:
    graph = make(("int16", (2,)), ("int32", (2,)), ("float16", (2,)), policy="strict")
    h, i, x = graph.inputs
    for build in (
        lambda: h + i,
        lambda: jn.sqrt(i),
        lambda: jn.concat([h, i]),
        lambda: jn.mean(i),
        lambda: jn.tan(i),
    ):
        with pytest.raises(jn.UserError, match="'strict' allows no implicit casts"):
            build()
    assert (i + 1).dtype is jn.int32
    assert jn.sum(h).dtype is jn.int64
    assert jn.softmax(x).dtype is jn.float16
    assert graph.casts() == ()


def test_unknown_policy_and_semantics_are_refused() -> None:
    with pytest.raises(jn.UserError, match="unknown promotion policy 'loose'"):
        jn.Graph("g", policy="loose")
    with pytest.raises(jn.UserError, match="unknown rule set 'maxx'; did you mean 'max'"):
        jn.Graph("g", semantics="maxx")


def test_promote_and_implicit_cast(make: Make) -> None:
    graph = make(("int8", (2,)), ("float16", (2,)))
    a, b = graph.inputs
    first, second, third = jn.promote(a, b, 2)
    assert {first.dtype, second.dtype, third.dtype} == {jn.float16}
    assert second.id == b.id  # the same symbol of the graph
    assert [s.dtype.name for s in jn.implicit_cast(a, 2.5)] == ["float32", "float32"]
    assert [s.dtype.name for s in jn.promotion.implicit_cast(a, b)] == ["float16", "float16"]
    assert [entry.op for entry in graph.casts()] == ["promote", "implicit_cast"]
    assert jn.cast_like(a, np.ones(1)).dtype is jn.float64


def test_the_same_join_in_every_op(make: Make) -> None:
    """One table: no op has promotion of its own."""
    x, y = make(("uint8", (3, 3)), ("int8", (3, 3))).inputs
    binary = [jn.add, jn.minimum, jn.floor_div, jn.pow, jn.bitwise_or, jn.outer, lambda a, b: jn.where(a == b, a, b),
              lambda a, b: jn.stack([a, b]), lambda a, b: jn.concat([b, a]), jn.prelu]  # fmt: skip
    assert {function(x, y).dtype.name for function in binary} == {"int16"}
