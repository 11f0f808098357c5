"""Loops and branches on simulated GPUs: the host counts and asks, values stay on the device."""

from __future__ import annotations

import threading
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.artifact import GpuLoop
from joinery.lowering.choices.options import Options
from joinery.lowering.gpu_stages import NvptxBackend
from joinery.lowering.llvm.nvptx.targets import gpu_target
from joinery.lowering.pipeline import compile_graph

from ..support.control_programs import InGraph, InNumPy, Program
from ..support.interrupting import is_interrupted

F16, F32, I64 = jn.float16, jn.float32, jn.int64
rng = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def graph(*types: tuple[Any, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, (dtype, shape) in enumerate(types)])


def agree(model: Any, given: list[Any], expected: list[Any], tolerance: float = 2e-5) -> None:
    found = model(*given)
    for result, wanted in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert result.shape == np.shape(wanted)
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


def test_while_loops_that_values_end() -> None:
    g = graph((F32, ("n", 4)), (I64, ()))
    x, limit = g.inputs
    w = floats(4, 4)
    weight = g.weight("w", w)
    g.output(*jn.while_loop(lambda s: s[1] < limit, lambda s: (jn.tanh(s[0] @ weight) + x, s[1] + 1), (x, g.scalar(0, I64))))
    model = jn.compile(g, "ptxsim", cache=False)
    for n, count in ((3, 0), (3, 1), (2, 5), (0, 2)):
        given = expected = floats(n, 4)
        for _ in range(count):
            expected = np.tanh(expected @ w) + given
        agree(model, [given, np.int64(count)], [expected, np.int64(count)])


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_whose_rows_are_not_aligned(reverse: bool) -> None:
    """Rows of 3 elements begin at multiples of 12 bytes: kernels must not load them 16 bytes at a time."""
    g = graph((F32, ("n", 3)), (F32, ("n",)))
    last, (sums, states) = jn.scan(
        lambda c, x: ((following := c * x[1] + x[0]), (jn.sum(following), c)),
        g.constant(np.zeros(3, np.float32)), tuple(g.inputs), reverse=reverse,
    )  # fmt: skip
    g.output(last, sums, states)
    model = jn.compile(g, "ptxsim", cache=False)
    for length in (0, 1, 6):
        a, b = floats(length, 3), floats(length)
        carry, expected_sums, expected = np.zeros(3, np.float32), np.zeros(length, np.float32), np.zeros((length, 3))
        for i in range(length)[::-1] if reverse else range(length):
            expected[i] = carry
            carry = carry * b[i] + a[i]
            expected_sums[i] = carry.sum()
        agree(model, [a, b], [carry, expected_sums, expected])


def test_the_index_and_the_number_of_a_branch() -> None:
    g = graph((F32, ("n",)), (I64, ()), (I64, ()))
    x, first, last = g.inputs

    def body(i: Any, v: Any) -> Any:
        return jn.cond(i % 2 == 0, lambda: v + i.cast(F32), lambda: jn.fori_loop(0, i, lambda j, u: u - j.cast(F32), v))

    g.output(jn.fori_loop(first, last, body, x))
    model = jn.compile(g, "ptxsim", cache=False)
    for ends in ((0, 5), (-2, 3), (4, 4)):
        given = floats(3)
        expected = given
        for i in range(*ends):
            expected = expected + i if i % 2 == 0 else expected - sum(range(i))
        agree(model, [given, *map(np.int64, ends)], [expected])


def test_values_that_change_places_stay_where_they_lie() -> None:
    g = graph((F32, (2,)), (F32, (2,)), (F32, ("n",)))
    a, b, rows = g.inputs
    state, ys = jn.scan(lambda s, r: ((s[0], s[2], s[1]), (s[1], r, a)), (a, a, b), rows)
    g.output(*state, *ys)
    model = jn.compile(g, "ptxsim", cache=False)
    for n in (0, 3):
        first, second, given = floats(2), floats(2), floats(n)
        ones = np.array([(first, second)[i % 2] for i in range(n)], np.float32).reshape(n, 2)
        swapped = (first, second) if n % 2 == 0 else (second, first)
        agree(model, [first, second, given], [first, *swapped, ones, given, np.broadcast_to(first, (n, 2))])


@pytest.mark.parametrize("columns", [16, 12])
def test_products_in_bodies_on_hopper(columns: int) -> None:
    """A row of 2 x 12 halves has 48 bytes, which tensor maps take, as they do all that a loop carries."""
    g = graph((F16, ("n", 2 * columns, 16)), (F16, (16, 64)))
    rows, w = g.inputs
    state, products = jn.scan(lambda c, r: (c + (r @ w), c), g.constant(np.zeros((2 * columns, 64), np.float16)), rows)
    g.output(state, products)
    a, b = floats(3, 2 * columns, 16).astype(np.float16), floats(16, 64).astype(np.float16)
    carry = np.zeros((2 * columns, 64), np.float32)
    expected = []
    for row in a:
        expected.append(carry.copy())
        carry = carry + (row.astype(np.float32) @ b.astype(np.float32))
    agree(jn.compile(g, "ptxsim", target="sm_90a", cache=False), [a, b], [carry, np.array(expected)], 3e-2)


@pytest.mark.parametrize(("inner", "has_maps"), [(16, True), (20, False)])
def test_rows_at_odd_addresses_have_no_tensor_maps(inner: int, has_maps: bool) -> None:
    """Rows of 3 x 20 halves lie 120 bytes apart."""
    g = graph((F16, ("n", 3, inner)), (F16, (64, 64)))
    rows, w = g.inputs
    taken = w[:inner]
    _, products = jn.scan(lambda c, r: (c, r @ taken), None, rows)
    g.output(products)
    compiled = compile_graph(g, NvptxBackend(gpu_target("sm_90a")), Options()).gpu
    assert compiled is not None
    (loop,) = [step for step in compiled.steps if isinstance(step, GpuLoop)]
    assert loop.index is None  # nobody reads it, so nothing copies it
    bodies = [code for code in compiled.kernels if "contract" in code.name]
    assert any(code.tensor_maps for code in bodies) == has_maps
    a, b = floats(4, 3, inner).astype(np.float16), floats(64, 64).astype(np.float16)
    expected = a.astype(np.float32) @ b[:inner].astype(np.float32)
    agree(jn.compile(g, "ptxsim", target="sm_90a", cache=False), [a, b], [expected], 3e-2)


def test_saved_models_keep_their_steps(tmp_path: Any) -> None:
    g = graph((F32, ("n", 2)))
    (x,) = g.inputs
    total, ys = jn.scan(lambda c, r: (jn.cond(jn.sum(r) > 0.0, lambda: c + r, lambda: c - r), c), x[0], x)
    g.output(jn.fori_loop(0, 3, lambda i, v: v + i.cast(F32), total), ys)
    jn.save(g, tmp_path / "m.joinery", targets=("sm_80",))
    given = floats(5, 2)
    expected = list(jn.evaluate(g, given))
    for trusted in (False, True):
        agree(jn.load(tmp_path / "m.joinery", "ptxsim", target="sm_80", trusted=trusted, budget=None), [given], expected)


def test_an_endless_loop_is_interrupted_and_the_model_runs_on() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    g = graph((F32, (3,)))
    g.output(jn.while_loop(lambda v: jn.sum(v) > 0.0, lambda v: v * 1.0, g.inputs[0]))
    model = jn.compile(g, "ptxsim", cache=False)
    assert is_interrupted(lambda: model(np.ones(3, np.float32)), 0.3)
    assert model(-np.ones(3, np.float32)).tolist() == [-1, -1, -1]


def run_program(seed: int) -> None:
    program = Program(seed)
    g = graph((jn.float64, (3,)), (jn.float64, (3,)))
    symbols, arrays = list(g.inputs), [np.random.default_rng(seed).uniform(-1, 1, 3) for _ in range(2)]
    for _ in range(3):
        made = program.expression(symbols, 0)
        arrays.append(made(arrays, InNumPy))
        symbols.append(made(symbols, InGraph))
    g.output(*symbols[2:])
    agree(jn.compile(g, "ptxsim", cache=False), arrays[:2], arrays[2:], 1e-9)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int) -> None:
    run_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1150))
def test_many_random_programs(seed: int) -> None:
    run_program(seed)
