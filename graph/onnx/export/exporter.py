"""Defines `to_onnx`, the way from a graph to a model in ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import string
from ....promotion.errors import UnsupportedError, UserError
from ...construction.misuse import checked_graph
from ...data_sizes import needed
from ...errors import compose
from ...graph import Graph
from ...ops.attributes import parsed_options
from ...symbol import Symbol
from ..limits import MAX_OPSET
from ..reading import load_onnx
from ..values import objects
from . import weights
from .body import ML, Body, Constant, OnnxNode, OpsetNeeded, Refused
from .functions import DOMAIN, ML_OPSET, Written, call_text, function_message, uses_ml, written
from .messages import annotate, node, raw_bytes, tensor, value_info
from .registry import UNWRITTEN, Call
from .sizes import Sizes
from .table import REASONS, SIZED, WRITERS
from .windowed import Windowed, find_windowed, weights_of

ExternalData: TypeAlias = 'bool | int | Literal["auto"]'

MIN_OPSET, DEFAULT_OPSET = 18, 21
"""The oldest opset that graphs are written in, and the one they are written in where nothing needs a newer one."""
_MIN_IR = 10
"""The version of the format from which on nodes, values and functions have metadata."""
_MAX_INLINE = 3 << 29
"""Bytes of arrays that fit into a model's file beside everything else: protobuf ends at 2 GiB."""
_MIN_EXTERNAL = 1024
"""Bytes from which on arrays are files, where files are asked for."""
_DTYPE_OPSETS: Mapping[str, int] = {
    "float8_e8m0fnu": 24, "float4_e2m1fn": 23, "int2": 25, "uint2": 25,
    **dict.fromkeys(("int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 21),
}  # fmt: skip


def to_onnx(
    graph: Graph, path: str | os.PathLike[str] | None = None, *, opset: int | None = None, external_data: ExternalData = "auto"
) -> Any:
    """Return a finished graph as a `ModelProto` of ONNX, and write it to `path` if that is given.

    Args:
        graph: a finished graph.
        path: where to write the model.
        opset: the version of ai.onnx, 18 to 28; by default 21, or the lowest after it that has what the graph needs.
        external_data: which arrays are files in the folder `weights` beside the model, so that they need a path: those of at
            least so many bytes, True for 1 KiB and more, False for none. "auto" is True where all are more than 1.5 GiB.
            Models in one folder share the files of equal arrays.

    An op that one of ONNX's means exactly becomes that one, any other a function of the model, of the domain "joinery", which
    runtimes inline. Casts are nodes, those that promotion made and those inside an op. Symbolic sizes keep their names and
    arithmetic. Nodes say in their metadata which symbol and source line they come from. Equal graphs give equal bytes. Raises
    `UnsupportedError` for what ONNX has no form of. Needs the package `onnx`, an extra: `pip install 'joinery-graph[onnx]'`.
    """
    checked_graph("to_onnx", graph)
    if not graph.finished:
        raise UserError(f"to_onnx: graph {graph.name!r} has no outputs yet; fix: call graph.output(…) first")
    if opset is not None and (type(opset) is not int or not MIN_OPSET <= opset <= MAX_OPSET):
        raise UserError(f"to_onnx: opset {opset!r}; expected {MIN_OPSET} to {MAX_OPSET}; fix: leave it out for {DEFAULT_OPSET}")
    is_number = type(external_data) is int and external_data >= 0
    if not (is_number or isinstance(external_data, bool) or external_data == "auto"):
        expected = 'expected "auto", True, False or a number of bytes; fix: leave it out'
        raise UserError(f"to_onnx: external_data {external_data!r}; {expected}")
    onnx = load_onnx("to_onnx")
    newest = onnx.defs.onnx_opset_version()
    tried = opset or DEFAULT_OPSET
    while True:
        try:
            exporter = _Exporter(graph, tried)
            break
        except _TooOld as error:
            if opset is not None or error.opset > newest:
                fix = f"opset={error.opset}" if error.opset <= newest else f"update onnx, which knows opsets to {newest}"
                raise UnsupportedError(f"{error.message}\n  fix: {fix}") from None
            tried = error.opset
    if path is None:
        return exporter.model(onnx, None, external_data)
    try:
        return exporter.model(onnx, os.fspath(path), external_data)
    except OSError as error:
        reason, fix = error.strerror or error, "fix: a path in a folder that is there"
        raise UserError(f"to_onnx: {os.fspath(path)!r} cannot be written ({reason}); {fix}") from None


class _TooOld(Exception):
    """A symbol needs a newer opset."""

    def __init__(self, opset: int, message: str) -> None:
        super().__init__(message)
        self.opset, self.message = opset, message


class _Exporter:
    """Writes the symbols of a graph in order."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self.graph, self.opset = graph, opset
        self.windowed = find_windowed(graph, _live(graph))
        self.live = _live(graph, self.windowed)
        self.casts = {entry.symbol.id: entry for entry in graph.casts()}
        self.names: dict[int, str] = {}
        self.functions: dict[str, tuple[str, Written]] = {}
        inputs = [str(symbol.name) for symbol in graph.inputs]
        self.body = Body([*inputs, *graph.output_names])
        self.sizes = Sizes(self.body, list(zip(inputs, [symbol.shape for symbol in graph.inputs], strict=True)), opset)
        self.arrays: dict[str, Constant] = {}
        self.kernels: dict[int, str] = {}
        self._function_names: set[str] = set()
        for name, symbol in zip(graph.output_names, graph.outputs, strict=True):
            if symbol.op.name != "input" or symbol.name != name:
                if name in inputs:
                    raise UnsupportedError(
                        f"to_onnx: output {name!r} is another value than the input of this name; "
                        "fix: graph.output(…, names=[…]) with other names"
                    )
                if symbol.op.kind != "source":
                    self.names.setdefault(symbol.id, name)
        for symbol in self.live:
            self._add(symbol)
        for name, symbol in zip(graph.output_names, graph.outputs, strict=True):
            if self.names[symbol.id] != name:
                self.body.node("Identity", self.names[symbol.id], output=name)

    def _add(self, symbol: Symbol) -> None:
        first = len(self.body.nodes)
        try:
            self._check_dtype(symbol)
            if symbol.id in self.windowed:
                self._rename_last(symbol, self._of_windows(symbol, self.windowed[symbol.id]), first)
            elif symbol.op.name == "input":
                self.names[symbol.id] = str(symbol.name)
            elif symbol.op.name in ("constant", "weight", "text_constant"):
                name = self.body.name(str(symbol.name) if symbol.name else f"constant_{symbol.id}")
                self.arrays[name] = Constant(_array_of(symbol), symbol.dtype)
                self.names[symbol.id] = name
            else:
                self._rename_last(symbol, self._written(symbol), first)
                if "extents" in symbol.attrs:
                    self.sizes.learn(self.names[symbol.id], symbol.shape)
        except Refused as error:
            raise UnsupportedError(self._message(symbol, error.reason, error.fix)) from None
        except OpsetNeeded as error:
            message = self._message(symbol, f"{error.what} is in opset {error.opset} and later, not in {self.opset}", "")
            raise _TooOld(error.opset, message) from None
        metadata = self._metadata(symbol)
        for made in self.body.nodes[first:]:
            made.metadata.update(metadata)

    def _check_dtype(self, symbol: Symbol) -> None:
        dtype = symbol.dtype
        if dtype.name == "tensor_float32":
            raise Refused("ONNX has no tensor_float32: float32 rounds otherwise", "cast to float32")
        if not dtype.names.onnx:  # 0 is "undefined"
            raise Refused(f"{dtype} is no tensor data type of ONNX", "cast to float32 or another dtype of ONNX")
        first = _DTYPE_OPSETS.get(dtype.name, MIN_OPSET)
        if self.opset < first:
            raise OpsetNeeded(first, str(dtype))

    def _written(self, symbol: Symbol) -> str:
        row = symbol.op.name
        operands = [self.names[operand.id] for operand in symbol.inputs]
        if row in REASONS:
            raise Refused(*REASONS[row])
        if row in SIZED:
            name = SIZED[row](self.body, self.sizes, symbol, *operands)
            if name is not None:
                return name
        if row not in WRITERS:
            raise Refused(*UNWRITTEN)
        call = Call(row, tuple([operand.dtype for operand in symbol.inputs]), symbol.dtype, symbol.attrs, self.opset)
        key = call_text(call)
        if key not in self.functions:
            self.functions[key] = (self._function_name(call), written(call))
        name, found = self.functions[key]
        if found.is_single:
            return WRITERS[row](self.body, call, *operands)
        self._function_names.add(name)
        return self.body.node(name, *operands, domain=DOMAIN)

    def _of_windows(self, symbol: Symbol, made: Windowed) -> str:
        """Write a convolution or pooling, with channels first."""
        rank = len(symbol.shape)
        x = self.names[made.image.id]
        if made.image_last:
            x = self.body.op("Transpose", symbol.dtype, x, perm=(0, rank - 1, *range(1, rank - 1)))
        weights = () if made.kernel is None else (self._kernel(made.kernel),)
        result = self.body.node(made.op, x, *weights, **made.attributes)
        if made.result_last:
            result = self.body.op("Transpose", symbol.dtype, result, perm=(0, *range(2, rank), 1))
        return result

    def _kernel(self, kernel: Symbol) -> str:
        """Return the name of a kernel (…, C / groups, M) as weights (M, C / groups, …); constants are turned now."""
        rank = len(kernel.shape)
        order = (rank - 1, rank - 2, *range(rank - 2))
        if kernel.op.name in ("constant", "weight"):
            if kernel.id not in self.kernels:
                array = np.ascontiguousarray(_array_of(kernel).transpose(order))
                given = str(kernel.name).removesuffix(".channels_last") if kernel.name else f"constant_{kernel.id}"
                self.kernels[kernel.id] = self.body.name(given)
                self.arrays[self.kernels[kernel.id]] = Constant(array, kernel.dtype)
            return self.kernels[kernel.id]
        source = weights_of(kernel)
        if source is not kernel:
            return self.names[source.id]
        return self.body.op("Transpose", kernel.dtype, self.names[kernel.id], perm=order)

    def _function_name(self, call: Call) -> str:
        """Return a name that tells op and dtype; calls that differ in attributes are numbered."""
        dtype = call.operands[0] if call.operands else call.result
        base = f"{call.row}_{dtype}" + (f"_{call.result}" if call.row in ("cast", "bitcast") else "")
        taken = {name for name, _ in self.functions.values()}
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        return name

    def _rename_last(self, symbol: Symbol, name: str, first: int) -> None:
        """Give the value of a symbol its name, if the last node made it: that of the output, or of op and number."""
        last = self.body.nodes[-1] if len(self.body.nodes) > first else None
        if last is None or last.outputs != (name,):
            if symbol.id in self.names:  # an output: its name has to be that of a node
                self.body.node("Identity", name, output=self.names[symbol.id])
            else:
                self.names[symbol.id] = name
            return
        wanted = self.names.get(symbol.id) or self.body.name(f"{symbol.op.name}_{symbol.id}")
        self.body.nodes[-1] = OnnxNode(last.op, last.domain, last.inputs, (wanted,), last.attributes, last.metadata)
        self.names[symbol.id] = wanted

    def _metadata(self, symbol: Symbol) -> dict[str, str]:
        found = {"joinery.symbol": f"%{symbol.id} {symbol.op.name}", "joinery.location": str(symbol.location)}
        entry = self.casts.get(symbol.id)
        if entry is not None:
            found["joinery.cast"], found["joinery.loss"] = f"implicit {entry.op}", str(entry.loss)
        return found

    def _message(self, symbol: Symbol, reason: str, fix: str) -> str:
        return compose(f"to_onnx: {symbol.op.name} at {symbol.location}: {reason}", symbol.inputs, fix=fix)

    # -- the message -----------------------------------------------------------------------------------------------------

    def model(self, onnx: Any, path: str | None, external_data: ExternalData) -> Any:
        """Return the `ModelProto`, written to a path if there is one."""
        graph = self.graph
        model = onnx.ModelProto(producer_name="joinery", domain="joinery")
        version = onnx.helper.make_opsetid("", self.opset)
        model.ir_version = max(_MIN_IR, onnx.helper.find_min_ir_version_for([version]))
        model.opset_import.append(version)
        functions = [(name, found) for name, found in self.functions.values() if name in self._function_names]
        if functions:
            model.opset_import.add(domain=DOMAIN, version=1)
            model.functions.extend([function_message(onnx, name, found) for name, found in functions])
        if uses_ml(self.body, *[found.body for _, found in functions]):
            model.opset_import.add(domain=ML, version=ML_OPSET)
        message = model.graph
        message.name = graph.name
        message.node.extend([node(onnx, made) for made in self.body.nodes])
        for symbol in graph.inputs:
            message.input.append(value_info(onnx, str(symbol.name), symbol.dtype, symbol.shape))
        for name, symbol in zip(graph.output_names, graph.outputs, strict=True):
            message.output.append(value_info(onnx, name, symbol.dtype, symbol.shape))
        declared = {*[str(symbol.name) for symbol in graph.inputs], *graph.output_names}
        for symbol in self.live:
            name = self.names[symbol.id]
            if name not in declared and symbol.op.name not in ("constant", "weight", "text_constant"):
                declared.add(name)
                message.value_info.append(value_info(onnx, name, symbol.dtype, symbol.shape))
        facts = {"joinery.semantics": graph.rules.name, "joinery.policy": graph.policy}
        for position, check in enumerate(graph.checks):
            facts[f"joinery.check.{position}"] = f"{check.lhs} = {check.rhs}: {check.message}"
        annotate(model, facts)
        self._add_arrays(onnx, message, path, external_data)
        if path is not None:
            weights.replace(path, model.SerializeToString(deterministic=True))
        return model

    def _add_arrays(self, onnx: Any, message: Any, path: str | None, external_data: ExternalData) -> None:
        arrays = {**self.arrays, **self.body.constants}
        total = sum([constant.value.nbytes for constant in arrays.values()])
        smallest = _MIN_EXTERNAL if external_data is True or (external_data == "auto" and total > _MAX_INLINE) else None
        if type(external_data) is int:
            smallest = external_data
        if smallest is None and total > _MAX_INLINE:
            raise UserError(
                f"to_onnx: {total} bytes of arrays do not fit into one file of ONNX, which ends at 2 GiB; "
                'fix: a path, and external_data="auto"'
            )
        folder = os.path.dirname(os.path.abspath(path)) if path is not None else None
        for name, constant in arrays.items():
            data = raw_bytes(constant.value, constant.dtype)
            if smallest is None or len(data) < smallest or constant.dtype is string:
                message.initializer.append(tensor(onnx, name, constant.value, constant.dtype, data))
                continue
            if folder is None:
                raise UserError("to_onnx: arrays in files beside the model need a path; fix: to_onnx(graph, 'model.onnx', …)")
            entry = tensor(onnx, name, constant.value, constant.dtype, None)
            entry.data_location = 1
            location = weights.store(folder, data)
            for key, value in (("location", location), ("offset", "0"), ("length", str(len(data)))):
                entry.external_data.add(key=key, value=value)
            message.initializer.append(entry)


def _live(graph: Graph, windowed: Mapping[int, Windowed] | None = None) -> list[Symbol]:
    """Return the inputs and whatever the outputs need, sizes that values decide among it, in order.

    windowed: nodes that stand for several symbols, and need less.
    """
    operands = {key: made.inputs for key, made in (windowed or {}).items()}
    wanted = needed(graph.symbols, (*graph.inputs, *graph.outputs), operands)
    return [symbol for symbol in graph.symbols if symbol.id in wanted]


def _array_of(symbol: Symbol) -> Array:
    """Return the array of a constant; strings are objects."""
    if symbol.op.name != "text_constant":
        array: Array = symbol.attrs["value"]
        return array
    options = parsed_options(symbol.attrs["options"])
    return objects(options["texts"], tuple(options["shape"]))
