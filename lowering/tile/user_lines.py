"""Brings the user's lines of nests into block programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import LocationAttr

from ...graph.location import UNKNOWN, Location
from ...promotion.errors import JoineryError
from ..nest import Nest
from ..tt.source_locations import MAX_FUSED, fused_location, line_location

MAX_LINES = MAX_FUSED
"""Most lines that are recorded for one value of a nest that several launches share."""
MAX_PARTS = 32
"""Most parts of a path that are used to tell files apart."""


def location_of(lines: Iterable[Location]) -> LocationAttr:
    """Returns the location of operations that come from these lines."""
    return fused_location([line_location(file_name(each.file), each.line) for each in lines if each != UNKNOWN])


def file_name(path: str) -> str:
    """Returns a path as text, in which bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace") if not path.isascii() else path


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Returns the last part of each path, with as many directories as tell it from the others, so that texts
    of kernels are the same on machines that keep the files elsewhere."""
    found: dict[str, str] = {}
    waiting = dict.fromkeys(map(file_name, paths), 1)
    while waiting:
        if max(waiting.values()) > MAX_PARTS:  # the same file under two names
            return {**found, **{path: path for path in waiting}}
        by_name: dict[str, list[str]] = {}
        for path, count in waiting.items():
            by_name.setdefault("/".join(path.replace(os.sep, "/").split("/")[-count:]), []).append(path)
        for name, same in by_name.items():
            if len(same) == 1:
                found[same[0]] = name
        waiting = {path: count + 1 for path, count in waiting.items() if path not in found}
    return found


def nest_lines(nest: Nest) -> tuple[Location, ...]:
    """Returns all lines of a nest, those of its stores last, so that a kernel begins at the line of its first
    operation."""
    values = [line for value in nest.body for line in value.lines]
    return tuple(dict.fromkeys([*values, *[line for store in nest.stores for line in store.lines]]))


def name_lines(error: JoineryError, lines: Sequence[Location]) -> None:
    """Adds the first of the lines to the message of an error from code generation, unless the message names
    one."""
    if error.origin is None and lines and lines[0] != UNKNOWN:
        error.origin = f"{lines[0].file}:{lines[0].line}"
        error.args = (f"{error}\n  built at {lines[0]}", *error.args[1:])


def with_lines_of(nest: Nest, others: Sequence[Nest]) -> Nest:
    """Returns the nest with the lines of others of the same structure, which share its program, added to its
    own."""
    if all(_lines(other) == _lines(nest) for other in others):
        return nest
    every = (nest, *others)
    body = [
        replace(value, lines=_joined([each.body[number].lines for each in every])) for number, value in enumerate(nest.body)
    ]
    stores = [
        replace(store, lines=_joined([each.stores[number].lines for each in every])) for number, store in enumerate(nest.stores)
    ]
    return replace(nest, body=tuple(body), stores=tuple(stores))


def _lines(nest: Nest) -> tuple[tuple[Location, ...], ...]:
    return (*[value.lines for value in nest.body], *[store.lines for store in nest.stores])


def _joined(lines: Iterable[tuple[Location, ...]]) -> tuple[Location, ...]:
    return tuple(dict.fromkeys([line for each in lines for line in each]))[:MAX_LINES]
