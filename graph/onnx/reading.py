"""Reads a model: from a file or bytes to a `CheckedModel`, whose names, order, versions, depths and sizes are checked."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...promotion.errors import UnsupportedError, UserError, printable
from .external import ExternalData
from .limits import MAX_IR_VERSION, MAX_OPSET, OnnxLimits
from .model import Attribute, Body, CheckedModel, FunctionDef, FunctionKey, NodeDef, Parameter, Reference
from .tensors import decoded
from .values import Known

_KINDS = {"tensor_type": "tensor", "sequence_type": "sequence", "optional_type": "optional"}


def load_onnx(caller: str = "from_onnx") -> Any:
    """Return the package `onnx`, which is an extra. Raises `UserError` where it is not installed."""
    try:
        import onnx
        import onnx.defs
    except ImportError:
        raise UserError(f"{caller} needs the package onnx; fix: pip install 'joinery-graph[onnx]'") from None
    return onnx


def domain_of(domain: str) -> str:
    """Return the name of a domain; "ai.onnx" is the long form of ""."""
    return "" if domain == "ai.onnx" else as_text(domain)


def as_text(text: str | bytes) -> str:
    """Return a text of the message, which protobuf gives as bytes where it is none. Raises `UserError` for these."""
    if isinstance(text, bytes):
        raise UserError(f"a name in the model is no UTF-8 text: {text[:40]!r}; fix: export the model again")
    return text


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_message(source: Any, limits: OnnxLimits) -> tuple[Any, str, str | None]:
    """Return the `ModelProto` of a path, bytes or message, what to call it, and the folder it lies in."""
    onnx = load_onnx()
    if isinstance(source, onnx.ModelProto):
        return source, as_text(source.graph.name)[:80] or "the model", None
    if isinstance(source, (bytes, bytearray, memoryview)):
        size = memoryview(source).nbytes
        data, file, folder = b"" if size > limits.file_bytes else bytes(source), "the model", None
    elif isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        try:
            with open(path, "rb", opener=_at_once) as stream:
                status = os.fstat(stream.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise UserError(f"from_onnx: {path!r} is no regular file; fix: check the path, or pass the bytes")
                size = status.st_size
                data = b"" if size > limits.file_bytes else stream.read(limits.file_bytes + 1)
        except OSError as error:
            raise UserError(f"from_onnx: {path!r} cannot be read ({error.strerror}); fix: check the path") from None
        file, folder = printable(os.path.basename(str(path))), os.path.dirname(os.path.abspath(str(path)))
    else:
        raise UserError(f"from_onnx: expected a path, bytes or a ModelProto, not {type(source).__name__}; fix: pass a path")
    if max(size, len(data)) > limits.file_bytes:
        raise UserError(f"{file}: more than {limits.file_bytes} bytes; fix: limits=OnnxLimits(file_bytes=…) if you trust it")
    message = onnx.ModelProto()
    try:
        message.ParseFromString(data)
    except Exception:  # protobuf's own class differs between its implementations
        raise UserError(f"{file}: no ONNX model, or one that was cut off; fix: fetch or export the file again") from None
    return message, file, folder


def checked_model(message: Any, file: str, external: ExternalData, limits: OnnxLimits) -> CheckedModel:
    """Return the model with everything decoded. Raises `UserError` for a model that is not well formed."""
    if not message.HasField("graph"):
        raise UserError(f"{file}: the model has no graph; fix: export it again")
    if not 1 <= message.ir_version <= MAX_IR_VERSION:
        raise UnsupportedError(
            f"{file}: IR version {message.ir_version}; 1 to {MAX_IR_VERSION} are known; fix: export it for those"
        )
    opsets = _opsets(message.opset_import, file)
    if not opsets and message.ir_version < 3:
        opsets = {"": 1}
    reader = _Reader(file, external, limits)
    functions: dict[FunctionKey, FunctionDef] = {}
    if len(message.functions) > limits.functions:
        raise UserError(
            f"{file}: {len(message.functions)} functions, the limit is {limits.functions}; fix: limits=OnnxLimits(functions=…)"
        )
    for function in message.functions:
        key = (domain_of(function.domain), as_text(function.name), as_text(function.overload))
        if key in functions:
            raise UserError(f"{file}: function {printable('.'.join(key[:2]))} is defined twice; fix: export the model again")
        functions[key] = reader.function(function, opsets)
    graph = reader.graph(message.graph, 0, frozenset())
    model = CheckedModel(file, graph, functions, opsets, as_text(message.producer_name))
    _require_few_instances(model, limits)
    return model


def read_function(message: Any, file: str, limits: OnnxLimits, opsets: Mapping[str, int]) -> FunctionDef:
    """Return a function that an operator's definition gives."""
    return _Reader(file, ExternalData(None, False), limits).function(message, opsets)


def _opsets(imports: Iterable[Any], file: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if found.get(domain, entry.version) != entry.version:
            raise UserError(
                f"{file}: domain {domain or 'ai.onnx'!r} is imported twice, as opset {found[domain]} and as {entry.version}; "
                "fix: export the model again"
            )
        if not 0 <= entry.version < 1 << 31:
            raise UserError(f"{file}: opset {entry.version} of {domain or 'ai.onnx'!r:.80}; fix: export the model again")
        found[domain] = entry.version
    if "" in found and not 1 <= found[""] <= MAX_OPSET:
        raise UnsupportedError(f"{file}: opset {found['']} of ai.onnx; 1 to {MAX_OPSET} are known; fix: export it for those")
    return found


class _Reader:
    """Decodes graphs and counts what they hold."""

    def __init__(self, file: str, external: ExternalData, limits: OnnxLimits) -> None:
        self.file, self.external, self.limits = file, external, limits
        self.nodes = 0

    def name(self, text: str | bytes) -> str:
        text = as_text(text)
        if len(text) > self.limits.name_bytes:
            raise UserError(
                f"{self.file}: a name of {len(text)} characters ({text[:40]!r}…); fix: limits=OnnxLimits(name_bytes=…)"
            )
        return text

    def graph(self, message: Any, depth: int, outer: frozenset[str], attribute: str = "") -> Body:
        if depth >= self.limits.depth:
            raise UserError(f"{self.file}: graphs are nested {depth + 1} deep; fix: limits=OnnxLimits(depth=…) if you trust it")
        if len(message.sparse_initializer):
            raise UnsupportedError(f"{self.file}: graph {message.name!r} has sparse initialisers; fix: store them dense")
        where = f"{self.file}: graph {message.name!r}:"
        constants: dict[str, Known] = {}
        for tensor in message.initializer:
            name = self.name(tensor.name)
            if name in constants:
                raise UserError(f"{where} initialiser {name!r} is defined twice; fix: export the model again")
            constants[name] = Known(decoded(tensor, self.external.read, self.limits, where), name)
        inputs = tuple([self.parameter(value) for value in message.input])
        names = [value.name for value in inputs]
        if len(set(names)) < len(names):
            raise UserError(f"{where} two inputs have one name; fix: export the model again")
        outputs = tuple([self.parameter(value) for value in message.output])
        nodes, size = self.sorted(message.node, {*names, *constants}, outer, where, depth)
        return Body(self.name(message.name), nodes, inputs, outputs, constants, size, attribute)

    def function(self, message: Any, opsets: Mapping[str, int]) -> FunctionDef:
        where = f"{self.file}: function {message.name!r}:"
        names = [self.name(name) for name in message.input]
        if len(set(names)) < len(names):
            raise UserError(f"{where} two inputs have one name; fix: export the model again")
        attributes: dict[str, Attribute | None] = dict.fromkeys([self.name(name) for name in message.attribute])
        for proto in message.attribute_proto:
            if self.name(proto.name) in attributes:
                raise UserError(f"{where} attribute {proto.name!r} is defined twice; fix: export the model again")
            attributes[proto.name] = self.attribute(proto, 1, frozenset(), where)
        nodes, size = self.sorted(message.node, set(names), frozenset(), where, 0)
        inputs = tuple([Parameter(name, "", 0, None) for name in names])
        outputs = tuple([Parameter(self.name(name), "", 0, None) for name in message.output])
        own = _opsets(message.opset_import, self.file)
        return FunctionDef(Body(message.name, nodes, inputs, outputs, {}, size), attributes, {**opsets, **own}, message)

    def parameter(self, value: Any) -> Parameter:
        which = value.type.WhichOneof("value")
        kind = "" if which is None else _KINDS.get(which, "other")
        if kind != "tensor":
            return Parameter(self.name(value.name), kind, 0, None)
        tensor = value.type.tensor_type
        sizes: list[int | str | None] = []
        for dim in tensor.shape.dim:
            which = dim.WhichOneof("value")
            sizes.append(dim.dim_value if which == "dim_value" else self.name(dim.dim_param) or None if which else None)
        return Parameter(self.name(value.name), kind, tensor.elem_type, tuple(sizes) if tensor.HasField("shape") else None)

    def sorted(
        self, messages: Any, known: set[str], outer: frozenset[str], where: str, depth: int
    ) -> tuple[tuple[NodeDef, ...], int]:
        """Return the nodes in an order in which operands come first, and how many there are with those of subgraphs."""
        self.nodes += len(messages)
        if self.nodes > self.limits.nodes:
            raise UserError(
                f"{self.file}: more than {self.limits.nodes} nodes; fix: limits=OnnxLimits(nodes=…) if you trust it"
            )
        producers: dict[str, int] = {}
        for index, message in enumerate(messages):
            for name in map(self.name, message.output):
                if name and (name in producers or name in known):
                    raise UserError(f"{where} {name!r:.80} is defined twice; fix: export the model again")
                if name:
                    producers[name] = index
        visible = outer | known | producers.keys()
        nodes = [self.node(message, index, visible, where, depth) for index, message in enumerate(messages)]
        waiting = [0] * len(nodes)
        users: list[list[int]] = [[] for _ in nodes]
        for node in nodes:
            for name in {*node.inputs, *node.captured} - {""}:
                if name in producers:
                    waiting[node.index] += 1
                    users[producers[name]].append(node.index)
                elif name not in visible:
                    problem = f"node {node.index} ({node.label}) reads {name!r:.80}, which nothing defines"
                    raise UserError(f"{where} {problem}; fix: export the model again")
        ready = [index for index, count in enumerate(waiting) if not count]
        order: list[NodeDef] = []
        while ready:
            index = heapq.heappop(ready)
            order.append(nodes[index])
            for user in users[index]:
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, user)
        if len(order) < len(nodes):
            first = next(index for index, count in enumerate(waiting) if count)
            raise UserError(f"{where} node {first} ({nodes[first].label}) is part of a cycle; fix: export the model again")
        size = len(nodes) + sum(body.size for node in nodes for body in bodies_of(node))
        return tuple(order), size

    def node(self, message: Any, index: int, visible: frozenset[str], where: str, depth: int) -> NodeDef:
        at = f"{where} node {index} ({printable(self.name(message.op_type))}):"
        attributes: dict[str, Attribute] = {}
        for proto in message.attribute:
            if proto.name in attributes:
                raise UserError(f"{at} attribute {proto.name!r} is given twice; fix: export the model again")
            attributes[self.name(proto.name)] = self.attribute(proto, depth + 1, visible, at)
        inputs = tuple([self.name(name) for name in message.input])
        outputs = tuple([self.name(name) for name in message.output])
        bodies = [body for attribute in attributes.values() for body in _bodies(attribute.value)]
        captured = frozenset(name for body in bodies for name in _captured(body))
        domain = domain_of(message.domain)
        op, overload, name = (self.name(text) for text in (message.op_type, message.overload, message.name))
        is_region = bool(bodies) and any(
            entry.key == "joinery.symbol" and entry.value.endswith((" loop", " branch")) for entry in message.metadata_props
        )
        row = next((entry.value for entry in message.metadata_props if entry.key == "joinery.row"), "")
        return NodeDef(
            index, op, domain, overload, name, inputs, outputs, attributes, captured, is_region, self.name(row)
        )

    def attribute(self, proto: Any, depth: int, visible: frozenset[str], where: str) -> Attribute:
        if proto.ref_attr_name:
            return Attribute(Reference(self.name(proto.ref_attr_name)), proto)
        kinds = type(proto)
        single: dict[int, tuple[Callable[[Any], Any], str]] = {
            kinds.FLOAT: (float, "f"), kinds.INT: (int, "i"), kinds.STRING: (self.text, "s"), kinds.TYPE_PROTO: (_same, "tp"),
            kinds.TENSOR: (lambda tensor: self.constant(tensor, where), "t"),
            kinds.GRAPH: (lambda graph: self.graph(graph, depth, visible, self.name(proto.name)), "g"),
        }  # fmt: skip
        several: dict[int, tuple[int, str]] = {
            kinds.FLOATS: (kinds.FLOAT, "floats"), kinds.INTS: (kinds.INT, "ints"), kinds.STRINGS: (kinds.STRING, "strings"),
            kinds.TENSORS: (kinds.TENSOR, "tensors"), kinds.GRAPHS: (kinds.GRAPH, "graphs"),
        }  # fmt: skip
        if proto.type in single:
            decode, field = single[proto.type]
            return Attribute(decode(getattr(proto, field)), proto)
        if proto.type in several:
            kind, field = several[proto.type]
            return Attribute([single[kind][0](entry) for entry in getattr(proto, field)], proto)
        problem = f"attribute {proto.name!r} is sparse, or of an unknown type"
        raise UnsupportedError(f"{where} {problem}; fix: export the model again")

    def text(self, data: bytes) -> str:
        return self.name(data.decode("utf-8", "surrogateescape"))

    def constant(self, tensor: Any, where: str) -> Known:
        return Known(decoded(tensor, self.external.read, self.limits, where))


def _same(value: Any) -> Any:
    return value


def _bodies(value: object) -> list[Body]:
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, Body)]


def bodies_of(node: NodeDef) -> list[Body]:
    """Return the subgraphs of a node."""
    return [body for attribute in node.attributes.values() for body in _bodies(attribute.value)]


def _captured(body: Body) -> set[str]:
    """Return the names that a subgraph takes from outside, also through its own subgraphs, and as its outputs."""
    own = {*body.constants, *(value.name for value in body.inputs)}
    used: set[str] = set()
    for node in body.nodes:
        own |= set(node.outputs)
        used |= {*node.inputs, *node.captured}
    return (used | {value.name for value in body.outputs}) - own - {""}


def _require_few_instances(model: CheckedModel, limits: OnnxLimits) -> None:
    """Raise `UserError` where functions call themselves, or would be more than the allowed nodes once they are inlined.

    The instances are counted on the graph of calls, for 41 functions that each call the next one twice are 2⁴⁰ nodes.
    """
    counts: dict[FunctionKey, int] = {}
    active: set[FunctionKey] = set()

    def count(body: Body, depth: int) -> int:
        if depth > limits.depth:
            raise UserError(
                f"{model.file}: functions are nested more than {limits.depth} deep; fix: limits=OnnxLimits(depth=…)"
            )
        total = 0
        for node in body.nodes:
            key = (node.domain, node.op, node.overload)
            total += 1 + sum(count(inner, depth) for inner in bodies_of(node))
            if key not in model.functions:
                continue
            if key in active:
                called = printable(".".join(key[:2]))
                raise UserError(f"{model.file}: function {called} calls itself; fix: export the model again")
            if key not in counts:
                active.add(key)
                counts[key] = count(model.functions[key].body, depth + 1)
                active.discard(key)
            total += counts[key]
            if total > limits.nodes:
                raise UserError(
                    f"{model.file}: more than {limits.nodes} nodes once functions are inlined; fix: limits=OnnxLimits(nodes=…)"
                )
        return total

    count(model.graph, 0)
