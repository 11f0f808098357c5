"""Loops that need nothing of each other run at once: with the values of one after the other, whatever they share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.whole_lines import NO_LINES
from joinery.lowering.pipeline import expanded, scheduled

from ..support.interrupting import is_interrupted

F32, I64 = jn.float32, jn.int64
rng = np.random.default_rng(23)
THREADS = (1, 2, 3)


def floats(*shape: int) -> Any:
    return (rng.standard_normal(shape) / 2).astype(np.float32)


def graph(*shapes: tuple[Any, ...]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(F32, shape, f"x{number}") for number, shape in enumerate(shapes)])


def parts(g: jn.Graph) -> list[int]:
    """Return how many loops run at once, for each time that any do, in the order of the plan."""
    found: list[int] = []
    for line in scheduled(expanded(g, NO_LINES)).text().splitlines():
        match line.strip():
            case "together":
                found.append(1)
            case "and":
                found[-1] += 1
    return found


def recurrence(weights: Any, reverse: bool = False) -> Callable[[Any, Any], Any]:
    def run(begin: Any, rows: Any) -> Any:
        return jn.scan(lambda h, row: ((n := jn.tanh(row + h @ weights)), n), begin, rows, reverse=reverse)

    return run


def expected(weights: Any, begin: Any, rows: Any, reverse: bool = False) -> tuple[Any, Any]:
    h, every = begin, np.zeros((len(rows), *begin.shape), np.float32)
    for at in range(len(rows))[::-1] if reverse else range(len(rows)):
        h = every[at] = np.tanh(rows[at] + h @ weights)
    return h, every


def both_ways(length: int, batch: int, hidden: int) -> tuple[jn.Graph, Any]:
    """A graph of a recurrence in both directions, whose last states it gives, and its weights, which make no chaos."""
    weights = floats(hidden, hidden) / hidden**0.5
    g = graph((length, batch, hidden), (batch, hidden))
    rows, begin = g.inputs
    w = g.constant(weights)
    g.output(recurrence(w)(begin, rows)[0], recurrence(w, True)(begin, rows)[0])
    return g, weights


def check(model: jn.Model, given: list[Any], wanted: list[Any], times: int = 5) -> None:
    for _ in range(times):
        results = model(*given)
        for found, want in zip(results if len(wanted) > 1 else [results], wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("length", "batch", "hidden"), [("t", 8, 128), ("t", 3, 5), (40, 1, 64), (1, 2, 2), (0, 2, 3)])
def test_both_directions(threads: int, length: Any, batch: int, hidden: int) -> None:
    """Both read the same rows; each writes rows of its own, outputs and what a later kernel reads."""
    one, two = floats(hidden, hidden) / hidden**0.5, floats(hidden, hidden) / hidden**0.5  # no chaos
    g = graph((length, batch, hidden), (batch, hidden))
    rows, begin = g.inputs
    forth, back = recurrence(g.constant(one)), recurrence(g.constant(two), True)
    (last, every), (first, reversed_) = forth(begin, rows), back(begin, rows * 2.0)
    g.output(jn.concat([every, reversed_], 2), last, first, reversed_)
    assert parts(g) == [2]
    model = jn.compile(g, "cpu", threads=threads, cache=False)
    for extent in (0, 1, 2, 33) if length == "t" else (length,):
        x, h = floats(extent, batch, hidden), floats(batch, hidden)
        a, b = expected(one, h, x), expected(two, h, x * 2, True)
        check(model, [x, h], [np.concatenate([a[1], b[1]], 2), a[0], b[0], b[1]])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("threads", THREADS)
def test_layers_on_top_of_each_other_and_loops_with_memory_of_their_own(threads: int) -> None:
    """The second layer reads what both loops of the first wrote, and each iteration has temporaries."""
    weights = [floats(12, 12) / 3 for _ in range(5)]
    g = graph((9, 4, 12), (4, 12))
    rows, begin = g.inputs

    def layer(rows: Any, numbers: tuple[int, ...]) -> list[Any]:
        found = []
        for number in numbers:
            w = g.constant(weights[number])

            def step(h: Any, row: Any, w: Any = w) -> Any:
                gates = jn.softmax(row @ w, -1) + jn.softmax(h @ w, 0)
                n = jn.tanh(gates @ w)
                return n, n

            found.append(jn.scan(step, begin, rows, reverse=bool(number % 2))[1])
        return found

    below = layer(rows, (0, 1, 2))
    above = layer(below[0] + below[1] * below[2], (3, 4))
    g.output(*above)
    assert parts(g) == [3, 2]

    def softmax(x: Any, axis: int) -> Any:
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    def run(x: Any, h: Any, number: int) -> Any:
        w, every = weights[number], np.zeros_like(x)
        for at in range(len(x))[::-1] if number % 2 else range(len(x)):
            h = every[at] = np.tanh((softmax(x[at] @ w, -1) + softmax(h @ w, 0)) @ w)
        return every

    x, h = floats(9, 4, 12), floats(4, 12)
    below = [run(x, h, number) for number in (0, 1, 2)]
    x2 = below[0] + below[1] * below[2]
    check(jn.compile(g, "cpu", threads=threads, cache=False), [x, h], [run(x2, h, 3), run(x2, h, 4)], 20)


def test_loops_that_need_each_other_stay_in_order() -> None:
    weights = floats(6, 6) / 2
    g = graph((7, 2, 6), (2, 6))
    rows, begin = g.inputs
    w = g.constant(weights)
    last, every = recurrence(w)(begin, rows)
    again, _ = recurrence(w)(last, rows)  # begins with the other's state
    _, third = recurrence(w)(begin, every)  # reads the other's rows
    g.output(again, third)
    assert parts(g) == [2]  # the second and the third, neither of them with the first
    x, h = floats(7, 2, 6), floats(2, 6)
    one = expected(weights, h, x)
    wanted = [expected(weights, one[0], x)[0], expected(weights, h, one[1])[1]]
    check(jn.compile(g, "cpu", threads=2, cache=False), [x, h], wanted)


def test_loops_that_values_end_stay_in_order() -> None:
    g = graph((3,), (3,))
    x, y = g.inputs
    g.output(*[jn.while_loop(lambda v: jn.sum(v) < 100.0, lambda v: v * 2.0 + 1.0, each) for each in (x, y)])
    assert parts(g) == []


@pytest.mark.parametrize("threads", THREADS)
def test_inside_of_a_loop_and_of_a_branch(threads: int) -> None:
    """Two short loops in each iteration of another, whose state both read, in one arm of a branch."""
    g = graph((5, 4), (4,), (6, 4))
    rows, begin, inner = g.inputs

    def step(h: Any, row: Any) -> Any:
        one, _ = jn.scan(lambda c, r: (c * 0.5 + r, None), h, inner)
        two, _ = jn.scan(lambda c, r: (c * 0.25 - r, None), h + row, inner, reverse=True)
        n = one + two
        return n, n

    def long() -> Any:
        return jn.scan(step, begin, rows)[1]

    g.output(jn.cond(jn.sum(begin) > 0.0, long, lambda: rows))
    assert parts(g) == [2]
    model = jn.compile(g, "cpu", threads=threads, cache=False)
    x, r = floats(5, 4), floats(6, 4)
    for sign in (1, -1):
        h = begin_ = sign * np.abs(floats(4)) - 0
        want = x
        if sign > 0:
            want = np.zeros_like(x)
            for at in range(5):
                one, two = h, h + x[at]
                for k in range(6):
                    one, two = one * np.float32(0.5) + r[k], two * np.float32(0.25) - r[5 - k]
                h = want[at] = one + two
        check(model, [x, begin_, r], [want])


def test_long_iterations_run_one_loop_after_the_other() -> None:
    """Such as all threads share; the values are the same."""
    g, weights = both_ways(4, 200, 300)
    x, h = floats(4, 200, 300), floats(200, 300)
    wanted = [expected(weights, h, x)[0], expected(weights, h, x, True)[0]]
    for found, want in zip(jn.compile(g, "cpu", threads=2, cache=False)(x, h), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_profiles_the_sanitizer_and_gpus_take_them_in_order() -> None:
    g, weights = both_ways(4, 2, 5)
    x, h = floats(4, 2, 5), floats(2, 5)
    wanted = [expected(weights, h, x)[0], expected(weights, h, x, True)[0]]
    model = jn.compile(g, "cpu", threads=2, cache=False)
    profile = model.profile(x, h, repeat=3)
    assert all(kernel.name in str(profile) for kernel in model.kernels)
    assert not model.sanitize(x, h).findings
    check(jn.compile(g, "ptxsim", cache=False), [x, h], wanted, 1)


def test_calls_from_several_threads_at_once() -> None:
    g, weights = both_ways(30, 4, 16)
    model = jn.compile(g, "cpu", threads=2, cache=False)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            x, h = floats(30, 4, 16), floats(4, 16)
            check(model, [x, h], [expected(weights, h, x)[0], expected(weights, h, x, True)[0]], 40)
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]


@pytest.mark.skipif(os.name != "posix", reason="loops are interrupted on POSIX systems")
def test_an_interrupt_ends_both() -> None:
    """Loops of some tenths of a second, more than what runs at once, and of less."""
    import time

    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled on the main thread")
    g = graph(("n", 4), (4,))
    rows, begin = g.inputs
    (one, _), (two, _) = (jn.scan(lambda c, r: (jn.sin(c) + r, None), begin, rows, reverse=way) for way in (False, True))
    g.output(one, two)
    assert parts(g) == [2]
    model = jn.compile(g, "cpu", threads=2, cache=False)
    x, h = np.zeros((40_000_000, 4), np.float32), floats(4)
    start = time.perf_counter()
    assert is_interrupted(lambda: model(x, h), 0.1)
    assert time.perf_counter() - start < 30
    for found, want in zip(model(x[:3], h), model(x[:3], h), strict=True):
        np.testing.assert_array_equal(found, want)
