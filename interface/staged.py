"""Compiles graphs with host operations: compiled parts, and between them what only the host computes.

Whatever decides a size when it runs (`nonzero`, `unique`, …) or takes strings ends a part; the parts after it take its
result, and its sizes, as inputs. So each part is an ordinary compiled graph with symbolic sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NoReturn

import numpy as np

from ..graph.data_sizes import deciders, extents_of, mentioned, needed
from ..graph.graph import Graph
from ..graph.ops.control import regions_of
from ..graph.ops.host import is_host
from ..graph.outline import Outline
from ..graph.reference.control import run_on_host
from ..graph.reference.evaluate import (
    bind_inputs,
    compute_host,
    decide_sizes,
    in_order,
    require_checks,
    require_limits,
)
from ..graph.reference.host.data_sized import found_positions, suppressed_boxes
from ..graph.region import Region
from ..graph.symbol import Symbol
from ..graph.types import TensorType
from ..lowering.artifact import TensorSpec
from ..lowering.schedule.costs import op_cost
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.dtype import bool_
from ..promotion.errors import UnsupportedError, UserError
from ..promotion.float_modes import default_modes
from ..runtime.model.inputs import describe
from ..runtime.model.kernels import Kernel
from ..runtime.model.profiling import KernelProfile, Profile, Recorder, clock, profile_of, require_calls
from ..runtime.native.library import ObjectStore
from ..runtime.native.positions import load_positions
from ..runtime.native.suppression import load_suppression
from ..runtime.storage.artifact_file import Assembled
from .host_regions import Call, host_regions
from .model import Model
from .opening.devices import named_targets

CHEAP_STEPS, CHEAP_SYMBOLS = 4, 8
"""Elementwise work, as in `lowering/schedule/costs.py`, and symbols that a part computes again of inputs and constants."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of a plan, and the host operations that run after it.

    Attributes:
        graph: what is compiled; None if there is nothing to compile.
        inputs: the symbols of the whole graph that it takes, and names of sizes, each given by an array of shape (size, 0).
        outputs: the symbols of the whole graph that it computes.
        host: symbols that the host computes, in order.
    """

    graph: Graph | None
    inputs: tuple[Symbol | str, ...]
    outputs: tuple[Symbol, ...]
    host: tuple[Symbol, ...]


def on_host(symbol: Symbol) -> bool:
    """Return whether a symbol is computed on the host."""
    return is_host([operand.dtype for operand in symbol.inputs], symbol.op.kind, symbol.dtype)


def host_symbols(graph: Graph) -> list[Symbol]:
    """Return the symbols of a finished graph that need the host, inputs of strings among them."""
    live = needed(graph.symbols, (*graph.outputs, *graph.inputs))
    return [symbol for symbol in graph.symbols if symbol.id in live and on_host(symbol)]


def parts_of(graph: Graph) -> list[Part]:
    """Return the parts of a finished graph in order."""
    live = needed(graph.symbols, graph.outputs)
    deciding = deciders(graph.symbols)
    stages: dict[int, int] = {}
    computed: list[list[Symbol]] = []
    hosts: list[list[Symbol]] = []
    for symbol in graph.symbols:
        if symbol.id not in live or symbol.op.kind == "source":
            continue
        sizes = {name for each in (symbol, *symbol.inputs) for name in mentioned(extents_of(each))}
        before = [*symbol.inputs, *[graph.symbols[deciding[name]] for name in sizes if name in deciding]]
        host = on_host(symbol)
        stage = 0
        for operand in before:
            if operand.id in stages and operand.id != symbol.id:
                stage = max(stage, stages[operand.id] + (on_host(operand) and not host))
        stages[symbol.id] = stage
        while len(computed) <= stage:
            computed.append([])
            hosts.append([])
        (hosts if host else computed)[stage].append(symbol)
    whole = [_with_cheap_operands(own, stages) for own in computed]
    read = {symbol.id for symbol in graph.outputs} | {operand.id for host in hosts for each in host for operand in each.inputs}
    for symbols in whole:
        inside = {symbol.id for symbol in symbols}
        read |= {operand.id for symbol in symbols for operand in symbol.inputs if operand.id not in inside}
    return [
        _part(graph, number, symbols, [symbol for symbol in own if symbol.id in read], host)
        for number, (symbols, own, host) in enumerate(zip(whole, computed, hosts, strict=True))
    ]


def _with_cheap_operands(symbols: Sequence[Symbol], stages: Mapping[int, int]) -> list[Symbol]:
    """Return what a part computes, with operands of earlier parts that take less to compute again than to store and load."""
    own = {symbol.id: symbol for symbol in symbols}
    for symbol in symbols:
        for operand in symbol.inputs:
            if operand.id in stages and operand.id not in own:
                own.update({each.id: each for each in _cheap(operand) or ()})
    return [own[number] for number in sorted(own)]


def _cheap(symbol: Symbol) -> list[Symbol] | None:
    """Return what a symbol is made of in few steps from inputs and constants, itself included; None for any other."""
    found: dict[int, Symbol] = {}
    pending, work = [symbol], 0
    while pending:
        each = pending.pop()
        if each.op.kind == "source" or each.id in found:
            continue
        work += op_cost(each)
        if each.op.kind not in ("map", "view") or on_host(each) or work > CHEAP_STEPS or len(found) == CHEAP_SYMBOLS:
            return None
        found[each.id] = each
        pending += each.inputs
    return list(found.values())


def _part(graph: Graph, number: int, symbols: Sequence[Symbol], results: Sequence[Symbol], host: Sequence[Symbol]) -> Part:
    """Make the graph of a part from the symbols that are compiled in it."""
    if not results:
        return Part(None, (), (), tuple(host))
    outline = Outline(graph, f"{graph.name} part {number}")
    for symbol in symbols:
        outline.add(symbol)
    part = outline.graph
    inputs: list[Symbol | str] = [*outline.taken]
    used = {name for symbol in part.symbols for name in mentioned(extents_of(symbol))}
    plain = {getattr(extent, "name", None) for symbol in part.inputs for extent in symbol.shape}
    for name in sorted(used - plain):
        part.input(TensorType(bool_, (name, 0), f"size {name}"))
        inputs.append(name)
    outline.finish(results, part.dim_names, [f"value{symbol.id}" for symbol in results])
    return Part(part, tuple(inputs), tuple(results), tuple(host))


def _native_functions(names: Set[str], store: ObjectStore | None) -> dict[str, Callable[..., Array]]:
    """Return what computes host operations instead of the evaluator, by their names: loops that NumPy takes long for."""
    found: dict[str, Callable[..., Array]] = {}
    if "non_max_suppression" in names:
        found["non_max_suppression"] = functools.partial(suppressed_boxes, suppress=load_suppression(store))
    if "nonzero" in names:
        found["nonzero"] = functools.partial(found_positions, positions=load_positions(store))
    return found


def _given(array: Array, key: int, fresh: set[int]) -> Array:
    """Returns an array that is the caller's alone: the array itself the first time, if it is among the `fresh` ones."""
    if key not in fresh or not array.flags.c_contiguous:
        return np.array(array, order="C")
    fresh.remove(key)
    return array


class StagedModel(Model):
    """A model in parts, between which operations run on the host.

    It is called like other models, with arrays of the host. It has no bound calls, because sizes of its results depend on
    values. `parts` are the compiled models.
    """

    __slots__ = ("_assemble", "_functions", "_graph", "_models", "_parts", "_regions", "_specs")

    def __init__(
        self, graph: Graph, compiled: Callable[[Graph], Model], assemble: Callable[[], Assembled], digest: str | None = None,
        store: ObjectStore | None = None,
    ) -> None:  # fmt: skip
        """Make a model.

        `compiled` compiles a part, `assemble` makes the file of the whole graph, `digest` is that of the file it comes from,
        `store` keeps native code of host operations.
        """
        self._graph, self._assemble, self._digest = graph, assemble, digest
        self._parts = parts_of(graph)
        self._functions = _native_functions({symbol.op.name for part in self._parts for symbol in part.host}, store)
        self._regions = host_regions([symbol for part in self._parts for symbol in part.host], compiled)
        self._models = tuple([None if part.graph is None else compiled(part.graph) for part in self._parts])
        pairs = [(str(symbol.name), symbol) for symbol in graph.inputs], zip(graph.output_names, graph.outputs, strict=True)
        self._specs = tuple([
            tuple([
                TensorSpec(name, symbol.dtype.name, tuple([e if isinstance(e, int) else str(e) for e in symbol.shape]))
                for name, symbol in each
            ])
            for each in pairs
        ])  # fmt: skip

    def __call__(self, *arrays: object, **named: object) -> Any:
        """Run the model on inputs given by position or by name; return the output array, or a tuple of them."""
        return self._evaluated(arrays, named, lambda model, arguments: model(*arguments))

    def _evaluated(
        self, arrays: Sequence[object], named: Mapping[str, object], call: Call
    ) -> Any:
        """Return the outputs. call: runs a part, or a region of a loop or branch."""
        what = f"model {self.name!r}"
        given: Any = in_order(self._graph, arrays, named, what) if named else arrays  # type: ignore[arg-type]
        with default_modes():
            inputs, dims = bind_inputs(self._graph, given, what)
            values = {symbol.id: array for symbol, array in zip(self._graph.inputs, inputs, strict=True)}
            returned: dict[int, tuple[Array, ...]] = {}
            fresh: set[int] = set()  # whose arrays nothing else has, but views of them

            def run_region(region: Region, inputs: Sequence[Array], dims: Mapping[str, int]) -> tuple[Array, ...]:
                return self._regions[id(region)].run(inputs, dims, call)

            checks = require_checks(self._graph.checks, dims, what)
            limits = require_limits(self._graph.limits, dims)

            def value_of(symbol: Symbol) -> Array:
                if symbol.id not in values:
                    values[symbol.id] = compute_host(symbol, (), dims)
                return values[symbol.id]

            for part, model in zip(self._parts, self._models, strict=True):
                if model is not None:
                    arguments = [np.zeros((dims[each], 0), np.bool_) if isinstance(each, str) else value_of(each)
                                 for each in part.inputs]  # fmt: skip
                    found = call(model, arguments)
                    results = found if len(part.outputs) > 1 else (found,)
                    values.update((symbol.id, array) for symbol, array in zip(part.outputs, results, strict=True))
                    fresh.update(symbol.id for symbol in part.outputs)
                for symbol in part.host:
                    if symbol.op.name == "host_result":
                        values[symbol.id] = returned[symbol.inputs[0].id][symbol.attrs["index"]]
                        decide_sizes(symbol, values[symbol.id], dims)
                    elif regions_of(symbol):
                        operands = [value_of(operand) for operand in symbol.inputs]
                        values[symbol.id], returned[symbol.id] = run_on_host(symbol, operands, dims, run_region)
                    else:
                        values[symbol.id] = compute_host(
                            symbol, [value_of(operand) for operand in symbol.inputs], dims, self._functions.get(symbol.op.name)
                        )
                        fresh.update([symbol.id] if symbol.op.name == "nonzero" else [])
                    checks, limits = require_checks(checks, dims, what), require_limits(limits, dims)
            outputs = tuple([_given(value_of(symbol), symbol.id, fresh) for symbol in self._graph.outputs])
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Mapping[str, object]) -> dict[str, Array]:
        """Run the model on inputs by name; return the outputs by name."""
        if not isinstance(inputs, Mapping):
            raise UserError(
                f"model {self.name!r}: run takes a mapping of input names to arrays, not a {type(inputs).__name__}; "
                "fix: call the model itself with arrays"
            )
        result = self(**inputs) if inputs else self()
        outputs = (result,) if len(self.outputs) == 1 else result
        return dict(zip(self._graph.output_names, outputs, strict=True))

    def bind(self, *inputs: object, outputs: object = None, **named: object) -> NoReturn:
        """Refuse: the sizes of results depend on values."""
        raise self._refused("has no bound calls", "call the model")

    def profile(self, *inputs: object, repeat: int = 10, **named: object) -> Profile:
        """Call the model several times, and return how long each kernel of its parts takes (see `Model.profile`).

        What the host computes between the parts is time outside kernels.
        """
        calls = require_calls(f"model {self.name!r}", repeat)
        plain = [model for model in self.parts if not isinstance(model, StagedModel)]  # of these alone there are recorders
        recorders = {id(model): Recorder(model._executable, model.kernels) for model in plain}

        def call(model: Model, arguments: Sequence[object]) -> Any:
            if id(model) not in recorders:
                return model(*arguments)
            found = recorders[id(model)].call(arguments)
            return found[0] if len(found) == 1 else tuple(found)

        seconds = []
        for number in range(calls + 1):
            start = clock()
            self._evaluated(inputs, named, call)
            seconds.append(clock() - start)
            if not number:
                for recorder in recorders.values():
                    recorder.forget()
        kernels: list[KernelProfile] = []
        for model in plain:
            kernels += recorders[id(model)].found(model.launch_lines(), len(kernels))
        return profile_of(self.name, self.threads, seconds[1:], kernels)

    def sanitize(self, *inputs: object, **named: object) -> NoReturn:
        """Refuse: only compiled parts have block programs."""
        raise self._refused("is not sanitized as a whole", "sanitize its parts: model.parts[0].sanitize(…)")

    def _refused(self, problem: str, fix: str) -> UnsupportedError:
        names = ", ".join(sorted({symbol.op.name for part in self._parts for symbol in part.host}))
        return UnsupportedError(f"model {self.name!r}, in which {names} run on the host, {problem}; fix: {fix}")

    @property
    def parts(self) -> tuple[Model, ...]:
        """The compiled parts, in order, and behind them the regions of loops and branches that the host drives."""
        regions = [each.model for each in self._regions.values()]
        return tuple([model for model in (*self._models, *regions) if model is not None])

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._graph.name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input, in call order."""
        return self._specs[0]

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every output; sizes that values decide have names that no input has."""
        return self._specs[1]

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the symbolic dims of the inputs."""
        return self._graph.dim_names

    @property
    def threads(self) -> int:
        """Threads a call may use, the caller included."""
        return max([model.threads for model in self.parts], default=1)

    @property
    def numerics(self) -> str:
        """The numerics that the parts were compiled with."""
        return self.parts[0].numerics if self.parts else "strict"

    @property
    def compiled(self) -> NoReturn:
        """Refuse: there is one compiled form for each part."""
        raise self._refused("has no single compiled form", "model.parts[0].compiled")

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of all parts, in launch order."""
        return tuple([kernel for model in self.parts for kernel in model.kernels])

    def plan(self) -> str:
        """Return the launches of each part as a printed table, and the operations of the host between them."""
        lines = []
        for part, model in zip(self._parts, self._models, strict=True):
            lines += [model.plan()] if model is not None else []
            for symbol in part.host:
                lines.append(f"host: {symbol.op.name}, {symbol.dtype} from {symbol.location}")
                for region in regions_of(symbol):
                    model = self._regions[id(region)].model
                    lines += [] if model is None else [f"  {line}" for line in (f"{region.name}:", *model.plan().split("\n"))]
        return "\n".join(lines)

    def save(self, path: Any, targets: Sequence[str] | None = None) -> None:
        """Write the graph and its weights as one file, without code: loading compiles the parts, through the cache.

        targets: as for other models; there is no code for any of them.
        """
        if targets is not None:
            named_targets(targets)
        self._assemble().write(path)

    def assembled(self) -> Assembled:
        """Return what `save` writes."""
        return self._assemble()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(describe, specs)) for specs in self._specs)
        return f"<joinery.StagedModel {self.name!r} ({inputs}) -> ({outputs}); {len(self.parts)} compiled parts>"
