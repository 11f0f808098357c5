"""Provides the back end of `torch.compile`: graphs of AOTAutograd become parts that joinery compiles, and what PyTorch runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ...graph.aten.importing import import_program
from ...graph.aten.program import Argument, Call, Program, Ref, Source
from ...graph.dims.dim import Dim
from ...graph.types import TensorType
from ...lowering.numerics import checked_numerics
from ...promotion.dtype import bool_
from ...promotion.errors import InternalError, UserError
from ...runtime.storage.cache import cache_of
from ..compiling import compile as compile_model
from .complex_edges import complex_of, is_complex, is_edge, pairs_of, real_edges
from .decompositions import compiled_decompositions
from .layouts import Layout, Reading, dense_reading, layout_of, reading_of
from .partition import Part, Partitioner
from .parts import CompiledPart, PartInput, PartOutput, PartSize, Rerun
from .reading import (
    RELATIVE,
    Reader,
    base_of,
    gives_size,
    higher_order_name,
    is_view,
    sizes_before,
    states_sizes,
)
from .reporting import OWN_OPERATORS, GraphReport, problem_of, started, tell
from .stepping import EagerStep, asserted, run_function
from .triton_kernels import is_launch, kernel_name, launch_function

_OPTIONS = ("numerics", "threads", "cache")


@dataclass(frozen=True, slots=True)
class Options:
    """What `joinery.compile` gets."""

    numerics: str = "strict"
    threads: int | None = None
    cache: Any = True


def backend(
    module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Any:
    """Compile a graph of Dynamo: `torch.compile(model, backend="joinery", options={"numerics": "fast"})`.

    options: "numerics", "threads" and "cache" as `joinery.compile` takes them. Raises `UserError` for others.
    """
    given = dict(options or {})
    if mode not in (None, "default"):
        raise UserError(f"torch.compile: mode {mode!r} is none of joinery's; fix: options={{'numerics': 'fast'}}")
    if unknown := sorted(set(given) - set(_OPTIONS)):
        raise UserError(f"torch.compile: options {unknown}; fix: some of {', '.join(_OPTIONS)}")
    chosen = Options(**given)
    checked_numerics(chosen.numerics, "torch.compile")
    if chosen.threads is not None and (type(chosen.threads) is not int or chosen.threads < 1):
        raise UserError(f"torch.compile: threads is {chosen.threads!r}; fix: a positive number, or None for every core")
    cache_of(chosen.cache)
    compilers = {kind: partial(_compiled, kind, chosen) for kind in ("forward", "backward", "inference")}
    compiler: Callable[..., Any] = aot_autograd(
        fw_compiler=compilers["forward"], bw_compiler=compilers["backward"], inference_compiler=compilers["inference"],
        partition_fn=min_cut_rematerialization_partition, decompositions=compiled_decompositions(),
        keep_inference_input_mutations=True,
    )  # fmt: skip
    return compiler(module, example_inputs)


def _compiled(kind: str, options: Options, module: Any, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """Return what runs a graph of AOTAutograd. What cannot be compiled is left to PyTorch, reported, and told of once.

    So are faults of ours: nothing here is the user's mistake, since PyTorch has run the graph on fake tensors.
    """
    report = started(kind)
    with unset_fake_temporarily():
        try:
            return _boxed(_Building(_GraphCopy(module), options, report).built())
        except Exception as error:
            report.failure = problem_of(error)
            report.nodes = sum(node.op == "call_function" for node in module.graph.nodes)
            report.compiled = report.segments = 0
            report.eager.clear()
            tell(f"{report.name} ({kind}) is left to PyTorch: {report.failure}")
            return _boxed(_eager(module))


def _eager(module: Any) -> Callable[[list[Any]], Any]:
    """Return what runs a module in PyTorch on a list, which it empties."""

    def run(arguments: list[Any]) -> Any:
        given = list(arguments)
        arguments.clear()
        return module(*given)

    return run


def _boxed(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return a function, of which PyTorch alone copies attributes, that says of itself that it takes one list."""
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _GraphCopy:
    """A copy of a module's graph, with the module's attributes: it may be changed, and the module still runs as it was."""

    def __init__(self, module: Any) -> None:
        self.original = module
        self.graph = torch.fx.Graph()
        nodes: dict[Any, Any] = {}
        self.graph.output(self.graph.graph_copy(module.graph, nodes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class _Building:
    """A graph while its steps are made."""

    def __init__(self, module: _GraphCopy, options: Options, report: GraphReport) -> None:
        self.module, self.options, self.report = module, options, report
        self.reader = Reader(module, strict=False)
        self.placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]

    def built(self) -> Callable[[list[Any]], Any]:
        """Return the whole graph as a function of a list, which it empties."""
        for node in self.placeholders:
            self.reader.name_sizes(node)
        sources = [source for node in self.placeholders if (source := self.reader.source(node, node.name)) is not None]
        (last,) = [node for node in self.module.graph.nodes if node.op == "output"]
        written = real_edges(self.module, self._written())
        wanted = [node for node in last.all_input_nodes if node.op != "placeholder"]
        wanted += [source for _, source in written if source.op != "placeholder"]
        division = Partitioner(self.module, self.reader, sources, wanted).divided()
        self.report.nodes = division.operators
        steps: list[CompiledPart | EagerStep] = []
        for step in division.steps:
            if isinstance(step, Part):
                steps += self._part(step)
            else:
                steps.append(self._eager(step, division.reasons))
        late = _views_of_inputs(division.tail, written)
        steps += [EagerStep(node, _callee(node), None) for node in division.tail if node not in late]
        views = [EagerStep(node, _callee(node), None) for node in late]
        self.report.compiled = self.report.nodes - sum(entry.nodes for entry in self.report.eager.values())
        attributes = [node for node in self.module.graph.nodes if node.op == "get_attr"]
        constants = {node.name: _attribute(self.module, node.target) for node in attributes}
        names = [node.name for node in self.placeholders]
        pairs, changed = [], set()
        for target, source in written:
            changed.add(target)
            pairs.append((target.name, source.name, source is not target and base_of(source) in changed))
        return run_function(names, constants, steps, last.args[0], pairs, self.report, views)

    def _written(self) -> list[tuple[Any, Any]]:
        """Take the copies into inputs out of the graph: inputs, and what is written to them when all else is done.

        A copy that is returned is the input itself; whatever else reads it gets the new value from a copy of its own.
        """
        graph, aten = self.module.graph, torch.ops.aten
        found = []
        for node in list(graph.nodes):
            if node.target is not aten.copy_.default or node.args[0].op != "placeholder":
                continue
            target, source = node.args[:2]
            if any(user.op != "output" for user in node.users):
                with graph.inserting_before(node):
                    value = graph.call_function(aten.copy.default, (target, source))
                value.meta = dict(node.meta)
                node.replace_all_uses_with(value, lambda user: user.op != "output")
            node.replace_all_uses_with(target)
            graph.erase_node(node)
            found.append((target, source))
        return found

    def _eager(self, node: Any, reasons: Mapping[str, str]) -> EagerStep:
        schema = getattr(node.target, "_schema", None)
        if is_launch(node):
            kernel = self.report.launch(kernel_name(node), "a kernel of Triton, by the driver that Triton has")
            return EagerStep(node, launch_function(node), kernel)
        if schema is not None and schema.name in OWN_OPERATORS:
            return EagerStep(node, node.target, self.report.launch(str(node.target), "a block kernel of joinery"))
        if getattr(node.target, "overloadpacket", None) is torch.ops.aten._assert_async:
            return EagerStep(node, asserted, None)
        entry = None
        is_view_of_pairs = is_edge(node) or node.target is torch.ops.aten.view_as_complex.default
        if schema is not None and not states_sizes(node) and not is_view_of_pairs:
            entry = self.report.leave(str(node.target), reasons.get(node.name, "it has an effect"))
        elif name := higher_order_name(node.target):
            entry = self.report.leave(name, reasons.get(node.name, "it runs other operators"))
        return EagerStep(node, _callee(node), entry)

    def _part(self, part: Part) -> list[CompiledPart | EagerStep]:
        """Return a compiled part; or its nodes for PyTorch to run, if compiling fails."""
        try:
            made = self._compiled_part(part)
        except Exception as error:
            problem = problem_of(error)
            tell(f"a part of {self.report.name} is left to PyTorch: {problem}")
            names = {call.name for call in part.calls}
            inside = {node for node in self.module.graph.nodes if node.name in names or _producer(node) in names}
            inside |= sizes_before(inside)
            nodes = [node for node in self.module.graph.nodes if node in inside]
            return [self._eager(node, dict.fromkeys(names, problem)) for node in nodes]
        self.report.segments += 1
        return [made]

    def _compiled_part(self, part: Part, read: Callable[[Any], Reading] = reading_of) -> CompiledPart:
        """Compile a part. read: how it takes each of its inputs."""
        inputs: list[PartInput] = []
        sources: list[Source] = []
        calls: list[Call] = []
        arrays = {source.name: source.array for source in self.reader.sources}
        for node in part.inputs:
            declared = self.reader.type_of(node.meta["val"], node.name)
            if node.op == "get_attr":
                ref = self.reader.refs[node.name]
                assert isinstance(ref, Ref)
                sources.append(Source(node.name, declared, arrays[ref.name]))
                continue
            inputs.append(PartInput(node.name, declared, read(node.meta["val"])))
            sources.append(_source(inputs[-1], calls))
        needed = [self._size_source(name) for name in _undecided(part.sizes, inputs)]
        sources += [Source(f"size {size.name}", TensorType(bool_, (size.name, 0))) for size in needed]
        turned = {each.name for each in inputs if not each.reading.is_plain}
        calls += [_renamed(call, turned) for call in part.calls]
        outputs: list[PartOutput] = []
        results: list[tuple[str, Ref]] = []
        for node in part.outputs:
            declared, layout = self.reader.type_of(node.meta["val"], node.name), layout_of(node.meta["val"])
            ref = self.reader.refs[node.name]
            assert isinstance(ref, Ref)
            results.append((node.name, _in_memory_order(node.name, ref, declared, layout, calls)))
            outputs.append(PartOutput(node.name, declared, layout))
        if any(is_complex(node) for node in (*part.inputs, *part.outputs)):
            raise InternalError("a part that takes or returns complex numbers, and not pairs")
        graph = import_program(Program(self.report.name, tuple(sources), tuple(calls), tuple(results), {}))
        chosen = self.options
        model = compile_model(graph, "cpu", threads=chosen.threads, numerics=chosen.numerics, cache=chosen.cache)
        plain = partial(self._compiled_part, part, dense_reading)
        return CompiledPart(model, inputs, needed, outputs, self.report, plain, cache_of(chosen.cache), self._rerun(part))

    def _rerun(self, part: Part) -> Rerun | None:
        inside = {call.name for call in part.calls}
        try:
            return Rerun(self.module, inside, part.outputs, _callee, self._symbol_source, self.report)
        except UserError:
            return None

    def _symbol_source(self, symbol: str) -> PartSize:
        return replace(self._size_source(self.reader.names.get(symbol, symbol)), name=symbol)

    def _size_source(self, name: str) -> PartSize:
        """Return where a symbolic size is found when the graph runs: an input that is the size, or an axis of one."""
        numbers = [node for node in self.module.graph.nodes if gives_size(node) or node.name in self.reader.opaque]
        for node in (*self.placeholders, *numbers):
            value = node.meta.get("val")
            sizes = getattr(value, "shape", None)
            for axis, size in enumerate((value,) if sizes is None else sizes):
                expression = str(size.node.expr) if type(size).__name__ == "SymInt" else ""
                if expression and self.reader.names.get(expression, expression) == name:
                    return PartSize(name, node.name, None if sizes is None else axis, 0 if sizes is None else len(sizes))
        raise UserError(f"the size {name} is that of no input; fix: a fixed size")


def _undecided(sizes: Sequence[str], inputs: Sequence[PartInput]) -> list[str]:
    """Return the symbolic sizes that no array has: those given, and those of axes along which elements repeat."""
    found = dict.fromkeys(sizes)
    decided: set[str] = set()
    for each in inputs:
        for extent in each.type.shape:
            found.update(dict.fromkeys(sorted(extent.symbols()) if isinstance(extent, Dim) else ()))
        shape = each.reading.source_shape(each.name, each.type.shape)
        decided |= {extent.name for extent in shape if isinstance(extent, Dim) and extent.name}
    return [name for name in found if name not in decided]


def _source(given: PartInput, calls: list[Call]) -> Source:
    """Return an input as its reading says, and add the calls that make the tensor of it."""
    name, declared, reading = given.name, given.type, given.reading
    shape = list(reading.source_shape(name, declared.shape))
    source = Source(name, TensorType(declared.dtype, tuple(shape)))
    last = Ref(name)

    def call(what: str, op: str, *arguments: Argument) -> Ref:
        made = Call(f"{name}.{what}", op, (last, *arguments), {}, (TensorType(declared.dtype, tuple(shape)),))
        calls.append(made)
        return Ref(made.name)

    for position, axis in enumerate(reading.axes):
        if axis.room is not None:
            size = shape[position] = declared.shape[axis.number]
            last = call(f"axis {axis.number}", "aten.slice.Tensor", position, 0, (size - 1) * axis.step + 1, axis.step)
    if reading.unit != 1:
        shape[-1] = 1
        last = call("unit", "aten.slice.Tensor", len(reading.axes), 0, 1)
        shape.pop()
        last = call("elements", "aten.view.default", tuple(shape))
    order = tuple([axis.number for axis in reading.axes])
    if reading.is_plain:
        return source
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    shape = [shape[position] for position in back]
    is_last = tuple(shape) == declared.shape
    last = call("axes" if is_last else "order", "aten.permute.default", back)
    if not is_last:
        shape = list(declared.shape)
        call("axes", "aten.expand.default", tuple(shape))
    return source


def _renamed(call: Call, names: set[str]) -> Call:
    """Return a call that reads inputs with their axes put back."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([changed(each) for each in value])
        return Ref(f"{value.name}.axes") if isinstance(value, Ref) and value.name in names else value

    if not names:
        return call
    options = {name: changed(value) for name, value in call.options.items()}
    return Call(call.name, call.op, changed(call.arguments), options, call.results, call.location)


def _in_memory_order(name: str, ref: Ref, declared: TensorType, layout: Layout, calls: list[Call]) -> Ref:
    """Return a result with its axes in the order of its memory."""
    if layout.order is None:
        return ref
    permuted = TensorType(declared.dtype, tuple([declared.shape[axis] for axis in layout.order]))
    calls.append(Call(f"{name}.memory", "aten.permute.default", (ref, layout.order), {}, (permuted,)))
    return Ref(f"{name}.memory")


def _callee(node: Any) -> Any:
    """Return what is called for a node. Fakes are sometimes wrong about strides: a view is a reshape, which never fails.

    Of complex numbers that PyTorch computes, pairs are a view.
    """
    if is_edge(node) and node.target is torch.ops.aten.view_as_real_copy.default:
        return pairs_of
    if is_edge(node) and node.target is torch.ops.aten.view_as_complex.default:
        return complex_of
    if RELATIVE in node.meta:
        return partial(_strided, node.target, node.meta[RELATIVE])
    return torch.ops.aten.reshape.default if node.target is torch.ops.aten.view.default else node.target


def _strided(operator: Any, behind: int, base: Any, size: Any, stride: Any, *_: Any) -> Any:
    """Return a view by strides that begins so many elements behind its base, wherever that lies in its storage."""
    return operator(base, size, stride, base.storage_offset() + behind)


def _views_of_inputs(tail: Sequence[Any], written: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return the views at the end of a graph of what is copied into inputs: they are those of the inputs, offsets included."""
    counts = Counter(source for _, source in written)
    same = {source for target, source in written if counts[source] == 1 and _type_of(target) == _type_of(source)}
    feeding = {source for _, source in written}
    pending = [source for source in feeding if source in tail]
    while pending:
        before = [node for node in pending.pop().all_input_nodes if node in tail and node not in feeding]
        feeding.update(before)
        pending += before
    return [node for node in tail if is_view(node) and base_of(node) in same and node not in feeding]


def _type_of(node: Any) -> tuple[Any, ...]:
    value = node.meta["val"]
    return (value.dtype, *value.shape)


def _producer(node: Any) -> str:
    """Return the name of the node whose result a node takes an element of; "" for others."""
    return node.args[0].name if getattr(node.target, "__name__", "") == "getitem" else ""


def _attribute(module: Any, target: str) -> Any:
    found = module
    for part in target.split("."):
        found = getattr(found, part)
    return found
