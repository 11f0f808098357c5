"""`what_if` builds what the same program builds under the other rules, or is refused with the same message."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text
from joinery.promotion import PRESETS

DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "float16", "bfloat16", "float32", "float64", "bool"]
REFUSALS = (jn.UserError, jn.UnsupportedError)
Step = tuple[int, int, int, int]


def do(graph: Any, pool: list[Any], step: Step) -> Any:
    """One call: which of them, two operands, and a choice inside of it."""
    kind, first, second, choice = step
    x, y = pool[first % len(pool)], pool[second % len(pool)]
    dtype = DTYPES[choice % len(DTYPES)]
    literal = [2, -1, 0.5, True, 300, 1e30][choice % 6]
    array = [np.int8([3, 4]), np.float64([0.1, 2]), np.array([True, False]), np.uint16(7), np.float32(0.25)][choice % 5]
    steps = [
        lambda: x + y, lambda: x * literal, lambda: literal - x, lambda: x // y, lambda: x % literal, lambda: x / y,
        lambda: x < y, lambda: -x, lambda: x**2, lambda: x + array, lambda: array * x, lambda: abs(x),
        lambda: x.cast(dtype), lambda: jn.cast(x, dtype), lambda: x.bitcast(dtype), lambda: jn.cast_like(x, y),
        lambda: jn.sum(x), lambda: jn.sum(x, axis=()), lambda: jn.prod(x, dtype=dtype), lambda: jn.max(x), lambda: jn.max(x, y),
        lambda: jn.mean(x), lambda: jn.cumsum(x), lambda: jn.any(x), lambda: jn.count_nonzero(x, axis=()),
        lambda: jn.promote(x, y, literal), lambda: list(jn.implicit_cast(x, y)), lambda: jn.clip(x, -1, literal),
        lambda: jn.where(pool[9], y, literal), lambda: jn.concat([x, y, array]) if array.ndim else jn.stack([x, y]),
        lambda: graph.scalar(literal), lambda: graph.scalar(2, dtype), lambda: graph.constant(array),
        lambda: graph.dim_value(3),
        lambda: graph.weight(f"w{choice % 3}", np.float32([choice % 3, 1])), lambda: graph.as_symbol(literal),
        lambda: x.reshape(2), lambda: x[::-1], lambda: x.T, lambda: jn.broadcast_to(x, (2,)), lambda: jn.softmax(x),
        lambda: jn.full(x, (2,), y, dtype), lambda: jn.zeros(graph, (2,), dtype), lambda: jn.zeros_like(x),
        lambda: jn.norm(x, [0, 1, 2, 3][choice % 4]), lambda: jn.einsum("i,i->", x, y), lambda: x @ y,
        lambda: jn.logaddexp(x, y),
        lambda: jn.gather(x, y), lambda: jn.sqrt(x), lambda: graph.apply("add", (x, literal)), lambda: x + 1,
        lambda: jn.full(graph, (), literal), lambda: jn.swiglu(x, y), lambda: jn.stdev(x), lambda: x == y,
    ]  # fmt: skip
    return steps[kind % len(steps)]()


def run(semantics: str, policy: str, steps: list[Step], keep: list[Step] | None = None) -> Any:
    """The graph of a program. Where there is `keep`, steps that are refused are left out, and the others are added to it."""
    graph = jn.Graph("g", [jn.TensorType(name, (2,), name) for name in DTYPES], semantics, policy)
    pool = list(graph.inputs)
    for step in steps:
        try:
            made = do(graph, pool, step)
        except REFUSALS:
            if keep is None:
                raise
            continue
        if keep is not None:
            keep.append(step)
        for symbol in made if isinstance(made, (tuple, list)) else [made]:
            if type(symbol) is jn.Symbol and symbol.shape in ((2,), ()):
                pool.append(symbol)
    graph.output(*pool[-4:], 2.5, names=list("abcde"))
    return graph


def program(seed: int, count: int) -> list[Step]:
    rng = random.Random(seed)
    return [(rng.randrange(1000), rng.randrange(1000), rng.randrange(1000), rng.randrange(60)) for _ in range(count)]


def attempt(semantics: str, policy: str, steps: list[Step]) -> Any:
    """The graph of a program, or the message of the first step that is refused."""
    try:
        return run(semantics, policy, steps)
    except REFUSALS as error:
        return str(error)


def check(source: str, target: str, policy: str, seed: int, count: int) -> bool:
    """Whether the program is allowed under the rules `target`."""
    kept: list[Step] = []
    graph = run(source, "lattice", program(seed, count), kept)
    before = to_text(graph)[0]
    answer = jn.what_if(graph, semantics=target, policy=policy)
    assert to_text(graph)[0] == before
    direct = attempt(target, policy, kept)
    if isinstance(direct, str):
        assert [entry.message for entry in answer.refusals][:1] == [direct], (source, target, seed)
        return False
    assert not answer.refusals, (source, target, seed, str(answer))
    assert to_text(answer.graph) == to_text(direct), (source, target, seed)
    return True


@pytest.mark.one_in(10)
@pytest.mark.parametrize("source", PRESETS)
def test_a_program_is_built_as_under_the_other_rules(source: str) -> None:
    for number, target in enumerate(PRESETS):
        for seed in range(2):
            check(source, target, "lattice", 100 * number + seed, 8)


@pytest.mark.slow
def test_long_programs_and_policies() -> None:
    allowed = 0
    for seed in range(40):
        rng = random.Random(seed)
        source, target = rng.choice(PRESETS), rng.choice(PRESETS)
        allowed += check(source, target, rng.choice(["lattice", "lattice", "exact"]), seed, 30)
    assert allowed


@pytest.mark.slow
def test_the_same_rules_build_the_same_graph() -> None:
    for seed in range(40):
        assert check(PRESETS[seed % len(PRESETS)], PRESETS[seed % len(PRESETS)], "lattice", 1000 + seed, 25)


def graph_of(*dtypes: str, semantics: str) -> Any:
    return jn.Graph("g", [jn.TensorType(d, (2,), f"x{i}") for i, d in enumerate(dtypes)], semantics=semantics)


def test_a_call_of_one_op_is_made_again() -> None:
    graph = graph_of("int32", semantics="triton")
    graph.output(jn.sum(graph.inputs[0]))
    answer = jn.what_if(graph, semantics="max")
    assert [(str(change.before), str(change.after)) for change in answer.changes] == [("int32", "int64")]
    assert answer.graph.outputs[0].dtype is jn.int64


def test_casts_that_were_none_are_made() -> None:
    graph = graph_of("int32", "float16", semantics="max")
    total = graph.inputs[0] + graph.inputs[1]
    same = total.cast("float16")
    assert (same.id, same is total) == (total.id, False)
    graph.output(total * 2, same * 2)
    answer = jn.what_if(graph, semantics="numpy")
    assert [str(symbol.dtype) for symbol in answer.graph.outputs] == ["float64", "float16"]


def test_a_conversion_that_other_rules_refuse_is_reported() -> None:
    graph = graph_of("int32", "float32", semantics="max")
    graph.output((graph.inputs[0] + graph.inputs[1]).bitcast("int32"))
    answer = jn.what_if(graph, semantics="numpy")
    (refusal,) = answer.refusals
    assert "float64 has 64 bits, int32 has 32" in refusal.message
    assert "1 ops are refused" in str(answer)
    assert not answer.graph.outputs


def test_arguments_are_kept_as_they_were() -> None:
    graph = graph_of("int8", semantics="max")
    array, axes = np.int16([1, 2]), [0]
    graph.output(jn.sum(graph.inputs[0] + array, axis=axes))
    array[:] = 7
    axes[0] = 5
    answer = jn.what_if(graph, semantics="triton")
    assert jn.evaluate(answer.graph, np.int8([0, 0])) == 3


def test_default_numbers_are_told_from_written_ones() -> None:
    graph = graph_of("int8", semantics="max")
    graph.output(graph.scalar(2), graph.scalar(2, "int64"))
    assert [str(symbol.dtype) for symbol in jn.what_if(graph, semantics="triton").graph.outputs] == ["int32", "int64"]


def test_losses_that_are_errors_are_refusals() -> None:
    graph = jn.Graph("g", [jn.TensorType("int32", (2,)), jn.TensorType("float64", (2,))], on_loss={"overflow": "error"})
    graph.output(graph.inputs[0] + graph.inputs[1])
    assert not jn.what_if(graph).refusals
    types = [jn.TensorType("int32", (2,)), jn.TensorType("float16", (2,))]
    graph = jn.Graph("g", types, "numpy", on_loss={"overflow": "error"})
    graph.output(graph.inputs[0] + graph.inputs[1])
    (refusal,) = jn.what_if(graph, semantics="max").refusals
    assert "on_loss makes" in refusal.message


def test_a_graph_from_text_keeps_its_readers_of_implicit_casts() -> None:
    graph = graph_of("int32", "float16", semantics="max")
    graph.output((graph.inputs[0] + graph.inputs[1]) * 2)
    answer = jn.what_if(from_text(*to_text(graph)), semantics="numpy")
    assert [str(symbol.dtype) for symbol in answer.graph.outputs] == ["float64"]
