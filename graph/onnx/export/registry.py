"""Holds how rows of the op table are written in ONNX: by name, a function that adds nodes to a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ...ops.attributes import Attributes


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An op as its writer sees it: all that the nodes may depend on, so that equal calls share a function.

    Attributes:
        row: the op's name.
        operands, result: dtypes, after promotion.
        opset: the version of ai.onnx that the model imports.
    """

    row: str
    operands: tuple[DType, ...]
    result: DType
    attrs: Attributes
    opset: int


Writer: TypeAlias = Callable[..., str]
"""(body, call, *names of operands) → name of the result. Raises `Refused` for what ONNX has no form of."""

WRITERS: dict[str, Writer] = {}
"""Row of the op table → its writer."""
REASONS: dict[str, tuple[str, str]] = {}
"""Row of the op table → why it is never written, and what to do instead."""
UNWRITTEN = ("there is no form of it in ONNX yet", "compute it from other operations")
"""Reason and fix for rows of the op table that have neither a writer nor a reason."""


def writes(*rows: str) -> Callable[[Writer], Writer]:
    """Register the writer of rows."""

    def register(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(rows, writer))
        return writer

    return register


def never(reason: str, fix: str, *rows: str) -> None:
    """Register rows that are refused, with the reason and the fix that the error names."""
    REASONS.update(dict.fromkeys(rows, (reason, fix)))
