"""Computes the canonical form of block functions, which identifies them."""

from __future__ import annotations

import io
from collections.abc import Mapping

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from .printing import BlockPrinter


def canonical_text(func: Operation) -> str:
    """Returns a text that is equal for functions that differ only in locations, and in the names of the
    function and its values.

    It is meant for hashing: values are numbered in order of definition, properties and attributes sorted,
    everything else spelled out.
    """
    return _Canonical().function(func)


_ATTR_TEXTS: dict[int, tuple[Attribute, str]] = {}
_ATTR_LIMIT = 1 << 14


def _attr_text(attr: Attribute) -> str:
    found = _ATTR_TEXTS.get(id(attr))
    if found is None:
        if len(_ATTR_TEXTS) >= _ATTR_LIMIT:
            _ATTR_TEXTS.clear()
        stream = io.StringIO()
        BlockPrinter(stream).print_attribute(attr)
        found = _ATTR_TEXTS[id(attr)] = (attr, stream.getvalue())
    return found[1]


class _Canonical:
    """Writes one function with its values and blocks numbered."""

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, str] = {}
        self._blocks: dict[Block, int] = {}
        self._lines: list[str] = []

    def function(self, func: Operation) -> str:
        skip = ("sym_name", "sym_visibility")
        self._lines.append(f"func{_dictionary(func.properties, skip)}{_dictionary(func.attributes)}")
        for region in func.regions:
            self._region(region)
        return "\n".join(self._lines)

    def _number(self, value: SSAValue) -> str:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = f"%{len(self._numbers)}"
        return found

    def _region(self, region: Region) -> None:
        lines, number = self._lines, self._number
        for block in region.blocks:
            self._blocks[block] = len(self._blocks)
        lines.append("{")
        for block in region.blocks:
            arguments = ", ".join(f"{number(value)}: {_attr_text(value.type)}" for value in block.args)
            lines.append(f"^{self._blocks[block]}({arguments})")
            for op in block.ops:
                self._operation(op)
        lines.append("}")

    def _operation(self, op: Operation) -> None:
        number = self._number
        operands = ",".join([number(value) for value in op.operands])
        parts = [op.name, "(", operands, ")"]
        if op.properties:
            parts.append(_dictionary(op.properties))
        if op.attributes:
            parts.append(_dictionary(op.attributes))
        if op.successors:
            parts.append(str([self._blocks[block] for block in op.successors]))
        for result in op.results:
            parts.append(f" {number(result)}:{_attr_text(result.type)}")
        self._lines.append("".join(parts))
        for region in op.regions:
            self._region(region)


def _dictionary(attrs: Mapping[str, Attribute], skip: tuple[str, ...] = ()) -> str:
    shown = [f"{key}={_attr_text(value)}" for key, value in sorted(attrs.items()) if key not in skip]
    return "{" + ",".join(shown) + "}"
