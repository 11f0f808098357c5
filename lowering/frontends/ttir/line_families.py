"""Derives templates of lines from templates of lines that are written alike.

    arith.addf \\0, \\0 : tensor<64xf32>        arith.mulf \\0, \\0 : f32

A parser generated from a declarative format depends on that format alone: not on the operation it makes, and
on types only by whether they are equal. So what was learned from one line serves operations with the same
format, operands, results and properties, and other types, provided that the types at the line's end are all
that operands and results have. Operations made from derived templates are verified like all others.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from ...tt.dialect.context import operation_class
from ...tt.types import I1, elem
from .line_syntax import HOLE, argument_type
from .template import Template

_LIMIT = 1 << 12
_TYPE = re.compile(r"tensor<[1-9][0-9x]*x(?:!tt\.ptr<\w+>|\w+)>|!tt\.ptr<\w+>|\w+", re.ASCII)
_BETWEEN = re.compile(r"(, | -> | \* | to )")
_WRITTEN = ("operands", "results", "properties", "attributes", "regions", "successors", "options", "assembly_format",
            "custom_directives")  # fmt: skip
"""The parts of an operation's definition from which its declarative parser is generated."""

Key = tuple[int, str, str, str]


class _Line(NamedTuple):
    """A template in parts: the operation, the text between its name and the types, the pattern of the types,
    and the distinct types."""

    operation: type[Operation]
    rest: str
    pattern: str
    types: tuple[str, ...]


class _Kin(NamedTuple):
    """The template of a family of lines. operands, results: for each, the index of its type among the line's
    types."""

    template: Template
    operands: tuple[int, ...]
    results: tuple[int, ...]


class Families:
    """The templates that were learned, by families of lines that are written alike."""

    def __init__(self) -> None:
        self._known: dict[Key, _Kin] = {}

    def find(self, template: str, ending: str) -> Template | None:
        """Returns the template derived from one of its family; None if there is none yet, or it cannot be
        derived."""
        line, key = _split(template, ending)
        kin = None if line is None or key is None else self._known.get(key)
        if line is None or kin is None:
            return None
        types = [argument_type(text) for text in line.types]
        if len(set(types)) < len(types):
            return None
        return replace(
            kin.template,
            op_class=line.operation,
            operand_types=tuple([types[index] for index in kin.operands]),
            result_types=tuple([types[index] for index in kin.results]),
            is_sound=False,
        )

    def remember(self, template: str, ending: str, found: Template) -> None:
        """Records a template that was learned from its text, so that others can be derived from it."""
        line, key = _split(template, ending)
        if line is None or key is None or key in self._known:
            return
        if len(self._known) >= _LIMIT:
            self._known.clear()
        kin = None if found.arguments or found.successors else _kin(found, line)
        if kin is not None:
            self._known[key] = kin


def _kin(found: Template, line: _Line) -> _Kin | None:
    types: list[Attribute] = [argument_type(text) for text in line.types]
    if any(elem(type_) == I1 for type_ in types):  # comparisons and selects have operands or results of it not written out
        return None
    if len(set(types)) < len(types) or not set(types) >= {*found.operand_types, *found.result_types}:
        return None

    def places(of: Sequence[Attribute]) -> tuple[int, ...]:
        return tuple([types.index(each) for each in of])

    return _Kin(found, places(found.operand_types), places(found.result_types))


def _split(template: str, ending: str) -> tuple[_Line | None, Key | None]:
    head, _, end = template.rpartition(" : ")
    name, _, rest = head.partition(" ")
    operation = operation_class(name)
    likeness = None if operation is None or HOLE not in rest else _likeness(operation)
    if operation is None or likeness is None or rest.count("{") != rest.count("}"):
        return None, None
    pieces = _BETWEEN.split(end)
    places: dict[str, int] = {}
    for index in range(0, len(pieces), 2):
        if _TYPE.fullmatch(pieces[index]) is None:
            return None, None
        pieces[index] = str(places.setdefault(pieces[index], len(places)))
    line = _Line(operation, rest, "".join(pieces), tuple(places))
    return line, (likeness, rest, line.pattern, ending)


_likenesses: list[list[object]] = []


@functools.cache
def _likeness(operation: type[Operation]) -> int | None:
    """Returns the same number for operations whose declarative formats, operands, results and properties are
    the same; None for operations without such a format, or with regions or successors."""
    if not issubclass(operation, IRDLOperation):
        return None
    definition = operation.get_irdl_definition()
    if definition.assembly_format is None or definition.regions or definition.successors:
        return None
    written = [getattr(definition, field) for field in _WRITTEN]
    if written not in _likenesses:
        _likenesses.append(written)
    return _likenesses.index(written)
