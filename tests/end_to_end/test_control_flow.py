"""Loops and branches, compiled and evaluated, against the same loops written in NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.choices.options import Options
from joinery.lowering.host_stages import HostBackend
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.pipeline import tile_graph
from joinery.runtime.host import memory

from ..support.control_programs import InGraph, InNumPy, Program
from ..support.tiers import pairs

Array = np.ndarray[Any, Any]
F32, F64, I64 = jn.float32, jn.float64, jn.int64
rng = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that the runtime takes for outputs and arenas holds no zeros."""
    empty = memory.empty

    def filled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        array = empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(0xA5)
        return array

    monkeypatch.setattr(memory, "empty", filled)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def graph(*types: tuple[Any, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, (dtype, shape) in enumerate(types)])


def agree(g: jn.Graph, given: list[Any], expected: list[Any], threads: int = 1) -> None:
    """Evaluated, compiled, and read back from its text, the graph gives what NumPy does."""
    again = jn.from_text(*jn.to_text(g), budget=None)
    assert jn.to_text(again)[0] == jn.to_text(g)[0]
    for results in (jn.evaluate(g, *given), jn.compile(again, "cpu", threads=threads)(*given)):
        found = results if isinstance(results, tuple) else (results,)
        for result, wanted in zip(found, expected, strict=True):
            wanted = np.asarray(wanted)
            assert result.shape == wanted.shape
            assert result.dtype == wanted.dtype
            np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5)


# -- the functions -----------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_while_loop_with_a_captured_weight(count: int) -> None:
    g = graph((F32, ("n", 4)), (I64, ()))
    x, limit = g.inputs
    w = floats(4, 4)
    weight = g.weight("w", w)
    state = jn.while_loop(lambda s: s[1] < limit, lambda s: (jn.tanh(s[0] @ weight) + x, s[1] + 1), (x, g.scalar(0, I64)))
    g.output(*state)
    given = floats(3, 4)
    expected = given
    for _ in range(count):
        expected = np.tanh(expected @ w) + given
    agree(g, [given, np.int64(count)], [expected, np.int64(count)])


def test_the_state_is_any_structure() -> None:
    g = graph((F32, (3,)))
    (x,) = g.inputs

    def body(s: Any) -> Any:
        return {"pair": (s["pair"][1], s["pair"][0] + s["pair"][1]), "count": s["count"] + 1, "none": None}

    first = {"pair": [x, x * 2.0], "count": g.scalar(0, I64), "none": None}
    found = jn.while_loop(lambda s: s["count"] < 10, body, first)
    assert found["none"] is None
    assert isinstance(found["pair"], list)
    g.output(*found["pair"], found["count"])
    given = floats(3)
    a, b = given, given * 2
    for _ in range(10):
        a, b = b, a + b
    agree(g, [given], [a, b, np.int64(10)])


@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (0, 7), (-3, 4), (5, 2)])
@pytest.mark.parametrize("known", ["now", "at a run"])
def test_fori_loop_adds_its_index(bounds: tuple[int, int], known: str) -> None:
    g = graph((F64, (2,)), (I64, ()), (I64, ()))
    x, *ends = g.inputs
    lower, upper = bounds if known == "now" else ends
    g.output(jn.fori_loop(lower, upper, lambda i, v: v * 0.5 + i.cast(F64), x))
    given = rng.standard_normal(2)
    expected = given
    for i in range(*bounds):
        expected = expected * 0.5 + i
    agree(g, [given, np.int64(bounds[0]), np.int64(bounds[1])], [expected])


@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_a_symbolic_length(length: int, reverse: bool) -> None:
    g = graph((F32, ("n", 3)), (F32, ("n",)))
    rows, factors = g.inputs

    def step(carry: Any, x: Any) -> Any:
        row, factor = x
        following = carry * factor + row
        return following, (jn.sum(following), carry)

    last, (sums, states) = jn.scan(step, g.constant(np.zeros(3, np.float32)), (rows, factors), reverse=reverse)
    g.output(last, sums, states)
    a, b = floats(length, 3), floats(length)
    carry, expected_sums = np.zeros(3, np.float32), np.zeros(length, np.float32)
    expected_states = np.zeros((length, 3), np.float32)
    for i in range(length)[::-1] if reverse else range(length):
        expected_states[i] = carry
        carry = carry * b[i] + a[i]
        expected_sums[i] = carry.sum()
    agree(g, [a, b], [carry, expected_sums, expected_states])


def test_scan_without_sequences_and_without_state() -> None:
    g = graph((F32, (2,)))
    (x,) = g.inputs
    state, counts = jn.scan(lambda c, _: (c + 1, c), g.scalar(0, I64), None, length=4)
    nothing, doubled = jn.scan(lambda c, row: (c, row * 2.0), None, x)
    assert nothing is None
    g.output(state, counts, doubled)
    given = floats(2)
    agree(g, [given], [np.int64(4), np.arange(4), given * 2])


@pytest.mark.parametrize("value", [-1.0, 1.0])
def test_cond_runs_one_region(value: float) -> None:
    g = graph((F32, ()), (F32, (2, 3)))
    flag, x = g.inputs
    same = g.constant(np.eye(3, dtype=np.float32))
    out, number = jn.cond(flag > 0.0, lambda a: (a @ same, 1), lambda a: (a - 1.0, g.scalar(2, I64)), x)
    g.output(out, number)
    given = floats(2, 3)
    agree(g, [np.float32(value), given], [given if value > 0 else given - 1, np.int64(1 if value > 0 else 2)])


def test_laws_of_loops() -> None:
    """scan over nothing but its length is fori_loop; fori_loop is while_loop; cond of a constant is its branch."""
    g = graph((F32, (5,)))
    (x,) = g.inputs
    step = lambda v: jn.sin(v) + x  # noqa: E731
    by_scan, _ = jn.scan(lambda c, _: (step(c), None), x, None, length=6)
    by_for = jn.fori_loop(0, 6, lambda i, v: step(v), x)
    by_while, _ = jn.while_loop(lambda s: s[1] < 6, lambda s: (step(s[0]), s[1] + 1), (x, g.scalar(0, I64)))
    unrolled = x
    for _ in range(6):
        unrolled = step(unrolled)
    chosen = jn.cond(g.constant(np.array(True)), step, lambda v: v, x)
    g.output(by_scan, by_for, by_while, unrolled, chosen, step(x))
    a, b, c, d, e, f = jn.compile(g, "cpu")(floats(5))
    assert a.tobytes() == b.tobytes() == c.tobytes() == d.tobytes()
    assert e.tobytes() == f.tobytes()


# -- nests, and values that pass through --------------------------------------------------------------------------------


def test_nested_loops_and_branches() -> None:
    g = graph((F32, ("n", 4)))
    (x,) = g.inputs

    def row(carry: Any, r: Any) -> Any:
        inner = jn.fori_loop(0, 3, lambda j, v: v * 0.5 + r, carry)
        kept = jn.cond(jn.sum(inner) > 0.0, lambda: inner - carry, lambda: inner * r)
        _, pairs = jn.scan(lambda c, e: (c + e, c * e), jn.sum(r), r)
        return kept, pairs

    last, rows = jn.scan(row, x[0], x)
    g.output(last, rows)
    given = floats(6, 4)
    carry, expected = given[0], []
    for r in given:
        inner = carry
        for _ in range(3):
            inner = inner * np.float32(0.5) + r
        total, pairs = r.sum(), []
        for e in r:
            pairs.append(total * e)
            total = total + e
        carry = inner - carry if inner.sum() > 0 else inner * r
        expected.append(pairs)
    agree(g, [given], [carry, np.array(expected, np.float32)])


def test_values_that_do_not_change_or_change_places() -> None:
    g = graph((F32, (2,)), (F32, (2,)), (F32, ("n",)))
    a, b, rows = g.inputs
    c = g.constant(np.arange(2, dtype=np.float32))

    def body(s: Any, r: Any) -> Any:
        kept, one, other, constant = s
        return (kept, other, one, constant), (kept, one, r, a, c)

    state, ys = jn.scan(body, (a, a, b, c), rows)
    g.output(*state, *ys)
    for n in (0, 3, 4):
        first, second, given = floats(2), floats(2), floats(n)
        swapped = (first, second) if n % 2 == 0 else (second, first)
        ones = np.array([first if i % 2 == 0 else second for i in range(n)], np.float32).reshape(n, 2)
        same = [np.broadcast_to(value, (n, 2)) for value in (first, first, np.arange(2, dtype=np.float32))]
        agree(g, [first, second, given],
              [first, *swapped, np.arange(2, dtype=np.float32), same[0], ones, given, same[1], same[2]])  # fmt: skip


def test_one_result_twice_and_none_used() -> None:
    g = graph((F32, (3,)))
    (x,) = g.inputs
    last, rows = jn.scan(lambda c, e: (c + e, (e, c)), jn.sum(x), x)
    again = jn.fori_loop(0, 2, lambda i, v: v + last, last)
    g.output(rows[1], rows[1], again, last, last)
    given = floats(3)
    total = np.concatenate([[given.sum()], given.sum() + np.cumsum(given)]).astype(np.float32)
    agree(g, [given], [total[:-1], total[:-1], total[-1] * 3, total[-1], total[-1]])


@pytest.mark.parametrize("n", [0, 1, 3])
def test_empty_axes(n: int) -> None:
    g = graph((F32, ("n", "m", 2)))
    (x,) = g.inputs
    state, ys = jn.scan(lambda c, r: (c + jn.sum(r), r * 2.0), g.scalar(1.0, F32), x)
    g.output(state, ys, jn.fori_loop(0, 3, lambda i, v: v + 1.0, x))
    for m in (0, 1):
        given = floats(n, m, 2)
        agree(g, [given], [np.float32(1) + given.sum(dtype=np.float32), given * 2, given + 3])


DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_carried_and_stacked(dtype: str) -> None:
    """Rows of 3 elements lie at addresses that are multiples of their size and of nothing more."""
    kind = jn.DType(dtype)
    g = graph((kind, ("n", 3)))
    (x,) = g.inputs
    state, ys = jn.scan(lambda c, r: (r, c), x[0], x)
    g.output(state, ys)
    given = rng.integers(0, 2, (5, 3)).astype(kind.numpy)
    for results in (jn.evaluate(g, given), jn.compile(g, "cpu")(given)):
        np.testing.assert_array_equal(results[0], given[-1])
        np.testing.assert_array_equal(results[1], np.concatenate([given[:1], given[:-1]]))


@pytest.mark.parametrize("threads", [1, 2])
def test_bodies_that_use_threads_and_packed_weights(threads: int) -> None:
    g = graph((F32, (192, 256)))
    (x,) = g.inputs
    w = (floats(256, 256) / 16).astype(np.float32)
    weight = g.weight("w", w)
    g.output(jn.fori_loop(0, 4, lambda i, v: jn.tanh(v @ weight) + v, x))
    given = floats(192, 256)
    expected = given
    for _ in range(4):
        expected = np.tanh(expected @ w) + expected
    model = jn.compile(g, "cpu", threads=threads)
    np.testing.assert_allclose(model(given), expected, rtol=1e-3, atol=1e-3)
    assert len(model.kernels) == 2


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("columns", "source", "rows"), pairs([8, 33, 64, 128], ["computed", "input", "weight"], ["b", 3]))
def test_products_with_a_captured_matrix(source: str, columns: int, rows: int | str) -> None:
    """Only what is stored in panels is read in panels."""
    weights = np.random.default_rng(0).standard_normal((columns, columns), np.float32) / np.float32(columns)
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("t", rows, columns), "x"), jn.TensorType(jn.float32, weights.shape, "w")])
    x, w = g.inputs
    matrix = {"computed": w.permute(1, 0) + 0, "input": w, "weight": g.weight("kept", weights)}[source]
    start = jn.broadcast_to(g.constant(np.float32(1)), (x.shape[1], columns))
    last, found = jn.scan(lambda state, row: (jn.tanh(row + state @ matrix),) * 2, start, x)
    g.output(last, found, jn.cond(x[0, 0, 0] > 0, lambda: start @ matrix, lambda: start - 1))
    arrays = np.random.default_rng(1).standard_normal((5, 3, columns), np.float32), weights
    state, expected = np.ones((3, columns)), []
    for row in arrays[0].astype(np.float64):
        state = np.tanh(row + state @ (weights.T if source == "computed" else weights).astype(np.float64))
        expected.append(state)
    results: Any = jn.compile(g, "cpu", threads=1, cache=False)(*arrays)
    np.testing.assert_allclose(results[0], state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[1], np.array(expected), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[2], jn.evaluate(g, *arrays)[2], rtol=1e-5, atol=1e-6)


def test_a_body_is_compiled_once_and_runs_often() -> None:
    g = graph((F32, ()))
    (x,) = g.inputs
    g.output(jn.fori_loop(0, 100_000, lambda i, v: v * 0.5 + 1.0, x))
    model = jn.compile(g, "cpu")
    assert len(model.kernels) <= 3
    assert model(np.float32(1)) == 2


def test_trips_of_a_while_loop_that_values_decide() -> None:
    """Collatz: how many steps until 1, from a number that is given at the run."""
    g = graph((I64, ()))
    (x,) = g.inputs
    step = lambda s: (jn.where(s[0] % 2 == 0, s[0] // 2, s[0] * 3 + 1), s[1] + 1)  # noqa: E731
    g.output(*jn.while_loop(lambda s: s[0] != 1, step, (x, g.scalar(0, I64))))
    model = jn.compile(g, "cpu")
    for start, steps in ((1, 0), (2, 1), (27, 111), (97, 118)):
        assert tuple(map(int, model(np.int64(start)))) == (1, steps)


# -- whole models --------------------------------------------------------------------------------------------------------


def test_saved_models_and_bound_calls(tmp_path: Any) -> None:
    g = graph((F32, ("n", 2)))
    (x,) = g.inputs
    w = g.weight("w", floats(2, 2))
    state, ys = jn.scan(lambda c, r: ((y := jn.tanh(c @ w + r)), y), x[0], x)
    g.output(state, ys)
    model, given = jn.compile(g, "cpu"), floats(5, 2)
    wanted = model(given)
    model.save(tmp_path / "m.joinery")
    for loaded in (jn.load(tmp_path / "m.joinery", "cpu"), jn.load(tmp_path / "m.joinery", "cpu", trusted=True)):
        for one, other in zip(loaded(given), wanted, strict=True):
            assert one.tobytes() == other.tobytes()
    for one, other in zip(model.bind(given)(), wanted, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_budget_refuses_loops_that_nothing_bounds() -> None:
    g = graph((F32, ()))
    (x,) = g.inputs
    g.output(jn.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, x))
    with pytest.raises(jn.UserError, match="values decide how often a loop runs"):
        jn.from_text(*jn.to_text(g))
    g = graph((F32, (1000,)))
    (x,) = g.inputs
    g.output(jn.fori_loop(0, 10**15, lambda i, v: v * 2.0, x))
    with pytest.raises(jn.UserError, match="operations"):
        jn.from_text(*jn.to_text(g))


def test_loops_between_operations_of_the_host() -> None:
    """A size that values decide is the length of a scan."""
    g = graph((F32, ("n",)))
    (x,) = g.inputs
    found = jn.compress(x, x > 0.0)
    total, sums = jn.scan(lambda c, e: (c + e, c + e), g.scalar(0.0, F32), found)
    g.output(total, sums)
    model = jn.compile(g, "cpu")
    for given in (floats(9), -np.ones(3, np.float32)):
        kept = given[given > 0]
        total, sums = model(given)
        np.testing.assert_allclose(sums, np.cumsum(kept), rtol=1e-5)
        np.testing.assert_allclose(total, kept.sum(), rtol=1e-5, atol=1e-6)


def test_plans_show_loops() -> None:
    g = graph((F32, ("n",)))
    (x,) = g.inputs
    g.output(jn.fori_loop(0, 3, lambda i, v: jn.cond(jn.sum(v) > 0.0, lambda: v + 1.0, lambda: v * 2.0), x))
    text = tile_graph(g, HostBackend(host_target()), Options()).plan.describe()
    assert "loop 3 from" in text
    assert "if, from" in text
    assert text.count("else") == 1


# -- random programs -----------------------------------------------------------------------------------------------------


def run_program(seed: int) -> None:
    program = Program(seed)
    g = graph((F64, (3,)), (F64, (3,)))
    symbols, arrays = list(g.inputs), [np.random.default_rng(seed).uniform(-1, 1, 3) for _ in range(2)]
    for _ in range(4):
        made = program.expression(symbols, 0)
        arrays.append(made(arrays, InNumPy))
        symbols.append(made(symbols, InGraph))
    g.output(*symbols[2:])
    evaluated, compiled = jn.evaluate(g, *arrays[:2]), jn.compile(g, "cpu", cache=False)(*arrays[:2])
    for wanted, one, other in zip(arrays[2:], evaluated, compiled, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    run_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_programs(seed: int) -> None:
    run_program(seed)


# -- where operations stand --------------------------------------------------------------------------------------------


def test_an_arm_has_what_is_computed_in_it() -> None:
    """Also where its operands are those of the graph around: what is not chosen is not computed."""
    g = graph((jn.bool, ()), (F32, ("n", 4)), (F32, (4, 4)))
    flag, x, w = g.inputs
    outside = x * 2
    result = jn.cond(flag, lambda: jn.tanh(jn.matmul(outside, w)) + x, lambda: jn.sin(x))
    g.output(result)
    assert [symbol.op.name for symbol in g.symbols if symbol.op.name in ("matmul", "tanh", "sin", "mul")] == ["mul"]
    given, weights = floats(3, 4), floats(4, 4)
    agree(g, [np.bool_(True), given, weights], [np.tanh(given * 2 @ weights) + given])
    agree(g, [np.bool_(False), given, weights], [np.sin(given)])


def test_loops_inside_arms_compute_what_does_not_change_once_and_in_the_arm() -> None:
    g = graph((jn.bool, ()), (F32, (3,)))
    flag, x = g.inputs

    def repeated() -> Any:
        return jn.fori_loop(0, 3, lambda i, c: c + jn.exp(x), x)

    g.output(jn.cond(flag, repeated, lambda: x))
    (branch,) = [symbol for symbol in g.symbols if symbol.op.name == "branch"]
    arm = branch.attrs["regions"][0]
    (loop,) = [symbol for symbol in arm.symbols if symbol.op.name == "loop"]
    assert [symbol.op.name for symbol in arm.symbols if symbol.op.name == "exp"] == ["exp"]
    assert all(symbol.op.name != "exp" for symbol in (*g.symbols, *loop.attrs["regions"][0].symbols))
    given = floats(3)
    agree(g, [np.bool_(True), given], [given + 3 * np.exp(given)])
    agree(g, [np.bool_(False), given], [given])


def test_sizes_that_an_arm_finds_equal_are_checked() -> None:
    g = graph((jn.bool, ()), (F32, ("n",)), (F32, ("m",)))
    flag, x, y = g.inputs
    g.output(jn.cond(flag, lambda: jn.rebind(y, ("n",)) + x, lambda: x))
    given = floats(3)
    agree(g, [np.bool_(True), given, given], [given + given])
    with pytest.raises(jn.UserError, match="m"):
        jn.compile(g, "cpu")(np.bool_(True), given, floats(4))


def test_operations_of_the_host_stay_outside_of_arms() -> None:
    g = graph((jn.bool, ()), (F32, ("n",)))
    flag, x = g.inputs
    count = jn.nonzero(x)
    g.output(jn.cond(flag, lambda: jn.sum(jn.gather(x, jn.nonzero(x)[0])), lambda: jn.sum(x) * 0), count)
    given = np.array([1, 0, 2], np.float32)
    assert jn.compile(g, "cpu")(np.bool_(True), given)[0] == 3
    assert jn.compile(g, "cpu")(np.bool_(False), given)[0] == 0


def test_strings_stay_outside_of_arms() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.string, (4,), "s"), jn.TensorType(jn.bool, (), "p"), jn.TensorType(F32, (2, 2), "x")])
    text, flag, x = g.inputs
    g.output(jn.cond(flag, lambda: jn.where(jn.string_equal(jn.reshape(text, (2, 2)), "a"), x, 0.0), lambda: x))
    given = np.array(["a", "b", "a", "c"], dtype=object), floats(2, 2)
    for chosen, wanted in ((True, given[1] * [[1, 0], [1, 0]]), (False, given[1])):
        np.testing.assert_allclose(jn.compile(g, "cpu")(given[0], np.bool_(chosen), given[1]), wanted)
