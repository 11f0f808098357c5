"""Makes model-local functions of ops that no single ONNX op means, and tells these from functions of others.

A function has the name of its op and says in its metadata which call it is: op, dtypes, attributes. Whoever reads it may take
it for that op if its body is the one that is written for this call, node for node: a name alone proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.dtype import DTYPES, DType, string
from ....promotion.errors import UserError
from ...checks import ShapeError
from ...ops.attributes import Attributes, fixed, require_attributes
from ...ops.opdef import VARIADIC, OpDef
from ...ops.table import OPS
from .body import ML, Body, OpsetNeeded, Refused
from .messages import annotate, nodes_of
from .registry import Call
from .table import WRITERS

DOMAIN = "joinery"
ML_OPSET = 4
"""The version of the domain of trees and encoders from which on tables may have any dtype."""
_KEY = "joinery.call"
_MAX_TEXT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A call and the body that computes it."""

    call: Call
    body: Body
    inputs: tuple[str, ...]
    output: str

    @property
    def is_single(self) -> bool:
        """Whether the body is one node of the ONNX op that the op table gives for this op."""
        row = OPS[self.call.row]
        if self.body.is_own or len(self.body.nodes) != 1 or row.onnx is None:
            return False
        return self.body.nodes[0].op == row.onnx[0]


def written(call: Call) -> Written:
    """Return the body of a call. Raises `Refused` and `OpsetNeeded`."""
    inputs = tuple([f"x{position}" for position in range(len(call.operands))])
    body = Body(inputs)
    return Written(call, body, inputs, WRITERS[call.row](body, call, *inputs))


def call_text(call: Call) -> str:
    """Return a call as text, from which `parsed_call` makes it again."""
    attrs = {name: value.name if isinstance(value, DType) else value for name, value in call.attrs.items()}
    parts = [call.row, [dtype.name for dtype in call.operands], call.result.name, attrs]
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def parsed_call(text: str, opset: int) -> Call | None:
    """Return the call of a text that anybody may have written, or None for what is no call."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        row, operands, result, attrs = json.loads(text)
        found = OPS[row]
        call = Call(row, tuple([_dtype(name) for name in operands]), _dtype(result), _attributes(found, attrs), opset)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ShapeError):
        return None
    is_arity = len(call.operands) == found.arity or (found.arity == VARIADIC and call.operands)
    return call if is_arity and row in WRITERS else None


def _dtype(name: Any) -> DType:
    return string if name == string.name else DTYPES[name]


def uses_ml(*bodies: Body) -> bool:
    """Return whether a node of a body is of the domain of trees and encoders."""
    return any(node.domain == ML for body in bodies for node in body.nodes)


def _attributes(row: OpDef, given: Mapping[str, Any]) -> Attributes:
    attrs: Any = {}
    for name, value in given.items():
        if name in ("dtype", "accumulate"):
            value = _dtype(value)
        attrs[name] = tuple(value) if isinstance(value, list) else value
    require_attributes(row.attrs, attrs)
    return fixed(attrs)


def function_message(onnx: Any, name: str, given: Written) -> Any:
    """Return the `FunctionProto` of a call."""
    message = onnx.FunctionProto(name=name, domain=DOMAIN, input=given.inputs, output=[given.output])
    message.doc_string = OPS[given.call.row].doc
    message.node.extend(nodes_of(onnx, given.body))
    message.opset_import.add(domain="", version=given.call.opset)
    if uses_ml(given.body):
        message.opset_import.add(domain=ML, version=ML_OPSET)
    annotate(message, {_KEY: call_text(given.call)})
    return message


def recognised(onnx: Any, message: Any) -> Call | None:
    """Return the call that a `FunctionProto` was written for, None for any other function."""
    texts = [entry.value for entry in message.metadata_props if entry.key == _KEY]
    versions = [entry.version for entry in message.opset_import if entry.domain == ""]
    if message.domain != DOMAIN or len(texts) != 1 or len(versions) != 1:
        return None
    call = parsed_call(texts[0], versions[0])
    if call is None or any(dtype.name in ("index", "address") for dtype in (*call.operands, call.result)):
        return None  # index and address are read as uint64
    try:
        expected = function_message(onnx, message.name, written(call))
    except (Refused, OpsetNeeded, UserError, ValueError, TypeError, ArithmeticError, LookupError):
        return None
    return call if expected.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True) else None
