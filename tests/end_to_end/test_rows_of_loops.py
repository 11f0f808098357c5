"""Rows that loops read where they lie: of tensors at positions that data decides, and of constants."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

F32, I32, I64 = jn.float32, jn.int32, jn.int64
rng = np.random.default_rng(17)
POSITIONS = np.array([2, 0, -1, 4, 4, -5, 99, -99])
"""The second half of them is at the ends of five rows, or beyond."""
ROWS = np.array([2, 0, 4, 4, 4, 0, 4, 0])


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def graph(*types: tuple[Any, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, (dtype, shape) in enumerate(types)])



def steps_copied(model: Any) -> list[str]:
    """Return what the kernels of a model compute."""
    return [name for kernel in model.kernels for name in kernel.fused]


def running_product(rows: Any, begin: Any, reverse: bool = False) -> list[Any]:
    state, found = begin, [None] * len(rows)
    for number in range(len(rows))[::-1] if reverse else range(len(rows)):
        state = np.tanh(state @ rows[number])
        found[number] = state
    return [state, np.stack(found) if rows.size else np.zeros((0, *begin.shape), np.float32)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [I32, I64])
def test_rows_at_positions(device: str, reverse: bool, dtype: Any) -> None:
    g = graph((F32, (5, 3, 3)), (dtype, ("m",)), (F32, (2, 3)))
    table, positions, begin = g.inputs
    last, every = jn.scan(lambda c, w: ((c := jn.tanh(c @ w)), c), begin, jn.gather(table, positions), reverse=reverse)
    g.output(last, every)
    model = jn.compile(g, device, cache=False)
    for length in (0, 1, len(POSITIONS)):
        given = [floats(5, 3, 3), POSITIONS[:length].astype(dtype.numpy), floats(2, 3)]
        for found, wanted in zip(model(*given), running_product(given[0][ROWS[:length]], given[2], reverse), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_rows_at_positions_are_not_copied() -> None:
    g = graph((F32, (5, 64, 64)), (I64, (8,)), (F32, (2, 64)))
    table, positions, begin = g.inputs
    last, _ = jn.scan(lambda c, w: ((c := jn.tanh(c @ w)), None), begin, jn.gather(table, positions))
    g.output(last)
    model = jn.compile(g, cache=False)
    assert "gather" not in steps_copied(model)
    given = [floats(5, 64, 64) / 8, POSITIONS, floats(2, 64)]
    np.testing.assert_allclose(model(*given), running_product(given[0][ROWS], given[2])[0], rtol=2e-4, atol=2e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_gathered_rows_that_somebody_else_reads_too_are_computed(device: str) -> None:
    g = graph((F32, (5, 3)), (I64, (8,)))
    table, positions = g.inputs
    rows = jn.gather(table, positions)
    total, _ = jn.scan(lambda c, row: (c + row, None), g.constant(np.zeros(3, np.float32)), rows)
    again, _ = jn.scan(lambda c, row: (c + row, None), g.constant(np.zeros(3, np.float32)), jn.gather(table, positions))
    g.output(total, rows, again)
    given = floats(5, 3)
    found = jn.compile(g, device, cache=False)(given, POSITIONS)
    for result, wanted in zip(found, (given[ROWS].sum(0), given[ROWS], given[ROWS].sum(0)), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_rows_of_constants_and_weights_lie_where_they_are(device: str, tmp_path: Any) -> None:
    g = graph((I64, (8,)), (F32, (2, 32)))
    positions, begin = g.inputs
    first, second = floats(5, 32, 32) / 6, floats(5, 32, 32) / 6
    weight, constant = g.weight("w", first), g.constant(second)
    one, _ = jn.scan(lambda c, w: (jn.tanh(c @ w), None), begin, weight)
    two, _ = jn.scan(lambda c, w: (jn.tanh(c @ w), None), one, jn.gather(constant, positions))
    three = two + weight[0, :2]  # a straight part reads it too
    g.output(three)
    model = jn.compile(g, device, cache=False)
    assert not {"gather", "copy"} & set(steps_copied(model))
    given = [POSITIONS, floats(2, 32)]
    wanted = running_product(second[ROWS], running_product(first, given[1])[0])[0] + first[0, :2]
    path = tmp_path / "m.joinery"
    model.save(path)
    for each in (model, jn.load(path)):
        np.testing.assert_allclose(each(*given), wanted, rtol=2e-5, atol=2e-5)


def test_rows_of_constants_inside_a_branch_and_an_outer_loop() -> None:
    g = graph((jn.bool, ()), (F32, (3,)), (I64, (4,)))
    flag, begin, positions = g.inputs
    table = floats(5, 3)
    constant = g.constant(table)

    def outer(_: Any, state: Any) -> Any:
        inner = jn.scan(lambda c, row: (c * 0.5 + row, None), state, jn.gather(constant, positions))[0]
        return jn.scan(lambda c, row: (c * 0.5 + row, None), inner, constant)[0]

    g.output(jn.cond(flag, lambda: jn.fori_loop(0, 3, outer, begin), lambda: begin))
    given = floats(3)
    model = jn.compile(g, cache=False)
    state = given
    for _ in range(3):
        for row in (*table[ROWS[:4]], *table):
            state = state * np.float32(0.5) + row
    for flag_, wanted in ((True, state), (False, given)):
        found = model(np.bool_(flag_), given, POSITIONS[:4])
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(jn.evaluate(g, np.bool_(flag_), given, POSITIONS[:4]), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [np.complex128, np.float16, np.int8, np.bool_])
def test_rows_of_constants_of_other_dtypes(dtype: Any) -> None:
    g = graph((I64, (8,)))
    table = (rng.standard_normal((5, 4)) * 3).astype(dtype)
    constant = g.constant(table)
    one = jn.scan(lambda c, row: (c, row), g.inputs[0][0], constant)[1]
    two = jn.scan(lambda c, row: (c, row), g.inputs[0][0], jn.gather(constant, g.inputs[0]))[1]
    g.output(one, two)
    found = jn.compile(g, cache=False)(POSITIONS)
    np.testing.assert_array_equal(found[0], table)
    np.testing.assert_array_equal(found[1], table[ROWS])


def test_the_sanitizer_reads_the_same_rows() -> None:
    g = graph((F32, (5, 3)), (I64, (8,)))
    table, positions = g.inputs
    g.output(jn.scan(lambda c, row: (c + row, None), g.constant(np.zeros(3, np.float32)), jn.gather(table, positions))[0])
    given = floats(5, 3)
    found = jn.compile(g, cache=False).sanitize(given, POSITIONS)
    assert not found.findings
