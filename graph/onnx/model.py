"""Defines a checked model: what the reader makes of the protobuf message, and all that the importer looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...promotion.dataclass import dataclass
from ...promotion.errors import printable
from .values import Known

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name and overload."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of a function's body that stands for one of the call's attributes."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A decoded attribute.

    Attributes:
        value: int, float, str, `Known`, `Body`, a type, a list of one of these, or a `Reference`.
        message: the `AttributeProto` that it was decoded from.
    """

    value: Any
    message: Any


@dataclass(frozen=True, slots=True, eq=False)
class NodeDef:
    """A node.

    Attributes:
        index: its position in the file, in its graph or function.
        inputs, outputs: names; "" for those left out.
        captured: names that its subgraphs take from outside.
        is_region: whether it was written for a loop or branch of a graph, and becomes one again whatever its size is.
        row: the op of a graph that it was written for, if import has to make it a symbol again that it could compute now.
        is_condition: whether its first output is read as the condition of a loop alone, for which one element is one truth.
    """

    index: int
    op: str
    domain: str
    overload: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    captured: frozenset[str]
    is_region: bool = False
    row: str = ""
    is_condition: bool = False

    @property
    def label(self) -> str:
        """The node for messages."""
        kind = printable(f"{self.domain}.{self.op}" if self.domain else self.op)
        return f"{kind} {self.name!r}" if self.name else kind


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """An input or output of a graph, with its type as the file declares it.

    Attributes:
        kind: "tensor", "sequence", "optional", "other", or "" where the file says nothing.
        element: the number of the tensor data type, 0 if unknown.
        sizes: an int, a name or None for each axis; None if the rank is unknown.
    """

    name: str
    kind: str
    element: int
    sizes: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A graph or a function, its nodes sorted so that operands come first.

    Attributes:
        size: nodes, with those of its subgraphs.
        attribute: which attribute of a node it is; "" for the graph of a model and for functions.
    """

    name: str
    nodes: tuple[NodeDef, ...]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    constants: Mapping[str, Known]
    size: int
    attribute: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDef:
    """A function, of the model or of an operator's definition.

    Attributes:
        attributes: names of its attributes → their default, None if there is none.
        opsets: the versions of the domains that its body uses.
        message: the `FunctionProto`.
    """

    body: Body
    attributes: Mapping[str, Attribute | None]
    opsets: Mapping[str, int]
    message: Any


@dataclass(frozen=True, slots=True, eq=False)
class CheckedModel:
    """A model whose structure is checked: names, order, versions, depths and sizes.

    Attributes:
        producer: the name of the program that wrote it, if it says so.
    """

    file: str
    graph: Body
    functions: Mapping[FunctionKey, FunctionDef]
    opsets: Mapping[str, int]
    producer: str = ""
