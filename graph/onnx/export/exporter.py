"""Defines `to_onnx`, the way from a graph to a model in ONNX."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias

from ....promotion.dtype import string
from ....promotion.errors import UnsupportedError, UserError
from ...construction.misuse import checked_graph
from ...graph import Graph
from ..limits import MAX_OPSET
from ..reading import load_onnx
from . import weights
from .body import ML, Body
from .functions import DOMAIN, ML_OPSET, function_message, uses_ml
from .messages import annotate, node, raw_bytes, tensor, value_info
from .sizes import Sizes
from .writing import MIN_OPSET, GraphWriter, Model, TooOld

ExternalData: TypeAlias = 'bool | int | Literal["auto"]'

DEFAULT_OPSET = 21
"""The opset that graphs are written in where nothing needs a newer one."""
_CODES_OPSET = 20
"""The opset that graphs with codes of 8 bits are written in: from 21 on onnxruntime 1.32 moves QuantizeLinear past Reshape and
Transpose with a zero point of another dtype, and refuses the model that it has made."""
_MIN_IR = 10
"""The version of the format from which on nodes, values and functions have metadata."""
_MAX_INLINE = 3 << 29
"""Bytes of arrays that fit into a model's file beside everything else: protobuf ends at 2 GiB."""
_MIN_EXTERNAL = 1024
"""Bytes from which on arrays are files, where files are asked for."""


def to_onnx(
    graph: Graph, path: str | os.PathLike[str] | None = None, *, opset: int | None = None, external_data: ExternalData = "auto"
) -> Any:
    """Return a finished graph as a `ModelProto` of ONNX, and write it to `path` if that is given.

    Args:
        graph: a finished graph.
        path: where to write the model.
        opset: the version of ai.onnx, 18 to 28; by default 21 (20 where there are codes of 8 bits), or the lowest after it that
            has what the graph needs.
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
    tried = opset or (_CODES_OPSET if _has_codes(graph) else DEFAULT_OPSET)
    while True:
        try:
            exporter = _Exporter(graph, tried)
            break
        except TooOld as error:
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


def _has_codes(graph: Graph) -> bool:
    return any([symbol.op.name == "dequantize" and symbol.inputs[0].dtype.bits == 8 for symbol in graph.symbols])


class _Exporter:
    """Writes a graph, and makes the message of it."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self.graph, self.opset = graph, opset
        inputs = [str(symbol.name) for symbol in graph.inputs]
        self.body = Body([*inputs, *graph.output_names])
        sizes = Sizes(self.body, list(zip(inputs, [symbol.shape for symbol in graph.inputs], strict=True)), opset)
        self.shared = Model(graph, opset, sizes)
        names: dict[int, str] = {}
        for name, symbol in zip(graph.output_names, graph.outputs, strict=True):
            if symbol.op.name != "input" or symbol.name != name:
                if name in inputs:
                    raise UnsupportedError(
                        f"to_onnx: output {name!r} is another value than the input of this name; "
                        "fix: graph.output(…, names=[…]) with other names"
                    )
                if symbol.op.kind != "source":
                    names.setdefault(symbol.id, name)
        self.writer = GraphWriter(graph, self.body, self.shared, names)
        self.writer.write()
        for name, symbol in zip(graph.output_names, graph.outputs, strict=True):
            if self.writer.names[symbol.id] != name:
                self.body.node("Identity", self.writer.names[symbol.id], output=name)

    # -- the message -----------------------------------------------------------------------------------------------------

    def model(self, onnx: Any, path: str | None, external_data: ExternalData) -> Any:
        """Return the `ModelProto`, written to a path if there is one."""
        graph = self.graph
        model = onnx.ModelProto(producer_name="joinery", domain="joinery")
        version = onnx.helper.make_opsetid("", self.opset)
        model.ir_version = max(_MIN_IR, onnx.helper.find_min_ir_version_for([version]))
        model.opset_import.append(version)
        functions = [(name, found) for name, found in self.shared.functions.values() if name in self.shared.called]
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
        for symbol in self.writer.live:
            name = self.writer.names.get(symbol.id, "")
            if name and name not in declared and symbol.op.name not in ("constant", "weight", "text_constant"):
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
        arrays = {**self.shared.arrays, **self.body.constants}
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
