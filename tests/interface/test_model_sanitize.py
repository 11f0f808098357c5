"""`Model.sanitize`: clean on what is compiled, and every way in which a plan can be spoiled is found, with the user's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.choices.options import Options
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.host_stages import HostBackend
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.pipeline import tile_graph
from joinery.lowering.sanitize import ModelReport, sanitize_launches
from joinery.lowering.stages import Tiled
from joinery.lowering.tt.printing import print_module
from numpy.typing import NDArray


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def graph(*shapes: tuple[int | str, ...]) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(jn.float32, shape, name=f"x{i}") for i, shape in enumerate(shapes)])


def elementwise() -> jn.Graph:
    g = graph(("n", 7), (7,))
    g.output(jn.tanh(g.inputs[0] * 2 + g.inputs[1]))
    return g


def reductions() -> jn.Graph:
    g = graph(("n", 7))
    x = g.inputs[0]
    g.output(jn.sum(x, axis=0), jn.max(x, axis=1), jn.argmin(x, axis=1), jn.softmax(x, axis=-1), jn.cumsum(x, axis=0))
    return g


def products() -> jn.Graph:
    g = graph(("n", 40), (40, 33))
    w = g.weight("w", numbers(33, 24, seed=1))
    hidden = jn.relu(g.inputs[0] @ g.inputs[1])
    g.output(jn.softmax(hidden @ w, axis=1), jn.sum(hidden))
    return g


def indexing() -> jn.Graph:
    g = graph(("n", 6))
    x = g.inputs[0]
    g.output(jn.gather(x, np.array([5, 0, 3, 3]), axis=1), jn.flip(x, axis=0), jn.concat([x, x * 2], axis=1), x.T)
    return g


CLEAN: list[tuple[Callable[[], jn.Graph], Callable[[int], list[NDArray[np.float32]]]]] = [
    (elementwise, lambda n: [numbers(n, 7), numbers(7, seed=2)]),
    (reductions, lambda n: [numbers(n, 7)]),
    (products, lambda n: [numbers(n, 40), numbers(40, 33, seed=3)]),
    (indexing, lambda n: [numbers(n, 6)]),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("n", [1, 2, 33])
@pytest.mark.parametrize(("build", "inputs"), CLEAN, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_compiled_is_clean_and_computes_what_a_call_does(
    build: Callable[[], jn.Graph], inputs: Callable[[int], list[NDArray[np.float32]]], n: int
) -> None:
    model = jn.compile(build(), device="cpu", cache=False)
    arrays = inputs(n)
    report = model.sanitize(*arrays)
    assert report.findings == ()
    count = len(model.kernels)
    assert str(report) == f"0 findings in {count} launch{'es' if count > 1 else ''}"
    assert [launch.kernel for launch in report.launches] == [kernel.name for kernel in model.kernels]
    expected = model(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for mine, native in zip(report.outputs, expected, strict=True):
        np.testing.assert_allclose(mine, native, rtol=1e-5, atol=1e-6)


def test_an_empty_input_is_clean() -> None:
    report = jn.compile(elementwise(), device="cpu", cache=False).sanitize(numbers(0, 7), x1=numbers(7))
    assert report.findings == ()
    assert report.outputs[0].shape == (0, 7)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["complex128", "complex64", "bfloat16", "int4", "bool"])
@pytest.mark.parametrize("n", [0, 4])
def test_outputs_have_the_dtypes_of_a_call(name: str, n: int) -> None:
    dtype = jn.DType(name)
    g = jn.Graph("g", [jn.TensorType(dtype, ("n", 3), name="x")])
    x = g.inputs[0]
    g.output(x.T, jn.concat([x, g.constant(np.ones((2, 3), dtype.numpy))], axis=0))
    model = jn.compile(g, device="cpu", cache=False)
    value = np.arange(n * 3).reshape(n, 3).astype(dtype.numpy)
    report = model.sanitize(value)
    assert report.findings == ()
    for mine, native in zip(report.outputs, model(value), strict=True):
        assert (mine.dtype, mine.shape) == (native.dtype, native.shape)
        assert mine.tobytes() == native.tobytes()


def test_the_programs_of_gpus_are_clean_too() -> None:
    report = jn.compile(products(), device="ptxsim", target="sm_90a", cache=False).sanitize(numbers(5, 40), numbers(40, 33))
    assert report.findings == ()


def test_a_loaded_model_has_it_and_inputs_that_do_not_fit_are_refused_as_by_a_call(tmp_path: Path) -> None:
    model = jn.compile(elementwise(), device="cpu", cache=False)
    model.save(tmp_path / "m.joinery")
    loaded = jn.load(tmp_path / "m.joinery", device="cpu", cache=False)
    assert loaded.sanitize(numbers(3, 7), numbers(7)).findings == ()
    for wrong in ([numbers(3, 8), numbers(7)], [numbers(3, 7)], [numbers(3, 7).astype(np.int8), numbers(7)]):
        with pytest.raises(jn.UserError) as called:
            loaded(*wrong)
        with pytest.raises(jn.UserError) as sanitized:
            loaded.sanitize(*wrong)
        assert str(sanitized.value) == str(called.value)


# -- spoiled plans ----------------------------------------------------------------


def chain() -> tuple[jn.Graph, dict[str, int]]:
    """Two launches, the second of which reads what the first leaves: the graph, and the lines of its statements."""
    g = graph(("n", 40))
    start = inspect.currentframe().f_lineno  # type: ignore[union-attr]
    w = g.weight("w", numbers(40, 24, seed=1))
    hidden = jn.relu(g.inputs[0] @ w)
    g.output(jn.sum(hidden, axis=0))
    return g, {"hidden": start + 2, "sum": start + 3}


N = 70
Spoil = Callable[[Tiled], Tiled]


def text_of(tiled: Tiled, kernel: int, old: str, new: str, which: int = 0) -> Tiled:
    """The plan with an occurrence of `old` in a kernel's text replaced."""
    programs = list(tiled.programs)
    text = print_module(programs[kernel].func, True)
    parts = text.split(old)
    assert len(parts) > 1, f"{old!r} is not in\n{text}"
    which = which % (len(parts) - 1)
    text = old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])
    programs[kernel] = replace(programs[kernel], func=parse(text))
    return replace(tiled, programs=tuple(programs))


def launches(tiled: Tiled, change: Callable[[list], list]) -> Tiled:  # type: ignore[type-arg]
    return replace(tiled, launches=tuple(change(list(tiled.launches))))


def without_lines(tiled: Tiled, kernel: int, what: str) -> Tiled:
    programs = list(tiled.programs)
    lines = print_module(programs[kernel].func, True).splitlines(keepends=True)
    kept = [line for line in lines if what not in line]
    assert len(kept) < len(lines)
    programs[kernel] = replace(programs[kernel], func=parse("".join(kept)))
    return replace(tiled, programs=tuple(programs))


SPOILED: dict[str, tuple[Spoil, str, str, int | None]] = {
    # what is done, the kind of finding, the statement that it names, the launch
    "the mask of a load reaches too far": (
        lambda t: text_of(t, 0, "arith.cmpi slt", "arith.cmpi sle"), "out-of-bounds", "hidden", 0),
    "the mask of a store reaches too far": (
        lambda t: text_of(t, 0, "arith.cmpi slt", "arith.cmpi sle", -1), "out-of-bounds", "hidden", 0),
    "the mask of a reduction reaches too far": (
        lambda t: text_of(t, 1, "arith.cmpi slt", "arith.cmpi sle"), "out-of-bounds", "sum", 1),
    "a stride is wrong": (
        lambda t: text_of(t, 0, "dense<24> : tensor<64xi64>", "dense<25> : tensor<64xi64>"), "out-of-bounds", "hidden", 0),
    "a store is missing": (lambda t: without_lines(t, 0, "tt.store"), "uninitialised", "sum", 1),
    "the last store is missing": (lambda t: without_lines(t, 1, "tt.store"), "uninitialised", "sum", None),
    "a program is missing": (
        lambda t: launches(t, lambda all_: [replace(all_[0], grid=all_[0].grid - 1), *all_[1:]]), "uninitialised", "sum", 1),
    "a launch is missing": (lambda t: launches(t, lambda all_: all_[1:]), "uninitialised", "sum", 0),
    "the launches are in the wrong order": (lambda t: launches(t, lambda all_: all_[::-1]), "uninitialised", "sum", 0),
    "all programs are the first one": (
        lambda t: text_of(t, 0, "tt.get_program_id x : i32", "arith.constant 0 : i32"), "race", "hidden", 0),
    "a size is wrong": (
        lambda t: launches(t, lambda all_: [replace(all_[0], scalars=tuple(s + 1 for s in all_[0].scalars)), *all_[1:]]),
        "out-of-bounds", "hidden", 0),
    "a kernel writes to an input": (
        lambda t: launches(t, lambda all_: [replace(all_[0], buffers=all_[0].buffers[::-1]), *all_[1:]]),
        "read-only", "hidden", 0),
}  # fmt: skip


def sanitized(tiled: Tiled) -> ModelReport:
    values = {symbol.id: symbol.attrs.get("value") for symbol in tiled.laid_out.expanded.graph.symbols}
    constants = [np.ascontiguousarray(values[buffer.symbol]) for buffer in tiled.plan.constants]
    return sanitize_launches(tiled, [numbers(N, 40)], constants, {"n": N})


def plan() -> tuple[Tiled, dict[str, int]]:
    g, lines = chain()
    tiled = tile_graph(g, HostBackend(host_target()), Options())
    assert len(tiled.launches) == 2
    return tiled, lines


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_plan_is_found_with_the_line_of_the_graph(name: str) -> None:
    spoil, kind, statement, launch = SPOILED[name]
    tiled, lines = plan()
    report = sanitized(spoil(tiled))
    found = report.unwritten if launch is None else report.launches[launch].report.findings
    assert kind in {finding.kind for finding in found}, str(report)
    first = next(finding for finding in found if finding.kind == kind)
    assert f"{Path(__file__).name}:{lines[statement]}" in first.line
    assert first.line in str(report)


def test_the_plan_that_is_spoiled_is_clean() -> None:
    assert sanitized(plan()[0]).findings == ()


def test_a_convolution_whose_kernel_fills_no_panel() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 5, 6, 8), "x")])
    graph.output(jn.relu(jn.conv2d(graph.inputs[0], np.ones((3, 3, 8, 40), np.float32), padding=1)))
    report = jn.compile(graph, device="cpu", cache=False).sanitize(np.ones((1, 5, 6, 8), np.float32))
    assert not report.findings


# -- loops and branches --------------------------------------------------------------------------------------------------------


def loops(backwards: bool = False) -> jn.Graph:
    """A recurrence whose rows are stacked, a loop that values end, and a branch."""
    g = graph((5, 3), (3,))
    x, start = g.inputs
    last, rows = jn.scan(lambda state, row: (jn.tanh(state * 0.5 + row), state + row), start, x, reverse=backwards)
    small = jn.while_loop(lambda state: jn.max(state) > 0.1, lambda state: state * 0.5, last + 3)
    chosen = jn.cond(jn.sum(start) > 0, lambda: x * 2, lambda: x - 1)
    g.output(rows, small, chosen)
    return g


@pytest.mark.one_in(4)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_loops_and_branches_run_as_a_call_runs_them(backwards: bool, sign: int) -> None:
    g = loops(backwards)
    model = jn.compile(g, device="cpu", threads=1)
    arrays = [numbers(5, 3), sign * np.ones(3, np.float32)]
    report = model.sanitize(*arrays)
    assert report.findings == (), str(report)
    for found, wanted in zip(report.outputs, model(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("what", "kind"), [("a row is not written", "uninitialised"), ("a mask reaches too far", "out-of-bounds")]
)
def test_a_body_that_is_spoiled_is_found(what: str, kind: str) -> None:
    g = graph((5, 3), (3,))
    _, rows = jn.scan(lambda state, row: (state + row, state * row), g.inputs[1], g.inputs[0])
    g.output(rows)
    tiled = tile_graph(g, HostBackend(host_target()), Options())
    body = tiled.launches[-1].program
    if what == "a row is not written":
        tiled = without_lines(tiled, body, "tt.store")
    else:
        tiled = text_of(tiled, body, "arith.cmpi slt", "arith.cmpi sle")
    report = sanitize_launches(tiled, [numbers(5, 3), numbers(3)], [], {})
    assert kind in {finding.kind for finding in report.findings}, str(report)
