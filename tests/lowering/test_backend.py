"""A third back end, as small as one can be: its code is the block programs' own text, its device the interpreter.

It is the skeleton for others. A target says what code depends on; a back end lowers for it; a device gives a launch its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.dims.dim import Dim
from joinery.lowering.choices.kernel_schedules import chosen_schedules, kernel_names
from joinery.lowering.choices.options import Options
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.graph_passes.weight_packing import ConstantLayout
from joinery.lowering.graph_passes.whole_lines import WholeLines
from joinery.lowering.host_stages import HostBackend
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.pipeline import compile_graph, expanded, scheduled, tile_graph
from joinery.lowering.stages import Backend, Compiled, LaidOut, Scheduled, Tiled
from joinery.lowering.tile.cost_models.host import HostLimits
from joinery.lowering.tile.tile import Tiler
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.verify import verify


@dataclass(frozen=True)
class InterpreterTarget:
    key: str = "interpreter"


@dataclass(frozen=True)
class Texts:
    """The lowered form: one text per block program."""

    tiled: Tiled
    programs: tuple[str, ...]


class InterpreterBackend:
    target = InterpreterTarget()
    sorted_bytes = 0
    has_short_rows = False
    tables = ()

    def lay_out(self, scheduled: Scheduled, options: Options) -> LaidOut:
        plan = scheduled.plan
        layouts = tuple(ConstantLayout(buffer.symbol, "plain") for buffer in plan.constants)
        return LaidOut(scheduled.expanded, plan, layouts, (False,) * len(plan.nests), kernel_names(plan.nests))

    def tile(self, laid_out: LaidOut, options: Options) -> Tiled:
        nests, names, limits = laid_out.plan.nests, laid_out.names, HostLimits()
        tiler = Tiler(limits)
        schedules = chosen_schedules(nests, names, [limits.schedule(nest) for nest in nests], options)
        launches = tiler.tile_all(nests, schedules, names)
        return Tiled(laid_out, tuple(tiler.programs), launches, schedules)

    def lower(self, tiled: Tiled, options: Options) -> Texts:
        for program in tiled.programs:
            verify(program.func)
        return Texts(tiled, tuple(print_module(program.func) for program in tiled.programs))

    def compile(self, lowered: Texts) -> Compiled:
        return Compiled(lowered.tiled, "", "\0".join(lowered.programs).encode())


def number(extent: Any, dims: dict[str, int]) -> int:
    return extent.evaluate(dims) if isinstance(extent, Dim) else int(extent)


def run(compiled: Compiled, inputs: list[np.ndarray], **dims: int) -> list[np.ndarray]:
    """A device: memory for all buffers, and the launches in order."""
    tiled = compiled.tiled
    programs = [parse(text) for text in compiled.object_code.decode().split("\0")]
    values = {symbol.id: symbol.attrs.get("value") for symbol in tiled.laid_out.expanded.graph.symbols}
    memory = {("input", number): np.ascontiguousarray(array) for number, array in enumerate(inputs)}
    for buffer in tiled.plan.constants:
        memory[buffer.kind, buffer.index] = np.ascontiguousarray(values[buffer.symbol])
    for buffer in (*tiled.plan.outputs, *tiled.plan.temporaries):
        blank = np.full([number(extent, dims) for extent in buffer.shape] + [buffer.dtype.itemsize], 0xA5, np.uint8)
        memory[buffer.kind, buffer.index] = blank.view(buffer.dtype.numpy).reshape(blank.shape[:-1])
    for launch in tiled.launches:
        arguments: list[Any] = [memory[buffer.kind, buffer.index] for buffer in launch.buffers]
        arguments += [number(extent, dims) for extent in launch.scalars]
        interpret(programs[launch.program], number(launch.grid, dims), arguments)
    return [memory[buffer.kind, buffer.index] for buffer in tiled.plan.outputs]


def model() -> jn.Graph:
    graph = jn.Graph("model", [jn.TensorType(jn.float32, ("n", 40), name="x"), jn.TensorType(jn.float32, (40, 24), name="w")])
    x, w = graph.inputs
    hidden = jn.relu(x @ w + np.arange(24, dtype=np.float32))
    graph.output(hidden, jn.softmax(hidden, axis=1), jn.max(x, axis=0))
    return graph


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n", [1, 3, 17])
@pytest.mark.parametrize("numerics", ["strict", "reproducible"])
def test_a_back_end_of_ones_own_computes_what_numpy_does(n: int, numerics: str) -> None:
    backend: Backend[Texts] = InterpreterBackend()
    compiled = compile_graph(model(), backend, Options(numerics))
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((n, 40), np.float32), rng.standard_normal((40, 24), np.float32)
    hidden, weights, largest = run(compiled, [x, w], n=n)
    expected = np.maximum(x.astype(np.float64) @ w + np.arange(24), 0)
    np.testing.assert_allclose(hidden, expected, rtol=1e-5, atol=1e-5)
    powers = np.exp(expected - expected.max(axis=1, keepdims=True))
    np.testing.assert_allclose(weights, powers / powers.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(largest, x.max(axis=0))


def test_every_stage_prints_what_it_made_and_can_be_called_by_itself() -> None:
    backend = HostBackend(host_target())
    first = expanded(model(), WholeLines(backend.sorted_bytes))
    assert "softmax" in str(model())
    assert "softmax" not in first.text()
    second = scheduled(first)
    assert "template" in second.text()
    laid_out = backend.lay_out(second, Options())
    tiled = backend.tile(laid_out, Options())
    assert tiled.text().count("tt.func") == len(tiled.programs) >= 2
    lowered = backend.lower(tiled, Options())
    assert "define void @jn_run" in lowered.text()
    compiled = backend.compile(lowered)
    assert compiled.text() == f"{len(compiled.object_code)} bytes of object code"
    again = tile_graph(model(), backend, Options())
    assert [program.key for program in again.programs] == [program.key for program in tiled.programs]


def test_what_a_back_end_cannot_tile_is_said() -> None:
    class Nothing(InterpreterBackend):
        def tile(self, laid_out: LaidOut, options: Options) -> Tiled:
            raise jn.UnsupportedError("this target computes nothing")

    with pytest.raises(jn.UnsupportedError, match="computes nothing"):
        compile_graph(model(), Nothing(), Options())
