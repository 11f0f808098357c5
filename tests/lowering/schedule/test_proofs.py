"""The kernels that the schedule generates are proven to stay inside their buffers and to have no races, for all sizes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.graph.dims.dim import Dim, product
from joinery.lowering.choices.options import Options
from joinery.lowering.host_stages import HostBackend
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.pipeline import tile_graph
from joinery.lowering.program import Buffer, Launch
from joinery.lowering.prove.terms.solver import DEFAULT_LIMIT
from joinery.lowering.stages import Tiled
from joinery.lowering.tt.printing import print_module
from joinery.promotion.float_modes import default_modes
from joinery.runtime.storage.weight_packing import stored_shape

from ...fuzz import graphs
from ...fuzz.choices import Choices
from ...support.tiers import both_tiers

_NAME = re.compile(r"[A-Za-z_]\w*")
_CALLS = frozenset({"min", "max", "cdiv"})
WHOLE = ("proven", "never executed")
"""Verdicts for all sizes: no condition is needed."""


class Generated(NamedTuple):
    """A launch of a generated kernel, and how much is proven of it."""

    name: str
    template: str
    bounds: str
    races: str
    reason: str


def text_of(extent: int | Dim, names: Mapping[str, str]) -> str:
    """A size as specifications have it. names: what dims are called."""
    return _NAME.sub(lambda found: found[0] if found[0] in _CALLS else names[found[0]], str(extent))


def dims_of(extents: list[int | Dim]) -> set[str]:
    return {name for each in extents if isinstance(each, Dim) for name in each.symbols()}


def extents_of(tiled: Tiled, launch: Launch) -> list[int | Dim]:
    """The elements of each buffer of a launch; of constants in panels, those of the panels."""
    found: list[int | Dim] = []
    for buffer in launch.buffers:
        shape = buffer.shape
        if buffer.kind == "constant":
            layout = tiled.laid_out.layouts[buffer.index]
            shape = shape[::-1] if layout.transposed else shape
            shape = stored_shape(tuple([int(each) for each in shape]), layout.layout)  # type: ignore[arg-type]
        found.append(product(shape))
    return found


def contents_of(tiled: Tiled, buffer: Buffer, name: str) -> list[str]:
    """What is assumed of the elements of a buffer: of constants of integers all that they are, as indices may be among them."""
    if buffer.kind != "constant":
        return []
    array = np.asarray(tiled.laid_out.expanded.constants()[tiled.laid_out.layouts[buffer.index].symbol])
    if array.dtype.kind not in "iu" or not array.size:
        return []
    low, high = int(array.min()), int(array.max())
    if tiled.laid_out.layouts[buffer.index].layout != "plain":  # what fills up panels is 0
        low, high = min(low, 0), max(high, 0)
    return [f"{low} <= {name}[:] <= {high}"]


def proven(tiled: Tiled, launch: Launch, limit: int = DEFAULT_LIMIT) -> Generated:
    """Proves a launch's kernel for all sizes that the graph does not refuse, from 0 on; from 1 on, if 0 makes a difference."""
    found = None
    with contextlib.suppress(jn.UserError):  # a size that something is divided by may be 0
        found = _proven(tiled, launch, 0, limit)
    return found if found is not None and found.bounds != "refuted" else _proven(tiled, launch, 1, limit)


def _proven(tiled: Tiled, launch: Launch, least: int, limit: int) -> Generated:
    assert not launch.descriptors
    written = [buffer for buffer in launch.buffers if buffer.kind in ("output", "temporary")]
    places = [(buffer.kind, buffer.index) for buffer in launch.buffers]
    assert all(places.count((each.kind, each.index)) == 1 for each in written), "a proof is about arrays that do not overlap"
    program = tiled.programs[launch.program]
    extents = extents_of(tiled, launch)
    with default_modes():
        kernel = jn.kernel.from_ttir(print_module(program.func))
    names = [each.name for each in kernel.parameters]
    pointers, scalars = names[: program.pointers], names[program.pointers : program.pointers + program.scalars]
    called = {dim: f"s_{dim}" for dim in sorted(dims_of([*extents, *launch.scalars, launch.grid]))}
    for name, size in zip(scalars, launch.scalars, strict=True):
        if isinstance(size, Dim) and size.name in called:
            called[size.name] = name  # a dim that a parameter has
    assume = [f"{name} >= {least}" for name in called.values()]
    assume += [
        f"{name} == {text_of(size, called)}" for name, size in zip(scalars, launch.scalars, strict=True)
        if name not in called.values()
    ]  # fmt: skip
    for check in tiled.source.checks:  # what launches refuse
        if dims_of([check[0], check[1]]) <= called.keys():
            assume.append(f"{text_of(check[0], called)} == {text_of(check[1], called)}")
    for name, buffer in zip(pointers, launch.buffers, strict=True):
        assume += contents_of(tiled, buffer, name)
    sizes = {name: text_of(extent, called) for name, extent in zip(pointers, extents, strict=True)}
    proof = kernel.prove(assume, sizes, text_of(launch.grid, called), ("bounds", "races"), limit=limit)
    rest = [each for each in proof.accesses if each.verdict not in WHOLE]
    reason = "" if not rest else f"{rest[0].prop}: {rest[0].reason or rest[0].counterexample}"
    return Generated(program.name, program.template, proof.verdict("bounds"), proof.verdict("races"), reason)


def tiled_of(graph: jn.Graph) -> Tiled:
    return tile_graph(graph, HostBackend(host_target()), Options())


def _without_nan(x: Any) -> Any:
    return jn.where(jn.is_nan(x), 0.0, x)


N, M, K = jn.dim("n"), jn.dim("m"), jn.dim("k")
BENCHMARKS: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "softmax": ([(N, M)], lambda x: jn.softmax(x, axis=-1)),
    "log softmax": ([(N, M)], lambda x: jn.logsoftmax(x, axis=-1)),
    "layer norm": ([(N, M), (M,), (M,)], lambda x, scale, bias: jn.layer_norm(x, scale, bias, epsilon=1e-5)),
    "gelu": ([(N, M)], jn.gelu),
    "silu": ([(N, M)], jn.silu),
    "sum of columns": ([(N, M)], lambda x: jn.sum(x, axis=0)),
    "transpose and add": ([(N, M), (M, N)], lambda x, y: jn.transpose(x) + y),
    "matmul": ([(N, K), (K, M)], jn.matmul),
    "linear and relu": ([(N, K), (K, M), (M,)], lambda x, w, b: jn.relu(x @ w + b)),
    "attention": ([(N, 8, M, 64)] * 3, lambda q, k, v: jn.softmax(q @ jn.transpose(k, -1, -2) * 0.125, axis=-1) @ v),
    "causal attention": ([(N, 8, M, 64)] * 3, lambda q, k, v: jn.attention(q, k, v, is_causal=True)),
    "attention, 0 for NaN": ([(N, 8, M, 64)] * 3, lambda q, k, v: _without_nan(jn.softmax(q @ jn.transpose(k, -1, -2))) @ v),
    "add": ([(N,), (N,)], lambda x, y: x + y),
    "cumulative sum": ([(N, M)], lambda x: jn.cumsum(x, axis=1)),
}
"""The graphs of `make bench`, of any size."""


def graph_of(name: str, sizes: dict[str, int] | None = None) -> jn.Graph:
    shapes, function = BENCHMARKS[name]
    sized = [[each if sizes is None or isinstance(each, int) else sizes[each.name] for each in shape] for shape in shapes]
    graph = jn.Graph("g", [jn.TensorType("float32", tuple(shape), f"x{at}") for at, shape in enumerate(sized)])
    graph.output(function(*graph.inputs))
    return graph


@pytest.mark.one_in(21)
@pytest.mark.parametrize("sizes", [None, {"n": 4096, "m": 4096, "k": 4096}, {"n": 17, "m": 33, "k": 5}], ids=str)
@pytest.mark.parametrize("name", BENCHMARKS)
def test_kernels_of_benchmarks_are_proven(name: str, sizes: dict[str, int] | None) -> None:
    tiled = tiled_of(graph_of(name, sizes))
    for launch in tiled.launches:
        found = proven(tiled, launch)
        assert found.bounds in WHOLE, found
        assert found.races in WHOLE, found


@pytest.mark.slow
@both_tiers
def test_kernels_of_random_graphs_are_proven(in_full: bool) -> None:
    """What is refuted is a fault of the schedule, and what is unknown one of the prover."""
    seen = set()
    for seed in range(1000 if in_full else 12):
        choices = Choices(f"proofs {seed}")
        tiled = tiled_of(graphs.drawn(choices, bool(seed % 2), 400, steps=9).graph)
        for launch in tiled.launches:
            key = (tiled.programs[launch.program].key, launch.grid, launch.scalars, tuple(extents_of(tiled, launch)))
            if key in seen:
                continue
            seen.add(key)
            found = proven(tiled, launch)
            assert found.bounds in WHOLE, f"graph {seed}: {found}"
            assert found.races in WHOLE, f"graph {seed}: {found}"
    print(f"{len(seen)} kernels, all proven")
