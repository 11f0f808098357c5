"""A call that is refused leaves its graph as it was, and what no output needs constrains nothing."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.names.exports import EXPORTS
from joinery.graph.symbol import Symbol
from joinery.graph.text.printing import to_text

N = jn.dim("n")
K = jn.dim("k")


def fresh() -> Any:
    return jn.Graph(
        "g",
        [
            jn.TensorType("float32", ("n", 4), "x"),
            jn.TensorType("float32", ("k", 3), "y"),
            jn.TensorType("int8", ("n",), "i"),
            jn.TensorType("float4_e2m1fn", (4,), "tiny"),
        ],
    )


def state(graph: Any) -> tuple[Any, ...]:
    """Everything a graph holds."""
    tables = (graph._weights, graph._literals, graph._constants, graph._extents, graph._ledger, graph._weak)
    return (
        *to_text(graph), len(graph.journal.calls), graph.journal.busy, graph.checks, graph.shape_checks.entries[:],
        dict(graph.shape_checks._known), [dict(table) for table in tables], graph.finished, graph.inputs, graph.outputs,
    )  # fmt: skip


ARGUMENTS: list[tuple[Any, ...]] = [
    (), (1,), (-1,), (None,), ("seq",), (99,), ((N, N),), ((K, 4),), ((1, 2, 3),), ([(1, K), (0, 0)],), (jn.float16,), (2.5,),
    (np.ones((7, 5)),), (N - 7, -3), (0, 1, 2, 3),
]  # fmt: skip
KEYS: list[Any] = [
    5, 7, slice(None, K), slice(K, N), (slice(None), 9), (0, 0, 0), N, K - 3, slice(5, 2, 0), "text", np.ones(3), None,
]  # fmt: skip


def calls(graph: Any) -> list[tuple[str, Any]]:
    """Calls of all public functions and methods, most of them wrong."""
    x, y, i, tiny = graph.inputs
    found: list[tuple[str, Any]] = []
    for name in EXPORTS:
        function = getattr(jn, name)
        takes = inspect.signature(function).parameters
        if next(iter(takes)) == "graph":
            found += [(name, lambda f=function, a=a: f(graph, *a)) for a in [(), ("seq",), ((4,), 2.5, jn.int8), ((4,), x)]]
        elif next(iter(takes)) in ("values", "operands", "equation"):
            found += [(name, lambda f=function, v=v, a=a: f(v, *a)) for v in ([x, y], [x, x], x) for a in ARGUMENTS[:6]]
            found += [(name, lambda f=function: f("ij,jk->ik", x, y)), (name, lambda f=function: f(x, i, 300))]
        else:
            for operands in [(x,), (tiny,), (x, y), (i, x)]:
                found += [(name, lambda f=function, o=operands, a=a: f(*o, *a)) for a in ARGUMENTS]
    found += [(f"x[{key!r:.20}]", lambda k=key: x[k]) for key in KEYS]
    found += [("squeeze", lambda: jn.squeeze(x, 0)), ("rebind", lambda: jn.rebind(x, (K, None)))]
    found += [("split", lambda: jn.split(x, [K, 2]))]
    for name, member in inspect.getmembers(Symbol, callable):
        if getattr(member, "is_recorded", False):
            found += [(name, lambda n=name, a=a: getattr(x, n)(*a)) for a in [*ARGUMENTS, (y,), (tiny,)]]
    for method in ("constant", "scalar", "dim_value", "as_symbol"):
        found += [(method, lambda m=method, a=a: getattr(graph, m)(*a)) for a in ARGUMENTS]
    found += [
        ("input", lambda: graph.input("float32", (4,), "x")),
        ("weight", lambda: graph.weight("w", [1.0])),
        ("output", lambda: graph.output(x, 2.5, y, names=["a"])),
        ("output", lambda: graph.output(x, y, 2.5, names=["a", "a", "b"])),
        ("apply", lambda: graph.apply("slice", (x,), {"starts": (5, 0), "stops": (6, 9), "steps": (1, 1)})),
        ("apply", lambda: graph.apply("add", (x, 2.5, 3))),
    ]  # fmt: skip
    return found


REFUSALS = (jn.UserError, jn.UnsupportedError, TypeError, ValueError, AttributeError)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3))])
def test_a_refused_call_leaves_the_graph_as_it_was(part: int) -> None:
    graph = fresh()
    before = state(graph)
    todo = calls(graph)
    refused = 0
    for number in range(part, len(todo), 4):
        name, call = todo[number]
        try:
            call()
        except REFUSALS:
            refused += 1
            assert state(graph) == before, name
        else:
            if len(graph.symbols) > 40 or graph.finished:
                graph = fresh()
                todo = calls(graph)
            before = state(graph)
    assert refused > 150


@pytest.mark.slow
def test_nothing_changes_a_finished_graph() -> None:
    graph = fresh()
    x = graph.inputs[0]
    graph.output(x * 2)
    before = state(graph)
    for name, call in calls(graph):
        with contextlib.suppress(*REFUSALS):
            call()
        assert state(graph) == before, name
    tiny = np.ones(4, graph.inputs[3].dtype.numpy)
    jn.evaluate(graph, np.ones((3, 4), np.float32), np.ones((1, 3), np.float32), np.ones(3, np.int8), tiny)


UNUSED = [
    lambda x, y, i: x[5],
    lambda x, y, i: x[:K],
    lambda x, y, i: jn.squeeze(x, 0),
    lambda x, y, i: jn.rebind(x, (K, None)),
    lambda x, y, i: jn.max(x),
    lambda x, y, i: jn.split(x, [K, 2])[1],
    lambda x, y, i: x.reshape(K, 2),
    lambda x, y, i: jn.pad(x, [(K - 3, 0), (0, 0)]),
    lambda x, y, i: jn.gather(x, i),
    lambda x, y, i: jn.rebind(x, (K, None))[:, :3] + y,
]


@pytest.mark.parametrize("number", range(len(UNUSED)))
def test_what_no_output_needs_constrains_nothing(number: int) -> None:
    graph, other = fresh(), fresh()
    UNUSED[number](*graph.inputs[:3])
    assert graph.checks
    for each in (graph, other):
        each.output(each.inputs[0] * 2)
    assert graph.checks == other.checks == ()
    assert graph.canonical_key() == other.canonical_key()


def test_a_check_of_an_unused_call_that_something_relied_on_is_made_again() -> None:
    graph = fresh()
    x, y, _, _ = graph.inputs
    jn.rebind(x, (K, None), message="unused")
    graph.output(x[:, :3] + y)
    assert [(str(check.lhs), str(check.rhs)) for check in graph.checks] == [("n", "k")]
    assert "broadcast along axis -2" in graph.checks[0].message


def test_every_piece_keeps_the_check_of_its_split() -> None:
    graph = fresh()
    graph.output(jn.split(graph.inputs[0], [K, 2])[1])
    assert ("split: the sizes along axis 0 must sum to n") in [check.message for check in graph.checks]


def test_two_graphs_are_left_alone_by_a_call_that_mixes_them() -> None:
    first, second = fresh(), fresh()
    before = state(first), state(second)
    x, y = first.inputs[0], second.inputs[0]
    for name in EXPORTS:
        for arguments in [(x, y), ([y, x],), ("ij,ij->i", x, y)]:
            try:
                getattr(jn, name)(*arguments)
            except REFUSALS:
                assert (state(first), state(second)) == before, name
            else:
                pytest.fail(f"{name} takes operands of two graphs")


def test_every_method_that_makes_symbols_is_recorded() -> None:
    """What is not recorded is forgotten by `what_if`, and cannot be undone."""
    plain = {"describe", "why", "alias"}
    for name, member in vars(Symbol).items():
        function = member.fget if isinstance(member, property) else member
        returns = getattr(function, "__annotations__", {}).get("return")
        if returns in ("Symbol", Symbol) and name not in plain and not name.startswith("__copy") and name != "__deepcopy__":
            assert getattr(function, "is_recorded", False), name
