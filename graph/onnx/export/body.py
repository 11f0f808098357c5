"""Collects the nodes of a graph or function in ONNX, as plain data: nothing here needs the package `onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DTYPES, DType, bool_, int64, string, uint64
from ...constants import scalar_array
from ...types import Shape
from .native import ORDERED, carrier

ML = "ai.onnx.ml"
"""The domain of trees and encoders."""


class Refused(Exception):
    """ONNX has no form of an op; the exporter adds which one, where it was written, and its operands."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


class OpsetNeeded(Exception):
    """An op has a form in a newer opset only."""

    def __init__(self, opset: int, what: str) -> None:
        super().__init__(what)
        self.opset, self.what = opset, what


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An array and its dtype, which NumPy may store under another name."""

    value: Array
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """The body of a loop or branch: its inputs and outputs have a name, a dtype, and a shape or None if none is declared."""

    name: str
    body: Body
    inputs: tuple[tuple[str, DType, Shape | None], ...]
    outputs: tuple[tuple[str, DType, Shape | None], ...]


AttributeValue: TypeAlias = (
    "int | float | str | DType | Constant | Sequence[int] | Sequence[float] | Sequence[str] | Subgraph"
)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """A node to be written; `metadata` says where it comes from."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue]
    metadata: dict[str, str] = field(default_factory=dict)


class Body:
    """Nodes in order, and the constants that they read. Names are unique inside it, and in the bodies inside it.

    Attributes:
        is_own: whether a writer asks for a function, though one operator computes it.
        shared: outputs of nodes with several, by what they are computed from.
    """

    def __init__(self, reserved: Sequence[str] = (), outer: Body | None = None) -> None:
        self.nodes: list[OnnxNode] = []
        self.constants: dict[str, Constant] = {}
        self.is_own = False
        self.shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._taken: set[str] = set(reserved) if outer is None else outer._taken
        self._shared: dict[tuple[DType, tuple[int, ...], bytes], str] = {}

    def name(self, hint: str) -> str:
        """Return a name that nothing else has."""
        found, count = hint, 1
        while found in self._taken:
            count += 1
            found = f"{hint}_{count}"
        self._taken.add(found)
        return found

    def node(self, op: str, *inputs: str, domain: str = "", output: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return its name."""
        name = output or self.name(op.lower() if not domain else op)
        self.nodes.append(OnnxNode(op, domain, inputs, (name,), attributes))
        return name

    def several(self, op: str, *inputs: str, outputs: Sequence[str], **attributes: Any) -> tuple[str, ...]:
        """Add a node with several outputs, and return their names, which are like those given."""
        names = tuple([self.name(hint) for hint in outputs])
        self.nodes.append(OnnxNode(op, "", inputs, names, attributes))
        return names

    def constant(self, value: Any, dtype: DType) -> str:
        """Return the name of a constant: a number, or an array of the dtype."""
        array = value if isinstance(value, np.ndarray) else scalar_array(value, dtype)
        content = repr(array.tolist()).encode() if dtype is string else array.tobytes()
        key = (dtype, array.shape, content)
        if key not in self._shared:
            self._shared[key] = name = self.name("constant")
            self.constants[name] = Constant(array, dtype)
        return self._shared[key]

    def ints(self, *values: int) -> str:
        """Return the name of a vector of int64."""
        return self.constant(np.array(values, np.int64), int64)

    def cast(self, x: str, source: DType, target: DType, **attributes: Any) -> str:
        """Convert as ONNX's Cast does."""
        if source.names.onnx == target.names.onnx:
            return x
        return self.node("Cast", x, to=target, **attributes)

    def carried(self, op: str, x: str, dtype: DType) -> tuple[str, DType]:
        """Return a value in the dtype in which `op` computes on it."""
        name = carrier(op, dtype.name)
        if name == dtype.name:
            return x, dtype
        wide = DTYPES[name]
        if op in ORDERED and dtype.bits == 64:
            x = self.node("BitwiseXor", x, self.constant(np.array(1 << 63, np.uint64), uint64))
        return self.cast(x, dtype, wide), wide

    def returned(self, op: str, x: str, wide: DType, dtype: DType) -> str:
        """Return a result of `op` in the dtype that it was carried from."""
        if wide is dtype:
            return x
        x = self.cast(x, wide, dtype)
        if op in ORDERED and dtype.bits == 64:
            x = self.node("BitwiseXor", x, self.constant(np.array(1 << 63, np.uint64), uint64))
        return x

    def op(self, op: str, dtype: DType, *inputs: str, others: Sequence[str] = (), **attributes: Any) -> str:
        """Apply an operator whose result has the dtype of `inputs`; `others` are inputs of other dtypes, after these."""
        pairs = [self.carried(op, x, dtype) for x in inputs]
        wide = pairs[0][1]
        return self.returned(op, self.node(op, *[x for x, _ in pairs], *others, **attributes), wide, dtype)

    def test(self, op: str, dtype: DType, *inputs: str, others: Sequence[str] = (), **attributes: Any) -> str:
        """Apply an operator whose result has a dtype of its own, as comparisons and positions do."""
        return self.node(op, *[self.carried(op, x, dtype)[0] for x in inputs], *others, **attributes)

    def select(self, condition: str, x: str, y: str, dtype: DType) -> str:
        """Return x where the condition holds, else y."""
        if dtype is bool_:
            other = self.node("And", self.node("Not", condition), y)
            return self.node("Or", self.node("And", condition, x), other)
        (x, wide), (y, _) = self.carried("Where", x, dtype), self.carried("Where", y, dtype)
        return self.returned("Where", self.node("Where", condition, x, y), wide, dtype)

    def loop(self, trips: str, step: Subgraph, *state: str) -> str:
        """Run a loop's body at most so often, as long as its first output holds, and return the first of its state."""
        outputs = tuple([self.name("loop") for _ in state])
        self.nodes.append(OnnxNode("Loop", "", (trips, self.constant(True, bool_), *state), outputs, {"body": step}))
        return outputs[0]
