"""Limits what a model from a stranger may ask for while it is imported."""

from __future__ import annotations

from dataclasses import fields

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError

MAX_IR_VERSION = 14
MAX_OPSET = 28
"""The newest versions whose meaning the handlers were written for: newer models are refused, never read by older rules."""


@dataclass(frozen=True, slots=True)
class OnnxLimits:
    """The most that a model may need while it is imported.

    Attributes:
        file_bytes: of the model's file, without external data.
        nodes: after functions are inlined and loops unrolled.
        depth: of graphs and functions inside each other.
        functions: defined by the model.
        name_bytes: of one name or text.
        elements: of one tensor, stored or computed.
        folded_bytes: of one constant computed while importing, with the characters of strings; a larger one is computed by the
            graph, at each run.
        all_folded_bytes: of all such constants together.
        unrolled_nodes: trips of a loop times nodes of its body.
    """

    file_bytes: int = 1 << 31
    nodes: int = 1_000_000
    depth: int = 32
    functions: int = 1000
    name_bytes: int = 1 << 20
    elements: int = 1 << 48
    folded_bytes: int = 64 << 20
    all_folded_bytes: int = 256 << 20
    unrolled_nodes: int = 10_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or not 0 <= value < 1 << 62:
                expected = f"expected an int from 0 to 2**62 - 1; fix: OnnxLimits({field.name}=1000)"
                raise UserError(f"OnnxLimits: {field.name} is {value!r}; {expected}")
